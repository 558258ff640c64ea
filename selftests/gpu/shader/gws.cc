// SPDX-License-Identifier: GPL-2.0
// DS_GWS_*. A barrier opens for the wave that finds the counter at 0, and for all that wait; the
// waves before it count down. A semaphore lets as many waves through as its counter says.
#include "shader/gws.h"

#include <bit>

#include "shader/resident.h"
#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using Ask = GwsRequest::Kind;
constexpr uint64_t kRequestBytes = 8;

// The resource is M0[21:16] and the offset; the count comes from the first active lane.
template <Ask kAsk>
void request(Wave& wave, const Instruction& in) {
  if (!wave.exec()) return wave.refuse(in.name() + " without an active lane");
  const auto lane = static_cast<unsigned>(std::countr_zero(wave.exec()));
  wave.gws = {
      .kind = kAsk,
      .resource = (bits(wave.s(operand::kM0), 21, 16) + static_cast<uint32_t>(in.immediate)) %
                  Gws::kResources,
      .count = wave.row(in.address).lane[lane]};
  wave.stop = Stop::kGws;
}

constexpr SpecialOp kOps[] = {
    {"ds_gws_init", request<Ask::kInit>},
    {"ds_gws_barrier", request<Ask::kBarrier>},
    {"ds_gws_sema_p", request<Ask::kTake>},
    {"ds_gws_sema_v", request<Ask::kGive>},
    {"ds_gws_sema_br", request<Ask::kGiveMany>},
    {"ds_gws_sema_release_all", request<Ask::kReleaseAll>},
};

}  // namespace

std::span<const SpecialOp> gws_ops() { return kOps; }

bool Dispatch::waits_for(const Resident& resident, GwsRequest::Kind kind, unsigned resource) {
  const GwsRequest& request = resident.wave->gws;
  return resident.at_gws && request.kind == kind && request.resource == resource;
}

// Waves take what the semaphore has.
void Dispatch::serve_semaphore(unsigned resource) {
  uint8_t& counter = spec_.gws->counters[resource];
  for (const auto& resident : waves_) {
    if (!counter) return;
    if (!waits_for(*resident, Ask::kTake, resource)) continue;
    resident->at_gws = false;
    --counter;
  }
}

// False: it refuses the wave.
bool Dispatch::take_gws(Resident& resident) {
  const GwsRequest request = resident.wave->gws;
  const auto refuse = [&](Stop how, std::string why) {
    resident.wave->pc -= kRequestBytes;
    resident.wave->refuse(std::move(why));
    resident.wave->stop = how;
    return false;
  };
  if (!spec_.gws || request.resource >= spec_.gws->resources)
    return refuse(Stop::kViolation,
                  amdgpu_criu::formatted("GWS resource {} is not the queue's", request.resource));
  uint8_t& counter = spec_.gws->counters[request.resource];
  uint64_t next = counter;
  switch (request.kind) {
    case Ask::kInit:
      next = request.count;
      break;
    case Ask::kBarrier:
      next = counter ? counter - 1u : request.count;
      break;
    case Ask::kTake:
      break;
    case Ask::kGive:
      ++next;
      break;
    case Ask::kGiveMany:
      next += request.count;
      break;
    case Ask::kReleaseAll:
      next = static_cast<uint64_t>(std::ranges::count_if(
          waves_, [&](const auto& one) { return waits_for(*one, Ask::kTake, request.resource); }));
      break;
  }
  if (next > Gws::kMaxCount)
    return refuse(Stop::kIllegal, "a GWS counter of more than 255 is not modelled");
  const bool opens = request.kind == Ask::kBarrier && !counter;
  counter = static_cast<uint8_t>(next);
  resident.at_gws = request.kind == Ask::kTake || (request.kind == Ask::kBarrier && !opens);
  for (const auto& other : waves_) {
    if (opens && waits_for(*other, Ask::kBarrier, request.resource)) other->at_gws = false;
  }
  if (request.kind != Ask::kInit && request.kind != Ask::kBarrier)
    serve_semaphore(request.resource);
  return true;
}

// As at a barrier of its group, the wave will arrive again.
void Dispatch::leave_gws(Resident& resident) {
  if (!resident.at_gws) return;
  resident.at_gws = false;
  Wave& wave = *resident.wave;
  if (wave.gws.kind == Ask::kBarrier) ++spec_.gws->counters[wave.gws.resource];
  wave.pc -= kRequestBytes;
}

}  // namespace gpu::shader
