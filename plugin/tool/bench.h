// SPDX-License-Identifier: GPL-2.0
// The measurements of `amdgpu-criu bench`. Each function makes one pass over `bytes` and returns
// the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "dump/save_contents.h"
#include "gpu/engine.h"
#include "tool/output.h"
#include "topology/topology.h"

namespace amdgpu_criu::tool {

// The same thing measured several times.
class Series {
 public:
  void add(double value) { values_.push_back(value); }
  // 0 without values. The median of an even number of values is the mean of the two in the middle.
  double median() const;
  double least() const;
  double most() const;

  // "1234 MiB/s (1200 to 1250)"
  std::string text(const char* unit) const;
  Json json() const;

 private:
  std::vector<double> values_;
};

using Seconds = double;

inline Seconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// bench_file.cc: several blocks at a time, past the page cache if possible.
class BenchFile {
 public:
  static Result<BenchFile> create(const std::string& directory, uint64_t bytes);
  bool direct() const { return direct_; }
  Result<Seconds> write();
  Result<Seconds> read();

 private:
  BenchFile(Fd file, Mapping buffers, uint64_t bytes, bool direct)
      : file_(std::move(file)), buffers_(std::move(buffers)), bytes_(bytes), direct_(direct) {}
  Result<Seconds> pass(bool write);

  Fd file_;
  Mapping buffers_;
  uint64_t bytes_;
  bool direct_;
};

// Words that cannot be compressed or omitted.
void fill_random(std::span<std::byte> bytes, uint64_t seed);

// bench_gpu.cc: VRAM of one GPU, full of random words.
class BenchGpu {
 public:
  static Result<BenchGpu> create(const Fd& render_node, const topology::Gpu& gpu, uint64_t bytes);
  // Only SDMA copies to and from staging memory.
  Result<Seconds> copy_out();
  Result<Seconds> copy_in();
  // Save and fill the contents of a BO in a directory, as a dump and a restore do.
  Result<Seconds> save(const std::string& directory);
  Result<Seconds> fill(const std::string& directory);

 private:
  BenchGpu(Fd render, topology::Gpu gpu, Fd memory, uint64_t bytes)
      : render_(std::move(render)),
        gpu_(std::move(gpu)),
        memory_(std::move(memory)),
        bytes_(bytes) {}
  Result<std::unique_ptr<gpu::Engine>> make_engine() const;
  gpu::ImportObject import_with(gpu::Engine& engine) const;
  Result<Seconds> pass(bool write);
  Status randomize();

  Fd render_;
  topology::Gpu gpu_;
  Fd memory_;  // a dma-buf
  uint64_t bytes_;
};

// One core.
Seconds checksum_pass(uint64_t bytes);

}  // namespace amdgpu_criu::tool
