// SPDX-License-Identifier: GPL-2.0
#include "shader/access.h"

#include <algorithm>

#include "shader/buffer.h"
#include "shader/image.h"

namespace gpu::shader {
namespace {

// Private memory: dwords of the lanes of a wave alternate. Offsets may be negative in a VGPR,
// because the sum has 32 bits, unlike that of other buffers (LLVM:
// privateMemoryResourceIsRangeChecked(), splitBufferOffsets()).
constexpr uint64_t kElement = 4;

uint64_t swizzled(uint64_t base, uint64_t offset, unsigned lane, unsigned lanes) {
  return base + (offset / kElement * lanes + lane) * kElement + offset % kElement;
}

uint64_t lane_address64(Wave& wave, unsigned code, unsigned lane) {
  const Row* rows = &wave.row(code);
  return join(rows[0].lane[lane], rows[1].lane[lane]);
}

Place global(Wave& wave, const Instruction& in, unsigned lane, uint64_t extra) {
  const auto offset = static_cast<uint64_t>(int64_t{in.immediate}) + extra;
  if (in.uses_saddr) {
    return {.address = wave.s64(in.saddr) + wave.row(in.address).lane[lane] + offset, .lane = lane};
  }
  return {.address = lane_address64(wave, in.address, lane) + offset, .lane = lane};
}

// The address without the offset selects the aperture.
Place flat(Wave& wave, const Instruction& in, unsigned lane, uint64_t extra) {
  const uint64_t address = lane_address64(wave, in.address, lane);
  const uint64_t with_offset = address + static_cast<uint64_t>(in.immediate) + extra;
  const auto in_aperture = [&](uint64_t base) { return address - base < Apertures::kSize; };
  if (in_aperture(wave.apertures.shared)) {
    return {.in = Place::In::kLds, .address = low32(with_offset), .lane = lane};
  }
  if (in_aperture(wave.apertures.scratch)) {
    return {.in = Place::In::kSwizzled,
            .address = wave.flat_scratch(),
            .offset = low32(with_offset),
            .lane = lane};
  }
  return {.address = with_offset, .lane = lane};
}

Place scratch(Wave& wave, const Instruction& in, unsigned lane, uint64_t extra) {
  const uint32_t base =
      (in.uses_saddr ? wave.s(in.saddr) : 0) + (in.offen ? wave.row(in.address).lane[lane] : 0);
  return {.in = Place::In::kSwizzled,
          .address = wave.flat_scratch(),
          .offset = low32(base + static_cast<uint64_t>(int64_t{in.immediate}) + extra),
          .lane = lane};
}

Place buffer(Wave& wave, const Instruction& in, unsigned lane, uint64_t extra) {
  const Resource resource(wave, in.resource);
  const uint32_t first = wave.row(in.address).lane[lane];
  // With both, the index is in the first VGPR and the offset in the second.
  const uint32_t second = wave.row(in.address + 1u).lane[lane];
  const uint64_t index = (in.idxen ? first : 0) + uint64_t{resource.add_tid ? lane : 0};
  uint64_t offset =
      static_cast<uint64_t>(in.immediate) + extra + (in.offen ? (in.idxen ? second : first) : 0);
  if (resource.swizzle) offset = low32(offset);
  const uint32_t soffset = wave.scalar(in.saddr, in);
  // PAL, CalcNumRecords(): records count in bytes unless the instruction has an index.
  const bool raw = resource.stride == 0 || !in.idxen;
  if (raw ? offset + soffset >= resource.records : index >= resource.records) {
    return {.in = Place::In::kNowhere};
  }
  const uint64_t base = resource.base + soffset;
  // A doubleword that begins in a buffer is in it.
  const uint64_t left =
      raw ? (resource.records - offset - soffset + 3) & ~uint64_t{3} : ~uint64_t{0};
  if (!resource.swizzle)
    return {.address = base + index * resource.stride + offset, .lane = lane, .bytes = left};
  // Only the layout of private memory: one element of each lane in turn.
  if (resource.index_stride != kLanes || index >= kLanes) {
    wave.refuse("a swizzled buffer that is not private memory");
    return {.in = Place::In::kNowhere};
  }
  return {.in = Place::In::kSwizzled,
          .address = base,
          .offset = offset,
          .lane = static_cast<unsigned>(index),
          .bytes = left};
}

// Of a buffer of bytes, without an index.
bool buffer_addresses(Wave& wave, const Instruction& in, std::array<uint64_t, kLanes>& out) {
  const Resource resource(wave, in.resource);
  if (resource.swizzle || resource.add_tid || in.idxen) return false;
  const uint64_t offset = uint64_t{wave.scalar(in.saddr, in)} + uint64_t(in.immediate);
  const uint64_t end = bytes_behind(resource.records, offset + kLargestOperand - 1);
  return offset_addresses(wave, in, resource.base + offset, end, out);
}

// copy(address, done, count) for each run of bytes that swizzling keeps together, until one fails.
template <typename Copy>
bool each_element(const Wave& wave, const Place& place, size_t size, Copy copy) {
  for (size_t done = 0; done < size;) {
    const uint64_t offset = place.offset + done;
    const size_t count = std::min<size_t>(size - done, kElement - offset % kElement);
    if (!copy(swizzled(place.address, offset, place.lane, wave.lanes()), done, count)) return false;
    done += count;
  }
  return true;
}

// Of an operand, those bytes that are in the buffer: whole doublewords, or all of a smaller one.
size_t bytes_inside(const Place& place, size_t size) {
  if (size <= place.bytes) return size;
  const size_t unit = std::min<size_t>(size, kElement);
  return place.bytes / unit * unit;
}

}  // namespace

bool offset_addresses(Wave& wave, const Instruction& in, uint64_t base, uint64_t end,
                      std::array<uint64_t, kLanes>& out) {
  const Row& offsets = wave.row(in.address);
  const uint32_t used = in.offen ? ~0u : 0;
  uint64_t outside = 0;
  each_lane(wave.lanes(), [&](size_t lane) {
    const uint64_t offset = offsets.lane[lane] & used;
    outside |= uint64_t{offset >= end} << lane;
    out[lane] = base + offset;
  });
  return !(outside & wave.exec());
}

bool memory_addresses(Wave& wave, const Instruction& in, std::array<uint64_t, kLanes>& out) {
  if (in.format == Format::kMubuf)
    return is_gfx11(in.isa) ? gfx11_buffer_addresses(wave, in, out)
                            : buffer_addresses(wave, in, out);
  if (in.format != Format::kGlobal && in.format != Format::kFlat) return false;
  const Row* const rows = &wave.row(in.address);
  const auto offset = static_cast<uint64_t>(int64_t{in.immediate});
  if (in.uses_saddr) {
    const uint64_t base = wave.s64(in.saddr) + offset;
    each_lane(wave.lanes(), [&](size_t lane) { out[lane] = base + rows->lane[lane]; });
    return true;
  }
  each_lane(wave.lanes(), [&](size_t lane) {
    out[lane] = join(rows[0].lane[lane], rows[1].lane[lane]) + offset;
  });
  if (in.format == Format::kGlobal) return true;
  const uint64_t shared = wave.apertures.shared + offset, scratch = wave.apertures.scratch + offset;
  uint64_t nearest = ~uint64_t{0};
  each_lane(wave.lanes(), [&](size_t lane) {
    nearest = std::min(nearest, std::min(out[lane] - shared, out[lane] - scratch));
  });
  return nearest >= Apertures::kSize;
}

bool private_addresses(Wave& wave, const Instruction& in, size_t bytes,
                       std::array<uint64_t, kLanes>& out) {
  uint64_t base = wave.flat_scratch(), end = ~uint64_t{0};
  auto offset = static_cast<uint64_t>(int64_t{in.immediate});
  if (in.format == Format::kScratch) {
    offset += in.uses_saddr ? wave.s(in.saddr) : 0;
  } else {
    if (in.format != Format::kMubuf || is_gfx11(in.isa) || in.idxen) return false;
    const Resource resource(wave, in.resource);
    if (!resource.swizzle || !resource.add_tid || resource.index_stride != kLanes) return false;
    const uint32_t soffset = wave.scalar(in.saddr, in);
    base = resource.base + soffset;
    end = bytes_behind(resource.records, soffset + kElement - 1);
  }
  const Row& offsets = wave.row(in.address);
  const uint32_t used = in.offen ? ~0u : 0;
  const unsigned lanes = wave.lanes();
  uint64_t elsewhere = 0;
  each_lane(lanes, [&](size_t lane) {
    const uint64_t from = low32(offset + (offsets.lane[lane] & used));
    const bool is_apart = (from >= end) | (from % kElement + bytes > kElement);
    elsewhere |= uint64_t{is_apart} << lane;
    out[lane] = base + (from / kElement * lanes + lane) * kElement + from % kElement;
  });
  return !(elsewhere & wave.exec());
}

Place locate(Wave& wave, const Instruction& in, unsigned lane, uint32_t extra) {
  switch (in.format) {
    case Format::kGlobal:
      return global(wave, in, lane, extra);
    case Format::kFlat:
      return flat(wave, in, lane, extra);
    case Format::kScratch:
      return scratch(wave, in, lane, extra);
    case Format::kMubuf:
    case Format::kMtbuf:
      return is_gfx11(in.isa) ? gfx11_buffer(wave, in, lane, extra) : buffer(wave, in, lane, extra);
    case Format::kMimg:
      return image_place(wave, in, lane);
    default:
      return {.in = Place::In::kLds,
              .address = lds_address(wave.row(in.address).lane[lane], extra),
              .lane = lane};
  }
}

bool read_place(Wave& wave, const Place& place, void* out, size_t size) {
  auto* to = static_cast<std::byte*>(out);
  const auto& lds = wave.group->lds;
  if (const size_t inside = bytes_inside(place, size); inside < size) {
    std::memset(to + inside, 0, size - inside);
    size = inside;
  }
  switch (place.in) {
    case Place::In::kMemory:
      if (wave.memory->read(place.address, out, size)) return true;
      break;
    case Place::In::kNowhere:
      std::memset(out, 0, size);
      return true;
    case Place::In::kLds:
      for (size_t i = 0; i < size; ++i) {
        to[i] = place.address + i < lds.size() ? lds[place.address + i] : std::byte{0};
      }
      return true;
    case Place::In::kSwizzled:
      if (each_element(wave, place, size, [&](uint64_t at, size_t done, size_t count) {
            return wave.memory->read(at, to + done, count);
          })) {
        return true;
      }
      break;
  }
  wave.fault();
  return false;
}

bool write_place(Wave& wave, const Place& place, const void* data, size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  auto& lds = wave.group->lds;
  size = bytes_inside(place, size);
  switch (place.in) {
    case Place::In::kMemory:
      if (wave.memory->write(place.address, data, size)) return true;
      break;
    case Place::In::kNowhere:
      return true;
    case Place::In::kLds:
      for (size_t i = 0; i < size && place.address + i < lds.size(); ++i) {
        lds[place.address + i] = from[i];
      }
      return true;
    case Place::In::kSwizzled:
      if (each_element(wave, place, size, [&](uint64_t at, size_t done, size_t count) {
            return wave.memory->write(at, from + done, count);
          })) {
        return true;
      }
      break;
  }
  wave.fault();
  return false;
}

std::byte* atomic_place(Wave& wave, const Place& place, size_t size) {
  auto& lds = wave.group->lds;
  if (size > place.bytes) return nullptr;
  switch (place.in) {
    case Place::In::kNowhere:
      return nullptr;
    case Place::In::kLds:
      if (place.address % size) {
        wave.refuse("an atomic operation on LDS that is not aligned");
        return nullptr;
      }
      return place.address + size <= lds.size() ? lds.data() + place.address : nullptr;
    case Place::In::kSwizzled:
      wave.refuse("an atomic operation on private memory");
      return nullptr;
    case Place::In::kMemory:
      break;
  }
  std::byte* cell = wave.memory->cell(place.address, size);
  if (!cell) wave.fault();
  return cell;
}

}  // namespace gpu::shader
