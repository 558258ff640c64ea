// SPDX-License-Identifier: GPL-2.0
#include "tool/images.h"

#include "options/options.h"

namespace amdgpu_criu::tool {

Result<Images> Images::open(const std::string& path) {
  Images images;
  images.fd_ = TRY(Fd::open(path.c_str(), O_RDONLY | O_DIRECTORY));
  images.key_ = TRY(options::parse({})).key;
  return images;
}

// An encrypted image that was changed, and a wrong key, look the same.
bool is_damage(const Error& error) {
  return error.code() == EBADMSG || error.code() == EKEYREJECTED;
}

}  // namespace amdgpu_criu::tool
