// SPDX-License-Identifier: GPL-2.0
#include "waves/images.h"

#include <fcntl.h>
#include <linux/kfd_ioctl.h>

#include <cstring>
#include <span>

#include "base/fd.h"
#include "image/container.h"
#include "image/set.h"
#include "waves/core.h"
#include "waves/memory.h"
#include "waves/pages.h"

namespace amdgpu_criu {
namespace {

// criu_blob.h and kfd_criu_records.h
constexpr uint16_t kKfdQueue = 0x105, kEnd = 0xffff;
struct RecordHeader {
  uint16_t type, version;
  uint32_t flags, fixed_size, size;
};
struct QueueRecord {
  uint32_t gpu_id, queue_id, type, flags;
  uint64_t ring_base, ring_size, metadata_size, read_ptr, write_ptr, eop_addr, ctx_addr;
  uint32_t eop_size, ctx_size, ctl_stack_size, percent, priority, pm4_target_xcc, doorbell_id,
      doorbell_offset, sdma_id, mqd_size, mqd_stack_size, pad;
};
constexpr size_t kHeaderSizeAt = 12;

// v9_mqd
constexpr size_t kMqdBytes = 2048, kPersistentState = 132, kStackOffset = 174, kWaveOffset = 176;
constexpr uint32_t kActive = 0xa0000000;  // DISP_ACTIVE, RELAUNCH_WAVES

// Of each process, as the driver chooses them.
constexpr uint64_t kLdsAperture = uint64_t{1} << 48, kScratchAperture = uint64_t{2} << 48;

template <typename T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value = {};
  memcpy(&value, &bytes[at], sizeof(value));
  return value;
}

struct SavedXcc {
  SaveArea area;
  SavedQueue queue;
};

// The control stack of an XCC: in the blob, or on GFX11 in the memory of the process.
struct StackPlace {
  std::span<std::byte> in_blob;
  uint64_t address = 0;
  size_t bytes = 0;
};

// tail: the MQDs of a queue, one for each XCC, and as many control stacks.
Result<StackPlace> find_stack(const QueueRecord& record, std::span<std::byte> tail, unsigned xcc,
                              uint32_t offset) {
  const size_t bytes = record.ctl_stack_size - offset;
  if (!record.mqd_stack_size)
    return StackPlace{.in_blob = {},
                      .address = record.ctx_addr + uint64_t{xcc} * record.ctx_size + offset,
                      .bytes = bytes};
  const size_t each = record.mqd_stack_size / (record.mqd_size / kMqdBytes);
  if (record.ctl_stack_size > each) return Error(EBADMSG, "a control stack is too short");
  return StackPlace{.in_blob = tail.subspan(record.mqd_size + xcc * each + offset, bytes),
                    .bytes = bytes};
}

Result<std::vector<uint32_t>> read_stack(const StackPlace& place, const Pages& pages) {
  std::vector<uint32_t> words(place.bytes / sizeof(uint32_t));
  if (place.address)
    TRY(pages.read(place.address, std::as_writable_bytes(std::span(words))));
  else
    memcpy(words.data(), place.in_blob.data(), words.size() * sizeof(uint32_t));
  return words;
}

Status withhold(Part part, const StackPlace& place, std::span<std::byte> mqd, const Pages& pages) {
  if (part == Part::kStack) {
    std::ranges::fill(place.in_blob, std::byte{0});
    if (place.address) return pages.write(place.address, std::vector<std::byte>(place.bytes));
  }
  if (part == Part::kMqd) {
    const auto state = load<uint32_t>(mqd, kPersistentState * 4) & ~kActive;
    memcpy(&mqd[kPersistentState * 4], &state, sizeof(state));
  }
  return {};
}

Result<SavedXcc> read_xcc(const QueueRecord& record, std::span<std::byte> tail, unsigned xcc,
                          Part withheld, const Pages& pages) {
  const auto mqd = tail.subspan(xcc * kMqdBytes, kMqdBytes);
  const auto offset = load<uint32_t>(mqd, kStackOffset * 4);
  const auto wave_end = load<uint32_t>(mqd, kWaveOffset * 4);
  const uint32_t stack_end = record.ctl_stack_size;
  if (offset > stack_end || wave_end < stack_end)
    return Error(EBADMSG, "a queue's save area is out of range");
  const StackPlace place = TRY(find_stack(record, tail, xcc, offset));
  SavedXcc saved;
  saved.area.base = record.ctx_addr + uint64_t{xcc} * record.ctx_size;
  saved.area.header.wave_state = {.control_stack_offset = offset,
                                  .control_stack_size = stack_end - offset,
                                  .wave_state_offset = wave_end,
                                  .wave_state_size = wave_end - stack_end};
  saved.area.stack = TRY(read_stack(place, pages));
  const auto generation = record.mqd_stack_size ? Generation::kGfx9 : Generation::kGfx11;
  saved.queue = TRY(decode_area(saved.area, record.queue_id, xcc, generation));
  if (!saved.queue.waves.empty()) TRY(withhold(withheld, place, mqd, pages));
  return saved;
}

Result<std::vector<SavedXcc>> read_queue(std::span<std::byte> payload, size_t fixed_size,
                                         Part withheld, const Pages& pages) {
  if (payload.size() < fixed_size || fixed_size < sizeof(QueueRecord))
    return Error(EBADMSG, "a queue's record is too short");
  const auto record = load<QueueRecord>(payload, 0);
  const auto tail = payload.subspan(fixed_size);
  std::vector<SavedXcc> xccs;
  const bool computes =
      record.type == KFD_IOC_QUEUE_TYPE_COMPUTE || record.type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
  if (!computes || !record.ctl_stack_size) return xccs;
  if (record.mqd_size < kMqdBytes || tail.size() < size_t{record.mqd_size} + record.mqd_stack_size)
    return Error(EBADMSG, "a queue's MQD is too short");
  for (unsigned xcc = 0; xcc < record.mqd_size / kMqdBytes; ++xcc)
    xccs.push_back(TRY(read_xcc(record, tail, xcc, withheld, pages)));
  return xccs;
}

// CRC-32C of all preceding bytes, the last word of the record that ends a blob.
void seal(std::span<std::byte> blob) {
  constexpr uint32_t kPolynomial = 0x82f63b78;
  uint32_t crc = ~0u;
  for (const std::byte byte : blob.first(blob.size() - sizeof(crc))) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
  }
  memcpy(&blob[blob.size() - sizeof(crc)], &crc, sizeof(crc));
}

