// SPDX-License-Identifier: GPL-2.0
// A small transformer (attention, layer norm, GELU, cross entropy, Adam) on one GPU: its memory,
// and the queue with the next steps of its training. Two of them, on two GPUs or in two processes,
// can train together: each step uses the mean of both gradients. They exchange these through memory
// that both GPUs access, in which the waves of each wait for those of the other.
#pragma once

#include <array>
#include <optional>

#include "rocr/hsa.h"

namespace e2e {

class Transformer {
 public:
  static constexpr uint32_t kMaxSteps = 4096;
  // Steps in the queue: after CRIU has stopped the process, the GPU continues with these for a
  // while.
  static constexpr uint32_t kAhead = 4;

  // What the members of a training run share, and which of the members this is.
  struct Member {
    const Buffer* exchange = nullptr;  // null: it trains alone
    uint32_t number = 0;
  };
  static constexpr uint32_t kMembers = 2;
  static amdgpu_criu::Result<Buffer> make_exchange(const Runtime& runtime, unsigned timeout_ms);

  static amdgpu_criu::Result<Transformer> create(const Runtime& runtime, unsigned gpu,
                                                 Member member);
  amdgpu_criu::Status initialize();
  // Steps count from 0, and are queued and waited for one after the other.
  amdgpu_criu::Status queue_step(uint32_t step);
  amdgpu_criu::Status finish_step(uint32_t step, unsigned timeout_ms) const;
  float loss(uint32_t step) const { return shared().losses[step]; }

  size_t bytes() const { return memory_.size(); }
  size_t weights() const;
  // FNV-1a of all weights.
  amdgpu_criu::Result<uint64_t> sum_of_weights(unsigned timeout_ms) const;

 private:
  friend class Launcher;
  struct Arguments {
    float* memory = nullptr;
    float* other = nullptr;  // the losses, or what members share
    uint32_t a = 0, b = 0, c = 0, d = 0, e = 0, n0 = 0, n1 = 0, n2 = 0;
    float c0 = 0, c1 = 0;
  };
  struct Kernels {
    Kernel initialize, embed, multiply, normalize, normalize_back, normalize_weights_back, softmax,
        softmax_back, gelu, gelu_back, cross_entropy, mean_loss, embed_back, adam, share, meet,
        average;
  };
  // The CPU's half: the loss of each step, and the arguments of the kernels in the queue.
  struct Shared {
    static constexpr size_t kSlots = 256;
    std::array<float, kMaxSteps> losses;
    alignas(64) std::array<Arguments, kSlots> arguments;
  };

  Transformer(Buffer memory, Buffer staging, Buffer shared, Executable executable, Kernels kernels,
              AqlUserQueue queue, std::array<Signal, kAhead> ended, Member member);
  static amdgpu_criu::Result<Kernels> find_kernels(const Executable& executable);
  Shared& shared() const { return *reinterpret_cast<Shared*>(shared_.data()); }

  Buffer memory_, staging_, shared_;
  Executable executable_;
  Kernels kernels_;
  AqlUserQueue queue_;
  std::array<Signal, kAhead> ended_;  // of steps in turn
  float* exchange_ = nullptr;
  uint32_t member_ = 0;
  size_t launched_ = 0;
};

}  // namespace e2e
