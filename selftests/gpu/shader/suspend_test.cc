// SPDX-License-Identifier: GPL-2.0
// Waves are saved and restored by the driver's trap handler at each instruction of compiled
// kernels. SUSPEND_EVERY=N takes every Nth instruction; a run in check takes a few.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engines/fake_gpu.h"
#include "shader/code_object.h"
#include "shader/dispatch.h"
#include "shader/driver_trap_handler.h"

namespace gpu::test {
namespace {

using shader::Dispatch;
using shader::DispatchSpec;
using shader::Isa;
using shader::Suspended;
using State = Dispatch::State;

constexpr uint64_t kCode = 0x200000, kHandler = 0x300000, kData = 0x400000, kKernarg = 0x5000;
constexpr uint64_t kDataBytes = 0x20000, kSaveArea = 0xa00000, kSaveBytes = 0x600000;
constexpr uint64_t kScratch = 0x800000;
constexpr uint32_t kScratchWaves = 64, kScratchWaveBytes = 8192;
constexpr uint64_t kProcess = 1;
constexpr Space kSpace = {Hub::kGfx, 1};

// Floats.
constexpr uint32_t kThousandth = 0x3a83126f, kOne = 0x3f800000;
// Accesses of a wave cross pages.
constexpr uint32_t kA = 0x400f80, kB = 0x404f80, kOut = 0x408f80;

struct Kernel {
  const char* object;
  const char* name;
  uint32_t groups;                  // in the first dimension
  std::array<uint32_t, 3> group;    // work-items
  std::vector<uint32_t> arguments;  // doublewords
  Isa isa = Isa::kGfx90a;
};

class SuspendTest : public ::testing::TestWithParam<Kernel> {
 protected:
  SuspendTest() : object_(object_path(GetParam().object, GetParam().isa)) {
    memory_.bind_vmid(kSpace, 0x8000, kProcess, false);
    std::memcpy(at(kCode), object_.image().data(), object_.image().size());
    const auto put = [this](uint64_t to, const void* data, size_t size) {
      std::memcpy(at(to), data, size);
    };
    put_trap_handlers(kHandler, put, GetParam().isa);
    const auto& arguments = GetParam().arguments;
    std::memcpy(at(kKernarg), arguments.data(), arguments.size() * 4);
    fill();
  }

  std::byte* at(uint64_t address) { return memory_.space(kProcess).data() + address; }
  // Numbers that are harmless as floats and as indexes.
  void fill() {
    for (uint64_t i = 0; i < kDataBytes / 4; ++i) {
      const auto value = static_cast<uint32_t>(i * 2654435761u % 0x3f800000);
      std::memcpy(at(kData + 4 * i), &value, 4);
    }
  }
  std::vector<std::byte> results() { return {at(kData), at(kData) + kDataBytes}; }

  DispatchSpec spec() {
    const uint64_t object = kCode + object_.kernel(GetParam().name);
    std::array<uint32_t, 16> words;
    std::memcpy(words.data(), at(object), sizeof(words));
    constexpr size_t kEntry = 4, kRsrc3 = 11;
    constexpr uint32_t kWave32 = 1 << 10;
    const Kernel& kernel = GetParam();
    DispatchSpec out;
    out.code = object + words[kEntry];
    out.rsrc1 = words[kRsrc3 + 1];
    out.rsrc2 = words[kRsrc3 + 2] | 1 << 6;
    out.rsrc3 = words[kRsrc3];
    set_user_data(out, words[kRsrc3 + 3] & 0x7f);
    out.grid = {kernel.groups * kernel.group[0], kernel.group[1], 1};
    out.group_size = kernel.group;
    out.lds_bytes = words[0];
    out.scratch_base = kScratch;
    out.scratch_waves = kScratchWaves;
    out.scratch_wave_bytes = kScratchWaveBytes;
    if (!units_.empty()) out.units = units_;
    if (!units_.empty()) out.engines = 2;
    out.trap = {.tba = kHandler, .tma = kHandler + kTmaAfterTba, .place_in_ttmps = true};
    out.lanes = words[kRsrc3 + 3] & kWave32 ? 32 : 64;
    out.gws = &gws_;
    out.save_area = {.base = kSaveArea, .bytes = kSaveBytes, .stack_words = 1024};
    return out;
  }

