// SPDX-License-Identifier: GPL-2.0
#pragma once

#include <string>

#include "base/fd.h"
#include "image/container.h"

namespace amdgpu_criu::tool {

// An open directory of images, with the key that the plugin would use.
class Images {
 public:
  static Result<Images> open(const std::string& path);

  int fd() const { return fd_.get(); }
  image::Directory directory() const { return {fd_.get(), key_}; }

 private:
  Fd fd_;
  Key key_;
};

// Whether images were read and are not as they were written. Other errors say nothing about them:
// a file cannot be opened or read, its key or a newer version of this command is needed.
bool is_damage(const Error& error);

}  // namespace amdgpu_criu::tool
