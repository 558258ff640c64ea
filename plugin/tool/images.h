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

}  // namespace amdgpu_criu::tool