  // A resource for private memory, if the kernel needs one, the arguments, the start of the memory.
  static void set_user_data(DispatchSpec& spec, uint32_t properties) {
    constexpr uint32_t kPrivateSegmentBuffer = 1 << 0, kKernargPtr = 1 << 3,
                       kFlatScratchInit = 1 << 5;
    EXPECT_EQ(properties & ~(kPrivateSegmentBuffer | kFlatScratchInit), kKernargPtr);
    size_t next = 0;
    if (properties & kPrivateSegmentBuffer) {
      spec.user_data = {low32(kScratch), 1u << 31, kScratchWaveBytes * kScratchWaves,
                        1u << 23 | 3u << 21 | 4u << 15};
      next = 4;
    }
    spec.user_data[next] = low32(kKernarg);
    if (properties & kFlatScratchInit) spec.user_data[next + 2] = low32(kScratch);
  }

  // The counter of a grid barrier is ready, as before every kernel that uses it.
  std::unique_ptr<Dispatch> started() {
    gws_ = {.resources = shader::Gws::kResources};
    gws_.counters[0] = static_cast<uint8_t>(GetParam().groups - 1);
    auto dispatch = Dispatch::create(*cores_, memory_, kSpace, spec());
    EXPECT_TRUE(dispatch.ok());
    return std::move(*dispatch);
  }

  // The number of steps to the end.
  uint64_t finish(Dispatch& dispatch) {
    uint64_t steps = 0;
    State state = State::kRunning;
    while (state == State::kRunning && steps < 10'000'000) {
      state = dispatch.run(1);
      ++steps;
    }
    EXPECT_EQ(state, State::kDone) << dispatch.complaint();
    return steps;
  }

  void run_steps(Dispatch& dispatch, uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) ASSERT_EQ(dispatch.run(1), State::kRunning);
  }

  // Suspends; null when the dispatch ended instead. Nothing of the model's state is kept.
  std::unique_ptr<Dispatch> again(std::unique_ptr<Dispatch> dispatch) {
    dispatch->suspend();
    State state = State::kRunning;
    for (unsigned turn = 0; turn < 10'000 && state == State::kRunning; ++turn) {
      state = dispatch->run(1 << 12);
    }
    if (state == State::kDone) return nullptr;
    EXPECT_EQ(state, State::kSuspended) << dispatch->complaint();
    if (state != State::kSuspended) return nullptr;
    suspended_ = dispatch->suspended();
    const auto gws = gws_.pack();
    dispatch.reset();
    cores_ = std::make_unique<shader::Cores>(GetParam().isa);
    gws_ = {.resources = shader::Gws::kResources};
    gws_.unpack(gws);
    auto resumed = Dispatch::resume(*cores_, memory_, kSpace, spec(), suspended_);
    EXPECT_TRUE(resumed.ok()) << resumed.error().message();
    return resumed.ok() ? std::move(*resumed) : nullptr;
  }

  FakeMemory memory_;
  CodeObject object_;
  std::unique_ptr<shader::Cores> cores_ = std::make_unique<shader::Cores>(GetParam().isa);
  // Saved waves, upward from the fill level.
  std::vector<unsigned> engines_of_saved() const {
    std::vector<unsigned> engines;
    for (size_t i = shader::kStackPm4Words; i < suspended_.stack.size(); ++i) {
      const uint32_t word = suspended_.stack[i];
      if (word & shader::RelaunchState::kIsState) {
        if (is_gfx11(GetParam().isa)) ++i;  // COMPUTE_RELAUNCH2
        continue;
      }
      engines.push_back(shader::RelaunchWave::unpack(word, GetParam().isa).engine);
    }
    return engines;
  }

