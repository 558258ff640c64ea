// SPDX-License-Identifier: GPL-2.0
// Loads and stores of FLAT, GLOBAL, SCRATCH, MUBUF and DS, and scalar memory.
#include <algorithm>
#include <deque>

#include "engines/context.h"
#include "shader/lane_words.h"

namespace gpu::shader {
namespace {

// A narrow load extends; a D16 one replaces half of the register, or clears the other half.
enum class Half16 { kNo, kLow, kHigh };

template <typename T>
uint32_t extended(T value) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
  return static_cast<uint32_t>(static_cast<Wide>(value));
}

// A load into LDS: to the address in M0, a doubleword of each lane.
template <typename T>
void load_to_lds(Wave& wave, const Instruction& in) {
  const uint32_t base = (wave.s(operand::kM0) & 0xffff) + static_cast<uint32_t>(in.immediate);
  for_each_active(wave, [&](unsigned lane) {
    T value;
    if (!read_place(wave, locate(wave, in, lane), &value, sizeof(value))) return;
    const Place to = {.in = Place::In::kLds, .address = base + uint64_t{4} * lane, .lane = lane};
    const uint32_t wide = extended(value);
    write_place(wave, to, &wide, sizeof(wide));
  });
}

template <typename T, Half16 kHalf = Half16::kNo>
void load(Wave& wave, const Instruction& in) {
  if (in.lds && in.format == Format::kMubuf && kHalf == Half16::kNo)
    return load_to_lds<T>(wave, in);
  if (in.lds) return wave.refuse("a load into LDS is not modelled");
  Row& row = wave.row(in.dst);
  use_operands<sizeof(T), false>(wave, in, [&](unsigned lane, const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    const uint32_t wide = extended(value);
    uint32_t& to = row.lane[lane];
    const uint32_t kept = in.clears_half ? 0 : to;
    to = kHalf == Half16::kNo    ? wide
         : kHalf == Half16::kLow ? (kept & 0xffff0000) | (wide & 0xffff)
                                 : (kept & 0xffff) | wide << 16;
  });
}

template <unsigned kDwords>
void load_dwords(Wave& wave, const Instruction& in) {
  if (in.lds && kDwords == 1 && in.format == Format::kMubuf) return load_to_lds<uint32_t>(wave, in);
  if (in.lds) return wave.refuse("a load into LDS is not modelled");
  use_operands<kDwords * 4, false>(wave, in, to_rows<kDwords>(&wave.row(in.dst)));
}

template <typename T, bool kHigh = false>
void store(Wave& wave, const Instruction& in) {
  const Row& row = wave.row(in.data);
  use_operands<sizeof(T), true>(wave, in, [&](unsigned lane, std::byte* to) {
    const auto value = static_cast<T>(kHigh ? row.lane[lane] >> 16 : row.lane[lane]);
    std::memcpy(to, &value, sizeof(value));
  });
}

template <unsigned kDwords>
void store_dwords(Wave& wave, const Instruction& in) {
  use_operands<kDwords * 4, true>(wave, in, from_rows<kDwords>(&wave.row(in.data)));
}

// Two accesses with offsets in elements, or in 64 elements.
template <unsigned kDwords, unsigned kStride>
void ds_read2(Wave& wave, const Instruction& in) {
  constexpr unsigned kBytes = kDwords * 4, kUnit = kBytes * kStride;
  const Row* const addresses = &wave.row(in.address);
  Row* const rows = &wave.row(in.dst);
  const unsigned offsets[] = {in.offset0 * kUnit, in.offset1 * kUnit};
  // The part that replaces the addresses comes last.
  const bool swapped = addresses >= rows && addresses < rows + kDwords;
  for (unsigned i = 0; i < 2; ++i) {
    const size_t part = swapped ? 1 - i : i;
    use_lds<kBytes, false>(wave, *addresses, offsets[part],
                           to_rows<kDwords>(rows + part * kDwords));
  }
}

template <unsigned kDwords, unsigned kStride>
void ds_write2(Wave& wave, const Instruction& in) {
  constexpr unsigned kBytes = kDwords * 4, kUnit = kBytes * kStride;
  const Row& addresses = wave.row(in.address);
  const unsigned offsets[] = {in.offset0 * kUnit, in.offset1 * kUnit};
  const Row* const rows[] = {&wave.row(in.data), &wave.row(in.data1)};
  for (unsigned part = 0; part < 2; ++part)
    use_lds<kBytes, true>(wave, addresses, offsets[part], from_rows<kDwords>(rows[part]));
}

uint64_t scalar_offset(const Wave& wave, const Instruction& in) {
  const auto immediate = static_cast<uint64_t>(int64_t{in.immediate});
  return immediate + (in.uses_saddr ? wave.scalar(in.saddr, in) : 0);
}

// Registers behind EXEC do not exist.
unsigned loaded_register(const Instruction& in, unsigned i) {
  return in.data == operand::kNull ? in.data : std::min(in.data + i, 127u);
}

template <unsigned kDwords>
void s_load(Wave& wave, const Instruction& in) {
  uint32_t values[kDwords];
  const uint64_t address = (wave.s64(in.address) + scalar_offset(wave, in)) & ~uint64_t{3};
  if (!wave.memory->read(address, values, sizeof(values))) return wave.fault();
  for (unsigned i = 0; i < kDwords; ++i) wave.set_s(loaded_register(in, i), values[i]);
}

template <unsigned kDwords>
void s_store(Wave& wave, const Instruction& in) {
  uint32_t values[kDwords];
  for (unsigned i = 0; i < kDwords; ++i) values[i] = wave.s(std::min(in.data + i, 127u));
  const uint64_t address = (wave.s64(in.address) + scalar_offset(wave, in)) & ~uint64_t{3};
  if (!wave.memory->write(address, values, sizeof(values))) wave.fault();
}

// The scalar view of a buffer: each dword that is out of range reads as zero and drops writes.
struct ScalarBuffer {
  uint64_t base, size, offset;

