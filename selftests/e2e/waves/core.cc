// SPDX-License-Identifier: GPL-2.0
#include "waves/core.h"

#include <fcntl.h>

#include <cstring>

#include "base/fd.h"

namespace amdgpu_criu {
namespace {

constexpr uint64_t kPage = 4096;

// hsa_kernel_dispatch_packet_t
constexpr uint64_t kPacketBytes = 64, kKernelAt = 32, kDescriptorBytes = 64;
constexpr uint8_t kInvalid = 1, kDispatch = 2;

template <typename T>
std::vector<std::byte> bytes_of(const T* values, size_t count) {
  const auto bytes = std::as_bytes(std::span(values, count));
  return {bytes.begin(), bytes.end()};
}

Result<uint64_t> read_number(uint64_t address, const ReadMemory& read) {
  uint64_t number = 0;
  TRY(read(address, std::as_writable_bytes(std::span(&number, 1))));
  return number;
}

}  // namespace

Result<SavedQueue> decode_area(const SaveArea& area, uint32_t queue_id, unsigned xcc,
                               Generation generation) {
  const auto& state = area.header.wave_state;
  SavedQueue queue = decode_stack(area.stack, generation);
  queue.id = queue_id;
  queue.xcc = xcc;
  queue.area = area.base + state.wave_state_offset - state.wave_state_size;
  if (queue.bytes != state.wave_state_size)
    return Error::of(EBADMSG, "queue {}: records of {} bytes in a save area of {}", queue_id,
                     queue.bytes, state.wave_state_size);
  return queue;
}

Status Core::copy(uint64_t address, uint64_t size, const ReadMemory& read) {
  std::vector<std::byte> bytes(size);
  TRY(read(address, bytes));
  memory_[address] = std::move(bytes);
  return {};
}

// The pointers are members of the amd_queue_t, of which the debugger needs more.
Status Core::add(const kfd_queue_snapshot_entry& queue, const ReadMemory& read) {
  queues_.push_back(queue);
  if (queue.queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL) return {};
  for (const uint64_t pointer : {queue.read_pointer_address, queue.write_pointer_address})
    TRY(copy(pointer / kPage * kPage, kPage, read));
  TRY(copy(queue.ring_base_address, queue.ring_size, read));
  const std::vector<std::byte> ring = memory_[queue.ring_base_address];
  const uint64_t end = TRY(read_number(queue.write_pointer_address, read));
  for (uint64_t id = TRY(read_number(queue.read_pointer_address, read)); id < end; ++id) {
    const std::byte* const packet = &ring[id * kPacketBytes % queue.ring_size];
    const auto type = static_cast<uint8_t>(packet[0]);
    uint64_t kernel = 0;
    memcpy(&kernel, packet + kKernelAt, sizeof(kernel));
    if ((type == kDispatch || type == kInvalid) && kernel)
      TRY(copy(kernel, kDescriptorBytes, read));
  }
  return {};
}

Status Core::add(const SaveArea& area, const ReadMemory& read) {
  const auto& state = area.header.wave_state;
  memory_[area.base] = bytes_of(&area.header, 1);
  if (!state.wave_state_size) return {};
  memory_[area.base + state.control_stack_offset] = bytes_of(area.stack.data(), area.stack.size());
  return copy(area.base + state.wave_state_offset - state.wave_state_size, state.wave_state_size,
              read);
}

Status Core::write(const std::string& path) const {
  CoreHeader header = {.magic = {},
                       .gpus = static_cast<uint32_t>(gpus_.size()),
                       .queues = static_cast<uint32_t>(queues_.size()),
                       .ranges = static_cast<uint32_t>(memory_.size()),
                       .ttmp_setup = ttmp_setup_};
  memcpy(header.magic, kCoreMagic, sizeof(kCoreMagic));
  std::vector<std::byte> out = bytes_of(&header, 1);
  const auto append = [&](const std::vector<std::byte>& bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
  };
  append(bytes_of(gpus_.data(), gpus_.size()));
  append(bytes_of(queues_.data(), queues_.size()));
  for (const auto& [address, bytes] : memory_) {
    const CoreRange range = {.address = address, .size = bytes.size()};
    append(bytes_of(&range, 1));
    append(bytes);
  }
  const Fd file = TRY(Fd::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  if (::write(file.get(), out.data(), out.size()) != static_cast<ssize_t>(out.size()))
    return Error::system("cannot write {}", path);
  return {};
}

}  // namespace amdgpu_criu
