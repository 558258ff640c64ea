// SPDX-License-Identifier: GPL-2.0
#pragma once

#include <hip/hip_runtime.h>

#include <memory>
#include <string>
#include <vector>

namespace e2e {

// A picture that is written once, and a canvas on which each step paints what it samples from the
// picture.
class Textures {
 public:
  // Null without a problem: the GPU has no images.
  static std::unique_ptr<Textures> create(std::string& problem);
  Textures() = default;
  Textures(const Textures&) = delete;
  Textures& operator=(const Textures&) = delete;
  ~Textures();
  // The problem, or empty.
  std::string step(uint32_t number, hipStream_t stream);

 private:
  std::string start();

  hipArray_t picture_ = nullptr, canvas_ = nullptr;
  hipTextureObject_t texture_ = nullptr;
  hipSurfaceObject_t surface_ = nullptr;
  std::vector<uint32_t> wanted_;  // what the canvas contains
};

}  // namespace e2e