  ScalarBuffer(const Wave& wave, const Instruction& in)
      : base(canonical(wave.s64(in.address))),
        size(uint64_t{wave.s(in.address + 2u)} *
             std::max(bits(wave.s(in.address + 1u), 29, 16), 1u)),
        offset(scalar_offset(wave, in) & ~uint64_t{3}) {}
  bool has(unsigned i) const { return offset + uint64_t{4} * i + 4 <= size; }
  uint64_t address(unsigned i) const { return base + offset + uint64_t{4} * i; }
};

template <unsigned kDwords>
void s_buffer_load(Wave& wave, const Instruction& in) {
  const ScalarBuffer buffer(wave, in);
  for (unsigned i = 0; i < kDwords; ++i) {
    uint32_t value = 0;
    if (buffer.has(i) && !wave.memory->read(buffer.address(i), &value, 4)) return wave.fault();
    wave.set_s(loaded_register(in, i), value);
  }
}

template <unsigned kDwords>
void s_buffer_store(Wave& wave, const Instruction& in) {
  const ScalarBuffer buffer(wave, in);
  for (unsigned i = 0; i < kDwords; ++i) {
    const uint32_t value = wave.s(std::min(in.data + i, 127u));
    if (buffer.has(i) && !wave.memory->write(buffer.address(i), &value, 4)) return wave.fault();
  }
}

void s_memtime(Wave& wave, const Instruction& in) { wave.set_s64(in.data, Context::clock()); }

// The names of loads and stores, which the formats share.
class Table {
 public:
  Table() {
    for (const std::string_view prefix : {"flat_", "global_", "scratch_", "buffer_"}) add(prefix);

    for (const std::string_view prefix : {"global_load_lds_", "scratch_load_lds_"}) {
      own(std::string(prefix) + "ubyte", load_to_lds<uint8_t>);
      own(std::string(prefix) + "sbyte", load_to_lds<int8_t>);
      own(std::string(prefix) + "ushort", load_to_lds<uint16_t>);
      own(std::string(prefix) + "sshort", load_to_lds<int16_t>);
      own(std::string(prefix) + "dword", load_to_lds<uint32_t>);
    }
    own("ds_read_b32", load_dwords<1>);
    own("ds_read_b64", load_dwords<2>);
    own("ds_read_b96", load_dwords<3>);
    own("ds_read_b128", load_dwords<4>);
    own("ds_read_u8", load<uint8_t>);
    own("ds_read_i8", load<int8_t>);
    own("ds_read_u16", load<uint16_t>);
    own("ds_read_i16", load<int16_t>);
    own("ds_read_u8_d16", load<uint8_t, Half16::kLow>);
    own("ds_read_u8_d16_hi", load<uint8_t, Half16::kHigh>);
    own("ds_read_i8_d16", load<int8_t, Half16::kLow>);
    own("ds_read_i8_d16_hi", load<int8_t, Half16::kHigh>);
    own("ds_read_u16_d16", load<uint16_t, Half16::kLow>);
    own("ds_read_u16_d16_hi", load<uint16_t, Half16::kHigh>);
    own("ds_write_b32", store_dwords<1>);
    own("ds_write_b64", store_dwords<2>);
    own("ds_write_b96", store_dwords<3>);
    own("ds_write_b128", store_dwords<4>);
    own("ds_write_b8", store<uint8_t>);
    own("ds_write_b16", store<uint16_t>);
    own("ds_write_b8_d16_hi", store<uint8_t, true>);
    own("ds_write_b16_d16_hi", store<uint16_t, true>);
    own("ds_read2_b32", ds_read2<1, 1>);
    own("ds_read2_b64", ds_read2<2, 1>);
    own("ds_read2st64_b32", ds_read2<1, 64>);
    own("ds_read2st64_b64", ds_read2<2, 64>);
    own("ds_write2_b32", ds_write2<1, 1>);
    own("ds_write2_b64", ds_write2<2, 1>);
    own("ds_write2st64_b32", ds_write2<1, 64>);
    own("ds_write2st64_b64", ds_write2<2, 64>);
    own("s_load_dword", s_load<1>);
    own("s_load_dwordx2", s_load<2>);
    own("s_load_dwordx4", s_load<4>);
    own("s_load_dwordx8", s_load<8>);
    own("s_load_dwordx16", s_load<16>);
    own("s_store_dword", s_store<1>);
    own("s_store_dwordx2", s_store<2>);
    own("s_store_dwordx4", s_store<4>);
    own("s_buffer_load_dword", s_buffer_load<1>);
    own("s_buffer_load_dwordx2", s_buffer_load<2>);
    own("s_buffer_load_dwordx4", s_buffer_load<4>);
    own("s_buffer_load_dwordx8", s_buffer_load<8>);
    own("s_buffer_load_dwordx16", s_buffer_load<16>);
    own("s_buffer_store_dword", s_buffer_store<1>);
    own("s_buffer_store_dwordx2", s_buffer_store<2>);
    own("s_buffer_store_dwordx4", s_buffer_store<4>);
    own("s_memtime", s_memtime);
    own("s_memrealtime", s_memtime);
  }
  std::span<const SpecialOp> rows() const { return rows_; }

