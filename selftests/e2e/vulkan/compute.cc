// SPDX-License-Identifier: GPL-2.0
// vulkan_compute: a process that computes by Vulkan, to be checkpointed and restored. Each step is
// a dispatch on the compute queue, with push constants, two storage buffers, subgroup operations
// and shared memory. The state exists only in GPU memory, and every step depends on all before.
// Several dispatches are submitted before the first is waited for.
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/result.h"
#include "compute_spirv.h"  // built from compute.comp
#include "vulkan/run.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::formatted;
using amdgpu_criu::Status;

constexpr uint32_t kGroup = 256, kGroups = 4, kItems = kGroup * kGroups, kRounds = 300;
constexpr uint32_t kBurst = 4;  // rows of the ring, too

struct Push {
  uint32_t step, rounds, row;
};

// One round of a subgroup, as compute.comp has it.
void compute_round(std::span<uint32_t> lanes, uint32_t step) {
  uint32_t all = 0, odd = 0, below = 0;
  for (uint32_t& x : lanes) {
    x = x * 1664525u + 1013904223u + step;
    all += x;
    odd += (x & 128) != 0;
  }
  const std::vector<uint32_t> old(lanes.begin(), lanes.end());
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i] ^= all + old[i ^ 5] * 3 + below * 7 + odd;
    below += old[i] & 255;
  }
}

vk::raii::DescriptorSetLayout two_buffers(const vk::raii::Device& device) {
  std::array<vk::DescriptorSetLayoutBinding, 2> bindings;
  for (uint32_t i = 0; i < bindings.size(); ++i)
    bindings[i] = {i, vk::DescriptorType::eStorageBuffer, 1, vk::ShaderStageFlagBits::eCompute};
  return {device, {{}, bindings}};
}

// The pipeline, and the buffers that it uses.
class Computation {
 public:
  Computation(const Gpu& gpu, const Buffer& state, const Buffer& sums);
  void record(const vk::raii::CommandBuffer& commands, const Push& push) const;

 private:
  vk::raii::Pipeline make_pipeline(const vk::raii::Device& device) const;

  vk::raii::DescriptorSetLayout set_layout_;
  vk::raii::PipelineLayout layout_;
  vk::raii::Pipeline pipeline_;
  vk::raii::DescriptorPool pool_;
  vk::raii::DescriptorSet set_;
};

vk::raii::PipelineLayout layout_of(const vk::raii::Device& device,
                                   const vk::raii::DescriptorSetLayout& set) {
  const vk::PushConstantRange range(vk::ShaderStageFlagBits::eCompute, 0, sizeof(Push));
  return {device, {{}, *set, range}};
}

vk::raii::DescriptorPool make_pool(const vk::raii::Device& device) {
  const vk::DescriptorPoolSize size(vk::DescriptorType::eStorageBuffer, 2);
  return {device, {vk::DescriptorPoolCreateFlagBits::eFreeDescriptorSet, 1, size}};
}

vk::raii::Pipeline Computation::make_pipeline(const vk::raii::Device& device) const {
  const vk::raii::ShaderModule shader(device, {{}, sizeof(compute_spirv), compute_spirv});
  const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *shader,
                                                "main");
  return {device, nullptr, vk::ComputePipelineCreateInfo({}, stage, *layout_)};
}

Computation::Computation(const Gpu& gpu, const Buffer& state, const Buffer& sums)
    : set_layout_(two_buffers(gpu.device())),
      layout_(layout_of(gpu.device(), set_layout_)),
      pipeline_(make_pipeline(gpu.device())),
      pool_(make_pool(gpu.device())),
      set_(std::move(vk::raii::DescriptorSets(gpu.device(), {*pool_, *set_layout_}).front())) {
  const std::array<vk::DescriptorBufferInfo, 2> buffers = {
      {{*state.buffer, 0, VK_WHOLE_SIZE}, {*sums.buffer, 0, VK_WHOLE_SIZE}}};
  gpu.device().updateDescriptorSets(
      vk::WriteDescriptorSet(*set_, 0, 0, vk::DescriptorType::eStorageBuffer, {}, buffers), {});
}

