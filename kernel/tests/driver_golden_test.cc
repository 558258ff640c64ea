// SPDX-License-Identifier: GPL-2.0
// Blobs that the driver made of real processes when their format was new, read with the driver's
// current record types. golden/*.blob of the driver are written by the kselftests `golden --write`
// and `render_golden --write`, once, and never again. golden/*.txt are the values of their fields;
// a field that is not listed is zero.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <linux/crc32.h>

#include "record_fields.h"
#include "sample.h"

// Their headers are for C only.
extern "C" const criu_blob_schema kfd_criu_schema;
extern "C" const criu_blob_schema amdgpu_criu_render_schema;
extern "C" const criu_blob_schema amdgpu_criu_exported_schema;

namespace sample {
namespace {

// The number of bytes of blobs with random damage that are read.
constexpr size_t kDamagedBytes = 50'000'000, kMostMutations = 8000;
// A longer tail is represented by its checksum.
constexpr size_t kTailShown = 256;

std::string ReadFile(const std::string& name) {
  std::ifstream file(GOLDEN_DIR "/" + name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Bytes as one number if they fit, otherwise one by one.
std::string Hex(const uint8_t* bytes, size_t size) {
  std::ostringstream out;
  out << std::hex;
  if (size <= sizeof(uint64_t)) {
    uint64_t value = 0;
    memcpy(&value, bytes, size);
    out << "0x" << value;
    return out.str();
  }
  for (size_t i = 0; i < size; i++) out << "0123456789abcdef"[bytes[i] >> 4]
                                        << "0123456789abcdef"[bytes[i] & 15];
  return out.str();
}

bool IsZero(const uint8_t* bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i]) return false;
  return true;
}

std::string TailText(const criu_record& record) {
  if (!record.tail_size) return "";
  if (record.tail_size <= kTailShown) return " tail=" + Hex(record.tail, record.tail_size);
  std::ostringstream out;
  out << " tail=" << record.tail_size << " bytes, CRC-32C 0x" << std::hex
      << crc32c(0, record.tail, record.tail_size);
  return out.str();
}

// A record as the driver reads it, in the newest version.
std::string RecordText(const criu_record& record) {
  std::vector<uint8_t> fixed(record.desc->size_now);
  criu_record_get(&record, fixed.data(), fixed.size());
  std::string text = record.desc->name;
  const record_field* field = record_fields(record.desc->type);
  for (; field && field->name; field++)
    if (!IsZero(&fixed[field->offset], field->size))
      text += std::string(" ") + field->name + "=" + Hex(&fixed[field->offset], field->size);
  return text + TailText(record) + "\n";
}

void ReadWhole(criu_record* record) {
  std::vector<uint8_t> fixed(record->desc->size_now);
  criu_record_get(record, fixed.data(), fixed.size());
  while (record->tail_size) ASSERT_NE(criu_record_tail(record, 8), nullptr);
}

struct Fixture {
  const char* name;
  const criu_blob_schema* schema;
};

void PrintTo(const Fixture& fixture, std::ostream* out) { *out << fixture.name; }

class DriverGolden : public ::testing::TestWithParam<Fixture> {
 protected:
  void SetUp() override {
    const std::string bytes = ReadFile(std::string(GetParam().name) + ".blob");
    ASSERT_FALSE(bytes.empty());
    bytes_ = Bytes(bytes.begin(), bytes.end());
  }
  const criu_blob_schema* schema() const { return GetParam().schema; }
  Bytes bytes_;
};

TEST_P(DriverGolden, EveryByteOfARecordIsInOneField) {
  for (uint32_t i = 0; i < schema()->num_records; i++) {
    const criu_record_desc& desc = schema()->records[i];
    if (desc.type < CRIU_RECORD_DRIVER || desc.type == CRIU_RECORD_END) continue;
    const record_field* field = record_fields(desc.type);
    ASSERT_NE(field, nullptr) << desc.name;
    size_t end = 0;
    for (; field->name; field++) {
      EXPECT_EQ(field->offset, end) << desc.name << "." << field->name;
      end = field->offset + field->size;
    }
    EXPECT_EQ(end, desc.size_now) << desc.name;
  }
}

TEST_P(DriverGolden, HasTheWrittenValues) {
  criu_blob blob;
  criu_blob_fault fault;
  ASSERT_EQ(criu_blob_open(&blob, schema(), bytes_.data(), bytes_.size(), &fault), 0)
      << fault.reason << " in a record of type " << fault.type << " at byte " << fault.offset;
  std::string text = "# SPDX-License-Identifier: GPL-2.0\n";
  for (criu_record record = {}; criu_blob_next(&blob, &record);) {
    if (record.desc->type == CRIU_RECORD_IDENTITY || record.desc->type == CRIU_RECORD_END) continue;
    text += RecordText(record);
    ReadWhole(&record);
  }
  const std::string name = std::string(GetParam().name) + ".txt", saved = ::testing::TempDir() + name;
  std::ofstream(saved) << text;
  EXPECT_EQ(text, ReadFile(name)) << saved << " has what was read";
}

TEST_P(DriverGolden, RandomDamageIsReadOrRefused) {
  std::mt19937 random(3);
  int taken = 0, refused = 0;
  const size_t mutations = std::min(kMostMutations, kDamagedBytes / bytes_.size());
  for (size_t i = 0; i < mutations; i++) {
    Bytes bytes = bytes_;
    for (unsigned edits = 1 + random() % 3; edits; edits--) {
      const uint32_t value = random() % 2 ? random() : 1u << random() % 32;
      memcpy(&bytes[random() % (bytes.size() / 4) * 4], &value, sizeof(value));
    }
    RepairFrame(&bytes);
    criu_blob blob;
    criu_blob_fault fault;
    const int ret = criu_blob_open(&blob, schema(), bytes.data(), bytes.size(), &fault);
    ASSERT_TRUE(ret == 0 || ret == -EBADMSG || ret == -EOPNOTSUPP) << ret;
    if (!ret)
      for (criu_record record = {}; criu_blob_next(&blob, &record);) ReadWhole(&record);
    taken += ret == 0;
    refused += ret != 0;
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Format1, DriverGolden,
    ::testing::Values(Fixture{.name = "kfd-1-one-gpu", .schema = &kfd_criu_schema},
                      Fixture{.name = "kfd-1-one-gpu-gfx942", .schema = &kfd_criu_schema},
                      Fixture{.name = "kfd-1-one-gpu-gfx1100", .schema = &kfd_criu_schema},
                      Fixture{.name = "kfd-1-options-gfx1100", .schema = &kfd_criu_schema},
                      Fixture{.name = "kfd-1-two-gpus", .schema = &kfd_criu_schema},
                      Fixture{.name = "kfd-1-two-gpus-gfx942", .schema = &kfd_criu_schema},
                      Fixture{.name = "render-1-file", .schema = &amdgpu_criu_render_schema},
                      Fixture{.name = "render-1-file-gfx942", .schema = &amdgpu_criu_render_schema},
                      Fixture{.name = "render-1-file-gfx1100", .schema = &amdgpu_criu_render_schema},
                      Fixture{.name = "render-1-userq-gfx1100",
                              .schema = &amdgpu_criu_render_schema},
                      Fixture{.name = "render-1-exported", .schema = &amdgpu_criu_exported_schema},
                      Fixture{.name = "render-1-exported-gfx942",
                              .schema = &amdgpu_criu_exported_schema},
                      Fixture{.name = "render-1-exported-gfx1100",
                              .schema = &amdgpu_criu_exported_schema}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace sample
