// SPDX-License-Identifier: GPL-2.0
#include "engines/fake_gpu.h"

#include <algorithm>

namespace gpu::test {

amdgpu_criu::Result<std::span<std::byte>> FakeMemory::window(Space space, uint64_t address,
                                                             size_t size, bool) {
  if (address >= kHigh) address -= kHigh;
  const uint64_t base = space.vmid ? bases_[space.vmid].load() : 0;
  const bool bound = space.vmid < 16 && (!space.vmid || base);
  if (!bound || address >= kSize || holes_.contains({base, address / kPage})) {
    ++faults_;
    return amdgpu_criu::Error::of(EFAULT, "fake fault at {:#x}", address);
  }
  if (is_unmapped(base, address / kPage)) {
    ++retries_;
    last_missed_ = address / kPage;
    return amdgpu_criu::Error::of(EAGAIN, "fake retry at {:#x}", address);
  }
  const size_t in_page = kPage - address % kPage;
  return std::span(this->space(base)).subspan(address, std::min(size, in_page));
}

amdgpu_criu::Status FakeMemory::read(Space space, uint64_t address, std::span<std::byte> out) {
  while (!out.empty()) {
    const auto piece = TRY(window(space, address, out.size(), false));
    std::memcpy(out.data(), piece.data(), piece.size());
    address += piece.size();
    out = out.subspan(piece.size());
  }
  return {};
}

amdgpu_criu::Status FakeMemory::write(Space space, uint64_t address,
                                      std::span<const std::byte> data) {
  while (!data.empty()) {
    const auto piece = TRY(window(space, address, data.size(), true));
    std::memcpy(piece.data(), data.data(), piece.size());
    address += piece.size();
    data = data.subspan(piece.size());
  }
  return {};
}

void FakeMemory::bind_vmid(Space space, uint32_t pasid, uint64_t page_table_base, bool) {
  binds_++;
  bases_[space.vmid] = page_table_base;
  pasids_[space.vmid] = pasid;
}

void FakeMemory::invalidate_pasid(Space hub, uint32_t pasid) {
  const std::lock_guard lock(mutex_);
  invalidated_[pasid].push_back(hub);
}

std::vector<Space> FakeMemory::invalidated(uint32_t pasid) {
  const std::lock_guard lock(mutex_);
  return invalidated_[pasid];
}

bool FakeMemory::is_unmapped(uint64_t base, uint64_t page) {
  const std::lock_guard lock(mutex_);
  return unmapped_.contains({base, page});
}

std::vector<std::byte>& FakeMemory::space(uint64_t page_table_base) {
  const std::lock_guard lock(mutex_);
  auto& space = spaces_[page_table_base];
  if (space.empty()) space.resize(kSize);
  return space;
}

uint32_t FakeRegisters::read(uint32_t dword) {
  RegisterBlock* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (const auto claim = claims_.find(dword); claim != claims_.end()) block = claim->second;
    if (!block) return plain_[dword];
  }
  return block->read(dword);
}

void FakeRegisters::write(uint32_t dword, uint32_t value) {
  RegisterBlock* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (const auto claim = claims_.find(dword); claim != claims_.end()) block = claim->second;
    if (!block) plain_[dword] = value;
  }
  if (block) block->write(dword, value);
}

amdgpu_criu::Status FakeRegisters::claim(RegisterBlock& block, uint32_t first, uint32_t last) {
  for (uint32_t dword = first; dword <= last; ++dword) {
    if (!claims_.emplace(dword, &block).second) {
      return amdgpu_criu::Error::of(EEXIST, "register {:#x} is claimed twice", dword);
    }
  }
  return {};
}

void FakeInterrupts::raise(const Interrupt& interrupt) {
  if (watch) watch(interrupt);
  const std::lock_guard lock(mutex_);
  interrupts_.push_back(interrupt);
}

std::vector<Interrupt> FakeInterrupts::all() const {
  const std::lock_guard lock(mutex_);
  return interrupts_;
}

size_t FakeInterrupts::count(uint8_t source) const {
  const auto interrupts = all();
  return static_cast<size_t>(
      std::ranges::count_if(interrupts, [&](const auto& one) { return one.source == source; }));
}

