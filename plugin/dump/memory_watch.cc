// SPDX-License-Identifier: GPL-2.0
#include "dump/memory_watch.h"

namespace amdgpu_criu::dump {

Status MemoryWatch::watch(const topology::Gpu& gpu) {
  if (!count_ || watched_.contains(gpu.render_minor)) return {};
  Fd file = TRY(host_.open_render(gpu.render_minor));
  const uint32_t losses = TRY(count_(file));
  watched_.emplace(gpu.render_minor, Watched{gpu, std::move(file), losses});
  return {};
}

Status MemoryWatch::check() const {
  for (const auto& [minor, one] : watched_)
    if (TRY(count_(one.file)) != one.losses)
      return Error::of(ENODATA, "{} was reset during the dump, and its memory was lost",
                       one.gpu.describe());
  return {};
}

}  // namespace amdgpu_criu::dump
