// SPDX-License-Identifier: GPL-2.0
#include "engines/engines.h"

#include <algorithm>

#include "core/log.h"

namespace gpu {
namespace {

std::optional<Mes> make_mes(Context& context, QueueMapper& mapper) {
  if (context.asic.scheduler != Scheduler::kMes) return std::nullopt;
  return std::optional<Mes>(std::in_place, context, mapper);
}

std::vector<XccMemory> views_of(Memory& memory, unsigned xccs) {
  std::vector<XccMemory> views;
  for (unsigned xcc = 0; xcc < xccs; ++xcc) views.emplace_back(memory, xcc);
  return views;
}

}  // namespace

Engines::Engines(const Spec& spec, Memory& memory, Registers& registers, InterruptSink& interrupts,
                 Report report)
    : registers_(registers, spec.xcc),
      interrupts_(interrupts, spec.xcc),
      cores_(spec.asic.isa, spec.asic.sram_ecc),
      memories_(views_of(memory, spec.asic.xccs)),
      context_{spec.asic,
               spec.xcc,
               memories_[spec.xcc],
               registers_,
               interrupts_,
               std::move(report),
               cores_,
               [this](unsigned xcc) -> Memory& { return memories_[xcc]; },
               [this] { const auto paused = mapper_.pause_sdma(); }},
      bank_(registers_, spec.asic.cp,
            {.activate =
                 [this](HqdSlot slot) {
                   cp_.post([this, slot] { command_processor_.activate(slot); });
                 },
             .dequeue =
                 [this](HqdSlot slot) {
                   cp_.post([this, slot] { command_processor_.dequeue(slot); });
                 }}),
      mapper_(context_, cp_.queues(), *spec.sdma, bank_),
      mes_(make_mes(context_, mapper_)),
      command_processor_(context_, mapper_, mes_ ? &*mes_ : nullptr),
      sdma_runners_(spec.sdma),
      mec_control_("CP_MEC_CNTL", [this](uint32_t value) { mec_control(value); }),
      mes_control_("CP_MES_CNTL", [this](uint32_t value) { mes_control(value); }),
      queue_reset_("SPI_COMPUTE_QUEUE_RESET", [this](uint32_t value) {
        if (!value) return;
        cp_.post([this, slot = bank_.selected()] { command_processor_.dequeue(slot); });
      }) {
  const unsigned first = spec.xcc * spec.asic.sdma_per_xcc();
  for (unsigned i = 0; i < spec.asic.sdma_per_xcc(); ++i) {
    QueueRunner& runner = *(*sdma_runners_)[first + i];
    sdma_.push_back(std::make_unique<SdmaEngine>(context_, first + i, [this, i, &runner] {
      runner.post([this, i, &runner] { sdma_[i]->update(runner.queues()); });
    }));
    if (spec.delays) runner.delay(*spec.delays + spec.asic.xccs + first + i);
  }
  if (spec.asic.jpeg && spec.xcc == 0) jpeg_.emplace(context_);
  if (spec.asic.vcn && spec.xcc == 0) vcn_.emplace(context_);
  if (jpeg_ || vcn_) video_.emplace();
  if (spec.delays) {
    cp_.delay(*spec.delays + spec.xcc);
    mapper_.delay(*spec.delays + spec.xcc);
  }
  cp_.in_each_round([this] { return command_processor_.take_turns(); });
}

std::shared_ptr<SdmaRunners> Engines::make_sdma_runners(const Asic& asic) {
  auto runners = std::make_shared<SdmaRunners>();
  for (size_t i = 0; i < asic.sdma.size(); ++i) runners->push_back(std::make_unique<QueueRunner>());
  return runners;
}

amdgpu_criu::Result<std::unique_ptr<Engines>> Engines::create(const Spec& spec, Memory& memory,
                                                              Registers& registers,
                                                              InterruptSink& interrupts,
                                                              Report report) {
  std::unique_ptr<Engines> engines(
      new Engines(spec, memory, registers, interrupts, std::move(report)));
  TRY(engines->claim());
  return engines;
}

amdgpu_criu::Status Engines::claim() {
  Registers& registers = context_.registers;
  const CpRegisters& at = context_.asic.cp;
  TRY(registers.claim(bank_, bank_.first(), bank_.last()));
  TRY(registers.claim(mec_control_, at.mec_control, at.mec_control));
  TRY(registers.claim(queue_reset_, at.queue_reset, at.queue_reset));
  if (at.mes_control) TRY(registers.claim(mes_control_, *at.mes_control, *at.mes_control));
  for (const auto& engine : sdma_) TRY(registers.claim(*engine, engine->first(), engine->last()));
  if (jpeg_) TRY(jpeg_->claim());
  if (vcn_) TRY(vcn_->claim());
  return {};
}

void Engines::ring(uint32_t offset, uint64_t value, unsigned size) {
  for_each_sdma([&](SdmaEngine& engine, QueueRunner& runner) {
    if (!engine.has_doorbell(offset) && !runner.has_doorbell(offset)) return;
    // In order with changes of its registers.
    runner.post([&engine, &runner, offset, value, size] {
      engine.doorbell(offset, value);
      runner.queues().doorbell(offset, value, size);
    });
  });
  if (video_) {
    video_->post([this, offset, value] {
      if (jpeg_) jpeg_->doorbell(offset, value);
      if (vcn_) vcn_->doorbell(offset, value);
    });
  }
  cp_.ring(offset, value, size);
}

void Engines::mec_control(uint32_t value) {
  constexpr unsigned kFirstPipeReset = 16;  // MEC_ME1_PIPE0_RESET; those of ME2 follow
  cp_.post([this, value] {
    for (unsigned pipe = 0; pipe < 8; ++pipe) {
      if (value >> (kFirstPipeReset + pipe) & 1) {
        command_processor_.reset_pipe(1 + pipe / 4, pipe % 4);
      }
    }
  });
}

void Engines::mes_control(uint32_t value) {
  constexpr unsigned kFirstPipeReset = 16;  // MES_PIPE0_RESET
  constexpr unsigned kMesMe = 3;
  cp_.post([this, value] {
    for (unsigned pipe = 0; pipe < 4; ++pipe) {
      if (value >> (kFirstPipeReset + pipe) & 1) command_processor_.reset_pipe(kMesMe, pipe);
    }
  });
}

void Engines::reset() {
  cp_.post_and_wait([this] {
    cp_.queues().clear();
    bank_.reset();
    mapper_.reset();
    if (mes_) mes_->reset();
    command_processor_.reset();
    command_processor_.hang_preemption(false);
    mec_control_.reset();
    mes_control_.reset();
    queue_reset_.reset();
  });
  // The command processor maps no more queues to them.
  for_each_sdma([](SdmaEngine& engine, QueueRunner& runner) {
    runner.post_and_wait([&] {
      runner.queues().clear();
      engine.reset();
    });
  });
  if (!video_) return;
  video_->post_and_wait([this] {
    if (jpeg_) jpeg_->reset();
    if (vcn_) vcn_->reset();
  });
}

void Engines::stop() {
  cp_.stop();
  for_each_sdma([](SdmaEngine&, QueueRunner& runner) { runner.stop(); });
  if (video_) video_->stop();
}

namespace {

amdgpu_criu::Result<std::vector<std::unique_ptr<Engine>>> create_all(
    const Asic& asic, Memory& memory, Registers& registers, InterruptSink& interrupts,
    std::optional<uint32_t> delays) {
  const Report report = [](const std::string& text) { model_fault("{}", text); };
  const auto sdma = Engines::make_sdma_runners(asic);
  std::vector<std::unique_ptr<Engine>> engines;
  for (unsigned xcc = 0; xcc < asic.xccs; ++xcc)
    engines.push_back(
        TRY(Engines::create({asic, xcc, delays, sdma}, memory, registers, interrupts, report)));
  return engines;
}

}  // namespace

amdgpu_criu::Result<std::vector<std::unique_ptr<Engine>>> create_engines(
    const Asic& asic, Memory& memory, Registers& registers, InterruptSink& interrupts) {
  return create_all(asic, memory, registers, interrupts, std::nullopt);
}

EngineFactory engines_with_delays(uint32_t seed) {
  return [seed](const Asic& asic, Memory& memory, Registers& registers, InterruptSink& interrupts) {
    return create_all(asic, memory, registers, interrupts, seed);
  };
}

}  // namespace gpu