  shader::Gws gws_;
  Suspended suspended_;
  std::vector<shader::UnitId> units_;  // empty: eight of one engine
};

uint64_t stride(uint64_t steps, uint64_t samples) {
  const char* every = std::getenv("SUSPEND_EVERY");
  if (every) return std::max<uint64_t>(1, std::strtoull(every, nullptr, 10));
  return std::max<uint64_t>(1, steps / samples);
}

TEST_P(SuspendTest, TheResultIsTheSameWhereverTheWavesAreSaved) {
  const uint64_t steps = finish(*started());
  const auto expected = results();
  fill();
  ASSERT_NE(results(), expected);
  for (uint64_t at = 0; at < steps; at += stride(steps, 6)) {
    fill();
    auto dispatch = started();
    run_steps(*dispatch, at);
    dispatch = again(std::move(dispatch));
    if (dispatch) finish(*dispatch);
    ASSERT_EQ(results(), expected) << "saved after " << at << " of " << steps;
  }
}

// XNACK. Waves that wait for a page are saved, too, and their instruction is then repeated for the
// lanes that it left out.
TEST_P(SuspendTest, TheResultIsTheSameIfEachPageIsMappedWhenItIsMissed) {
  if (is_gfx11(GetParam().isa)) GTEST_SKIP() << "gfx11 does not repeat accesses";
  finish(*started());
  const auto expected = results();
  for (const bool suspends : {false, true}) {
    fill();
    ASSERT_NE(results(), expected);
    constexpr uint64_t kFirst = kData / FakeMemory::kPage;
    for (uint64_t page = 0; page < kDataBytes / FakeMemory::kPage; ++page)
      memory_.unmap(kProcess, kFirst + page);
    auto dispatch = started();
    State state = State::kRunning;
    unsigned missed = 0;
    for (unsigned turn = 0; turn < 100'000 && state != State::kDone; ++turn) {
      state = dispatch->run(1 << 12);
      ASSERT_TRUE(state == State::kRunning || state == State::kHalted || state == State::kDone)
          << dispatch->complaint();
      if (state != State::kHalted) continue;
      if (suspends) dispatch = again(std::move(dispatch));
      ASSERT_TRUE(dispatch);
      memory_.map(kProcess, memory_.last_missed());
      ++missed;
    }
    EXPECT_EQ(state, State::kDone);
    EXPECT_GT(missed, 0u);
    ASSERT_EQ(results(), expected) << "suspends: " << suspends;
  }
}

// Records are not handed out before the last wave has left its old one.
TEST_P(SuspendTest, WavesAreSavedAgainWhileTheyRestoreThemselves) {
  const uint64_t steps = finish(*started());
  const auto expected = results();
  fill();
  ASSERT_NE(results(), expected);
  auto to_restore = started();
  run_steps(*to_restore, steps / 3);
  to_restore = again(std::move(to_restore));
  ASSERT_TRUE(to_restore);
  const uint64_t rest = finish(*to_restore);
  for (uint64_t at = 0; at < rest; at += stride(rest, 5)) {
    fill();
    auto dispatch = started();
    run_steps(*dispatch, steps / 3);
    dispatch = again(std::move(dispatch));
    ASSERT_TRUE(dispatch);
    run_steps(*dispatch, at);
    dispatch = again(std::move(dispatch));
    if (dispatch) finish(*dispatch);
    ASSERT_EQ(results(), expected) << "saved again after " << at << " of " << rest;
  }
}

TEST_P(SuspendTest, ScratchIsSharedEquallyByTheEngines) {
  units_ = {{0, 0, 0}, {1, 0, 0}};
  DispatchSpec odd = spec();
  odd.scratch_waves = kScratchWaves - 1;
  EXPECT_EQ(Dispatch::create(*cores_, memory_, kSpace, odd).ok(), !(odd.rsrc2 & 1));
}

// Without the saved state the results differ, because the model itself keeps no state.
TEST_P(SuspendTest, OnlyTheSavedStateContinuesTheWaves) {
  const uint64_t steps = finish(*started());
  const auto expected = results();
  fill();
  ASSERT_NE(results(), expected);
  const auto suspended_in_the_middle = [&] {
    fill();
    auto dispatch = started();
    run_steps(*dispatch, steps / 2);
    (void)again(std::move(dispatch));
  };
  suspended_in_the_middle();
  ASSERT_GT(suspended_.bytes, 0u);
  std::memset(at(kSaveArea), 0, suspended_.bytes);
  auto without_area = Dispatch::resume(*cores_, memory_, kSpace, spec(), suspended_);
  ASSERT_TRUE(without_area.ok());
  const State state = (*without_area)->run(1 << 20);
  EXPECT_TRUE(state != State::kDone || results() != expected);
  without_area->reset();

  suspended_in_the_middle();
  Suspended without_stack = suspended_;
  without_stack.stack.clear();
  auto no_waves = Dispatch::resume(*cores_, memory_, kSpace, spec(), without_stack);
  ASSERT_TRUE(no_waves.ok());
  finish(**no_waves);
  EXPECT_NE(results(), expected);

  Suspended other_stack = suspended_;
  other_stack.stack.pop_back();
  EXPECT_FALSE(Dispatch::resume(*cores_, memory_, kSpace, spec(), other_stack).ok());
}

// A preemption that comes before all waves are relaunched saves the others where they are.
TEST_P(SuspendTest, WavesThatWereNotRelaunchedStaySaved) {
  finish(*started());
  const auto expected = results();
  fill();
  auto dispatch = started();
  ASSERT_EQ(dispatch->run(1), State::kRunning);
  bool incomplete = false;
  for (unsigned turns = 0; turns < 4 && dispatch; ++turns) {
    dispatch = again(std::move(dispatch));
    incomplete = incomplete || suspended_.incomplete;
    if (dispatch) run_steps(*dispatch, turns);
  }
  EXPECT_TRUE(incomplete);
  if (dispatch) finish(*dispatch);
  ASSERT_EQ(results(), expected);
}

// As on a board on which other units are fused off: the waves of an engine stay there.
TEST_P(SuspendTest, WavesStayOnTheirEngine) {
  units_ = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}};
  finish(*started());
  const auto expected = results();
  fill();
  auto dispatch = started();
  ASSERT_EQ(dispatch->run(1), State::kRunning);
  units_ = {{0, 0, 0}, {1, 0, 0}, {1, 0, 1}};
  dispatch = again(std::move(dispatch));
  ASSERT_TRUE(dispatch);
  auto saved = engines_of_saved();
  run_steps(*dispatch, 3);
  dispatch = again(std::move(dispatch));
  auto placed = engines_of_saved();
  std::ranges::sort(saved);
  std::ranges::sort(placed);
  if (dispatch) {
    EXPECT_EQ(placed, saved);
    finish(*dispatch);
  }
  EXPECT_EQ(results(), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, SuspendTest,
    ::testing::Values(
        Kernel{"basic.co", "vector_add", 2, {256, 1, 1}, {kA, 0, kB, 0, kOut, 0, 500}},
        Kernel{"basic.co", "blit_copy", 1, {128, 1, 1}, {kA, 0, kOut, 0, 200, 3213}},
        Kernel{"basic.co", "blit_fill", 1, {128, 1, 1}, {kOut, 0, 0xfeed, 200}},
        Kernel{"basic.co", "reduce", 1, {256, 1, 1}, {kA, 0, kOut, 0, 900}},
        Kernel{"basic.co", "matrix_multiply", 1, {16, 16, 1}, {kA, 0, kB, 0, kOut, 0, 16}},
        Kernel{"basic.co", "histogram", 1, {256, 1, 1}, {kA, 0, kOut, 0, 900}},
        Kernel{"basic.co", "philox", 2, {256, 1, 1}, {kA, 0, 0xcafe, 0xf00d}},
        Kernel{"basic.co", "churn", 2, {256, 1, 1}, {kA, 0, 9}},
        Kernel{"grid.co", "meet", 3, {256, 1, 1}, {kA, 0, 3, 4}},
        Kernel{"basic.co", "private_memory", 2, {256, 1, 1}, {kA, 0, 5}},
        Kernel{"train.co",
               "normalize",
               2,
               {128, 1, 1},
               {kA, 0, kA, 0, 0, 1024, 2048, 4096, 0, 2, 0, 0}},
        Kernel{"train.co", "softmax", 2, {128, 1, 1}, {kA, 0, kA, 0, 0, 0, 0, 0, 0, 2, 100, 0}},
        Kernel{"train.co", "gelu", 2, {128, 1, 1}, {kA, 0, kA, 0, 0, 1024, 0, 0, 0, 0, 0, 0}},
        Kernel{"train.co",
               "adam",
               2,
               {128, 1, 1},
               {kA, 0, kA, 0, 0, 1024, 2048, 3072, 0, 200, 0, 0, kThousandth, kOne}},
        Kernel{"registers.co", "trapping", 2, {128, 1, 1}, {kA, 0}},
        Kernel{"registers.co", "few", 3, {64, 1, 1}, {kA, 0}},
        Kernel{"registers.co", "accumulators", 2, {64, 1, 1}, {kA, 0}},
        Kernel{"registers.co", "whole_lds", 1, {256, 1, 1}, {kA, 0}},
        Kernel{"registers.co", "many", 2, {64, 1, 1}, {kA, 0}}),
    [](const auto& info) { return std::string(info.param.name); });

