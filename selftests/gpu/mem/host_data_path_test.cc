// SPDX-License-Identifier: GPL-2.0
#include "mem/host_data_path.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace gpu {
namespace {

class HostDataPathTest : public testing::Test {
 protected:
  void write(HostDataPath& path, uint64_t offset, uint64_t value) {
    path.write(offset, std::as_bytes(std::span(&value, 1)));
  }
  uint64_t read(HostDataPath& path, uint64_t offset) {
    uint64_t value = 0;
    path.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  uint64_t in_vram(uint64_t offset) {
    uint64_t value = 0;
    memcpy(&value, vram_.data() + offset, sizeof(value));
    return value;
  }

  std::vector<std::byte> vram_ = std::vector<std::byte>(64 << 10);
  HostDataPath holding_{vram_, true};
};

TEST_F(HostDataPathTest, WritesReachVramAtOnceIfNoneAreHeld) {
  HostDataPath path(vram_, false);
  write(path, 8, 1);
  EXPECT_EQ(in_vram(8), 1u);
  EXPECT_EQ(read(path, 8), 1u);
}

TEST_F(HostDataPathTest, WritesAreHeldUntilAFlush) {
  write(holding_, 8, 1);
  EXPECT_EQ(in_vram(8), 0u);
  holding_.flush();
  EXPECT_EQ(in_vram(8), 1u);
}

TEST_F(HostDataPathTest, TheCpuReadsWhatItHasWritten) {
  write(holding_, 4096 - 4, 0x1122334455667788);
  EXPECT_EQ(read(holding_, 4096 - 4), 0x1122334455667788u);
  EXPECT_EQ(read(holding_, 4096), 0x11223344u);
}

TEST_F(HostDataPathTest, AFlushKeepsWhatAnEngineHasWrittenBeside) {
  write(holding_, 8, 1);
  vram_[16] = std::byte{2};
  holding_.flush();
  EXPECT_EQ(in_vram(8), 1u);
  EXPECT_EQ(in_vram(16), 2u);
}

TEST_F(HostDataPathTest, AWriteIsFlushedOnce) {
  write(holding_, 8, 1);
  holding_.flush();
  vram_[8] = std::byte{2};
  holding_.flush();
  EXPECT_EQ(in_vram(8), 2u);
}

}  // namespace
}  // namespace gpu