Status change_register(const Pages& pages, const SavedQueue& queue, const std::string& name) {
  const auto at = queue.waves.back().register_at(name);
  if (!at) return Error::of(EINVAL, "a wave has no register {}", name);
  const uint64_t address = queue.area + queue.waves.back().record + *at;
  std::byte byte = {};
  TRY(pages.read(address, {&byte, 1}));
  byte ^= std::byte{1};
  return pages.write(address, {&byte, 1});
}

Status use_area(const Pages& pages, const SavedQueue& queue, const ImageOptions& options) {
  if (options.withheld == Part::kArea)
    TRY(pages.write(queue.area, std::vector<std::byte>(queue.bytes)));
  if (!options.changed.empty()) TRY(change_register(pages, queue, options.changed));
  if (!options.registers) return {};
  return print_registers(
      queue, [&](uint64_t address, std::span<std::byte> to) { return pages.read(address, to); });
}

// As the driver would describe them to a debugger.
kfd_dbg_device_info_entry describe_gpu(const image::Device& device) {
  const auto number = [&](const char* name) {
    return static_cast<uint32_t>(device.gpu.property(name));
  };
  kfd_dbg_device_info_entry gpu = {};
  gpu.lds_base = kLdsAperture;
  gpu.lds_limit = kLdsAperture | UINT32_MAX;
  gpu.scratch_base = kScratchAperture;
  gpu.scratch_limit = kScratchAperture | UINT32_MAX;
  gpu.gpu_id = device.gpu_id;
  gpu.location_id = number("location_id");
  gpu.vendor_id = number("vendor_id");
  gpu.device_id = number("device_id");
  gpu.fw_version = number("fw_version");
  gpu.gfx_target_version = number("gfx_target_version");
  gpu.simd_count = number("simd_count");
  gpu.max_waves_per_simd = number("max_waves_per_simd");
  gpu.array_count = number("array_count");
  gpu.simd_arrays_per_engine = number("simd_arrays_per_engine");
  gpu.num_xcc = number("num_xcc");
  gpu.capability = number("capability");
  gpu.debug_prop = number("debug_prop");
  return gpu;
}