 private:
  void own(std::string_view name, Handler handler) {
    names_.emplace_back(name);
    rows_.push_back({names_.back(), handler});
  }
  void add(std::string_view prefix) {
    const auto with = [&](std::string_view name, Handler handler) {
      own(std::string(prefix).append(name), handler);
    };
    with("load_ubyte", load<uint8_t>);
    with("load_sbyte", load<int8_t>);
    with("load_ushort", load<uint16_t>);
    with("load_sshort", load<int16_t>);
    with("load_ubyte_d16", load<uint8_t, Half16::kLow>);
    with("load_ubyte_d16_hi", load<uint8_t, Half16::kHigh>);
    with("load_sbyte_d16", load<int8_t, Half16::kLow>);
    with("load_sbyte_d16_hi", load<int8_t, Half16::kHigh>);
    with("load_short_d16", load<uint16_t, Half16::kLow>);
    with("load_short_d16_hi", load<uint16_t, Half16::kHigh>);
    with("load_dword", load_dwords<1>);
    with("load_dwordx2", load_dwords<2>);
    with("load_dwordx3", load_dwords<3>);
    with("load_dwordx4", load_dwords<4>);
    with("store_byte", store<uint8_t>);
    with("store_byte_d16_hi", store<uint8_t, true>);
    with("store_short", store<uint16_t>);
    with("store_short_d16_hi", store<uint16_t, true>);
    with("store_dword", store_dwords<1>);
    with("store_dwordx2", store_dwords<2>);
    with("store_dwordx3", store_dwords<3>);
    with("store_dwordx4", store_dwords<4>);
  }

  std::deque<std::string> names_;
  std::vector<SpecialOp> rows_;
};

}  // namespace

std::span<const SpecialOp> load_store_ops() {
  static const Table table;
  return table.rows();
}

}  // namespace gpu::shader
