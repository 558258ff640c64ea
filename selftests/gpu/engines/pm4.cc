// SPDX-License-Identifier: GPL-2.0
#include "engines/pm4.h"

namespace gpu {
namespace {

constexpr uint32_t kType2Filler = 0x80000000;

// The words of an interrupt that a wave has sent. GFX9 spreads 24 bits of data over both
// (kfd_int_process_v9.c, KFD_CONTEXT_ID_GET_SQ_INT_DATA; kfd_int_process_v11.c,
// SQ_INTERRUPT_WORD_WAVE_CTXID).
std::array<uint32_t, 4> message_words(const shader::WaveInterrupt& sent, shader::Isa isa) {
  if (is_gfx11(isa)) {
    constexpr uint32_t kPrivileged = 1 << 26, kFromInstruction = 1 << 6;
    return {bits(sent.data, 23, 0) | (sent.privileged ? kPrivileged : 0), kFromInstruction, 0, 0};
  }
  constexpr uint32_t kFromWave = 1 << 26, kPrivileged = 1 << 13;
  return {bits(sent.data, 11, 0) | bits(sent.data, 15, 12) << 28 | kFromWave |
              (sent.privileged ? kPrivileged : 0),
          bits(sent.data, 23, 16), 0, 0};
}

bool for_scheduler(uint8_t opcode) {
  return opcode >= pm4::kSetResources && opcode <= pm4::kQueryStatus;
}

}  // namespace

const Pm4::Packet* Pm4::find(uint8_t opcode) {
  using namespace pm4;
  static constexpr Packet kPackets[] = {
      {kNop, 0, &Pm4::nop, true},
      {kSetBase, 0, &Pm4::ignore, true},
      {kClearState, 0, &Pm4::ignore, true},
      {kDispatchDirect, 4, &Pm4::dispatch_direct, false},
      {kDispatchIndirect, 3, &Pm4::dispatch_indirect, false},
      {kAtomicMem, 8, &Pm4::atomic_mem, true},
      {kCondExec, 4, &Pm4::cond_exec, false},
      {kPredExec, 1, &Pm4::ignore, true},
      {kContextControl, 0, &Pm4::ignore, true},
      {kWriteData, 4, &Pm4::write_data, true},
      {kWaitRegMem, 6, &Pm4::wait_reg_mem, false},
      {kWaitRegMem64, 8, &Pm4::wait_reg_mem64, false},
      {kIndirectBuffer, 3, &Pm4::indirect_buffer, false},
      {kCopyData, 5, &Pm4::copy_data, true},
      {kPfpSyncMe, 0, &Pm4::ignore, true},
      {kCondWrite, 8, &Pm4::cond_write, true},
      {kEventWrite, 0, &Pm4::ignore, true},
      {kReleaseMem, 6, &Pm4::release_mem, true},
      {kPreambleControl, 0, &Pm4::ignore, true},
      {kDmaData, 6, &Pm4::dma_data, true},
      {kAcquireMem, 0, &Pm4::ignore, true},
      {kRewind, 0, &Pm4::ignore, true},
      {kSetConfigReg, 2, &Pm4::set_config_reg, true},
      {kSetContextReg, 2, &Pm4::set_context_reg, true},
      {kSetShReg, 2, &Pm4::set_sh_reg, true},
      {kSetShRegIndex, 2, &Pm4::set_sh_reg, true},
      {kSetContextRegPairsPacked, 4, &Pm4::set_context_reg_pairs, true},
      {kSetShRegPairsPacked, 4, &Pm4::set_sh_reg_pairs, true},
      {kSetShRegPairsPackedN, 4, &Pm4::set_sh_reg_pairs, true},
      {kSetUconfigReg, 2, &Pm4::set_uconfig_reg, true},
      {kSetUconfigRegIndex, 2, &Pm4::set_uconfig_reg, true},
      {kSwitchBuffer, 0, &Pm4::ignore, true},
      {kFrameControl, 0, &Pm4::ignore, true},
      {kInvalidateTlbs, 1, &Pm4::invalidate_tlbs, true},
      {kRunCleanerShader, 0, &Pm4::ignore, true},
      {kRunList, 3, &Pm4::run_list, false},
      {kProtectedFenceSignal, 1, &Pm4::signal_fence, false},
  };
  for (const Packet& packet : kPackets) {
    if (packet.opcode == opcode) return &packet;
  }
  return nullptr;
}

amdgpu_criu::Result<Step> Pm4::execute(Stream& stream, Budget& budget) {
  Words words = TRY(stream.peek(1));
  const uint32_t header = words[0];
  if (header == kType2Filler) {
    stream.advance(1);
    return Step::kDone;
  }
  if (header >> 30 != 3) {
    return amdgpu_criu::Error::of(EINVAL, "not a type-3 packet");
  }
  const uint32_t count = bits(header, 29, 16);
  const size_t length = count == pm4::kFillerCount ? 1 : count + 2;
  words = TRY(stream.peek(length));
  if (words.size() < length) return Step::kStarved;
  return run_packet(header, words.subspan(1, length - 1), stream, budget);
}

// A transfer that faults is dropped and the queue continues; see SdmaQueue::run_handler.
amdgpu_criu::Result<Step> Pm4::run_packet(uint32_t header, Words body, Stream& stream,
                                          Budget& budget) {
  const uint8_t opcode = static_cast<uint8_t>(bits(header, 15, 8));
  const size_t length = body.size() + 1;
  if (setup_.scheduler && stream.privileged() && for_scheduler(opcode)) {
    const Step step = TRY(setup_.scheduler->manage(opcode, body, setup_.manages));
    if (step == Step::kDone) stream.advance(length);
    return step;
  }
  const Packet* packet = find(opcode);
  if (!packet) return amdgpu_criu::Error::of(EINVAL, "PM4 opcode {:#x} is not modelled", opcode);
  if (body.size() < packet->least) {
    return amdgpu_criu::Error::of(EINVAL,
                                  "PM4 opcode {:#x} with {} doublewords of body instead of {}",
                                  opcode, body.size(), packet->least);
  }
  auto step = (this->*packet->handler)(body, stream, budget);
  if (!step.ok()) {
    if (step.error().code() != EFAULT || !packet->drop_on_fault) return step;
    step = Step::kDone;
  }
  const bool jumps = opcode == pm4::kIndirectBuffer || opcode == pm4::kRunList;
  if (*step == Step::kDone && !jumps) stream.advance(length);
  return step;
}

// Invalidates the hubs of this XCC and of its AID. It ends after the accesses in flight, which may
// use old translations.
amdgpu_criu::Result<Step> Pm4::invalidate_tlbs(Words words, Stream& stream, Budget&) {
  constexpr uint32_t kAllHubs = 1 << 4;
  const uint32_t pasid = bits(words[0], 20, 5);
  if (!stream.privileged()) return Step::kDone;
  context_.memory.invalidate_pasid({Hub::kGfx, 0}, pasid);
  if (words[0] & kAllHubs)
    context_.memory.invalidate_pasid({Hub::kMm, 0, context_.asic.aid_of_xcc(context_.xcc)}, pasid);
  context_.finish_sdma();
  return Step::kDone;
}

void Pm4::interrupt(uint32_t context_id, uint8_t source) const {
  context_.interrupts.raise({
      .client = ih::kClientGrbmCp,
      .source = source,
      .ring = setup_.slot.ring_id(),
      .vmid = static_cast<uint8_t>(setup_.vmid),
      .from_mmhub = false,
      .pasid = setup_.pasid,
      .data = {context_id, 0, 0, 0},
  });
}

void Pm4::exception(QueueException code) const {
  interrupt(static_cast<uint32_t>(code) << 10 | doorbell_id(), ih::kSourceBadOpcode);
}

Launcher::State Pm4::run_waves(Budget& budget) {
  const Launcher::State state = launcher_.run(budget);
  for (const shader::WaveInterrupt& sent : launcher_.take_interrupts()) {
    context_.interrupts.raise({
        .client = ih::kClientSe0Sh,
        .source = ih::kSourceSqMessage,
        .vmid = static_cast<uint8_t>(setup_.vmid),
        .from_mmhub = false,
        .pasid = setup_.pasid,
        .data = message_words(sent, context_.asic.isa),
    });
  }
  return state;
}

amdgpu_criu::Result<Step> Pm4::indirect_buffer(Words words, Stream& stream, Budget&) {
  const unsigned own = stream.space().vmid;
  const unsigned vmid = own ? own : bits(words[2], 27, 24);
  const uint64_t base = join(words[0] & ~3u, words[1]);
  const uint32_t dwords = bits(words[2], 19, 0);
  const bool chains = bits(words[2], 20, 20);
  TRY(chains ? stream.chain(base, dwords, vmid, words.size() + 1)
             : stream.call(base, dwords, vmid, words.size() + 1));
  return Step::kDone;
}

// A run list that exceeds the hardware's slots ends with a packet that starts it again. The
// scheduler takes turns without it.
amdgpu_criu::Result<Step> Pm4::run_list(Words words, Stream& stream, Budget&) {
  if (!setup_.scheduler || !stream.privileged()) {
    return amdgpu_criu::Error::of(EINVAL, "a run list on a queue that schedules nothing");
  }
  if (stream.depth()) {
    stream.advance(words.size() + 1);
    return Step::kDone;
  }
  TRY(stream.call(join(words[0] & ~3u, words[1]), bits(words[2], 19, 0), 0, words.size() + 1));
  return Step::kDone;
}

amdgpu_criu::Result<Step> Pm4::ignore(Words, Stream&, Budget&) { return Step::kDone; }

}  // namespace gpu
