// SPDX-License-Identifier: GPL-2.0
// For tests: memory, registers and interrupts in host arrays, and a driver that maps queues.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engines/engines.h"

namespace gpu::test {

// VMID 0 and every page table base have a flat memory of their own, from address 0 on. Windows end
// at page boundaries, as if no two pages were contiguous. Pages may have holes that fault.
class FakeMemory final : public Memory {
 public:
  static constexpr uint64_t kSize = 16 << 20;
  static constexpr uint64_t kPage = 4096;
  // From here on a space has the same memory again.
  static constexpr uint64_t kHigh = 0xffff800000000000;

  FakeMemory() { spaces_[0].resize(kSize); }

  Hold hold() override { return {}; }
  amdgpu_criu::Status read(Space space, uint64_t address, std::span<std::byte> out) override;
  amdgpu_criu::Status write(Space space, uint64_t address,
                            std::span<const std::byte> data) override;
  amdgpu_criu::Result<std::span<std::byte>> window(Space space, uint64_t address, size_t size,
                                                   bool for_write) override;
  void bind_vmid(Space space, uint32_t pasid, uint64_t page_table_base, bool retries) override;
  void invalidate_pasid(Space hub, uint32_t pasid) override;
  // Hubs that have dropped the translations of a process.
  std::vector<Space> invalidated(uint32_t pasid);
  uint32_t pasid_of(unsigned vmid) const { return pasids_[vmid]; }

  // A process: memory behind a page table base. Base 0 is VMID 0.
  std::vector<std::byte>& space(uint64_t page_table_base);
  template <typename T>
  T get(uint64_t base, uint64_t address) {
    T value;
    std::memcpy(&value, space(base).data() + address, sizeof(value));
    std::atomic_thread_fence(std::memory_order_acquire);
    return value;
  }
  template <typename T>
  void put(uint64_t base, uint64_t address, T value) {
    std::atomic_thread_fence(std::memory_order_release);
    std::memcpy(space(base).data() + address, &value, sizeof(value));
  }
  void put_words(uint64_t base, uint64_t address, const std::vector<uint32_t>& words) {
    std::memcpy(space(base).data() + address, words.data(), words.size() * 4);
  }
  void punch_hole(uint64_t base, uint64_t page) { holes_.insert({base, page}); }
  // Accesses to the page fail with EAGAIN until it is mapped.
  void unmap(uint64_t base, uint64_t page) {
    const std::lock_guard lock(mutex_);
    unmapped_.insert({base, page});
  }
  void map(uint64_t base, uint64_t page) {
    const std::lock_guard lock(mutex_);
    unmapped_.erase({base, page});
  }
  unsigned retries() const { return retries_; }
  uint64_t last_missed() const { return last_missed_; }
  unsigned faults() const { return faults_; }
  uint64_t base_of(unsigned vmid) const { return bases_[vmid]; }
  // How often a VMID was given to a process, which invalidates its translations.
  unsigned binds() const { return binds_; }

 private:
  bool is_unmapped(uint64_t base, uint64_t page);

  std::mutex mutex_;  // spaces_, invalidated_, unmapped_
  std::map<uint64_t, std::vector<std::byte>> spaces_;
  std::map<uint32_t, std::vector<Space>> invalidated_;
  std::set<std::pair<uint64_t, uint64_t>> holes_;
  std::set<std::pair<uint64_t, uint64_t>> unmapped_;
  std::array<std::atomic<uint64_t>, 16> bases_ = {};
  std::array<std::atomic<uint32_t>, 16> pasids_ = {};
  std::atomic<unsigned> faults_ = 0;
  std::atomic<unsigned> binds_ = 0;
  std::atomic<unsigned> retries_ = 0;
  std::atomic<uint64_t> last_missed_ = 0;
};

class FakeRegisters final : public Registers {
 public:
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;
  amdgpu_criu::Status claim(RegisterBlock& block, uint32_t first, uint32_t last) override;

 private:
  std::mutex mutex_;
  std::map<uint32_t, uint32_t> plain_;
  std::map<uint32_t, RegisterBlock*> claims_;
};

class FakeInterrupts final : public InterruptSink {
 public:
  void raise(const Interrupt& interrupt) override;
  std::vector<Interrupt> all() const;
  size_t count(uint8_t source) const;
  // Called with every interrupt, on the engines' thread, before it is recorded.
  std::function<void(const Interrupt&)> watch;

 private:
  mutable std::mutex mutex_;
  std::vector<Interrupt> interrupts_;
};

// A process of KFD: memory, and queues that a run list maps.
struct TestQueue {
  enum Kind { kSdma, kPm4, kAql };
  Kind kind = kSdma;
  unsigned engine = 0;
  uint32_t doorbell = 0;
  uint64_t base = 0;  // page table base of its process
  uint32_t pasid = 0;
  uint64_t mqd = 0;
  uint64_t ring = 0;
  uint64_t rptr = 0;  // address of the reported read pointer, followed by the write pointer
  uint64_t wptr_value = 0;

  uint64_t wptr_at = 0;  // 0: behind the read pointer
  uint64_t tba = 0;      // of the process's trap handler; 0: it has none
  bool gws = false;      // it is the process's queue with GWS

