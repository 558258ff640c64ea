// SPDX-License-Identifier: GPL-2.0
#include "gpu/chunk_hasher.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "gpu/context.h"
#include "gpu/mapped_bo.h"
#include "image/checksum.h"

namespace amdgpu_criu::gpu {
namespace {

static_assert(sizeof(ChunkHash) == sizeof(image::Hash));

// Limits of a submission. It begins small and grows while it is fast: the driver resets a GPU whose
// job takes too long, and a software GPU is ten thousand times as slow.
constexpr uint32_t kMaxParts = 512;
constexpr uint32_t kFirstChunks = 32;
constexpr uint32_t kMaxChunks = 4096;  // after 1 GiB, copies can begin
constexpr std::chrono::milliseconds kFast{50};

// Places in the BO of the hasher, in bytes.
constexpr uint64_t kCode = 0;
constexpr uint64_t kCodeBytes = 64u << 10;
constexpr uint64_t kArguments = kCode + kCodeBytes;
constexpr uint64_t kCommands = kArguments + round_up(kMaxParts * sizeof(HashArguments), kGpuPage);
constexpr uint64_t kCommandBytes = 64u << 10;
constexpr uint64_t kHashes = kCommands + kCommandBytes;
constexpr uint64_t kBytes = kHashes + kMaxChunks * sizeof(ChunkHash);

constexpr uint32_t kKib = 1024;
// Of kernels/blake3.cl.
constexpr uint32_t kMaxChunkBytes = 64u << 20;
// The command processor fetches in units of eight dwords.
constexpr uint32_t kAlignDwords = 8;
constexpr uint32_t kNop = 0xffff1000;  // type 3, one dword

}  // namespace

ChunkHasher::~ChunkHasher() = default;

Result<std::unique_ptr<ChunkHasher>> ChunkHasher::create(amdgpu_device* device) {
  drm_amdgpu_info_hw_ip info{};
  TRY(checked(amdgpu_query_hw_ip_info(device, AMDGPU_HW_IP_COMPUTE, 0, &info),
              "cannot query compute rings"));
  if (info.available_rings == 0) return Error(ENOTSUP, "the GPU has no compute ring");
  std::unique_ptr<ChunkHasher> hasher(
      new ChunkHasher(TRY(HashKernel::find(info.ip_discovery_version))));
  TRY(hasher->prepare(device));
  TRY(hasher->test_itself(device));
  return hasher;
}

Status ChunkHasher::prepare(amdgpu_device* device) {
  context_ = TRY(Context::create(device));
  memory_ = TRY(MappedBo::allocate(device, kBytes));
  bytes_ = TRY(memory_->map_for_cpu());
  limit_ = kFirstChunks;
  if (kernel_.image().size() > kCodeBytes) return Error(E2BIG, "the compute kernel is too large");
  std::ranges::copy(kernel_.image(), at(kCode));
  return {};
}

// With whole chunks, and an odd number of leaves in the last one.
Status ChunkHasher::test_itself(amdgpu_device* device) {
  constexpr uint32_t kChunk = 260 * kKib;
  constexpr uint64_t kSize = kChunk + 12 * kKib;
  const auto bo = TRY(MappedBo::allocate(device, kSize));
  const auto bytes = TRY(bo->map_for_cpu()).first(kSize);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<std::byte>(i * 7 + i / 1021);
  const Hashed all{bo.get(), kSize};
  std::span<const std::byte> left = bytes;
  bool right = true;
  TRY(hash({&all, 1}, kChunk, [&](std::span<const ChunkHash> some) {
    for (const ChunkHash& one : some) {
      const auto chunk = left.first(std::min<size_t>(kChunk, left.size()));
      right &= one == image::strong_hash(chunk);
      left = left.subspan(chunk.size());
    }
    return right;
  }));
  if (!right || !left.empty()) return Error(EIO, "the compute kernel returns wrong hashes");
  return {};
}

Status ChunkHasher::hash(std::span<const Hashed> bos, uint32_t chunk_bytes,
                         const TakeHashes& take) {
  if (chunk_bytes == 0 || chunk_bytes % kKib != 0 || chunk_bytes > kMaxChunkBytes)
    return Error::of(ENOTSUP, "chunks of {} bytes", chunk_bytes);
  std::vector<Part> parts;
  uint32_t chunks = 0;
  for (const Hashed& one : bos) {
    const auto* const bo = static_cast<MappedBo*>(one.bo);
    if (one.size == 0 || one.size % kKib != 0 || one.size > bo->size())
      return Error::of(ENOTSUP, "a BO of {:#x} bytes", one.size);
    for (uint64_t offset = 0; offset < one.size;) {
      const auto left = chunks_of(one.size - offset, chunk_bytes);
      const auto taken = static_cast<uint32_t>(std::min<uint64_t>(left, limit_ - chunks));
      const uint64_t size = std::min<uint64_t>(one.size - offset, uint64_t{taken} * chunk_bytes);
      parts.push_back({bo, offset, size, taken});
      offset += size;
      chunks += taken;
      if (chunks < limit_ && parts.size() < kMaxParts) continue;
      if (!take(TRY(run(parts, chunk_bytes)))) return {};
      parts.clear();
      chunks = 0;
    }
  }
  if (!parts.empty()) (void)take(TRY(run(parts, chunk_bytes)));
  return {};
}

// Returns the number of dwords.
Result<uint32_t> ChunkHasher::write_commands(std::span<const Part> parts, uint32_t chunk_bytes) {
  std::vector<uint32_t> pm4;
  kernel_.setup(memory_->address() + kCode, pm4);
  uint64_t results = memory_->address() + kHashes;
  for (size_t i = 0; i < parts.size(); i++) {
    const Part& part = parts[i];
    const HashArguments arguments{part.bo->address() + part.offset, results,
                                  static_cast<uint32_t>(part.size / kKib), chunk_bytes / kKib};
    const uint64_t place = kArguments + i * sizeof(arguments);
    memcpy(at(place), &arguments, sizeof(arguments));
    kernel_.dispatch(part.chunks, memory_->address() + place, pm4);
    results += part.chunks * sizeof(ChunkHash);
  }
  pm4.resize(round_up(pm4.size(), kAlignDwords), kNop);
  const size_t bytes = pm4.size() * sizeof(pm4[0]);
  if (bytes > kCommandBytes) return Error(E2BIG, "too many dispatches");
  memcpy(at(kCommands), pm4.data(), bytes);
  return static_cast<uint32_t>(pm4.size());
}

Result<std::span<const ChunkHash>> ChunkHasher::run(std::span<const Part> parts,
                                                    uint32_t chunk_bytes) {
  const uint32_t dwords = TRY(write_commands(parts, chunk_bytes));
  // The memory may have changed since the caches of the GPU have read it.
  const CommandBuffer commands{AMDGPU_HW_IP_COMPUTE, memory_->address() + kCommands, dwords,
                               AMDGPU_IB_FLAG_EMIT_MEM_SYNC, "the computation of hashes"};
  std::vector<uint32_t> bos = {memory_->handle()};
  uint32_t chunks = 0;
  for (const Part& part : parts) {
    bos.push_back(part.bo->handle());
    chunks += part.chunks;
  }
  const auto start = std::chrono::steady_clock::now();
  const uint64_t fence = TRY(context_->submit(commands, std::move(bos)));
  TRY(context_->wait(commands, fence));
  if (std::chrono::steady_clock::now() - start < kFast && chunks == limit_)
    limit_ = std::min(2 * limit_, kMaxChunks);
  hashes_.resize(chunks);
  memcpy(hashes_.data(), at(kHashes), chunks * sizeof(ChunkHash));
  return std::span<const ChunkHash>(hashes_);
}

}  // namespace amdgpu_criu::gpu
