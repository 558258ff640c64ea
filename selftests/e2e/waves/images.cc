// SPDX-License-Identifier: GPL-2.0
#include "waves/images.h"

#include <fcntl.h>

#include <cstring>
#include <span>

#include "base/fd.h"
#include "image/container.h"
#include "image/set.h"
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

template <typename T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value = {};
  memcpy(&value, &bytes[at], sizeof(value));
  return value;
}

// On GFX11, the stack is memory of the process.
struct Stack {
  std::span<std::byte> in_blob;
  uint64_t address = 0;
  std::vector<uint32_t> words;
};

// tail: the MQDs of a queue, one for each XCC, and as many control stacks.
Result<Stack> read_stack(const QueueRecord& record, std::span<std::byte> tail, unsigned xcc,
                         uint32_t offset, const Pages& pages) {
  const size_t bytes = record.ctl_stack_size - offset;
  Stack stack;
  stack.words.resize(bytes / 4);
  if (!record.mqd_stack_size) {
    stack.address = record.ctx_addr + uint64_t{xcc} * record.ctx_size + offset;
    TRY(pages.read(stack.address, std::as_writable_bytes(std::span(stack.words))));
    return stack;
  }
  const size_t each = record.mqd_stack_size / (record.mqd_size / kMqdBytes);
  if (record.ctl_stack_size > each) return Error(EBADMSG, "a control stack is too short");
  stack.in_blob = tail.subspan(record.mqd_size + xcc * each + offset, bytes);
  memcpy(stack.words.data(), stack.in_blob.data(), stack.words.size() * 4);
  return stack;
}

Result<SavedQueue> read_xcc(const QueueRecord& record, std::span<std::byte> tail, unsigned xcc,
                            Part withheld, const Pages& pages) {
  const auto mqd = tail.subspan(xcc * kMqdBytes, kMqdBytes);
  const auto offset = load<uint32_t>(mqd, kStackOffset * 4);
  const auto wave_end = load<uint32_t>(mqd, kWaveOffset * 4);
  if (offset > record.ctl_stack_size || wave_end < record.ctl_stack_size)
    return Error(EBADMSG, "a queue's save area is out of range");
  const Stack stack = TRY(read_stack(record, tail, xcc, offset, pages));
  SavedQueue queue =
      decode_stack(stack.words, record.mqd_stack_size ? Generation::kGfx9 : Generation::kGfx11);
  queue.id = record.queue_id;
  queue.xcc = xcc;
  queue.area = record.ctx_addr + uint64_t{xcc} * record.ctx_size + record.ctl_stack_size;
  if (queue.bytes != wave_end - record.ctl_stack_size)
    return Error::of(EBADMSG, "queue {}: records of {} bytes in a save area of {}", record.queue_id,
                     queue.bytes, wave_end - record.ctl_stack_size);
  if (!queue.waves.empty() && withheld == Part::kStack) {
    std::ranges::fill(stack.in_blob, std::byte{0});
    if (stack.address)
      TRY(pages.write(stack.address, std::vector<std::byte>(stack.words.size() * 4)));
  }
  if (!queue.waves.empty() && withheld == Part::kMqd) {
    const auto state = load<uint32_t>(mqd, kPersistentState * 4) & ~kActive;
    memcpy(&mqd[kPersistentState * 4], &state, sizeof(state));
  }
  return queue;
}

Result<std::vector<SavedQueue>> read_queue(std::span<std::byte> payload, size_t fixed_size,
                                           Part withheld, const Pages& pages) {
  if (payload.size() < fixed_size || fixed_size < sizeof(QueueRecord))
    return Error(EBADMSG, "a queue's record is too short");
  const auto record = load<QueueRecord>(payload, 0);
  const auto tail = payload.subspan(fixed_size);
  std::vector<SavedQueue> xccs;
  if (!record.ctl_stack_size) return xccs;  // SDMA
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

Result<size_t> read_process(int directory, uint32_t pid, std::span<std::byte> blob,
                            const ImageOptions& options) {
  size_t waves = 0;
  const Pages pages = TRY(Pages::open(directory, pid));
  for (size_t at = load<uint32_t>(blob, kHeaderSizeAt); at + sizeof(RecordHeader) <= blob.size();) {
    const auto header = load<RecordHeader>(blob, at);
    at += sizeof(header);
    if (header.size > blob.size() - at) return Error(EBADMSG, "a record is too long");
    if (header.type == kKfdQueue) {
      for (const SavedQueue& queue : TRY(read_queue(blob.subspan(at, header.size),
                                                    header.fixed_size, options.withheld, pages))) {
        waves += queue.waves.size();
        print_summary(queue);
        if (!queue.waves.empty()) TRY(use_area(pages, queue, options));
      }
    }
    at += header.size;
    if (header.type == kEnd && options.withheld != Part::kNone) seal(blob.first(at));
  }
  return waves;
}

}  // namespace

Result<size_t> read_images(const std::string& directory, const ImageOptions& options) {
  const Fd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return Error(errno, directory);
  const image::Set set = TRY(image::Set::load(fd.get()));
  size_t waves = 0;
  for (const auto& [index, process] : set.processes()) {
    if (!process.blob) continue;
    image::Process copy = process;
    waves += TRY(read_process(fd.get(), copy.pid, *copy.blob, options));
    if (options.withheld == Part::kNone) continue;
    const std::string name = image::process_file_name(index);
    if (unlinkat(fd.get(), name.c_str(), 0) != 0) return Error::system("cannot replace {}", name);
    TRY(image::write_metadata_file(fd.get(), name, image::Kind::kProcess, image::encode(copy)));
  }
  return waves;
}

}  // namespace amdgpu_criu
