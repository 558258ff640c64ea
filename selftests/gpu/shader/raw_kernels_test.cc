// SPDX-License-Identifier: GPL-2.0
// Kernels of a few words: faults, traps, and packets that are refused.
#include <gmock/gmock.h>

#include "shader/kernel_fixture.h"

namespace gpu::test {
namespace {

using ::testing::HasSubstr;

// Kernels of a few words.
class RawKernels : public KernelTest {
 protected:
  uint64_t put_kernel(const std::vector<uint32_t>& code) {
    std::vector<uint32_t> descriptor(16);
    descriptor[4] = 256;
    descriptor[12] = 0xf0 << 12 | 1 << 21 | 1 << 23;
    descriptor[13] = 2 << 1 | 1 << 7;
    descriptor[14] = 1 << 3;
    put_all(kCode, descriptor);
    put_all(kCode + 256, code);
    return kCode;
  }
  bool fails_with(uint64_t error) {
    return FakeGpu::eventually(
        [&] { return get<uint64_t>(kErrorSignal + aql::kSignalValue) == error; });
  }
};

TEST_F(RawKernels, AnInstructionThatIsMissingIsNamedAndStopsTheQueue) {
  submit(put_kernel({0xbf910000 /* s_sendmsghalt 0 */, kEndpgm}), {.group = {64, 1, 1}});
  ASSERT_TRUE(fails_with(aql::kErrorIllegalInstruction));
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_THAT(gpu_.reports()[0], HasSubstr("s_sendmsghalt is not modelled"));
  EXPECT_EQ(gpu_.interrupts.count(ih::kSourceBadOpcode), 1u);
  EXPECT_EQ(get<uint64_t>(kSignal + aql::kSignalValue), 1u);
  EXPECT_TRUE(gpu_.preempt());
}

TEST_F(RawKernels, AWordThatIsNoInstructionStopsTheQueue) {
  submit(put_kernel({0xffffffff}), {.group = {64, 1, 1}});
  ASSERT_TRUE(fails_with(aql::kErrorIllegalInstruction));
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
}

// Decoded instructions are kept.
TEST_F(RawKernels, CodeThatIsWrittenAgainIsDecodedAgain) {
  constexpr uint32_t kMoveInline = 0xbe820080;  // s_mov_b32 s2, 0, and greater numbers
  for (const uint32_t number : {3, 4}) {
    // s_mov_b32 s0, kData; s_mov_b32 s1, 0; s_mov_b32 s2, number; s_store_dword s2, s[0:1], 0
    submit(put_kernel({0xbe8000ff, static_cast<uint32_t>(kData), 0xbe810080, kMoveInline + number,
                       0xc0420080, 0, kEndpgm}),
           {.group = {64, 1, 1}});
    ASSERT_TRUE(completes());
    EXPECT_EQ(get<uint32_t>(kData), number);
  }
}

TEST_F(RawKernels, AFaultStopsTheQueueAndIsReportedByTheMemoryOnly) {
  gpu_.memory.punch_hole(queue_.base, 0x700000 / FakeMemory::kPage);
  // s_mov_b32 s0, 0x700000; s_mov_b32 s1, 0; s_load_dword s2, s[0:1], 0
  submit(put_kernel({0xbe8000ff, 0x700000, 0xbe810080, 0xc0020080, 0, kEndpgm}),
         {.group = {64, 1, 1}});
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.memory.faults() == 1; }));
  EXPECT_TRUE(gpu_.preempt());
  EXPECT_EQ(get<uint64_t>(kSignal + aql::kSignalValue), 1u);
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(RawKernels, ALoadOfAHalfClearsTheOther) {
  put<uint32_t>(kData, 0x1234);
  // v[0:1] = kData; v2 = v3 = -1; global_load_short_d16 v2; global_load_short_d16_hi v3;
  // global_store_dwordx2 v[0:1], v[2:3], off offset:8
  submit(put_kernel({0x7e0002ff, static_cast<uint32_t>(kData), 0x7e020280, 0x7e0402c1, 0x7e0602c1,
                     0xdc908000, 0x027f0000, 0xdc948000, 0x037f0000, 0xbf8c0f70, 0xdc748008,
                     0x007f0200, kEndpgm}),
         {.group = {64, 1, 1}});
  ASSERT_TRUE(completes());
  EXPECT_EQ(get<uint32_t>(kData + 8), 0x1234u);
  EXPECT_EQ(get<uint32_t>(kData + 12), 0x12340000u);
}

struct Swizzle {
  const char* name;
  uint32_t offset;
  unsigned (*source)(unsigned lane);
};

void PrintTo(const Swizzle& one, std::ostream* out) { *out << one.name; }

class Swizzles : public RawKernels, public ::testing::WithParamInterface<Swizzle> {};