kfd_queue_snapshot_entry describe_queue(const QueueRecord& record) {
  kfd_queue_snapshot_entry queue = {};
  queue.ring_base_address = record.ring_base;
  queue.write_pointer_address = record.write_ptr;
  queue.read_pointer_address = record.read_ptr;
  queue.ctx_save_restore_address = record.ctx_addr;
  queue.queue_id = record.queue_id;
  queue.gpu_id = record.gpu_id;
  queue.ring_size = static_cast<uint32_t>(record.ring_size);
  queue.queue_type = record.type;
  queue.ctx_save_restore_area_size = record.ctx_size;
  return queue;
}

// The queues of one process.
struct Reader {
  const Pages& pages;
  ReadMemory memory;
  const ImageOptions& options;
  Core core;
  size_t waves = 0;

  Status read(std::span<std::byte> payload, size_t fixed_size) {
    const auto xccs = TRY(read_queue(payload, fixed_size, options.withheld, pages));
    for (const SavedXcc& xcc : xccs) {
      waves += xcc.queue.waves.size();
      print_summary(xcc.queue);
      if (!xcc.queue.waves.empty()) TRY(use_area(pages, xcc.queue, options));
    }
    if (options.core.empty() || xccs.empty()) return {};
    TRY(core.add(describe_queue(load<QueueRecord>(payload, 0)), memory));
    for (const SavedXcc& xcc : xccs) TRY(core.add(xcc.area, memory));
    return {};
  }
};

Result<size_t> read_process(int directory, const image::Set& set, const image::Process& process,
                            std::span<std::byte> blob, const ImageOptions& options) {
  const Pages pages = TRY(Pages::open(directory, process.pid));
  const ImageMemory memory(directory, set, process, pages);
  Reader reader{
      .pages = pages,
      .memory = [&](uint64_t address, std::span<std::byte> to) { return memory.read(address, to); },
      .options = options,
      .core = {}};
  for (size_t at = load<uint32_t>(blob, kHeaderSizeAt); at + sizeof(RecordHeader) <= blob.size();) {
    const auto header = load<RecordHeader>(blob, at);
    at += sizeof(header);
    if (header.size > blob.size() - at) return Error(EBADMSG, "a record is too long");
    if (header.type == kKfdQueue)
      TRY(reader.read(blob.subspan(at, header.size), header.fixed_size));
    at += header.size;
    if (header.type == kEnd && options.withheld != Part::kNone) seal(blob.first(at));
  }
  if (options.core.empty() || !reader.waves) return reader.waves;
  for (const image::Device& device : process.devices) reader.core.add(describe_gpu(device));
  TRY(reader.core.write(options.core));
  return reader.waves;
}

}  // namespace

Result<size_t> read_images(const std::string& directory, const ImageOptions& options) {
  const Fd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return Error(errno, directory);
  const image::Set set = TRY(image::Set::load(fd.get()));
  size_t waves = 0;
  for (const auto& [index, process] : set.processes()) {
    image::Process copy = process;
    if (!copy.blob) continue;
    const size_t its = TRY(read_process(fd.get(), set, process, *copy.blob, options));
    if (waves && its && !options.core.empty())
      return Error(ENOTSUP, "a core is of one process, and several have waves");
    waves += its;
    if (options.withheld == Part::kNone) continue;
    const std::string name = image::process_file_name(index);
    if (unlinkat(fd.get(), name.c_str(), 0) != 0) return Error::system("cannot replace {}", name);
    TRY(image::write_metadata_file(fd.get(), name, image::Kind::kProcess, image::encode(copy)));
  }
  return waves;
}

}  // namespace amdgpu_criu
