// SPDX-License-Identifier: GPL-2.0
// Blobs of released formats stay readable after any change of the code. golden/format1.blob was
// written by criu_blob_golden when format 1 was new, and is never written again.
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "sample.h"

namespace sample {
namespace {

Bytes ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

TEST(Golden, Format1IsReadCompletely) {
  const Bytes bytes = ReadFile(GOLDEN_DIR "/format1.blob");
  ASSERT_FALSE(bytes.empty());
  criu_blob_fault fault = {};
  EXPECT_EQ(ReadAll(bytes, &fault), 0) << (fault.reason ? fault.reason : "");
}

// When the sample or the format changes on purpose, this test is removed, and the fixture stays.
TEST(Golden, TheWriterStillWritesFormat1) {
  EXPECT_EQ(ReadFile(GOLDEN_DIR "/format1.blob"), MakeSample());
}

}  // namespace
}  // namespace sample
