// SPDX-License-Identifier: GPL-2.0
// The HSA runtime with Result and RAII. Only hsa.cc calls it.
#pragma once

#include <hsa/hsa.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace e2e {

// hsa_init ... hsa_shut_down, the first GPUs, the first CPU.
class Runtime {
 public:
  // ENODEV: there are not as many GPUs.
  static amdgpu_criu::Result<std::unique_ptr<Runtime>> create(unsigned gpus = 1);
  Runtime(const Runtime&) = delete;
  ~Runtime();

  hsa_agent_t gpu(unsigned number = 0) const { return gpus_[number]; }
  hsa_agent_t cpu() const { return cpu_; }
  amdgpu_criu::Result<uint32_t> compute_units(unsigned gpu = 0) const;
  amdgpu_criu::Result<std::string> isa(unsigned gpu = 0) const;  // as "gfx90a"

 private:
  friend class Buffer;
  Runtime() = default;
  std::vector<hsa_agent_t> gpus_;
  hsa_agent_t cpu_ = {};
  uint64_t host_pool_ = 0;
};

class Buffer {
 public:
  // All GPUs access what is shared or on the host, and see each other's writes while kernels run.
  enum class Place { kDevice, kSharedDevice, kHost };
  static amdgpu_criu::Result<Buffer> create(const Runtime& runtime, Place place, size_t size,
                                            unsigned gpu = 0);
  // Imports what another process has exported, on the GPU of the memory.
  static amdgpu_criu::Result<Buffer> import(const Runtime& runtime, const amdgpu_criu::Fd& dmabuf,
                                            unsigned gpu = 0);
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(other.size_),
        agent_(other.agent_),
        imported_(other.imported_) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();

  amdgpu_criu::Result<amdgpu_criu::Fd> export_dmabuf() const;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  hsa_agent_t agent() const { return agent_; }

 private:
  Buffer(std::byte* data, size_t size, hsa_agent_t agent, bool imported)
      : data_(data), size_(size), agent_(agent), imported_(imported) {}
  std::byte* data_;
  size_t size_;
  hsa_agent_t agent_;
  bool imported_;
};

// Ordinary memory, in whole pages, does not migrate to VRAM when a GPU misses it. With migration,
// its size there would depend on who accessed it last. And if the GPU misses a page while the CPU
// fetches it, the kernel of 7.3 uses it in VRAM again before the CPU has unlocked it.
amdgpu_criu::Status keep_on_host(const Runtime& runtime, std::span<std::byte> memory);

// An interrupt signal: waiting on it waits for a KFD event.
class Signal {
 public:
  static amdgpu_criu::Result<Signal> create(int64_t value);
  Signal(Signal&& other) noexcept : signal_(std::exchange(other.signal_, hsa_signal_t{0})) {}
  Signal& operator=(Signal&&) = delete;
  ~Signal();

  hsa_signal_t get() const { return signal_; }
  void store(int64_t value) const;
  int64_t load() const;
  // False if the signal does not get the value in time.
  bool wait_for(int64_t value, unsigned timeout_ms) const;
  // Calls once, from the runtime's own thread, when the value is 0.
  amdgpu_criu::Status when_zero(void (*call)(void*), void* argument) const;

 private:
  explicit Signal(hsa_signal_t signal) : signal_(signal) {}
  hsa_signal_t signal_;
};

// A part of a buffer. The caller keeps offset and size in range.
amdgpu_criu::Status async_copy(const Buffer& to, size_t to_offset, const Buffer& from,
                               size_t from_offset, size_t size, const Signal* after,
                               const Signal& completion);

// A kernel of a loaded code object, as a dispatch names it.
struct Kernel {
  uint64_t object = 0;
  uint32_t group_size = 0, private_size = 0, kernarg_size = 0;
};

// By the name of the GPU, such as gfx90a.
using CodeObjects = std::map<std::string, std::span<const char>>;

// A code object that the runtime's loader has put on the GPU.
class Executable {
 public:
  // ENOEXEC: there is none for this GPU.
  static amdgpu_criu::Result<Executable> load(const Runtime& runtime, const CodeObjects& objects,
                                              unsigned gpu = 0);
  Executable(Executable&& other) noexcept
      : executable_(std::exchange(other.executable_, hsa_executable_t{0})),
        reader_(std::exchange(other.reader_, hsa_code_object_reader_t{0})),
        agent_(other.agent_) {}
  Executable& operator=(Executable&&) = delete;
  ~Executable();

  amdgpu_criu::Result<Kernel> kernel(const std::string& name) const;

 private:
  explicit Executable(hsa_agent_t agent) : agent_(agent) {}
  hsa_executable_t executable_ = {};
  hsa_code_object_reader_t reader_ = {};
  hsa_agent_t agent_;
};

// Calls, from the runtime's own thread, when a GPU has accessed a page that does not exist.
amdgpu_criu::Status when_memory_faults(void (*call)(uint64_t address, void* argument),
                                       void* argument);

struct QueueSetup {
  bool cooperative = false;  // with GWS
  // From the runtime's own thread, when the queue has stopped.
  void (*on_error)(hsa_status_t status, void* argument) = nullptr;
  void* argument = nullptr;
};

class AqlUserQueue {
 public:
  static amdgpu_criu::Result<AqlUserQueue> create(const Runtime& runtime, unsigned gpu = 0);
  static amdgpu_criu::Result<AqlUserQueue> create_with(const Runtime& runtime,
                                                       const QueueSetup& setup);
  AqlUserQueue(AqlUserQueue&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
  AqlUserQueue& operator=(AqlUserQueue&&) = delete;
  ~AqlUserQueue();
  // The first 32 compute units: those on which kernels may run.
  amdgpu_criu::Status enable_units(uint32_t mask) const;
  amdgpu_criu::Status barrier(const Signal& after, const Signal& completion) const;
  // Starts when everything before it in the queue has ended. grid and group: work-items.
  struct Shape {
    uint32_t grid[2] = {1, 1};
    uint16_t group[2] = {1, 1};
  };
  amdgpu_criu::Status dispatch(const Kernel& kernel, const Shape& shape, void* arguments,
                               const Signal* completion) const;

 private:
  explicit AqlUserQueue(hsa_queue_t* queue) : queue_(queue) {}
  template <typename Packet>
  amdgpu_criu::Status submit(Packet packet, uint16_t type) const;
  hsa_queue_t* queue_;
};

}  // namespace e2e
