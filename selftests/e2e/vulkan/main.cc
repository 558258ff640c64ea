// SPDX-License-Identifier: GPL-2.0
// vulkan_chain: a process that uses Vulkan, to be checkpointed and restored. A step writes a value
// on the graphics queue and moves a token to the next page of a sparse buffer, and the transfer
// queue copies both to the CPU. The token exists only in GPU memory.
#include <unistd.h>

#include <cstring>

#include "base/result.h"
#include "vulkan/run.h"
#include "workload/chain_math.h"
#include "workload/pattern.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Status;

class Process {
 public:
  explicit Process(const Options& options);
  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);
  void announce() const {
    say(amdgpu_criu::formatted("ready: pid {} vulkan bytes {}", getpid(), bytes()));
  }
  uint64_t bytes() const { return 2 * kDataSize + kPages * gpu_.page_size(); }

 private:
  static constexpr uint32_t kBurst = 6;  // steps that are submitted before the first is waited for
  static constexpr uint64_t kPages = 8, kSlots = 512, kDataSize = 1 << 20;
  static constexpr uint64_t kToken = mix(1);
  static constexpr Pattern kPattern{2};

  // Where the CPU finds the value and the token of a step.
  static uint64_t value_at_cpu(uint64_t step) { return step % kSlots * 8; }
  static uint64_t token_at_cpu(uint64_t step) { return (kSlots + step % kSlots) * 8; }
  uint64_t token_at(uint64_t step) const { return step % kPages * gpu_.page_size() + 64; }
  uint64_t read(uint64_t offset) const;
  void submit(uint64_t step);
  // Copies on the transfer queue, and waits.
  Status copy(const Buffer& from, const Buffer& to, uint64_t size);

  unsigned timeout_s_;
  Gpu gpu_{kBurst};
  vk::raii::Semaphore timeline_ = gpu_.timeline(0), copies_ = gpu_.timeline(0);
  Buffer host_ = gpu_.host_buffer(kDataSize), data_ = gpu_.device_buffer(kDataSize),
         sparse_ = gpu_.sparse_buffer(kPages);
  uint64_t done_ = 0, submitted_ = 0, copied_ = 0;
};

Process::Process(const Options& options) : timeout_s_(options.timeout_s) {
  kPattern.fill(host_.bytes);
  if (const Status status = copy(host_, data_, kDataSize); !status.ok())
    throw std::runtime_error(status.error().message());
  std::memset(host_.bytes.data(), 0, kDataSize);
  std::memcpy(host_.bytes.data() + token_at(0), &kToken, sizeof(kToken));
  if (const Status status = copy(host_, sparse_, kPages * gpu_.page_size()); !status.ok())
    throw std::runtime_error(status.error().message());
}

uint64_t Process::read(uint64_t offset) const {
  uint64_t value;
  std::memcpy(&value, host_.bytes.data() + offset, sizeof(value));
  return value;
}

Status Process::copy(const Buffer& from, const Buffer& to, uint64_t size) {
  const auto record = [&](const vk::raii::CommandBuffer& commands) {
    commands.copyBuffer(*from.buffer, *to.buffer, vk::BufferCopy(0, 0, size));
  };
  gpu_.transfer().submit(0, record, {&copies_, copied_}, {&copies_, copied_ + 1});
  if (!gpu_.wait({&copies_, ++copied_}, timeout_s_)) return Error::of(ETIME, "a copy does not end");
  return {};
}

void Process::submit(uint64_t step) {
  const auto slot = static_cast<uint32_t>(step % kBurst);
  const uint64_t value = value_at(step);
  const vk::MemoryBarrier barrier(
      vk::AccessFlagBits::eTransferWrite,
      vk::AccessFlagBits::eTransferRead | vk::AccessFlagBits::eTransferWrite);
  const auto produce = [&](const vk::raii::CommandBuffer& commands) {
    commands.updateBuffer<uint64_t>(*sparse_.buffer, 0, value);
    commands.copyBuffer(*sparse_.buffer, *sparse_.buffer,
                        vk::BufferCopy(token_at(step - 1), token_at(step), 8));
    commands.pipelineBarrier(vk::PipelineStageFlagBits::eTransfer,
                             vk::PipelineStageFlagBits::eTransfer, {}, barrier, {}, {});
    commands.fillBuffer(*sparse_.buffer, token_at(step - 1), 8, 0);
  };
  const auto show = [&](const vk::raii::CommandBuffer& commands) {
    commands.copyBuffer(*sparse_.buffer, *host_.buffer,
                        {vk::BufferCopy(0, value_at_cpu(step), 8),
                         vk::BufferCopy(token_at(step), token_at_cpu(step), 8)});
  };
  gpu_.graphics().submit(slot, produce, {&timeline_, 2 * step - 2}, {&timeline_, 2 * step - 1});
  gpu_.transfer().submit(slot, show, {&timeline_, 2 * step - 1}, {&timeline_, 2 * step});
}

Status Process::step() {
  if (done_ == submitted_)
    while (submitted_ < done_ + kBurst) submit(++submitted_);
  const uint64_t step = done_ + 1;
  if (!gpu_.wait({&timeline_, 2 * step}, timeout_s_))
    return Error::of(ETIME, "step {} does not end", step);
  if (read(value_at_cpu(step)) != value_at(step))
    return Error::of(EBADMSG, "value {:#018x}, expected {:#018x}", read(value_at_cpu(step)),
                     value_at(step));
  if (read(token_at_cpu(step)) != kToken)
    return Error::of(EBADMSG, "the token of step {} is {:#018x}", step, read(token_at_cpu(step)));
  done_ = step;
  return {};
}

Status Process::check(std::vector<std::string>& problems) {
  while (done_ != submitted_) TRY(step());
  TRY(copy(data_, host_, kDataSize));
  if (const auto damage = kPattern.check(host_.bytes))
    problems.push_back(amdgpu_criu::formatted("{} bytes of the data, the first at {}",
                                              damage->bytes, damage->first_offset));
  TRY(copy(sparse_, host_, kPages * gpu_.page_size()));
  for (uint64_t at = 0; at < kPages * gpu_.page_size(); at += 8) {
    const uint64_t wanted = at == 0 ? value_at(done_) : at == token_at(done_) ? kToken : 0;
    if (read(at) != wanted)
      problems.push_back(
          amdgpu_criu::formatted("word {} of the sparse buffer: {:#x}", at, read(at)));
  }
  return {};
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"vulkan_chain",
       "A process that uses Vulkan: timeline semaphores, sparse memory, two queues.",
       "--steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::run_on_gpu<e2e::Process>(parsed.options);
}
