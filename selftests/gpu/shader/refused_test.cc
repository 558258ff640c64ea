// SPDX-License-Identifier: GPL-2.0
// Instructions and modes that the cores lack: a kernel that uses one stops with an exception for an
// illegal instruction, and the report names it. Nothing is computed in another way than requested.
#include <gmock/gmock.h>

#include "shader/kernel_fixture.h"

namespace gpu::test {
namespace {

using ::testing::HasSubstr;

// s_setreg_imm32_b32 of fields of MODE
constexpr uint32_t kSetRounding = 0xba001801, kSetDenormals = 0xba001901;
constexpr uint32_t kSetExceptions = 0xba004301;

struct Case {
  const char* name;
  std::vector<uint32_t> code;
  const char* report;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class Refused : public KernelTest {
 protected:
  void launch(std::vector<uint32_t> code, uint32_t rsrc2 = 0) {
    code.push_back(kEndpgm);
    std::vector<uint32_t> descriptor(16);
    descriptor[4] = 256;
    descriptor[12] = 0xf0 << 12 | 1 << 21 | 1 << 23 | 3;
    descriptor[13] = 2 << 1 | 1 << 7 | rsrc2;
    descriptor[14] = 1 << 3;
    put_all(kCode, descriptor);
    put_all(kCode + 256, code);
    submit(kCode, {.group = {64, 1, 1}});
  }
  bool fails_with(uint64_t error) {
    return FakeGpu::eventually(
        [&] { return get<uint64_t>(kErrorSignal + aql::kSignalValue) == error; });
  }
};

class RefusedInstructions : public Refused, public testing::WithParamInterface<Case> {};

TEST_P(RefusedInstructions, AreNamedAndStopTheQueue) {
  launch(GetParam().code);
  ASSERT_TRUE(fails_with(aql::kErrorIllegalInstruction));
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_THAT(gpu_.reports()[0], HasSubstr(GetParam().report));
}

const Case kCases[] = {
    {"ReadOfGds", {0xd86d0000, 0x01}, "ds_read_b32 of the global data share"},
    {"WriteOfGds", {0xd81b0000, 0x0100}, "ds_write_b32 of the global data share"},
    {"SumInGds", {0xd8010000, 0x0100}, "ds_add_u32 of the global data share"},
    {"Append", {0xd97c0000, 0}, "ds_append is not modelled"},
    {"BlocksOfOne", {0xd3c40100, 0x04020b04}, "v_mfma_f32_32x32x2f32 with such broadcast fields"},
    {"BlockBehindOthers", {0xd3c21100, 0x04020b04}, "v_mfma_f32_4x4x1f32 with such broadcast"},
    {"LanesOfDoubles", {0xd3ee0000, 0x24020b04}, "v_mfma_f64_16x16x4f64 with such broadcast"},
    {"RoundedQuotient", {kSetRounding, 5, 0xd1e20000, 0x040e0501}, "another rounding"},
    {"RoundedMix", {kSetRounding, 5, 0xd3a00000, 0x040e0501}, "another rounding"},
    {"Exceptions", {kSetExceptions, 1}, "MODE 0x13f0 is not modelled"},
    {"RoundedDot", {kSetRounding, 5, 0xd3a34000, 0x1c0e0501}, "another rounding"},
    {"ClampOfAShift", {0xd3848000, 0x18020501}, "clamp of this packed operation"},
    {"ClampOfAConversion", {0xd1478000, 0x0101}, "clamp of an integer"},
    {"BufferFormat", {0xe0000000, 0x80000000}, "buffer_load_format_x of such a format"},
    {"TypedBuffer", {0xeb300000, 0x80000000}, "tbuffer_load_format_x of such a format"},
    {"HalvesOfTexels", {0xe0200000, 0x80000000}, "buffer_load_format_d16_x is not modelled"},
    {"PackedImage", {0xf0280100, 0x0402}, "image_store_pck is not modelled"},
    {"ImageOfNoType", {0xf0200100, 0x0402}, "image_store of type 0 is not modelled"},
    {"Skipping", {0xbf108081}, "skipping of vector instructions"},
    {"ScalarAtomic", {0xc20a0001, 0}, "s_atomic_add is not modelled"},
    {"DppOfDoubles", {0x7e0830fa, 0xff010102}, "such DPP of 64-bit operands"},
};
INSTANTIATE_TEST_SUITE_P(All, RefusedInstructions, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Integers do not depend on these bits of MODE.
TEST_F(Refused, ModesThatChangeNothingAreNotRefused) {
  constexpr uint32_t kAdd = 0x68000501;
  launch({kSetRounding, 5, kSetDenormals, 0, kAdd, 0xd38a4000, 0x18020501 /* v_pk_add_u16 */,
          0xd3a84000, 0x1c0e0501 /* v_dot4_i32_i8 */});
  EXPECT_TRUE(completes());
  EXPECT_THAT(gpu_.reports(), testing::IsEmpty());
}

TEST_F(Refused, AKernelThatRequestsExceptionsOfFloatsIsNotLaunched) {
  constexpr uint32_t kDivisionByZero = 1 << 26;
  launch({}, kDivisionByZero);
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_THAT(gpu_.reports()[0], HasSubstr("exceptions of the ALU are not modelled"));
  EXPECT_EQ(get<uint64_t>(kSignal + aql::kSignalValue), 1u);
}

}  // namespace
}  // namespace gpu::test
