// SPDX-License-Identifier: GPL-2.0
// The memory of a dumped process: contents of its GPU buffers, and CRIU's pages.
#pragma once

#include "image/set.h"
#include "waves/pages.h"

namespace amdgpu_criu {

class ImageMemory {
 public:
  // All three outlive the object.
  ImageMemory(int directory, const image::Set& set, const image::Process& process,
              const Pages& pages)
      : directory_(directory), set_(set), process_(process), pages_(pages) {}
  // A buffer counts at the GPU's address of it, which is also the runtime's.
  Status read(uint64_t address, std::span<std::byte> to) const;

 private:
  Status read_object(uint64_t object_id, uint64_t from, std::span<std::byte> to) const;

  int directory_;
  const image::Set& set_;
  const image::Process& process_;
  const Pages& pages_;
};

}  // namespace amdgpu_criu
