// SPDX-License-Identifier: GPL-2.0
#include "topology/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace amdgpu_criu::topology {
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

// Two arrays of four CUs, of which each GPU lacks one; two CUs share a cache of instructions.
TEST_F(TopologyTest, NumbersTheCusOfShaderArrays) {
  const auto write_gpu = [&](const std::string& node, const std::set<unsigned>& missing) {
    write(node + "/gpu_id", node);
    write(node + "/properties",
          "simd_id_base 2147487744\ncu_per_simd_array 4\ndrm_render_minor " + node + "\n");
    unsigned caches = 0;
    const auto write_cache = [&](unsigned unit, unsigned level, const std::string& map) {
      write(formatted("{}/caches/{}/properties", node, caches++),
            formatted("processor_id_low {}\nlevel {}\ntype 9\nsibling_map {}\n", 2147487744u + unit,
                      level, map));
    };
    for (unsigned unit = 0; unit < 8; unit++)
      if (!missing.contains(unit)) write_cache(unit, 1, "1,0,0,0");
    for (unsigned unit = 0; unit < 8; unit += 2) {
      const bool both = !missing.contains(unit) && !missing.contains(unit + 1);
      write_cache(unit + missing.contains(unit), 1, both ? "1,1,0,0" : "1,0,0,0");
    }
    write_cache(0, 2, "1,1,1,1");
  };
  write_gpu("1", {7});
  write_gpu("2", {3});
  write_gpu("3", {4});
  auto gpus = read_gpus(root_);
  ASSERT_TRUE(gpus.ok());
  ASSERT_EQ(gpus->size(), 3u);
  const auto layout = [&](size_t gpu) { return (*gpus)[gpu].properties.at(kCuLayout); };
  EXPECT_NE(layout(0), layout(1)) << "4+3 and 3+4";
  EXPECT_EQ(layout(0), layout(2)) << "another one of the same array";
}

TEST_F(TopologyTest, ReadsLinksToGpusAndTheNumaNode) {
  write("0/gpu_id", "0\n");
  write("1/gpu_id", "0\n");
  for (const char* node : {"2", "3"}) write(std::string(node) + "/properties", "simd_count 32\n");
  write("2/gpu_id", "22\n");
  write("3/gpu_id", "33\n");
  write("2/io_links/0/properties", "type 2\nnode_from 2\nnode_to 1\n");
  write("2/io_links/1/properties", "type 11\nnode_from 2\nnode_to 3\n");
  write("3/io_links/0/properties", "type 2\nnode_from 3\nnode_to 0\n");
  write("3/p2p_links/0/properties", "type 2\nnode_from 3\nnode_to 2\n");
  write("3/p2p_links/1/properties", "type 2\nnode_from 3\nnode_to 9\n");
  auto gpus = read_gpus(root_);
  ASSERT_TRUE(gpus.ok());
  ASSERT_EQ(gpus->size(), 2u);
  std::ranges::sort(*gpus, {}, &Gpu::gpu_id);
  EXPECT_EQ(gpus->at(0).property("numa_node"), 1u);
  EXPECT_EQ(gpus->at(0).links, (std::map<uint32_t, uint64_t>{{33, 11}}));
  EXPECT_TRUE(gpus->at(1).properties.contains("numa_node"));
  EXPECT_EQ(gpus->at(1).property("numa_node"), 0u);
  EXPECT_EQ(gpus->at(1).links, (std::map<uint32_t, uint64_t>{{22, 2}}));
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
}  // namespace amdgpu_criu::topology