// The driver has another trap handler for gfx942, and private memory is in another place.
INSTANTIATE_TEST_SUITE_P(
    Gfx942, SuspendTest,
    ::testing::Values(Kernel{"basic.co", "churn", 2, {256, 1, 1}, {kA, 0, 9}, Isa::kGfx942},
                      Kernel{
                          "basic.co", "private_memory", 2, {256, 1, 1}, {kA, 0, 5}, Isa::kGfx942},
                      Kernel{"train.co",
                             "gelu",
                             2,
                             {128, 1, 1},
                             {kA, 0, kA, 0, 0, 1024, 0, 0, 0, 0, 0, 0},
                             Isa::kGfx942},
                      Kernel{"registers.co", "trapping", 2, {128, 1, 1}, {kA, 0}, Isa::kGfx942},
                      Kernel{"registers.co", "accumulators", 2, {64, 1, 1}, {kA, 0}, Isa::kGfx942},
                      Kernel{"registers.co", "whole_lds", 1, {256, 1, 1}, {kA, 0}, Isa::kGfx942}),
    [](const auto& info) { return std::string(info.param.name) + "_gfx942"; });

// Waves of both widths, which leave the handler privileged.
INSTANTIATE_TEST_SUITE_P(
    Gfx1100, SuspendTest,
    ::testing::Values(
        Kernel{
            "basic.co", "vector_add", 2, {256, 1, 1}, {kA, 0, kB, 0, kOut, 0, 500}, Isa::kGfx1100},
        Kernel{"basic.co", "reduce", 1, {256, 1, 1}, {kA, 0, kOut, 0, 900}, Isa::kGfx1100},
        Kernel{"basic.co",
               "matrix_multiply",
               1,
               {16, 16, 1},
               {kA, 0, kB, 0, kOut, 0, 16},
               Isa::kGfx1100},
        Kernel{"basic.co", "philox", 2, {256, 1, 1}, {kA, 0, 0xcafe, 0xf00d}, Isa::kGfx1100},
        Kernel{"basic.co", "churn", 2, {256, 1, 1}, {kA, 0, 9}, Isa::kGfx1100},
        Kernel{"basic.co", "private_memory", 2, {256, 1, 1}, {kA, 0, 5}, Isa::kGfx1100},
        Kernel{"grid.co", "meet", 3, {256, 1, 1}, {kA, 0, 3, 4}, Isa::kGfx1100},
        Kernel{"basic64.co", "reduce", 1, {256, 1, 1}, {kA, 0, kOut, 0, 900}, Isa::kGfx1100},
        Kernel{"basic64.co", "churn", 2, {256, 1, 1}, {kA, 0, 9}, Isa::kGfx1100},
        Kernel{"basic64.co", "private_memory", 2, {256, 1, 1}, {kA, 0, 5}, Isa::kGfx1100},
        Kernel{"train.co",
               "gelu",
               2,
               {128, 1, 1},
               {kA, 0, kA, 0, 0, 1024, 0, 0, 0, 0, 0, 0},
               Isa::kGfx1100},
        Kernel{"registers.co", "whole_lds", 1, {256, 1, 1}, {kA, 0}, Isa::kGfx1100},
        Kernel{"registers.co", "many", 2, {64, 1, 1}, {kA, 0}, Isa::kGfx1100}),
    [](const auto& info) {
      const bool wide = std::string(info.param.object) == "basic64.co";
      return std::string(info.param.name) + (wide ? "_gfx1100_wave64" : "_gfx1100");
    });

using WithoutVgprs = SuspendTest;

// MSG_DEALLOC_VGPRS: such a wave ends at a preemption, and nothing of it is saved.
TEST_P(WithoutVgprs, AWaveIsNotSaved) {
  constexpr uint64_t kNops = 16;
  const uint64_t steps = finish(*started());
  const auto expected = results();
  ASSERT_GT(steps, kNops + 2);
  for (const uint64_t left : {uint64_t{1}, kNops / 2, kNops}) {
    fill();
    auto dispatch = started();
    run_steps(*dispatch, steps - left);
    EXPECT_EQ(again(std::move(dispatch)), nullptr) << left;
    EXPECT_EQ(results(), expected);
  }
  auto before = started();
  run_steps(*before, steps - kNops - 3);
  EXPECT_NE(again(std::move(before)), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Gfx1100, WithoutVgprs,
                         ::testing::Values(Kernel{
                             "registers.co", "gives_back", 1, {32, 1, 1}, {kA, 0}, Isa::kGfx1100}));

}  // namespace
}  // namespace gpu::test
