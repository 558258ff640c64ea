// SPDX-License-Identifier: GPL-2.0
// vulkan_compute: a process that computes by Vulkan, to be checkpointed and restored. Each step is
// a dispatch, on the graphics and on the compute queue in turns, with push constants, two storage
// buffers, two texel buffers, subgroup operations and shared memory. The state exists only in GPU
// memory, and every step depends on all before. Several dispatches are submitted before the first
// is waited for.
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
constexpr uint32_t kTexels = 64;
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

// By binding.
constexpr std::array kBindings = {
    vk::DescriptorType::eStorageBuffer, vk::DescriptorType::eStorageBuffer,
    vk::DescriptorType::eUniformTexelBuffer, vk::DescriptorType::eStorageTexelBuffer};

vk::raii::DescriptorSetLayout make_set_layout(const vk::raii::Device& device) {
  std::array<vk::DescriptorSetLayoutBinding, kBindings.size()> bindings;
  for (uint32_t i = 0; i < bindings.size(); ++i)
    bindings[i] = {i, kBindings[i], 1, vk::ShaderStageFlagBits::eCompute};
  return {device, {{}, bindings}};
}

// In the order of the bindings.
struct Buffers {
  Buffer state, sums, bytes, copies;
};

// The pipeline, and the buffers that it uses.
class Computation {
 public:
  Computation(const Gpu& gpu, const Buffers& buffers);
  void record(const vk::raii::CommandBuffer& commands, const Push& push) const;

 private:
  vk::raii::Pipeline make_pipeline(const vk::raii::Device& device) const;

  vk::raii::BufferView bytes_, copies_;
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
  std::array<vk::DescriptorPoolSize, kBindings.size()> sizes;
  for (uint32_t i = 0; i < sizes.size(); ++i) sizes[i] = {kBindings[i], 1};
  return {device, {vk::DescriptorPoolCreateFlagBits::eFreeDescriptorSet, 1, sizes}};
}

vk::raii::Pipeline Computation::make_pipeline(const vk::raii::Device& device) const {
  const vk::raii::ShaderModule shader(device, {{}, sizeof(compute_spirv), compute_spirv});
  const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *shader,
                                                "main");
  return {device, nullptr, vk::ComputePipelineCreateInfo({}, stage, *layout_)};
}

vk::raii::BufferView view_of(const Gpu& gpu, const Buffer& buffer, vk::Format format) {
  return {gpu.device(), {{}, *buffer.buffer, format, 0, VK_WHOLE_SIZE}};
}

Computation::Computation(const Gpu& gpu, const Buffers& buffers)
    : bytes_(view_of(gpu, buffers.bytes, vk::Format::eR8G8B8A8Uint)),
      copies_(view_of(gpu, buffers.copies, vk::Format::eR32Uint)),
      set_layout_(make_set_layout(gpu.device())),
      layout_(layout_of(gpu.device(), set_layout_)),
      pipeline_(make_pipeline(gpu.device())),
      pool_(make_pool(gpu.device())),
      set_(std::move(vk::raii::DescriptorSets(gpu.device(), {*pool_, *set_layout_}).front())) {
  const std::array<vk::DescriptorBufferInfo, 2> plain = {
      {{*buffers.state.buffer, 0, VK_WHOLE_SIZE}, {*buffers.sums.buffer, 0, VK_WHOLE_SIZE}}};
  const std::array writes = {vk::WriteDescriptorSet(*set_, 0, 0, kBindings[0], {}, plain),
                             vk::WriteDescriptorSet(*set_, 2, 0, kBindings[2], {}, {}, *bytes_),
                             vk::WriteDescriptorSet(*set_, 3, 0, kBindings[3], {}, {}, *copies_)};
  gpu.device().updateDescriptorSets(writes, {});
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
  Buffers buffers_{gpu_.device_buffer(kItems * 4), gpu_.host_buffer(kBurst* kGroups * 4),
                   gpu_.host_buffer(kTexels * 4), gpu_.host_buffer(kItems * 4)};
  Computation computation_{gpu_, buffers_};
  std::vector<uint32_t> expected_ = std::vector<uint32_t>(kItems);
  uint64_t done_ = 0, submitted_ = 0;
};

// The first command fills the state.
Process::Process(const Options& options) : timeout_s_(options.timeout_s) {
  for (uint32_t i = 0; i < kTexels * 4; ++i) buffers_.bytes.bytes[i] = std::byte(251 - i);
  const auto fill = [&](const vk::raii::CommandBuffer& commands) {
    commands.fillBuffer(*buffers_.state.buffer, 0, kItems * 4, 0);
  };
  gpu_.compute().submit(0, fill, {&timeline_, 0}, {&timeline_, 1});
  if (!gpu_.wait({&timeline_, 1}, timeout_s_)) throw std::runtime_error("the state is not filled");
}

void Process::submit(uint64_t step) {
  const auto row = static_cast<uint32_t>(step % kBurst);
  const auto record = [&](const vk::raii::CommandBuffer& commands) {
    computation_.record(commands, {static_cast<uint32_t>(step), kRounds, row});
  };
  Queue& queue = step % 2 ? gpu_.graphics() : gpu_.compute();
  queue.submit(row, record, {&timeline_, step}, {&timeline_, step + 1});
}

Status Process::step() {
  if (done_ == submitted_)
    while (submitted_ < done_ + kBurst) submit(++submitted_);
  const uint64_t step = done_ + 1;
  if (!gpu_.wait({&timeline_, step + 1}, timeout_s_))
    return Error::of(ETIME, "step {} does not end", step);
  for (uint32_t i = 0; i < kItems; ++i)
    expected_[i] += std::to_integer<uint32_t>(buffers_.bytes.bytes[i % kTexels * 4 + 2]);
  for (uint32_t first = 0; first < kItems; first += subgroup_)
    for (uint32_t round = 0; round < kRounds; ++round)
      compute_round(std::span(expected_).subspan(first, subgroup_), static_cast<uint32_t>(step));
  for (uint32_t group = 0; group < kGroups; ++group) {
    const auto from = expected_.begin() + group * kGroup;
    const uint32_t wanted = std::accumulate(from, from + kGroup, 0u);
    uint32_t found;
    std::memcpy(&found, &buffers_.sums.bytes[(step % kBurst * kGroups + group) * 4], sizeof(found));
    if (found != wanted)
      return Error::of(EBADMSG, "step {}: group {} has {:#x}, expected {:#x}", step, group, found,
                       wanted);
  }
  done_ = step;
  return {};
}

Status Process::check(std::vector<std::string>& problems) {
  while (done_ != submitted_) TRY(step());
  if (done_ && std::memcmp(buffers_.copies.bytes.data(), expected_.data(), kItems * 4) != 0)
    problems.push_back("the texels are not the state");
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
