// SPDX-License-Identifier: GPL-2.0
#include "dump/outside_dmabufs.h"

namespace amdgpu_criu::dump {

Result<OutsideDmabufs> OutsideDmabufs::find(const host::Host& host, const std::set<pid_t>& tree) {
  OutsideDmabufs result;
  for (const host::DmabufFile& file : TRY(host::dmabufs_of_others(host, tree))) {
    result.files_.try_emplace(file.inode, file);
    result.sizes_.insert(file.size);
  }
  return result;
}

const host::DmabufFile* OutsideDmabufs::same_as(int dmabuf) const {
  struct stat status;
  if (files_.empty() || fstat(dmabuf, &status) != 0) return nullptr;
  const auto found = files_.find(status.st_ino);
  return found == files_.end() ? nullptr : &found->second;
}

// DMABUF returns the dma-buf that a process has exported. Of a BO that was never exported it makes
// one, so it is only called for BOs of a size that occurs.
Result<std::optional<OutsideDmabufs::Shared>> OutsideDmabufs::find_bo(
    kernel::Api& api, kernel::Node node, int session, std::span<const kernel::Bo> bos) const {
  for (const kernel::Bo& bo : bos) {
    const bool has_dmabuf = bo.flags & (AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_IMPORTED);
    if (!has_dmabuf || !sizes_.contains(bo.size)) continue;
    const Fd dmabuf = TRY(api.dmabuf(node, session, bo.object_id));
    if (const host::DmabufFile* file = same_as(dmabuf.get()))
      return std::optional(Shared{bo, file->pid});
  }
  return std::optional<Shared>();
}

}  // namespace amdgpu_criu::dump
