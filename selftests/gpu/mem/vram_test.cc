// SPDX-License-Identifier: GPL-2.0
#include "mem/vram.h"

#include <filesystem>

#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::code_of;
using test::expect;

constexpr uint64_t kSize = 1 << 20;

class VramTest : public testing::Test {
 protected:
  VramTest() {
    std::string name = testing::TempDir() + "hiveXXXXXX";
    dir_ = mkdtemp(name.data());
  }
  ~VramTest() override { std::filesystem::remove_all(dir_); }

  amdgpu_criu::Result<std::unique_ptr<Vram>> make(unsigned node, unsigned nodes,
                                                  uint64_t size = kSize, bool xgmi = true) {
    return Vram::create(
        {.size = size, .shared_dir = dir_, .node = node, .nodes = nodes, .xgmi = xgmi});
  }
  std::string dir_;
};

TEST_F(VramTest, NodesSeeOneAnothersMemory) {
  auto first = expect(make(0, 2));
  auto second = expect(make(1, 2, 2 * kSize));
  second->own()[5] = std::byte{42};
  const auto seen = first->find(Vram::kSegment + 5, 100);
  ASSERT_EQ(seen.size(), 100u);
  EXPECT_EQ(seen[0], std::byte{42});
  seen[1] = std::byte{43};
  EXPECT_EQ(second->own()[6], std::byte{43});
  EXPECT_EQ(first->find(Vram::kSegment + 2 * kSize - 4, 100).size(), 4u);
}

TEST_F(VramTest, PeerMayStartLater) {
  auto first = expect(make(0, 2));
  EXPECT_TRUE(first->find(Vram::kSegment, 4).empty());
  auto second = expect(make(1, 2));
  EXPECT_EQ(first->find(Vram::kSegment, 4).size(), 4u);
}

TEST_F(VramTest, ThereIsNoMemoryOutsideOfTheHive) {
  auto only = expect(make(0, 1));
  EXPECT_TRUE(only->find(kSize, 4).empty());
  EXPECT_TRUE(only->find(Vram::kSegment, 4).empty());
  EXPECT_TRUE(only->find(~0ull, 4).empty());
}

TEST_F(VramTest, GpusWithoutXgmiReachOneAnotherThroughBars) {
  constexpr uint64_t kBar = 0x180000000;
  auto first = expect(make(0, 2, kSize, false));
  auto second = expect(make(1, 2, kSize, false));
  EXPECT_TRUE(first->find(Vram::kSegment, 4).empty());
  EXPECT_EQ(second->find(4, 4).data(), second->own().data() + 4);
  EXPECT_TRUE(first->find_in_bars(0, 4).empty());
  second->set_bar(kBar);
  second->own()[5] = std::byte{42};
  const auto seen = first->find_in_bars(kBar + 5, 100);
  ASSERT_EQ(seen.size(), 100u);
  EXPECT_EQ(seen[0], std::byte{42});
  EXPECT_EQ(first->find_in_bars(kBar + kSize - 4, 100).size(), 4u);
  EXPECT_TRUE(first->find_in_bars(kBar + kSize, 4).empty());
  EXPECT_TRUE(first->find_in_bars(kBar - 1, 4).empty());
  EXPECT_TRUE(second->find_in_bars(kBar, 4).empty());
  second->set_bar(0);
  EXPECT_TRUE(first->find_in_bars(kBar + 5, 4).empty());
}

TEST_F(VramTest, StartsZeroed) {
  {
    auto before = expect(make(0, 1));
    before->own()[0] = std::byte{1};
  }
  EXPECT_EQ(expect(make(0, 1))->own()[0], std::byte{0});
}

TEST_F(VramTest, RefusesAnImpossibleHive) {
  EXPECT_EQ(code_of(make(2, 2)), EINVAL);
  EXPECT_EQ(code_of(make(0, 9)), EINVAL);
  EXPECT_EQ(code_of(make(0, 0)), EINVAL);
  EXPECT_EQ(code_of(Vram::create({.size = kSize, .shared_dir = "", .node = 0, .nodes = 2})),
            EINVAL);
  EXPECT_EQ(code_of(Vram::create({.size = kSize, .shared_dir = "/none", .node = 0, .nodes = 1})),
            ENOENT);
  auto first = expect(make(0, 1));
  EXPECT_EQ(code_of(make(0, 1, 2 * kSize)), EEXIST);
}

}  // namespace
}  // namespace gpu