TEST_P(Swizzles, TakeTheLaneThatTheOffsetSelects) {
  // s[0:1] = kData; ds_swizzle_b32 v2, v0; v3 = v0 * 4; global_store_dword v3, v2, s[0:1]
  submit(put_kernel({0xbe8000ff, static_cast<uint32_t>(kData), 0xbe810080,
                     0xd87a0000 | GetParam().offset, 0x02000000, 0xbf8cc07f, 0x24060082, 0xdc708000,
                     0x00000203, kEndpgm}),
         {.grid = {64, 1, 1}, .group = {64, 1, 1}});
  ASSERT_TRUE(completes());
  for (unsigned lane = 0; lane < 64; ++lane)
    EXPECT_EQ(get<uint32_t>(kData + lane * 4), GetParam().source(lane)) << lane;
}

const Swizzle kSwizzles[] = {
    {"ReversedQuads", 0x801b, [](unsigned lane) { return lane ^ 3; }},
    {"RotatedLeft", 0xc060, [](unsigned lane) { return (lane & 32) | ((lane + 3) & 31); }},
    {"RotatedRight", 0xc420, [](unsigned lane) { return (lane & 32) | ((lane + 31) & 31); }},
    {"RotatedEights", 0xc438, [](unsigned lane) { return (lane & 56) | ((lane + 7) & 7); }},
    {"Fft32", 0xe000,
     [](unsigned lane) {
       return (lane & 36) | (lane & 1) << 4 | (lane & 2) << 2 | (lane >> 2 & 2) | (lane >> 4 & 1);
     }},
    {"Fft16", 0xe010,
     [](unsigned lane) {
       return (lane & 48) | (lane & 1) << 3 | (lane & 2) << 1 | (lane >> 1 & 2) | (lane >> 3 & 1);
     }},
    {"Fft1", 0xe01f, [](unsigned lane) { return lane; }},
};

INSTANTIATE_TEST_SUITE_P(Modes, Swizzles, ::testing::ValuesIn(kSwizzles),
                         [](const auto& one) { return one.param.name; });

// The message of the wave: bits 9:0 are the doorbell, the bits above are the exceptions of the
// queue.
class TrappingKernels : public RawKernels {
 protected:
  TrappingKernels() { give_trap_handler(); }
  testing::AssertionResult sends(uint32_t exceptions, size_t count) {
    if (!FakeGpu::eventually([&] { return messages().size() == count; }))
      return testing::AssertionFailure() << messages().size() << " messages of waves";
    const Interrupt last = messages().back();
    const uint32_t data = (last.data[0] & 0xfff) | (last.data[0] >> 16 & 0xf000);
    const uint32_t doorbell = queue_.doorbell >> 3 & 0x3ff;
    constexpr uint32_t kFromPrivilegedWave = 1 << 26 | 1 << 13;
    if (last.client == ih::kClientSe0Sh && data == (exceptions << 10 | doorbell) &&
        (last.data[0] & kFromPrivilegedWave) == kFromPrivilegedWave && last.pasid == queue_.pasid)
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << "a message of " << std::hex << data;
  }
  std::vector<Interrupt> messages() {
    std::vector<Interrupt> out = gpu_.interrupts.all();
    std::erase_if(out, [](const auto& one) { return one.source != ih::kSourceSqMessage; });
    return out;
  }
  // Its halted wave is saved and continues to be halted.
  void expect_that_the_wave_is_kept() {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(gpu_.preempt());
      EXPECT_GT(mqd_word(mqd::kWaveOffset), FakeGpu::kStackBytes);
      map();
    }
    EXPECT_EQ(get<uint64_t>(kSignal + aql::kSignalValue), 1u);
  }

  static constexpr uint32_t kIllegal = 1 << 3, kMemoryViolation = 1 << 4, kAperture = 1 << 5;
};

TEST_F(TrappingKernels, AnIllegalInstructionEntersTheTrapHandler) {
  submit(put_kernel({0xbf910000 /* s_sendmsghalt 0 */, kEndpgm}), {.group = {64, 1, 1}});
  EXPECT_TRUE(sends(kIllegal, 1));
  expect_that_the_wave_is_kept();
  EXPECT_EQ(messages().size(), 1u);
  EXPECT_EQ(gpu_.interrupts.count(ih::kSourceBadOpcode), 0u);
  ASSERT_EQ(gpu_.reports().size(), 1u);
  EXPECT_THAT(gpu_.reports()[0], HasSubstr("s_sendmsghalt is not modelled"));
}

TEST_F(TrappingKernels, EveryWaveIsReportedButTheInstructionIsNamedOnce) {
  submit(put_kernel({0xbf910000 /* s_sendmsghalt 0 */, kEndpgm}),
         {.grid = {256, 1, 1}, .group = {64, 1, 1}});
  EXPECT_TRUE(sends(kIllegal, 4));
  EXPECT_EQ(gpu_.reports().size(), 1u);
}

