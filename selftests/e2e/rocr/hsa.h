// SPDX-License-Identifier: GPL-2.0
// The HSA runtime behind Result and RAII. Only hsa.cc calls it.
#pragma once

#include <hsa/hsa.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"

namespace e2e {

// hsa_init ... hsa_shut_down, one GPU, the first CPU.
class Runtime {
 public:
  // ENODEV: there is no GPU.
  static base::Result<std::unique_ptr<Runtime>> create();
  Runtime(const Runtime&) = delete;
  ~Runtime();

  hsa_agent_t gpu() const { return gpu_; }
  hsa_agent_t cpu() const { return cpu_; }

 private:
  friend class Buffer;
  Runtime() = default;
  hsa_agent_t gpu_ = {};
  hsa_agent_t cpu_ = {};
  uint64_t device_pool_ = 0;
  uint64_t host_pool_ = 0;
};

class Buffer {
 public:
  enum class Place { kDevice, kHost };
  static base::Result<Buffer> create(const Runtime& runtime, Place place, size_t size);
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_), agent_(other.agent_) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  hsa_agent_t agent() const { return agent_; }

 private:
  Buffer(std::byte* data, size_t size, hsa_agent_t agent)
      : data_(data), size_(size), agent_(agent) {}
  std::byte* data_;
  size_t size_;
  hsa_agent_t agent_;
};

// An interrupt signal: waiting on it is waiting for a KFD event.
class Signal {
 public:
  static base::Result<Signal> create(int64_t value);
  Signal(Signal&& other) noexcept : signal_(std::exchange(other.signal_, hsa_signal_t{0})) {}
  Signal& operator=(Signal&&) = delete;
  ~Signal();

  hsa_signal_t get() const { return signal_; }
  void store(int64_t value) const;
  int64_t load() const;
  // False: the value has not come in time.
  bool wait_for(int64_t value, unsigned timeout_ms) const;
  // Calls once, from the runtime's own thread, when the value is 0.
  base::Status when_zero(void (*call)(void*), void* argument) const;

 private:
  explicit Signal(hsa_signal_t signal) : signal_(signal) {}
  hsa_signal_t signal_;
};

// A piece of a buffer: offset and size are those of the caller to keep in range.
base::Status async_copy(const Buffer& to, size_t to_offset, const Buffer& from, size_t from_offset,
                        size_t size, const Signal* after, const Signal& completion);

class AqlUserQueue {
 public:
  static base::Result<AqlUserQueue> create(const Runtime& runtime);
  AqlUserQueue(AqlUserQueue&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
  AqlUserQueue& operator=(AqlUserQueue&&) = delete;
  ~AqlUserQueue();
  base::Status barrier(const Signal& after, const Signal& completion) const;

 private:
  explicit AqlUserQueue(hsa_queue_t* queue) : queue_(queue) {}
  hsa_queue_t* queue_;
};

}  // namespace e2e