void Computation::record(const vk::raii::CommandBuffer& commands, const Push& push) const {
  const vk::MemoryBarrier barrier(
      vk::AccessFlagBits::eShaderWrite | vk::AccessFlagBits::eTransferWrite,
      vk::AccessFlagBits::eShaderRead | vk::AccessFlagBits::eShaderWrite);
  commands.pipelineBarrier(
      vk::PipelineStageFlagBits::eComputeShader | vk::PipelineStageFlagBits::eTransfer,
      vk::PipelineStageFlagBits::eComputeShader, {}, barrier, {}, {});
  commands.bindPipeline(vk::PipelineBindPoint::eCompute, *pipeline_);
  commands.bindDescriptorSets(vk::PipelineBindPoint::eCompute, *layout_, 0, *set_, {});
  commands.pushConstants<Push>(*layout_, vk::ShaderStageFlagBits::eCompute, 0, push);
  commands.dispatch(kGroups, 1, 1);
  const vk::MemoryBarrier to_cpu(vk::AccessFlagBits::eShaderWrite, vk::AccessFlagBits::eHostRead);
  commands.pipelineBarrier(vk::PipelineStageFlagBits::eComputeShader,
                           vk::PipelineStageFlagBits::eHost, {}, to_cpu, {}, {});
}

class Process {
 public:
  explicit Process(const Options& options);
  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);
  void announce() const {
    say(formatted("ready: pid {} vulkan bytes {} subgroup {}", getpid(), kItems * 4, subgroup_));
  }

 private:
  void submit(uint64_t step);

  unsigned timeout_s_;
  Gpu gpu_{kBurst};
  uint32_t subgroup_ = gpu_.subgroup_size();
  vk::raii::Semaphore timeline_ = gpu_.timeline(0);
  Buffer sums_ = gpu_.host_buffer(kBurst * kGroups * 4), state_ = gpu_.device_buffer(kItems * 4);
  Computation computation_{gpu_, state_, sums_};
  std::vector<uint32_t> expected_ = std::vector<uint32_t>(kItems);
  uint64_t done_ = 0, submitted_ = 0;
};

// The first command fills the state.
Process::Process(const Options& options) : timeout_s_(options.timeout_s) {
  const auto fill = [&](const vk::raii::CommandBuffer& commands) {
    commands.fillBuffer(*state_.buffer, 0, kItems * 4, 0);
  };
  gpu_.compute().submit(0, fill, {&timeline_, 0}, {&timeline_, 1});
  if (!gpu_.wait({&timeline_, 1}, timeout_s_)) throw std::runtime_error("the state is not filled");
}

void Process::submit(uint64_t step) {
  const auto row = static_cast<uint32_t>(step % kBurst);
  const auto record = [&](const vk::raii::CommandBuffer& commands) {
    computation_.record(commands, {static_cast<uint32_t>(step), kRounds, row});
  };
  gpu_.compute().submit(row, record, {&timeline_, step}, {&timeline_, step + 1});
}

Status Process::step() {
  if (done_ == submitted_)
    while (submitted_ < done_ + kBurst) submit(++submitted_);
  const uint64_t step = done_ + 1;
  if (!gpu_.wait({&timeline_, step + 1}, timeout_s_))
    return Error::of(ETIME, "step {} does not end", step);
  for (uint32_t first = 0; first < kItems; first += subgroup_)
    for (uint32_t round = 0; round < kRounds; ++round)
      compute_round(std::span(expected_).subspan(first, subgroup_), static_cast<uint32_t>(step));
  for (uint32_t group = 0; group < kGroups; ++group) {
    const auto from = expected_.begin() + group * kGroup;
    const uint32_t wanted = std::accumulate(from, from + kGroup, 0u);
    uint32_t found;
    std::memcpy(&found, &sums_.bytes[(step % kBurst * kGroups + group) * 4], sizeof(found));
    if (found != wanted)
      return Error::of(EBADMSG, "step {}: group {} has {:#x}, expected {:#x}", step, group, found,
                       wanted);
  }
  done_ = step;
  return {};
}

Status Process::check(std::vector<std::string>&) {
  while (done_ != submitted_) TRY(step());
  return {};
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"vulkan_compute", "A process that computes by Vulkan.", "--steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::run_on_gpu<e2e::Process>(parsed.options);
}
