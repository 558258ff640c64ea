// SPDX-License-Identifier: GPL-2.0
#include "image/blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace amdgpu_criu::image {
namespace {

using testing::HasSubstr;

std::vector<std::byte> read_golden(const std::string& name) {
  std::ifstream in(std::string(GOLDEN_BLOBS "/") + name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Blob, RecordsOfAKfdProcessHaveTheirNames) {
  const auto records = list_records(read_golden("kfd-1-two-gpus.blob"));
  ASSERT_TRUE(records.ok()) << records.error().message();
  EXPECT_EQ(records->front().name(), "identity");
  EXPECT_EQ(records->back().name(), "end");
  const auto devices = std::ranges::find(*records, "device", &BlobRecords::name);
  ASSERT_NE(devices, records->end());
  EXPECT_EQ(devices->version, 1);
  EXPECT_EQ(devices->count, 2u);
  EXPECT_GT(devices->bytes, 0u);
}

TEST(Blob, EveryTruncatedBlobIsRefused) {
  const std::vector<std::byte> whole = read_golden("kfd-1-one-gpu.blob");
  ASSERT_TRUE(list_records(whole).ok());
  for (size_t size = 0; size < whole.size(); size += 4) {
    const auto records = list_records(std::span(whole).first(size));
    const bool has_end = records.ok() && !records->empty() && records->back().name() == "end";
    EXPECT_FALSE(has_end) << size;
  }
}

TEST(Blob, ANewTypeHasItsNumber) { EXPECT_EQ((BlobRecords{0x123, 1, 1, 8}.name()), "type 0x123"); }

}  // namespace
}  // namespace amdgpu_criu::image
