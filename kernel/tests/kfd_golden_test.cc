// SPDX-License-Identifier: GPL-2.0
// Blobs that the driver made of real processes when their format was new, read with the record
// types of the driver as they are today. golden/kfd-*.blob are written by the kselftest `golden
// --write`, once, and never again.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "sample.h"

// kfd_criu_schema.c. Its header is one for C only.
extern "C" const criu_blob_schema kfd_criu_schema;

namespace sample {
namespace {

// As they stand in the blobs, whatever the header says today.
enum Type : uint16_t {
  kProcess = 0x100,
  kGpu,
  kKfdBo,
  kEventPage,
  kEvent,
  kKfdQueue,
  kSvmRange,
};

constexpr int kMutations = 50000;

struct Fixture {
  const char* file;
  std::map<uint16_t, uint32_t> counts;
};

void PrintTo(const Fixture& fixture, std::ostream* out) { *out << fixture.file; }

class KfdGolden : public ::testing::TestWithParam<Fixture> {
 protected:
  void SetUp() override {
    std::ifstream file(std::string(GOLDEN_DIR "/") + GetParam().file, std::ios::binary);
    bytes_ = Bytes(std::istreambuf_iterator<char>(file), {});
    ASSERT_FALSE(bytes_.empty()) << GetParam().file;
  }
  Bytes bytes_;
};

// A record as the driver reads it: in the newest version, and all of its tail.
void ReadWhole(criu_record* record) {
  std::vector<uint8_t> fixed(record->desc->size_now);
  criu_record_get(record, fixed.data(), fixed.size());
  while (record->tail_size) ASSERT_NE(criu_record_tail(record, 8), nullptr);
}

TEST_P(KfdGolden, IsReadWhole) {
  criu_blob blob;
  criu_blob_fault fault;
  ASSERT_EQ(criu_blob_open(&blob, &kfd_criu_schema, bytes_.data(), bytes_.size(), &fault), 0)
      << fault.reason << " in a record of type " << fault.type << " at byte " << fault.offset;
  std::map<uint16_t, uint32_t> counts;
  for (criu_record record = {}; criu_blob_next(&blob, &record);) {
    counts[record.desc->type]++;
    ReadWhole(&record);
  }
  EXPECT_EQ(counts, GetParam().counts);
}

TEST_P(KfdGolden, DamagedAtRandomIsReadOrRefused) {
  std::mt19937 random(3);
  int taken = 0, refused = 0;
  for (int i = 0; i < kMutations; i++) {
    Bytes bytes = bytes_;
    for (unsigned edits = 1 + random() % 3; edits; edits--) {
      const uint32_t value = random() % 2 ? random() : 1u << random() % 32;
      memcpy(&bytes[random() % (bytes.size() / 4) * 4], &value, sizeof(value));
    }
    RepairFrame(&bytes);
    criu_blob blob;
    criu_blob_fault fault;
    const int ret = criu_blob_open(&blob, &kfd_criu_schema, bytes.data(), bytes.size(), &fault);
    ASSERT_TRUE(ret == 0 || ret == -EBADMSG || ret == -EOPNOTSUPP) << ret;
    if (!ret)
      for (criu_record record = {}; criu_blob_next(&blob, &record);) ReadWhole(&record);
    taken += ret == 0;
    refused += ret != 0;
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Format1, KfdGolden,
                         ::testing::Values(Fixture{.file = "kfd-1-one-gpu.blob",
                                                   .counts = {{CRIU_RECORD_IDENTITY, 1},
                                                              {kProcess, 1},
                                                              {kGpu, 2},
                                                              {kKfdBo, 15},
                                                              {kEventPage, 1},
                                                              {kEvent, 4},
                                                              {kKfdQueue, 4},
                                                              {kSvmRange, 1},
                                                              {CRIU_RECORD_END, 1}}},
                                           Fixture{.file = "kfd-1-two-gpus.blob",
                                                   .counts = {{CRIU_RECORD_IDENTITY, 1},
                                                              {kProcess, 1},
                                                              {kGpu, 2},
                                                              {kKfdBo, 6},
                                                              {kKfdQueue, 2},
                                                              {CRIU_RECORD_END, 1}}}),
                         [](const auto& info) { return info.index ? "TwoGpus" : "OneGpu"; });

}  // namespace
}  // namespace sample
