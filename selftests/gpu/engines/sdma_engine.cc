// SPDX-License-Identifier: GPL-2.0
#include "engines/sdma_engine.h"

namespace gpu {
namespace {

constexpr uint32_t kRbEnable = 1;
constexpr uint32_t kRptrWriteback = 1u << 12;
constexpr uint32_t kDoorbellEnable = 1u << 28;
constexpr uint32_t kHalt = 1;
constexpr uint32_t kStatusIdle = 1;
constexpr uint32_t kRingReset = 1;  // of the kernel ring; it reads as done

uint64_t pair(std::span<const uint32_t> words, uint32_t at) {
  return join(words[at], words[at + 1]);
}

}  // namespace

SdmaEngine::SdmaEngine(Context& context, unsigned index, std::function<void()> changed)
    : context_(context),
      index_(index),
      base_(context.asic.sdma[index]),
      halt_(context.asic.sdma_halt),
      name_("SDMA" + std::to_string(index)),
      changed_(std::move(changed)) {
  power_on();
}

bool SdmaEngine::wanted(std::span<const uint32_t> words) const {
  return words[reg::kSdmaRbCntl] & kRbEnable && !(halt_ && words[*halt_] & kHalt);
}

void SdmaEngine::power_on() {
  words_ = {};
  if (halt_) words_[*halt_] = kHalt;
  words_[reg::kSdmaStatus] = kStatusIdle;
  wptr_written_ = false;
  stopped_ = true;
}

uint32_t SdmaEngine::read(uint32_t dword) {
  const std::lock_guard lock(mutex_);
  return words_[dword - base_];
}

void SdmaEngine::write(uint32_t dword, uint32_t value) {
  const uint32_t word = dword - base_;
  {
    const std::lock_guard lock(mutex_);
    if (word == reg::kSdmaStatus) return;
    if (word == context_.asic.sdma_reset) {
      if (!(value & kRingReset)) return;
      words_[reg::kSdmaRbCntl] &= ~kRbEnable;
    } else {
      words_[word] = value;
    }
    if (!wanted(words_)) stopped_ = true;
    if (word == reg::kSdmaRbWptr || word == reg::kSdmaRbWptr + 1) wptr_written_ = true;
  }
  const bool of_ring = word >= reg::kSdmaRbCntl && word <= reg::kSdmaRbRptrAddrLo;
  if (of_ring || halt_ == word || context_.asic.sdma_reset == word) changed_();
}

SdmaEngine::Change SdmaEngine::take_change() {
  const std::lock_guard lock(mutex_);
  return {.words = words_,
          .moved = std::exchange(wptr_written_, false),
          .stopped = std::exchange(stopped_, false)};
}

void SdmaEngine::show(uint64_t rptr, uint64_t wptr) {
  const std::lock_guard lock(mutex_);
  // The registers are those of the next ring.
  if (stopped_) return;
  words_[reg::kSdmaRbRptr] = low32(rptr);
  words_[reg::kSdmaRbRptr + 1] = high32(rptr);
  if (wptr_written_) return;
  words_[reg::kSdmaRbWptr] = low32(wptr);
  words_[reg::kSdmaRbWptr + 1] = high32(wptr);
}

amdgpu_criu::Result<std::unique_ptr<SdmaQueue>> SdmaEngine::start(const Words& words) {
  const uint32_t control = words[reg::kSdmaRbCntl];
  const unsigned log2_dwords = bits(control, 6, 1);
  if (log2_dwords < 4 || log2_dwords > 28) {
    return amdgpu_criu::Error::of(EINVAL, "{} is enabled with a ring of 2^{} doublewords", name_,
                                  log2_dwords);
  }
  const bool has_doorbell = words[reg::kSdmaDoorbell] & kDoorbellEnable;
  Queue::Spec spec = {.name = name_ + " ring", .owner = Queue::Owner::kRegisters};
  spec.doorbell = has_doorbell ? words[reg::kSdmaDoorbellOffset] & kDoorbellMask : ~0u - index_;
  SdmaQueue::Setup setup = {
      .engine = index_,
      .ring = {.base = pair(words, reg::kSdmaRbBase) << 8, .dwords = uint64_t{1} << log2_dwords},
      .rptr = pair(words, reg::kSdmaRbRptr),
      .wptr = pair(words, reg::kSdmaRbWptr),
      .rptr_report = control & kRptrWriteback
                         ? join(words[reg::kSdmaRbRptrAddrLo] & ~3u, words[reg::kSdmaRbRptrAddrHi])
                         : 0,
      .show = [this](uint64_t rptr, uint64_t wptr) { show(rptr, wptr); },
      .user = false,
  };
  return SdmaQueue::create(context_, spec, std::move(setup));
}

void SdmaEngine::update(QueueTable& table) {
  const Change change = take_change();
  Queue* queue = running_ ? table.find(running_doorbell_) : nullptr;
  if (queue && change.stopped) {
    queue->retire();
    queue = nullptr;
  }
  running_ = queue;
  if (!wanted(change.words)) return;
  if (queue) {
    if (change.moved) queue->doorbell(pair(change.words, reg::kSdmaRbWptr), 8);
    return;
  }
  auto started = start(change.words);
  if (!started.ok()) {
    context_.report(started.error().message());
    return;
  }
  running_doorbell_ = table.add(std::move(*started)).spec().doorbell;
  running_ = true;
}

bool SdmaEngine::owns(uint32_t doorbell) const {
  return words_[reg::kSdmaDoorbell] & kDoorbellEnable &&
         (words_[reg::kSdmaDoorbellOffset] & kDoorbellMask) == doorbell;
}

bool SdmaEngine::has_doorbell(uint32_t offset) {
  const std::lock_guard lock(mutex_);
  return owns(offset);
}

// The doorbell of a disabled ring sets its write pointer; the driver rings it before enabling.
void SdmaEngine::doorbell(uint32_t offset, uint64_t value) {
  const std::lock_guard lock(mutex_);
  if (!owns(offset)) return;
  words_[reg::kSdmaRbWptr] = low32(value);
  words_[reg::kSdmaRbWptr + 1] = high32(value);
}

void SdmaEngine::reset() {
  const std::lock_guard lock(mutex_);
  power_on();
  running_ = false;
}

}  // namespace gpu
