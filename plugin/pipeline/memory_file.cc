// SPDX-License-Identifier: GPL-2.0
#include "pipeline/memory_file.h"

#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

#include "pipeline/io_queue.h"

namespace amdgpu_criu::pipeline {
namespace {

// Pages of the range that the page cache has; 0 if the kernel cannot report it.
uint64_t cached_pages(int fd, uint64_t offset, uint64_t length) {
  const struct {
    uint64_t offset, length;
  } range{offset, length};
  struct {
    uint64_t cached = 0, dirty = 0, writeback = 0, evicted = 0, recently_evicted = 0;
  } found;
  constexpr long kCachestat = 451;
  return syscall(kCachestat, fd, &range, &found, 0) == 0 ? found.cached : 0;
}

}  // namespace

bool is_memory(int fd) {
  struct statfs system{};
  if (fstatfs(fd, &system) != 0) return false;
  if (system.f_type == TMPFS_MAGIC || system.f_type == HUGETLBFS_MAGIC) return true;
  struct statx status{};
  return statx(fd, "", AT_EMPTY_PATH, 0, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_DAX) != 0;
}

// The kernel examines each page, and a file may have a hundred million of them.
bool is_cached(int fd, uint64_t bytes) {
  constexpr uint64_t kSamples = 64, kSample = 1u << 20;
  const uint64_t step = std::max(bytes / kSamples / kSample, uint64_t{1}) * kSample;
  uint64_t examined = 0, cached = 0;
  for (uint64_t at = 0; at < bytes; at += step) {
    const uint64_t length = std::min(kSample, bytes - at);
    examined += length;
    cached += cached_pages(fd, at, length) * sysconf(_SC_PAGESIZE);
  }
  return cached > examined / 2;
}

MemoryFile::MemoryFile(int fd, uint64_t bytes, unsigned threads) : fd_(fd) {
  rlimit limit{};
  if (threads < kFewestMappingThreads || getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
      limit.rlim_cur < bytes || ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return;
  if (auto mapping = Mapping::map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd); mapping.ok())
    mapping_ = std::move(*mapping);
}

// This call faults pages in as a thread would that writes them, but where that thread would get
// SIGBUS, because the file system is full or the file has become shorter, it ends early.
size_t MemoryFile::write_mapped(uint64_t offset, std::span<std::byte> bytes) const {
  if (offset > mapping_.size() || bytes.size() > mapping_.size() - offset) return 0;
  const iovec from{bytes.data(), bytes.size()}, to{mapping_.data() + offset, bytes.size()};
  return std::max<ssize_t>(process_vm_writev(getpid(), &from, 1, &to, 1, 0), 0);
}

Status MemoryFile::write(uint64_t offset, std::span<std::byte> bytes,
                         const std::string& name) const {
  const size_t done = write_mapped(offset, bytes);
  if (done == bytes.size()) return {};
  const auto rest = bytes.subspan(done);
  return transfer_now({fd_, true, offset + done, {{rest.data(), rest.size()}}, &name});
}

}  // namespace amdgpu_criu::pipeline
