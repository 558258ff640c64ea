// SPDX-License-Identifier: GPL-2.0
// The engines of one XCC: its command processor and its share of the SDMA engines, each in a thread
// of its own, and the video engines in another.
#pragma once

#include <memory>
#include <vector>

#include "core/interfaces.h"
#include "engines/command_processor.h"
#include "engines/jpeg.h"
#include "engines/queue_runner.h"
#include "engines/sdma_engine.h"
#include "engines/vcn.h"
#include "engines/xcc_view.h"
#include "shader/cores.h"

namespace gpu {

// Claims its registers in create(). Memory, Registers and InterruptSink outlive it, and no register
// is accessed through Registers once it is gone.
class Engines final : public Engine {
 public:
  struct Spec {
    const Asic& asic;
    unsigned xcc = 0;
    std::optional<uint32_t> delays = {};  // seed of QueueTable::delay()
    // Those of the chip, which XCCs share: the first one of a partition maps queues for all.
    std::shared_ptr<SdmaRunners> sdma = make_sdma_runners(asic);
  };

  // report: messages about packets that are malformed or not modelled; from any thread.
  static std::shared_ptr<SdmaRunners> make_sdma_runners(const Asic& asic);
  static amdgpu_criu::Result<std::unique_ptr<Engines>> create(const Spec& spec, Memory& memory,
                                                              Registers& registers,
                                                              InterruptSink& interrupts,
                                                              Report report);
  ~Engines() override { stop(); }

  // Any thread; never waits for an engine.
  void ring(uint32_t offset, uint64_t value, unsigned size) override;

  // Resets to the state after power-on, without mapped queues. Waits for the current slices of
  // work.
  void reset() override;
  // Ends the threads. Mapped queues do not finish their work. Idempotent.
  void stop() override;
  std::string report() const override { return cores_.report(); }

  // Makes every preemption hang, for tests of the driver's recovery; a reset ends it.
  void hang_preemption() { command_processor_.hang_preemption(true); }

 private:
  // CP_MEC_CNTL, CP_MES_CNTL or SPI_COMPUTE_QUEUE_RESET: a register that acts on queues when it is
  // written.
  class Trigger : public RegisterBlock {
   public:
    Trigger(std::string name, std::function<void(uint32_t)> written)
        : name_(std::move(name)), written_(std::move(written)) {}
    std::string_view name() const override { return name_; }
    uint32_t read(uint32_t) override { return value_; }
    void write(uint32_t, uint32_t value) override {
      value_ = value;
      written_(value);
    }
    void reset() { value_ = 0; }

   private:
    const std::string name_;
    const std::function<void(uint32_t)> written_;
    std::atomic<uint32_t> value_ = 0;
  };

  Engines(const Spec& spec, Memory& memory, Registers& registers, InterruptSink& interrupts,
          Report report);
  amdgpu_criu::Status claim();
  void mec_control(uint32_t value);
  void mes_control(uint32_t value);
  template <typename Visit>
  void for_each_sdma(Visit visit) {
    for (const auto& engine : sdma_) visit(*engine, *(*sdma_runners_)[engine->index()]);
  }

  XccRegisters registers_;
  XccInterrupts interrupts_;
  shader::Cores cores_;
  std::vector<XccMemory> memories_;  // as each XCC sees it
  Context context_;
  QueueRunner cp_;
  HqdBank bank_;
  QueueMapper mapper_;
  std::optional<Mes> mes_;
  CommandProcessor command_processor_;
  std::shared_ptr<SdmaRunners> sdma_runners_;
  std::vector<std::unique_ptr<SdmaEngine>> sdma_;
  std::optional<JpegEngine> jpeg_;
  std::optional<VcnEngine> vcn_;
  std::optional<QueueRunner> video_;
  Trigger mec_control_;
  Trigger mes_control_;
  Trigger queue_reset_;
};

// An EngineFactory whose engines report as model faults.
amdgpu_criu::Result<std::vector<std::unique_ptr<Engine>>> create_engines(const Asic& asic,
                                                                         Memory& memory,
                                                                         Registers& registers,
                                                                         InterruptSink& interrupts);
// The same; their queues pause at random.
EngineFactory engines_with_delays(uint32_t seed);

}  // namespace gpu
