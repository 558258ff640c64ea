// SPDX-License-Identifier: GPL-2.0
#include "mem/vram.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "base/result.h"

namespace gpu {
namespace {

std::string path_of(const std::string& dir, unsigned node) {
  return amdgpu_criu::formatted("{}/vram.{}", dir, node);
}

// Peers may have mapped the file already, so it never gets shorter.
amdgpu_criu::Result<amdgpu_criu::Fd> open_shared(const Vram::Spec& spec) {
  const std::string path = path_of(spec.hive_dir, spec.node);
  amdgpu_criu::Fd fd = TRY(amdgpu_criu::Fd::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return amdgpu_criu::Error::system("cannot stat {}", path);
  if (info.st_size != 0 && static_cast<uint64_t>(info.st_size) != spec.size)
    return amdgpu_criu::Error::of(EEXIST, "{} belongs to a GPU with {} MiB of VRAM; remove it",
                                  path, info.st_size >> 20);
  if (info.st_size != 0 && fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                     static_cast<off_t>(spec.size)) != 0)
    return amdgpu_criu::Error::system("cannot clear {}", path);
  if (ftruncate(fd.get(), static_cast<off_t>(spec.size)) != 0)
    return amdgpu_criu::Error::system("cannot size {} to {} MiB", path, spec.size >> 20);
  return fd;
}

amdgpu_criu::Result<amdgpu_criu::Fd> open_anonymous(uint64_t size) {
  amdgpu_criu::Fd fd(memfd_create("softgpu-vram", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return amdgpu_criu::Error::system("cannot create VRAM");
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return amdgpu_criu::Error::system("cannot size VRAM to {} MiB", size >> 20);
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return amdgpu_criu::Error::system("cannot seal VRAM");
  return fd;
}

}  // namespace

amdgpu_criu::Result<std::unique_ptr<Vram>> Vram::create(const Spec& spec) {
  if (spec.nodes == 0 || spec.nodes > kMaxNodes || spec.node >= spec.nodes)
    return amdgpu_criu::Error::of(EINVAL, "node {} of {}: at most {} GPUs, counted from 0",
                                  spec.node, spec.nodes, kMaxNodes);
  if (spec.size == 0 || spec.size > kMaxSize)
    return amdgpu_criu::Error::of(EINVAL, "VRAM of {} bytes", spec.size);
  if (spec.nodes > 1 && spec.hive_dir.empty())
    return amdgpu_criu::Error::of(EINVAL, "GPUs of a hive need a common directory");
  amdgpu_criu::Fd fd = TRY(spec.hive_dir.empty() ? open_anonymous(spec.size) : open_shared(spec));
  amdgpu_criu::Mapping own = TRY(amdgpu_criu::Mapping::map(spec.size, PROT_READ | PROT_WRITE,
                                                           MAP_SHARED | MAP_NORESERVE, fd.get()));
  return std::unique_ptr<Vram>(new Vram(spec, std::move(fd), std::move(own)));
}

std::span<std::byte> Vram::peer(unsigned node) {
  if (node == spec_.node) return own_.bytes();
  const std::lock_guard lock(mutex_);
  amdgpu_criu::Mapping& mapping = peers_[node];
  if (mapping.data()) return mapping.bytes();
  auto fd = amdgpu_criu::Fd::open(path_of(spec_.hive_dir, node).c_str(), O_RDWR);
  struct stat info;
  if (!fd.ok() || fstat(fd->get(), &info) != 0) return {};
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size == 0 || size > kMaxSize) return {};
  auto mapped = amdgpu_criu::Mapping::map(size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                                          fd->get());
  if (!mapped.ok()) return {};
  mapping = std::move(*mapped);
  return mapping.bytes();
}

std::span<std::byte> Vram::find(uint64_t address, size_t size) {
  const uint64_t node = address / kSegment;
  if (node >= spec_.nodes) return {};
  const auto memory = peer(static_cast<unsigned>(node));
  const uint64_t offset = address % kSegment;
  if (offset >= memory.size()) return {};
  return memory.subspan(offset, std::min<uint64_t>(size, memory.size() - offset));
}

}  // namespace gpu
