// SPDX-License-Identifier: GPL-2.0
// Bits of an MQD that ordinary preemption keeps, that the driver does not set and that the model
// has no use for. Hardware may use any of them. So the model writes bits derived from the saved
// state to all of them, and compares them when the queue is mapped again. A driver that builds a
// new MQD may drop only those that are listed in mqd_kept.cc, each with a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gpu {

enum class MqdKind : uint8_t { kCompute9, kCompute11, kSdma9, kSdma11 };

class KeptBits {
 public:
  // at: the word with the nonce itself, 0 in an MQD that was never saved.
  KeptBits(MqdKind kind, unsigned at);

  // nonce: of the saved state, so that equal states are equal MQDs.
  void write(std::span<uint32_t> mqd, uint32_t nonce) const;
  // The first word that has lost such a bit; none if the MQD was never saved.
  std::optional<std::string> lost(std::span<const uint32_t> mqd) const;

 private:
  const MqdKind kind_;
  const unsigned at_;
};

// The nonce of a state.
uint32_t nonce_of(std::span<const uint32_t> state);

}  // namespace gpu
