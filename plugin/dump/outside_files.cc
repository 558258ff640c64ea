// SPDX-License-Identifier: GPL-2.0
#include "dump/outside_files.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>

#include <algorithm>

namespace amdgpu_criu::dump {

Result<OutsideFiles> OutsideFiles::find(const host::Host& host, const std::set<pid_t>& tree) {
  OutsideFiles result;
  host::FilesOfOthers files = TRY(host::files_of_others(host, tree));
  for (const host::DmabufFile& file : files.dmabufs) {
    result.dmabufs_.try_emplace(file.inode, file);
    result.sizes_.insert(file.size);
  }
  result.renders_ = std::move(files.renders);
  return result;
}

const host::DmabufFile* OutsideFiles::same_dmabuf(int dmabuf) const {
  struct stat status;
  if (dmabufs_.empty() || fstat(dmabuf, &status) != 0) return nullptr;
  const auto found = dmabufs_.find(status.st_ino);
  return found == dmabufs_.end() ? nullptr : &found->second;
}

// A descriptor that was closed since is none.
const host::RenderFile* OutsideFiles::same_render(int render, unsigned minor) const {
  const pid_t self = getpid();
  const auto found = std::ranges::find_if(renders_, [&](const host::RenderFile& file) {
    return file.minor == minor &&
           syscall(SYS_kcmp, file.thread, self, KCMP_FILE, file.number, render) == 0;
  });
  return found == renders_.end() ? nullptr : &*found;
}

// DMABUF returns the dma-buf that a process has exported. Of a BO that was never exported it makes
// one, so it is only called for BOs of a size that occurs.
Result<std::optional<OutsideFiles::Shared>> OutsideFiles::find_bo(
    kernel::Api& api, kernel::Node node, int session, std::span<const kernel::Bo> bos) const {
  for (const kernel::Bo& bo : bos) {
    const bool has_dmabuf = bo.flags & (AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_IMPORTED);
    if (!has_dmabuf || !sizes_.contains(bo.size)) continue;
    const Fd dmabuf = TRY(api.dmabuf(node, session, bo.object_id));
    if (const host::DmabufFile* file = same_dmabuf(dmabuf.get()))
      return std::optional(Shared{bo, file->pid});
  }
  return std::optional<Shared>();
}

}  // namespace amdgpu_criu::dump
