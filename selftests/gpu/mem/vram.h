// SPDX-License-Identifier: GPL-2.0
// Video memory: one shared file per GPU, so that the guest maps it and the GPUs of a guest reach
// one another's: by XGMI those of a hive, else through BAR 0.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace gpu {

class Vram {
 public:
  static constexpr unsigned kMaxNodes = 8;
  static constexpr uint64_t kMaxSize = 64ull << 30;
  // Distance of two nodes in the hive's address space; the GPUs may differ in size.
  static constexpr uint64_t kSegment = kMaxSize;

  struct Spec {
    uint64_t size;
    std::string shared_dir;  // empty: anonymous memory, no peers
    unsigned node = 0;
    unsigned nodes = 1;
    bool xgmi = true;
  };

  static amdgpu_criu::Result<std::unique_ptr<Vram>> create(const Spec& spec);

  uint64_t size() const { return spec_.size; }
  // In the hive, of which a GPU without XGMI is the only node.
  unsigned node() const { return spec_.xgmi ? spec_.node : 0; }
  unsigned nodes() const { return spec_.xgmi ? spec_.nodes : 1; }
  const amdgpu_criu::Fd& fd() const { return fd_; }
  std::span<std::byte> own() const { return own_.bytes().first(spec_.size); }

  // Nothing of the contents is left, as after a reset of the chip.
  void overwrite();

  // address is relative to the memory of node 0. The longest prefix inside of one GPU's memory;
  // empty outside of the hive, or if the peer does not run.
  std::span<std::byte> find(uint64_t address, size_t size);

  // For the peers: where BAR 0 is on the bus; 0: nowhere.
  void set_bar(uint64_t address);
  // address is one of the bus. The longest prefix inside of a peer's BAR 0.
  std::span<std::byte> find_in_bars(uint64_t address, size_t size);

 private:
  Vram(Spec spec, amdgpu_criu::Fd fd, amdgpu_criu::Mapping own)
      : spec_(std::move(spec)), fd_(std::move(fd)), own_(std::move(own)) {}
  // The memory of a peer, and the page behind it.
  std::span<std::byte> file_of(uint64_t node);

  Spec spec_;
  amdgpu_criu::Fd fd_;
  amdgpu_criu::Mapping own_;  // with the page
  std::mutex mutex_;          // peers_: filled at first use, never removed
  std::array<amdgpu_criu::Mapping, kMaxNodes> peers_;
};

}  // namespace gpu
