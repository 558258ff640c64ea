// SPDX-License-Identifier: GPL-2.0
// The part that is compiled as HIP, without the headers of the other workloads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace e2e {

class Programs {
 public:
  // The persistent kernel runs afterwards. problem: what has failed, or empty.
  static std::unique_ptr<Programs> create(std::string& problem);
  virtual ~Programs() = default;
  // The problem, or empty.
  virtual std::string step(uint64_t number, uint64_t key) = 0;
  // Ends the persistent kernel.
  virtual std::string finish() = 0;
  // Whether steps use textures and surfaces.
  virtual bool has_images() const = 0;
};

}  // namespace e2e
