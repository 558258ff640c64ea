// SPDX-License-Identifier: GPL-2.0
#include "tool/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/temp_dir.h"

namespace amdgpu_criu::tool {
namespace {

using testing_support::TempDir;

TEST(Series, WithoutValuesIsZero) { EXPECT_EQ(Series().median(), 0); }

TEST(Series, MedianAndSpread) {
  Series series;
  for (const double value : {5.0, 1.0, 3.0}) series.add(value);
  EXPECT_EQ(series.median(), 3);
  series.add(4);
  EXPECT_EQ(series.median(), 3.5);
  EXPECT_EQ(series.text("MiB/s"), "3.50 MiB/s (1.00 to 5.00)");
  series.add(1000);
  series.add(2000);
  series.add(3000);
  EXPECT_EQ(series.median(), 5);
  EXPECT_EQ(series.json().at("most"), 3000);
}

TEST(BenchFile, WritesAndReadsAllOfItAndLeavesNothing) {
  TempDir dir;
  // Not a multiple of a block, so that the last one is short.
  auto file = BenchFile::create(dir.path(), (9 << 20) + 4096);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_FALSE(file->read().ok()) << "there is nothing in it yet";
  ASSERT_TRUE(file->write().ok());
  const auto seconds = file->read();
  ASSERT_TRUE(seconds.ok()) << seconds.error().message();
  EXPECT_GT(*seconds, 0);
  EXPECT_TRUE(dir.names().empty());
}

TEST(BenchFile, NeedsAnExistingDirectory) {
  EXPECT_FALSE(BenchFile::create("/no/such/directory", 4096).ok());
}

TEST(Random, IsNeitherZeroNorTheSameTwice) {
  std::vector<std::byte> one(4096), other(4096);
  fill_random(one, 1);
  fill_random(other, 2);
  EXPECT_NE(one, other);
  EXPECT_EQ(std::ranges::count(one, std::byte{0}) < 100, true);
}

}  // namespace
}  // namespace amdgpu_criu::tool