FakeGpu::FakeGpu(const Asic& asic, std::optional<uint32_t> delays) : asic_(asic) {
  const auto report = [this](const std::string& text) {
    const std::lock_guard lock(mutex_);
    reports_.push_back(text);
  };
  auto created =
      Engines::create({.asic = asic, .delays = delays}, memory, registers, interrupts, report);
  if (!created.ok()) throw std::runtime_error(created.error().message());
  engines = std::move(*created);
}

std::vector<std::string> FakeGpu::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

bool FakeGpu::eventually(const std::function<bool()>& done, unsigned seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// As gfx_v9_0_kiq_init_register and mes_v11_0_queue_init_register do it: me 2 or 3, pipe 1, queue
// 0.
// kfd_int_process_v9.c: KFD_CONTEXT_ID_GET_... of SOC15_INTSRC_CP_BAD_OPCODE
std::vector<uint32_t> FakeGpu::exceptions(const TestQueue& queue) const {
  std::vector<uint32_t> codes;
  for (const Interrupt& one : interrupts.all()) {
    if (one.source == ih::kSourceBadOpcode && one.pasid == queue.pasid &&
        (one.data[0] & 0x3ff) == (queue.doorbell >> 3 & 0x3ff))
      codes.push_back(one.data[0] >> 10 & 0x1fffff);
  }
  return codes;
}

void FakeGpu::start_kiq() {
  const auto hqd = [&](unsigned word, uint32_t value) {
    registers.write(asic_.cp.hqd + word - mqd::kHqdFirst, value);
  };
  const uint32_t me = asic_.scheduler == Scheduler::kMes ? 3 : 2;
  registers.write(asic_.cp.select, me << 2 | 1);
  hqd(mqd::kPqBase, static_cast<uint32_t>(kiq_.ring >> 8));
  hqd(mqd::kPqControl, 13);  // 2^14 doublewords: kRingBytes
  hqd(mqd::kRptrReport, static_cast<uint32_t>(rptr_report(kiq_)));
  hqd(mqd::kDoorbell, 1u << 30 | kiq_.doorbell);
  hqd(mqd::kPqRptr, 0);
  hqd(mqd::kPqWptr, 0);
  hqd(mqd::kActive, 1);
  registers.write(asic_.cp.select, 0);
}

void FakeGpu::start_hiq() {
  if (asic_.scheduler == Scheduler::kMes) return start_mes();
  start_kiq();
  memory.put<uint32_t>(0, hiq_.mqd + mqd::kPqBase * uint64_t{4},
                       static_cast<uint32_t>(hiq_.ring >> 8));
  memory.put<uint32_t>(0, hiq_.mqd + mqd::kPqControl * uint64_t{4}, 13);
  memory.put<uint32_t>(0, hiq_.mqd + mqd::kRptrReport * uint64_t{4},
                       static_cast<uint32_t>(rptr_report(hiq_)));
  kiq(pm4_packet(pm4::kMapQueues, {1u << 29 | 1 << 26 | 1 << 18, hiq_.doorbell,
                                   static_cast<uint32_t>(hiq_.mqd), 0, 0, 0}));
  hiq(pm4_packet(pm4::kSetResources, {1u << 29 | 0xfff8, 0xff, 0, 0, 0, 0, 0}));
}

// As gfx11_kiq_map_queues() maps MES, and mes_v11_0_set_hw_resources() gives it VMIDs 8 to 15.
void FakeGpu::start_mes() {
  start_kiq();
  memory.put<uint32_t>(0, hiq_.mqd + mqd::kPqBase * uint64_t{4},
                       static_cast<uint32_t>(hiq_.ring >> 8));
  memory.put<uint32_t>(0, hiq_.mqd + mqd::kPqControl * uint64_t{4}, 13);
  kiq(pm4_packet(pm4::kMapQueues, {1u << 29 | 5 << 26 | 2 << 18, hiq_.doorbell,
                                   static_cast<uint32_t>(hiq_.mqd), 0, 0, 0}));
  mes(mes_frame(0, {{2, 0xff00}, {5, 0xc}}), 50);
}

uint64_t FakeGpu::mes_async(std::vector<uint32_t> frame, size_t status) {
  ++fence_;
  frame[status] = 0x1e0000;
  frame[status + 2] = low32(fence_);
  push_kernel(hiq_, frame);
  return fence_;
}

bool FakeGpu::mes(const std::vector<uint32_t>& frame, size_t status) {
  const uint64_t fence = mes_async(frame, status);
  return eventually([&] { return memory.get<uint64_t>(0, 0x1e0000) == fence; });
}

bool FakeGpu::add_queue(const TestQueue& queue) {
  return mes(mes_frame(2, {{1, queue.pasid},
                           {2, low32(queue.base)},
                           {3, high32(queue.base)},
                           {10, process_context(queue)},
                           {14, low32(gang_of(queue))},
                           {18, queue.doorbell / 4},
                           {19, low32(queue.mqd)},
                           {27, queue.kind == TestQueue::kSdma ? 2u : 1u},
                           {33, low32(queue.tba)},
                           {36, uint32_t{queue.gws} << 14},
                           {41, low32(queue.tba ? queue.tba + 0x1800 : 0)}}),
             37);
}

bool FakeGpu::remove_queue(const TestQueue& queue) {
  return mes(mes_frame(3, {{1, queue.doorbell / 4}, {2, low32(gang_of(queue))}}), 5);
}

void FakeGpu::push_kernel(KernelQueue& queue, const std::vector<uint32_t>& words) {
  for (const uint32_t word : words) {
    memory.put<uint32_t>(0, queue.ring + queue.wptr++ * 4 % kRingBytes, word);
  }
  engines->ring(queue.doorbell, queue.wptr, 8);
}

void FakeGpu::submit_kernel(KernelQueue& queue, const std::vector<uint32_t>& words) {
  push_kernel(queue, words);
  const auto expected = static_cast<uint32_t>(queue.wptr % (kRingBytes / 4));
  eventually([&] { return memory.get<uint32_t>(0, rptr_report(queue)) == expected; });
}

void FakeGpu::start_sdma_ring(unsigned engine) {
  const uint32_t base = asic_.sdma[engine];
  const uint64_t ring = 0x200000 + engine * kRingBytes;
  registers.write(base + reg::kSdmaRbBase, static_cast<uint32_t>(ring >> 8));
  registers.write(base + reg::kSdmaRbRptrAddrLo, static_cast<uint32_t>(0x180000 + engine * 8));
  registers.write(base + reg::kSdmaDoorbell, 1u << 28);
  registers.write(base + reg::kSdmaDoorbellOffset, 0x800 + engine * 0x50);
  registers.write(base + reg::kSdmaRbCntl, 1u << 12 | 14 << 1 | 1);
  if (asic_.sdma_halt) registers.write(base + *asic_.sdma_halt, 0);
}

void FakeGpu::sdma_ring(unsigned engine, const std::vector<uint32_t>& words) {
  const uint64_t ring = 0x200000 + engine * kRingBytes;
  for (const uint32_t word : words) {
    memory.put<uint32_t>(0, ring + sdma_wptrs_[engine] % kRingBytes, word);
    sdma_wptrs_[engine] += 4;
  }
  engines->ring(0x800 + engine * 0x50, sdma_wptrs_[engine], 8);
}

TestQueue FakeGpu::make(TestQueue::Kind kind, uint32_t process, unsigned index, unsigned engine) {
  TestQueue queue = {.kind = kind,
                     .engine = engine,
                     .doorbell = 0x4000 + process * 0x2000 + index * 8,
                     .base = process * 0x10000000ull | 1,
                     .pasid = 0x8000 + process,
                     .mqd = 0x400000 + process * 0x20000 + index * 0x1000,
                     .ring = 0x100000 + index * kRingBytes,
                     .rptr = 0x1000 + index * 0x40};
  const auto word = [&](unsigned at, uint64_t value) {
    memory.put<uint32_t>(0, queue.mqd + at * uint64_t{4}, low32(value));
  };
  if (kind == TestQueue::kSdma) {
    word(sdma_mqd::kRbCntl, 1u << 12 | 14 << 1);
    word(sdma_mqd::kRbBase, queue.ring >> 8);
    word(asic_.sdma_mqd.rptr_addr_lo, queue.rptr);
    if (asic_.sdma_mqd.wptr_poll_hi) word(*asic_.sdma_mqd.wptr_poll_hi + 1, queue.wptr());
    word(sdma_mqd::kEngine, engine);
    return queue;
  }
  for (const unsigned units : {ComputeRegisters::kUnitsSe0, ComputeRegisters::kUnitsSe2}) {
    word(mqd::kCompute + units, ~0u);
    word(mqd::kCompute + units + 1, ~0u);
  }
  // COMPUTE_STATIC_THREAD_MGMT_SE4 of a chip with one XCC.
  if (asic_.xccs == 1) word(mqd::kLogicXcc, ~0u);
  word(mqd::kPqBase, queue.ring >> 8);
  word(mqd::kPqControl, 13);
  word(mqd::kRptrReport, queue.rptr);
  word(mqd::kWptrPoll, queue.wptr());
  if (kind == TestQueue::kAql) {
    word(mqd::kAqlControl, 1);
    for (uint64_t at = 0; at < kRingBytes; at += aql::kPacketBytes) {
      memory.put<uint32_t>(queue.base, queue.ring + at, aql::kInvalid);
    }
  }
  return queue;
}

void FakeGpu::give_save_area(const TestQueue& queue, uint64_t area, uint32_t bytes) {
  const auto word = [&](unsigned at, uint32_t value) {
    memory.put<uint32_t>(0, queue.mqd + at * uint64_t{4}, value);
  };
  word(mqd::kSaveAreaBase, low32(area));
  word(mqd::kSaveAreaBase + 1, high32(area));
  word(mqd::kSaveAreaSize, bytes);
  word(mqd::kStackSize, kStackBytes);
  word(mqd::kStackOffset, kStackBytes);
  word(mqd::kWaveOffset, kStackBytes);
}

// The indirect buffer that pm_create_runlist_ib builds: each process, then its queues.
void FakeGpu::run(const std::vector<TestQueue*>& queues) {
  if (asic_.scheduler == Scheduler::kMes) {
    for (const TestQueue* queue : queues) {
      add_queue(*queue);
      added_.push_back(*queue);
    }
    return;
  }
  std::vector<uint32_t> ib;
  uint64_t base = 0;
  for (const TestQueue* queue : queues) {
    if (queue->base != base) {
      base = queue->base;
      std::vector<uint32_t> body(19);
      body[0] = queue->pasid;
      body[1] = low32(base);
      body[2] = high32(base);
      // As pm_map_process_aldebaran does it: SQ_SHADER_TBA, TMA, SPI_GDBG_PER_VMID_CNTL.
      body[5] = low32(queue->tba >> 8);
      body[6] = high32(queue->tba >> 8) | 1u << 31;
      body[7] = low32((queue->tba + 0x1800) >> 8);
      body[12] =
          std::ranges::any_of(
              queues, [&](const TestQueue* other) { return other->base == base && other->gws; })
              ? 64
              : 0;
      body[13] = queue->tba ? 1 << 3 : 0;
      ib = ib + pm4_packet(pm4::kMapProcess, body);
    }
    const bool extended = queue->kind == TestQueue::kSdma && queue->engine >= 2;
    const uint32_t engine = queue->kind != TestQueue::kSdma ? 0
                            : extended                      ? queue->engine
                                                            : 2 + queue->engine;
    const uint32_t control =
        1u << 29 | engine << 26 | uint32_t{queue->gws} << 12 | 1 << 4 | (extended ? 1 << 2 : 0);
    ib = ib + pm4_packet(pm4::kMapQueues,
                         {control, queue->doorbell, low32(queue->mqd), high32(queue->mqd),
                          low32(queue->wptr()), high32(queue->wptr())});
  }
  memory.put_words(0, 0x1c0000, ib);
  hiq(pm4_packet(pm4::kRunList, {0x1c0000, 0, 1u << 23 | static_cast<uint32_t>(ib.size())}));
}

bool FakeGpu::query_fence() {
  ++fence_;
  hiq_async(
      pm4_packet(pm4::kQueryStatus, {2u << 30, 0, 0x1e0000, 0, low32(fence_), high32(fence_)}));
  return eventually([&] { return memory.get<uint64_t>(0, 0x1e0000) == fence_; });
}

bool FakeGpu::preempt() {
  if (asic_.scheduler == Scheduler::kMes) {
    const std::vector<TestQueue> queues = std::exchange(added_, {});
    return std::ranges::all_of(queues, [this](const auto& queue) { return remove_queue(queue); });
  }
  hiq_async(pm4_packet(pm4::kUnmapQueues, {3 << 4, 0, 0, 0, 0}));
  return query_fence();
}

void FakeGpu::append(TestQueue& queue, const std::vector<uint32_t>& words) {
  const uint64_t dwords = queue.kind == TestQueue::kSdma  ? queue.wptr_value / 4
                          : queue.kind == TestQueue::kPm4 ? queue.wptr_value
                                                          : queue.wptr_value * 16;
  // The header makes an AQL packet valid, so the first word is written last.
  for (size_t i = words.size(); i-- > 0;) {
    memory.put<uint32_t>(queue.base, queue.ring + (dwords + i) * 4 % kRingBytes, words[i]);
  }
  queue.wptr_value += queue.kind == TestQueue::kSdma  ? words.size() * 4
                      : queue.kind == TestQueue::kPm4 ? words.size()
                                                      : words.size() / 16;
  memory.put<uint64_t>(queue.base, queue.wptr(), queue.wptr_value);
}

void FakeGpu::ring(const TestQueue& queue) { engines->ring(queue.doorbell, queue.wptr_value, 8); }

std::vector<uint32_t> operator+(std::vector<uint32_t> a, const std::vector<uint32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<uint32_t> pm4_packet(uint8_t opcode, const std::vector<uint32_t>& body) {
  const uint32_t header = 3u << 30 | static_cast<uint32_t>(body.size() - 1) << 16 | opcode << 8;
  return std::vector<uint32_t>{header} + body;
}

std::vector<uint32_t> mes_frame(uint32_t opcode, const std::map<size_t, uint32_t>& words) {
  std::vector<uint32_t> frame(Mes::kFrameDwords);
  frame[0] = 64 << 12 | opcode << 4 | 1;
  for (const auto& [at, value] : words) frame.at(at) = value;
  return frame;
}

std::vector<uint32_t> pm4_write(uint64_t address, const std::vector<uint32_t>& data) {
  return pm4_packet(pm4::kWriteData,
                    std::vector<uint32_t>{5 << 8, low32(address), high32(address)} + data);
}

std::vector<uint32_t> sdma_copy(uint64_t from, uint64_t to, uint64_t bytes) {
  return {sdma::kCopy, low32(bytes - 1), 0, low32(from), high32(from), low32(to), high32(to)};
}

std::vector<uint32_t> sdma_fill(uint64_t to, uint32_t value, uint64_t bytes, unsigned size) {
  return {size << 30 | sdma::kConstFill, low32(to), high32(to), value, low32(bytes - 1)};
}

std::vector<uint32_t> sdma_write(uint64_t to, const std::vector<uint32_t>& data) {
  return std::vector<uint32_t>{sdma::kWrite, low32(to), high32(to),
                               static_cast<uint32_t>(data.size() - 1)} +
         data;
}

std::vector<uint32_t> sdma_fence(uint64_t to, uint32_t value) {
  return {sdma::kFence, low32(to), high32(to), value};
}

std::vector<uint32_t> sdma_poll(uint64_t address, uint32_t reference, uint32_t mask,
                                unsigned function) {
  return {1u << 31 | function << 28 | sdma::kPollRegMem,
          low32(address),
          high32(address),
          reference,
          mask,
          0xfff << 16 | 10};
}

}  // namespace gpu::test
