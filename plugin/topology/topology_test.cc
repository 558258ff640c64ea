// SPDX-License-Identifier: GPL-2.0
#include "topology/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace topology {
namespace {

namespace fs = std::filesystem;

class TopologyTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(TopologyTest, ReadsGpusAndSkipsCpuNodes) {
  write("0/gpu_id", "0\n");
  write("0/properties", "simd_count 0\n");
  write("1/gpu_id", "34012\n");
  write("1/properties",
        "simd_count 32\ndrm_render_minor 129\nlocation_id 768\ndomain 0\n"
        "unique_id 18446744073709551615\n");
  write("1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 1073741824\n");
  write("1/mem_banks/1/properties", "heap_type 3\nsize_in_bytes 5\n");
  auto gpus = read_gpus(root_);
  ASSERT_TRUE(gpus.ok());
  ASSERT_EQ(gpus->size(), 1u);
  const Gpu& gpu = gpus->front();
  EXPECT_EQ(gpu.gpu_id, 34012u);
  EXPECT_EQ(gpu.render_minor, 129u);
  EXPECT_EQ(gpu.pci_address, "0000:03:00.0");
  EXPECT_EQ(gpu.unique_id, UINT64_MAX);
  EXPECT_EQ(gpu.property("vram_size"), 1073741824u);
  EXPECT_EQ(gpu.property("no_such_property"), 0u);
}

TEST_F(TopologyTest, AMachineWithoutKfdHasNoGpus) {
  auto gpus = read_gpus(root_ / "absent");
  ASSERT_TRUE(gpus.ok());
  EXPECT_TRUE(gpus->empty());
}

TEST_F(TopologyTest, IgnoresLinesThatAreNotProperties) {
  write("1/gpu_id", "7");
  write("1/properties", "simd_count\n 5\nname gfx90a\nbig 99999999999999999999999\nok 3\n");
  auto gpus = read_gpus(root_);
  ASSERT_TRUE(gpus.ok());
  EXPECT_EQ(gpus->at(0).properties.count("name"), 0u);
  EXPECT_EQ(gpus->at(0).property("ok"), 3u);
  EXPECT_EQ(gpus->at(0).property("big"), 0u);
}

}  // namespace
}  // namespace topology
