// SPDX-License-Identifier: GPL-2.0
#include "mem/vram.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/result.h"

namespace gpu {
namespace {

// Behind the memory, a file has a page whose first word is the address of BAR 0.
constexpr uint64_t kBarPage = 4096;

std::span<std::byte> memory_in(std::span<std::byte> file) {
  return file.empty() ? file : file.first(file.size() - kBarPage);
}

std::atomic_ref<uint64_t> bar_in(std::span<std::byte> file) {
  return std::atomic_ref(*reinterpret_cast<uint64_t*>(file.last(kBarPage).data()));
}

// The longest prefix inside of the memory.
std::span<std::byte> part_of(std::span<std::byte> memory, uint64_t offset, size_t size) {
  if (offset >= memory.size()) return {};
  return memory.subspan(offset, std::min<uint64_t>(size, memory.size() - offset));
}

std::string path_of(const std::string& dir, unsigned node) {
  return amdgpu_criu::formatted("{}/vram.{}", dir, node);
}

// Peers may have mapped the file already, so it never gets shorter.
amdgpu_criu::Result<amdgpu_criu::Fd> open_shared(const Vram::Spec& spec) {
  const std::string path = path_of(spec.shared_dir, spec.node);
  const uint64_t size = spec.size + kBarPage;
  amdgpu_criu::Fd fd = TRY(amdgpu_criu::Fd::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return amdgpu_criu::Error::system("cannot stat {}", path);
  if (info.st_size != 0 && static_cast<uint64_t>(info.st_size) != size)
    return amdgpu_criu::Error::of(EEXIST, "{} belongs to a GPU with {} MiB of VRAM; remove it",
                                  path, info.st_size >> 20);
  if (info.st_size != 0 && fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                     static_cast<off_t>(size)) != 0)
    return amdgpu_criu::Error::system("cannot clear {}", path);
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
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
  if (spec.nodes > 1 && spec.shared_dir.empty())
    return amdgpu_criu::Error::of(EINVAL, "several GPUs need a common directory");
  const uint64_t size = spec.size + kBarPage;
  amdgpu_criu::Fd fd = TRY(spec.shared_dir.empty() ? open_anonymous(size) : open_shared(spec));
  amdgpu_criu::Mapping own = TRY(amdgpu_criu::Mapping::map(size, PROT_READ | PROT_WRITE,
                                                           MAP_SHARED | MAP_NORESERVE, fd.get()));
  return std::unique_ptr<Vram>(new Vram(spec, std::move(fd), std::move(own)));
}

// Only what was written, so that the rest needs no memory.
void Vram::overwrite() {
  constexpr uint64_t kPattern = 0x5a17dead5a17dead;
  const auto seek = [&](off_t from, int what) { return lseek(fd_.get(), from, what); };
  const auto end = static_cast<off_t>(spec_.size);
  for (off_t from = seek(0, SEEK_DATA); from >= 0 && from < end; from = seek(from, SEEK_DATA)) {
    const off_t to = std::min(seek(from, SEEK_HOLE), end);
    auto* words = reinterpret_cast<uint64_t*>(own_.bytes().data() + from);
    std::fill_n(words, (to - from) / static_cast<off_t>(sizeof(uint64_t)), kPattern);
    from = to;
  }
}

std::span<std::byte> Vram::file_of(uint64_t node) {
  const std::lock_guard lock(mutex_);
  amdgpu_criu::Mapping& mapping = peers_[node];
  if (mapping.data()) return mapping.bytes();
  const std::string path = path_of(spec_.shared_dir, static_cast<unsigned>(node));
  auto fd = amdgpu_criu::Fd::open(path.c_str(), O_RDWR);
  struct stat info;
  if (!fd.ok() || fstat(fd->get(), &info) != 0) return {};
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size <= kBarPage || size > kMaxSize + kBarPage) return {};
  auto mapped = amdgpu_criu::Mapping::map(size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                                          fd->get());
  if (!mapped.ok()) return {};
  mapping = std::move(*mapped);
  return mapping.bytes();
}

std::span<std::byte> Vram::find(uint64_t address, size_t size) {
  const uint64_t target = address / kSegment;
  if (target >= nodes()) return {};
  return part_of(target == node() ? own() : memory_in(file_of(target)), address % kSegment, size);
}

void Vram::set_bar(uint64_t address) {
  bar_in(own_.bytes()).store(address, std::memory_order_release);
}

std::span<std::byte> Vram::find_in_bars(uint64_t address, size_t size) {
  for (unsigned node = 0; node < spec_.nodes; ++node) {
    const auto file = node == spec_.node ? std::span<std::byte>() : file_of(node);
    if (file.empty()) continue;
    const uint64_t bar = bar_in(file).load(std::memory_order_acquire);
    const auto found = part_of(memory_in(file), address - bar, size);
    if (bar && !found.empty()) return found;
  }
  return {};
}

}  // namespace gpu
