// SPDX-License-Identifier: GPL-2.0
// saved_waves DIR: prints which waves the GPU images of a dump contain, a line for each queue that
// has any, and a last line with their number. Control stacks are decoded as the debugger does it
// for gfx90a (ROCdbgapi, control_stack_iterate), independently of the software GPU. Exit code: 0
// good, 1 an image is damaged or a control stack does not describe its save area, 2 failure.
//
// --withhold stack|mqd|area takes a part of that away: a process that is restored from such images
// must not come to the right result. It changes the images, with valid checksums.
#include <fcntl.h>

#include <cstdio>
#include <cstring>
#include <map>
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
constexpr size_t kInitiator = 1, kStackOffset = 174, kWaveOffset = 176;
constexpr uint32_t kRestore = 1 << 14;  // of COMPUTE_DISPATCH_INITIATOR

uint32_t field(uint32_t word, unsigned high, unsigned low) {
  return word >> low & (0xffffffffu >> (31 - (high - low)));
}

enum class Part : uint8_t { kNone, kStack, kMqd, kArea };

struct Waves {
  unsigned waves = 0, groups = 0;
  uint64_t area = 0, bytes = 0;  // of records
};

// stack: upwards from its fill level.
Waves decode(std::span<const uint32_t> stack) {
  constexpr size_t kPm4Words = 2;
  constexpr uint64_t kSgprs = 4, kHwregsAndTtmps = 128, kGap = 64, kVgpr = 256;
  Waves out;
  uint32_t state = 0;
  for (size_t i = kPm4Words; i < stack.size(); ++i) {
    const uint32_t word = stack[i];
    if (field(word, 30, 30)) continue;
    if (field(word, 31, 31)) {
      state = word;
      continue;
    }
    const bool first = field(word, 17, 17);
    const uint64_t lds = uint64_t{field(state, 16, 9)} * 128 * 4;
    const uint64_t sgprs = (field(state, 8, 6) + 1) * 16 - 16;
    const uint64_t vgprs = (field(state, 5, 0) + 1) * uint64_t{8};
    out.bytes += vgprs * kVgpr + sgprs * kSgprs + kHwregsAndTtmps + (first ? lds : 0) + kGap;
    ++out.waves;
    out.groups += first;
  }
  return out;
}

template <typename T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value = {};
  memcpy(&value, &bytes[at], sizeof(value));
  return value;
}

// For one queue with one MQD, which its control stack follows.
Result<Waves> read_queue(std::span<std::byte> payload, size_t fixed_size, Part withheld) {
  if (payload.size() < fixed_size || fixed_size < sizeof(QueueRecord))
    return Error(EBADMSG, "a queue's record is too short");
  const auto record = load<QueueRecord>(payload, 0);
  const auto tail = payload.subspan(fixed_size);
  if (!record.mqd_stack_size) return Waves{};  // SDMA
  if (tail.size() < size_t{record.mqd_size} + record.mqd_stack_size)
    return Error(EBADMSG, "a queue's MQD is too short");
  const auto offset = load<uint32_t>(tail, kStackOffset * 4);
  const auto wave_end = load<uint32_t>(tail, kWaveOffset * 4);
  if (offset > record.ctl_stack_size || wave_end < record.ctl_stack_size)
    return Error(EBADMSG, "a queue's save area is out of range");
  const auto bytes = tail.subspan(record.mqd_size + offset, record.ctl_stack_size - offset);
  std::vector<uint32_t> stack(bytes.size() / 4);
  memcpy(stack.data(), bytes.data(), stack.size() * 4);
  Waves waves = decode(stack);
  waves.area = record.ctx_addr + record.ctl_stack_size;
  if (waves.bytes != wave_end - record.ctl_stack_size)
    return Error::of(EBADMSG, "queue {}: records of {} bytes in a save area of {}", record.queue_id,
                     waves.bytes, wave_end - record.ctl_stack_size);
  if (waves.waves)
    printf("queue %u: %u waves in %u work-groups, %llu bytes\n", record.queue_id, waves.waves,
           waves.groups, static_cast<unsigned long long>(waves.bytes));
  if (waves.waves && withheld == Part::kStack) std::ranges::fill(bytes, std::byte{0});
  if (waves.waves && withheld == Part::kMqd) {
    const auto initiator = load<uint32_t>(tail, kInitiator * 4) & ~kRestore;
    memcpy(&tail[kInitiator * 4], &initiator, sizeof(initiator));
  }
  return waves;
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

Result<unsigned> read_process(int directory, uint32_t pid, std::span<std::byte> blob,
                              Part withheld) {
  unsigned waves = 0;
  for (size_t at = load<uint32_t>(blob, kHeaderSizeAt); at + sizeof(RecordHeader) <= blob.size();) {
    const auto header = load<RecordHeader>(blob, at);
    at += sizeof(header);
    if (header.size > blob.size() - at) return Error(EBADMSG, "a record is too long");
    if (header.type == kKfdQueue) {
      const Waves queue =
          TRY(read_queue(blob.subspan(at, header.size), header.fixed_size, withheld));
      waves += queue.waves;
      if (queue.waves && withheld == Part::kArea)
        TRY(TRY(Pages::open(directory, pid)).zero(queue.area, queue.bytes));
    }
    at += header.size;
    if (header.type == kEnd && withheld != Part::kNone) seal(blob.first(at));
  }
  return waves;
}

Result<unsigned> read_images(const std::string& directory, Part withheld) {
  const Fd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return Error(errno, directory);
  const image::Set set = TRY(image::Set::load(fd.get()));
  unsigned waves = 0;
  for (const auto& [index, process] : set.processes()) {
    if (!process.blob) continue;
    image::Process copy = process;
    waves += TRY(read_process(fd.get(), copy.pid, *copy.blob, withheld));
    if (withheld == Part::kNone) continue;
    const std::string name = image::process_file_name(index);
    if (unlinkat(fd.get(), name.c_str(), 0) != 0) return Error::system("cannot replace {}", name);
    TRY(image::write_metadata_file(fd.get(), name, image::Kind::kProcess, image::encode(copy)));
  }
  return waves;
}

}  // namespace
}  // namespace amdgpu_criu

int main(int argc, char** argv) {
  using amdgpu_criu::Part;
  const std::map<std::string_view, Part> parts = {
      {"stack", Part::kStack}, {"mqd", Part::kMqd}, {"area", Part::kArea}};
  const bool withholds = argc == 4 && std::string_view(argv[1]) == "--withhold";
  if (argc != 2 && !(withholds && parts.contains(argv[2])))
    return fprintf(stderr, "usage: saved_waves [--withhold stack|mqd|area] DIR\n"), 2;
  const auto waves =
      amdgpu_criu::read_images(argv[argc - 1], withholds ? parts.at(argv[2]) : Part::kNone);
  if (!waves.ok()) {
    fprintf(stderr, "saved_waves: %s\n", waves.error().message().c_str());
    return waves.error().code() == EBADMSG ? 1 : 2;
  }
  printf("waves %u\n", *waves);
  return 0;
}