  uint64_t wptr() const { return wptr_at ? wptr_at : rptr + 8; }
};

class FakeGpu {
 public:
  static constexpr uint64_t kRingBytes = 64 << 10;
  static constexpr uint32_t kHiqDoorbell = 0x3000;

  // delays: seed of QueueTable::delay().
  explicit FakeGpu(const Asic& asic = mi210(), std::optional<uint32_t> delays = {});
  ~FakeGpu() { engines->stop(); }

  // True when done() becomes true in time.
  static bool eventually(const std::function<bool()>& done, unsigned seconds = 20);

  // Kernel rings. Submits each packet and waits for its completion.
  void start_kiq();
  // Or that of MES, which chips with MES have instead. A frame of MES is given a fence at the
  // status word, which mes() waits for.
  void start_hiq();
  void start_mes();
  bool mes(const std::vector<uint32_t>& frame, size_t status);
  uint64_t mes_async(std::vector<uint32_t> frame, size_t status);
  // A queue is a gang of its own, named by memory for each MQD.
  static uint64_t gang_of(const TestQueue& queue) { return queue.mqd + 0x400000; }
  static uint32_t process_context(const TestQueue& queue) {
    return 0xf00000 + (queue.pasid & 15) * 0x1000;
  }
  bool add_queue(const TestQueue& queue);
  bool remove_queue(const TestQueue& queue);
  void kiq(const std::vector<uint32_t>& words) { submit_kernel(kiq_, words); }
  void hiq(const std::vector<uint32_t>& words) { submit_kernel(hiq_, words); }
  // Submits to the HIQ and does not wait.
  void hiq_async(const std::vector<uint32_t>& words) { push_kernel(hiq_, words); }
  void start_sdma_ring(unsigned engine);
  void sdma_ring(unsigned engine, const std::vector<uint32_t>& words);
  uint64_t sdma_ring_wptr(unsigned engine) const { return sdma_wptrs_[engine]; }

  // Gives a queue a control stack and an area to save its waves in.
  void give_save_area(const TestQueue& queue, uint64_t area, uint32_t bytes);
  static constexpr uint32_t kStackBytes = 4096;
  // User queues: make() writes the MQD as KFD does, run() maps a list of them, preempt() unmaps all
  // and fails the test if that does not complete. MES adds and removes them one by one.
  TestQueue make(TestQueue::Kind kind, uint32_t process, unsigned index, unsigned engine = 0);
  void run(const std::vector<TestQueue*>& queues);
  bool preempt();
  bool query_fence();
  // Appends packets and publishes the write pointer in memory; ring() rings the doorbell.
  void append(TestQueue& queue, const std::vector<uint32_t>& words);
  void ring(const TestQueue& queue);
  void submit(TestQueue& queue, const std::vector<uint32_t>& words) {
    append(queue, words);
    ring(queue);
  }
  uint64_t rptr(const TestQueue& queue) { return memory.get<uint64_t>(queue.base, queue.rptr); }
  std::vector<std::string> reports() const;
  // Of packets of a queue, as KFD reads them from the interrupts.
  std::vector<uint32_t> exceptions(const TestQueue& queue) const;

  FakeMemory memory;
  FakeRegisters registers;
  FakeInterrupts interrupts;
  std::unique_ptr<Engines> engines;

 private:
  struct KernelQueue {
    uint64_t ring;
    uint64_t mqd;
    uint32_t doorbell;
    uint64_t wptr = 0;
  };
  void push_kernel(KernelQueue& queue, const std::vector<uint32_t>& words);
  void submit_kernel(KernelQueue& queue, const std::vector<uint32_t>& words);
  uint64_t rptr_report(const KernelQueue& queue) const { return queue.mqd + 0x1000; }

  const Asic& asic_;
  KernelQueue kiq_ = {.ring = 0x100000, .mqd = 0x120000, .doorbell = 0};
  KernelQueue hiq_ = {.ring = 0x140000, .mqd = 0x160000, .doorbell = kHiqDoorbell};
  std::array<uint64_t, 5> sdma_wptrs_ = {};
  uint64_t fence_ = 0;
  std::vector<TestQueue> added_;  // by run(), to MES
  mutable std::mutex mutex_;
  std::vector<std::string> reports_;
};

// Packet builders.
std::vector<uint32_t> pm4_packet(uint8_t opcode, const std::vector<uint32_t>& body);
std::vector<uint32_t> mes_frame(uint32_t opcode, const std::map<size_t, uint32_t>& words);
std::vector<uint32_t> pm4_write(uint64_t address, const std::vector<uint32_t>& data);
std::vector<uint32_t> sdma_copy(uint64_t from, uint64_t to, uint64_t bytes);
std::vector<uint32_t> sdma_fill(uint64_t to, uint32_t value, uint64_t bytes, unsigned size = 2);
std::vector<uint32_t> sdma_write(uint64_t to, const std::vector<uint32_t>& data);
std::vector<uint32_t> sdma_fence(uint64_t to, uint32_t value);
std::vector<uint32_t> sdma_poll(uint64_t address, uint32_t reference, uint32_t mask = ~0u,
                                unsigned function = 3);
std::vector<uint32_t> operator+(std::vector<uint32_t> a, const std::vector<uint32_t>& b);

}  // namespace gpu::test