TEST(MissingInstructions, AreNamedOnceInEachDispatch) {
  shader::Cores cores;
  for (const char* text : {"first", "second"}) {
    cores.forget_reasons();
    cores.complain("s_sendmsghalt is not modelled", text);
    cores.complain("s_sendmsghalt is not modelled", "of another wave");
    EXPECT_THAT(cores.take_complaints(), ::testing::ElementsAre(text));
  }
}

TEST_F(TrappingKernels, AFaultEntersTheTrapHandler) {
  gpu_.memory.punch_hole(queue_.base, 0x700000 / FakeMemory::kPage);
  // s_mov_b32 s0, 0x700000; s_mov_b32 s1, 0; s_load_dword s2, s[0:1], 0
  submit(put_kernel({0xbe8000ff, 0x700000, 0xbe810080, 0xc0020080, 0, kEndpgm}),
         {.group = {64, 1, 1}});
  EXPECT_TRUE(sends(kMemoryViolation, 1));
  expect_that_the_wave_is_kept();
  EXPECT_EQ(gpu_.memory.faults(), 1u);
  EXPECT_THAT(gpu_.reports(), testing::IsEmpty());
}

TEST_F(TrappingKernels, AnAddressInNoApertureEntersTheTrapHandler) {
  // s_mov_b32 s0, 0; s_mov_b32 s1, 0x70000000; s_load_dword s2, s[0:1], 0
  submit(put_kernel({0xbe800080, 0xbe8100ff, 0x70000000, 0xc0020080, 0, kEndpgm}),
         {.group = {64, 1, 1}});
  EXPECT_TRUE(sends(kAperture, 1));
  expect_that_the_wave_is_kept();
  EXPECT_EQ(gpu_.memory.faults(), 0u);
  EXPECT_THAT(gpu_.reports(), testing::IsEmpty());
}

TEST_F(TrappingKernels, GwsThatTheQueueDoesNotHaveEntersTheTrapHandler) {
  // ds_gws_sema_v gds
  submit(put_kernel({0xd9350000, 0, kEndpgm}), {.group = {64, 1, 1}});
  EXPECT_TRUE(sends(kAperture, 1));
  expect_that_the_wave_is_kept();
}

TEST_F(TrappingKernels, ATrapReturnsBehindItself) {
  // s_trap 3
  submit(put_kernel({0xbf920003, 0xbf920002, kEndpgm}), {.group = {64, 1, 1}});
  EXPECT_TRUE(completes());
  EXPECT_TRUE(messages().empty());
}

TEST_F(RawKernels, APacketIsValidatedBeforeItRuns) {
  struct Case {
    Launch launch;
    uint64_t error;
    uint32_t exception;  // of the queue: EC_QUEUE_PACKET_DISPATCH_*
    const char* what;
  };
  const uint64_t object = put_kernel({kEndpgm});
  const Case cases[] = {
      {{.group = {64, 1, 1}, .dimensions = 0}, aql::kErrorDimensions, 16, "no dimensions"},
      {{.grid = {0, 1, 1}, .group = {64, 1, 1}}, aql::kErrorDimensions, 16, "empty grid"},
      {{.group = {0, 1, 1}}, aql::kErrorGroupSize, 21, "empty group"},
      {{.group = {64, 32, 1}}, aql::kErrorGroupSize, 21, "group too large"},
      {{.group = {64, 1, 1}, .lds = 65 << 10}, aql::kErrorGroupMemory, 17, "too much LDS"},
  };
  std::vector<uint32_t> expected;
  for (const Case& one : cases) {
    put<uint64_t>(kErrorSignal + aql::kSignalValue, 0);
    gpu_.submit(queue_, packet(object, one.launch));
    EXPECT_TRUE(fails_with(one.error)) << one.what;
    expected.push_back(one.exception);
    EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.exceptions(queue_) == expected; }))
        << one.what;
    // A refused packet stays in its queue, so each case has a separate queue.
    ASSERT_TRUE(gpu_.preempt());
    gpu_.memory.put<uint32_t>(0, queue_.mqd + mi210().compute_mqd.reserved * uint64_t{4}, 0);
    put<uint32_t>(queue_.ring + (queue_.wptr_value - 1) % 1024 * 64, aql::kInvalid);
    gpu_.memory.put<uint32_t>(0, queue_.mqd + mqd::kPqRptr * uint64_t{4},
                              static_cast<uint32_t>(queue_.wptr_value * 16));
    gpu_.memory.put<uint32_t>(0, queue_.mqd + mqd::kPqWptr * uint64_t{4},
                              static_cast<uint32_t>(queue_.wptr_value * 16));
    map();
  }
  submit(object, {.group = {64, 1, 1}});
  EXPECT_TRUE(completes());
}

}  // namespace
}  // namespace gpu::test
