// SPDX-License-Identifier: GPL-2.0
// Kernels of several ages read each other's blobs, and a newer one writes for an older one. There
// are three, each with one more field, a new version with another meaning, and new types.
#include <cerrno>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample.h"

namespace sample {
namespace {

using ::testing::StrEq;

constexpr uint16_t kClock = CRIU_RECORD_DRIVER;
constexpr uint16_t kExtra = CRIU_RECORD_DRIVER + 1;    // from the second kernel on, needed
constexpr uint16_t kComment = CRIU_RECORD_DRIVER + 2;  // from the second kernel on, may be skipped

// Version 1 counts microseconds, version 2 nanoseconds, version 3 has them in two fields.
struct Clock1 {
  uint64_t microseconds;
};
struct Clock2 {
  uint64_t nanoseconds;
  uint64_t drift;  // added without a new version
};
struct Clock3 {
  uint64_t seconds;
  uint64_t drift;
  uint64_t nanoseconds;
};
struct Extra {
  uint64_t size;
};

template <typename To, typename From>
void Convert(void* fixed, To (*convert)(const From&)) {
  From from;
  memcpy(&from, fixed, sizeof(from));
  const To to = convert(from);
  memcpy(fixed, &to, sizeof(to));
}

void Raise1(void* fixed) {
  Convert<Clock2, Clock1>(fixed, [](const Clock1& from) {
    return Clock2{.nanoseconds = from.microseconds * 1000, .drift = 0};
  });
}

bool Lower1(void* fixed) {
  Clock2 from;
  memcpy(&from, fixed, sizeof(from));
  if (from.nanoseconds % 1000) return false;
  Convert<Clock2, Clock2>(fixed, [](const Clock2& clock) {
    return Clock2{.nanoseconds = clock.nanoseconds / 1000, .drift = clock.drift};
  });
  return true;
}

void Raise2(void* fixed) {
  Convert<Clock3, Clock2>(fixed, [](const Clock2& from) {
    return Clock3{.seconds = from.nanoseconds / 1000000000,
                  .drift = from.drift,
                  .nanoseconds = from.nanoseconds % 1000000000};
  });
}

bool Lower2(void* fixed) {
  Convert<Clock3, Clock3>(fixed, [](const Clock3& from) {
    return Clock3{.seconds = from.seconds * 1000000000 + from.nanoseconds,
                  .drift = from.drift,
                  .nanoseconds = 0};
  });
  return true;
}

constexpr criu_record_older kClockOlder[] = {
    {.size_min = 8, .size = sizeof(Clock1), .raise = Raise1, .lower = Lower1},
    {.size_min = 8, .size = sizeof(Clock2), .raise = Raise2, .lower = Lower2},
};
// The table of the second kernel, which has only the first step.
constexpr criu_record_older kClockOlder2[] = {kClockOlder[0]};

constexpr criu_record_desc kRecords1[] = {
    CRIU_RECORD_IDENTITY_ROW,
    CRIU_RECORD_END_ROW,
    CRIU_RECORD(kClock, "clock", Clock1, microseconds, 0, 0, CRIU_DESC_TAIL),
};
constexpr criu_record_desc kRecords2[] = {
    CRIU_RECORD_IDENTITY_ROW,
    CRIU_RECORD_END_ROW,
    CRIU_RECORD_VERSIONS(kClock, "clock", Clock2, nanoseconds, kClockOlder2, 0, 0, CRIU_DESC_TAIL),
    CRIU_RECORD(kExtra, "extra", Extra, size, 0, 0, CRIU_DESC_TAIL),
    CRIU_RECORD(kComment, "comment", Extra, size, 0, 0, CRIU_DESC_TAIL | CRIU_DESC_MAY_SKIP),
};
constexpr criu_record_desc kRecords3[] = {
    CRIU_RECORD_IDENTITY_ROW,
    CRIU_RECORD_END_ROW,
    CRIU_RECORD_VERSIONS(kClock, "clock", Clock3, nanoseconds, kClockOlder, 0, 0, CRIU_DESC_TAIL),
    CRIU_RECORD(kExtra, "extra", Extra, size, 0, 0, CRIU_DESC_TAIL),
    CRIU_RECORD(kComment, "comment", Extra, size, 0, 0, CRIU_DESC_TAIL | CRIU_DESC_MAY_SKIP),
};

template <size_t kNum>
constexpr criu_blob_schema Schema(const criu_record_desc (&records)[kNum]) {
  return {
      .driver = "sample", .node = 7, .page_size = 4096, .num_records = kNum, .records = records};
}
constexpr criu_blob_schema kKernel1 = Schema(kRecords1);
constexpr criu_blob_schema kKernel2 = Schema(kRecords2);
constexpr criu_blob_schema kKernel3 = Schema(kRecords3);

// The result of QUERY of a kernel.
std::vector<criu_record_target> Query(const criu_blob_schema& kernel) {
  std::vector<criu_record_target> targets;
  for (uint32_t i = 0; i < kernel.num_records; i++) {
    const criu_record_desc& row = kernel.records[i];
    targets.push_back({.type = row.type,
                       .version_min = row.version_min,
                       .version_max = row.version_max,
                       .size = static_cast<__u16>(row.size_now)});
  }
  return targets;
}

struct Written {
  int error = 0;
  Bytes bytes;
  criu_blob_fault fault = {};
};

// A blob of @kernel that @write writes in both passes.
template <typename Write>
Written WriteBlob(const criu_blob_schema& kernel, const std::vector<criu_record_target>* targets,
                  const Write& write) {
  Written result;
  for (int pass = 0; pass < 2; pass++) {
    criu_blob_writer writer;
    size_t size = 0;
    criu_writer_init(&writer, &kernel, targets ? targets->data() : nullptr,
                     targets ? static_cast<__u32>(targets->size()) : 0,
                     pass ? result.bytes.data() : nullptr, result.bytes.size());
    write(&writer);
    result.error = criu_writer_finish(&writer, &size);
    result.fault = writer.fault;
    if (result.error) return result;
    EXPECT_TRUE(!pass || size == result.bytes.size());
    result.bytes.resize(size);
  }
  return result;
}

template <typename Clock>
Written WriteClock(const criu_blob_schema& kernel, const Clock& clock,
                   const std::vector<criu_record_target>* targets = nullptr) {
  return WriteBlob(kernel, targets, [&](criu_blob_writer* writer) {
    criu_writer_record(writer, kClock, &clock);
    criu_writer_tail_copy(writer, "tail", 4);
  });
}

int Open(const criu_blob_schema& kernel, const Bytes& bytes, criu_blob* blob,
         criu_blob_fault* fault) {
  return criu_blob_open(blob, &kernel, bytes.data(), bytes.size(), fault);
}

template <typename Clock>
Clock ReadClock(const criu_blob_schema& kernel, const Bytes& bytes) {
  Clock clock = {};
  criu_blob blob;
  criu_blob_fault fault;
  EXPECT_EQ(Open(kernel, bytes, &blob, &fault), 0) << fault.reason;
  criu_record record = {};
  EXPECT_TRUE(criu_blob_next_of(&blob, kClock, &record));
  criu_record_get(&record, &clock, sizeof(clock));
  EXPECT_EQ(memcmp(criu_record_tail(&record, 4), "tail", 4), 0);
  EXPECT_EQ(record.tail_size, 0U);
  return clock;
}

TEST(Version, ANewerKernelReadsEveryOlderVersion) {
  const Bytes first = WriteClock(kKernel1, Clock1{.microseconds = 5000007}).bytes;
  EXPECT_EQ(ReadClock<Clock1>(kKernel1, first).microseconds, 5000007u);
  EXPECT_EQ(ReadClock<Clock2>(kKernel2, first).nanoseconds, 5000007000u);
  EXPECT_EQ(ReadClock<Clock3>(kKernel3, first).seconds, 5u);
  EXPECT_EQ(ReadClock<Clock3>(kKernel3, first).nanoseconds, 7000u);
  const Bytes second = WriteClock(kKernel2, Clock2{.nanoseconds = 3000000001, .drift = 9}).bytes;
  const Clock3 third = ReadClock<Clock3>(kKernel3, second);
  EXPECT_EQ(third.seconds, 3u);
  EXPECT_EQ(third.nanoseconds, 1u);
  EXPECT_EQ(third.drift, 9u);
}

TEST(Version, AnOlderKernelRefusesANewerVersionByName) {
  const Bytes second = WriteClock(kKernel2, Clock2{}).bytes;
  criu_blob blob;
  criu_blob_fault fault;
  EXPECT_EQ(Open(kKernel1, second, &blob, &fault), -EOPNOTSUPP);
  EXPECT_THAT(fault.reason, StrEq("newer version of record"));
  EXPECT_EQ(fault.type, kClock);
  EXPECT_EQ(fault.version, 2);
}

TEST(Version, ForAnOlderKernelTheBlobEqualsThatKernelsBlob) {
  const auto first = Query(kKernel1), second = Query(kKernel2);
  const Written by3for1 =
      WriteClock(kKernel3, Clock3{.seconds = 5, .drift = 0, .nanoseconds = 7000}, &first);
  ASSERT_EQ(by3for1.error, 0);
  EXPECT_EQ(by3for1.bytes, WriteClock(kKernel1, Clock1{.microseconds = 5000007}).bytes);
  const Written by3for2 =
      WriteClock(kKernel3, Clock3{.seconds = 3, .drift = 9, .nanoseconds = 1}, &second);
  ASSERT_EQ(by3for2.error, 0);
  EXPECT_EQ(by3for2.bytes,
            WriteClock(kKernel2, Clock2{.nanoseconds = 3000000001, .drift = 9}).bytes);
}

TEST(Version, AStateThatAnOlderVersionLacksIsRefusedByNameInBothPasses) {
  const auto first = Query(kKernel1);
  // Not a whole microsecond; and a drift, for which version 1 has no field.
  for (const Clock3& clock : {Clock3{.seconds = 5, .drift = 0, .nanoseconds = 7},
                              Clock3{.seconds = 5, .drift = 1, .nanoseconds = 0}}) {
    const Written written = WriteClock(kKernel3, clock, &first);
    EXPECT_EQ(written.error, -EOPNOTSUPP);
    EXPECT_EQ(written.fault.type, kClock);
    EXPECT_EQ(written.fault.version, 1);
    EXPECT_THAT(written.fault.reason, StrEq("the target kernel cannot represent it"));
  }
}

// The field was added without a new version: only the size shows that the target lacks it.
TEST(Version, AFieldThatTheTargetLacksMustBeZero) {
  auto targets = Query(kKernel2);
  for (criu_record_target& target : targets)
    if (target.type == kClock) target.size = 8;
  EXPECT_EQ(WriteClock(kKernel2, Clock2{.nanoseconds = 1, .drift = 0}, &targets).error, 0);
  const Written written = WriteClock(kKernel2, Clock2{.nanoseconds = 1, .drift = 2}, &targets);
  EXPECT_EQ(written.error, -EOPNOTSUPP);
  EXPECT_EQ(written.fault.type, kClock);
  EXPECT_EQ(
      WriteClock(kKernel3, Clock3{.seconds = 1, .drift = 2, .nanoseconds = 0}, &targets).error,
      -EOPNOTSUPP);
}

TEST(Version, AnUnknownFieldOfAnOlderVersionIsRefused) {
  struct Longer {
    Clock1 clock;
    uint64_t unknown;
  };
  Builder builder;
  builder.Identity().Record(kClock, Longer{.clock = {1}, .unknown = 1});
  criu_blob blob;
  criu_blob_fault fault;
  EXPECT_EQ(Open(kKernel3, builder.End().Build(), &blob, &fault), -EOPNOTSUPP);
  EXPECT_THAT(fault.reason, StrEq("record has a field that is not known"));
  Builder zero;
  zero.Identity().Record(kClock, Longer{.clock = {2000000}, .unknown = 0});
  const Bytes bytes = zero.End().Build();
  ASSERT_EQ(Open(kKernel3, bytes, &blob, &fault), 0);
  criu_record record = {};
  ASSERT_TRUE(criu_blob_next_of(&blob, kClock, &record));
  Clock3 clock;
  criu_record_get(&record, &clock, sizeof(clock));
  EXPECT_EQ(clock.seconds, 2u);
  EXPECT_EQ(clock.nanoseconds, 0u);
}

TEST(Version, ANewerTargetGetsTheNewestVersionOfThisKernel) {
  const auto third = Query(kKernel3);
  const Written written = WriteClock(kKernel1, Clock1{.microseconds = 1}, &third);
  ASSERT_EQ(written.error, 0);
  EXPECT_EQ(written.bytes, WriteClock(kKernel1, Clock1{.microseconds = 1}).bytes);
}

TEST(Version, ATargetThatReadsNoVersionOfThisKernelIsRefused) {
  auto targets = Query(kKernel3);
  for (criu_record_target& target : targets)
    if (target.type == kClock) target.version_min = 2;
  const Written written = WriteClock(kKernel1, Clock1{}, &targets);
  EXPECT_EQ(written.error, -EOPNOTSUPP);
  EXPECT_EQ(written.fault.type, kClock);
  EXPECT_THAT(written.fault.reason, StrEq("the target reads no version of it"));
}

// A blob of the second kernel: a record of the type @type, and a clock after it.
Written WriteTyped(uint16_t type, const std::vector<criu_record_target>* targets) {
  return WriteBlob(kKernel2, targets, [&](criu_blob_writer* writer) {
    const Extra extra = {.size = 20};
    criu_writer_record(writer, type, &extra);
    void* to = criu_writer_tail(writer, 20);
    if (to) memset(to, 0x77, 20);
    const Clock2 clock = {.nanoseconds = 1000, .drift = 0};
    criu_writer_record(writer, kClock, &clock);
    criu_writer_tail_copy(writer, "tail", 4);
  });
}

TEST(Version, ANewTypeIsRefusedByAnOlderKernelUnlessItMayBeSkipped) {
  criu_blob blob;
  criu_blob_fault fault;
  auto without_clock = Query(kKernel2);
  for (criu_record_target& target : without_clock)
    if (target.type == kClock) target.version_max = 1;
  const Written needed = WriteTyped(kExtra, &without_clock);
  ASSERT_EQ(needed.error, 0);
  EXPECT_EQ(Open(kKernel1, needed.bytes, &blob, &fault), -EOPNOTSUPP);
  EXPECT_THAT(fault.reason, StrEq("unknown type of record"));
  EXPECT_EQ(fault.type, kExtra);
  const Written comment = WriteTyped(kComment, &without_clock);
  ASSERT_EQ(comment.error, 0);
  EXPECT_EQ(ReadClock<Clock1>(kKernel1, comment.bytes).microseconds, 1u);
}

TEST(Version, ANewTypeIsOmittedForAnOlderKernelIfItMayBeSkippedAndOtherwiseRefused) {
  const auto first = Query(kKernel1);
  const Written left_out = WriteTyped(kComment, &first);
  ASSERT_EQ(left_out.error, 0);
  EXPECT_EQ(left_out.bytes, WriteClock(kKernel1, Clock1{.microseconds = 1}).bytes);
  const Written needed = WriteTyped(kExtra, &first);
  EXPECT_EQ(needed.error, -EOPNOTSUPP);
  EXPECT_EQ(needed.fault.type, kExtra);
  EXPECT_THAT(needed.fault.reason, StrEq("the target reads no version of it"));
}

TEST(Version, ATargetMustSupportTheCodecsOwnRecords) {
  std::vector<criu_record_target> nothing;
  nothing.push_back({.type = kClock, .version_min = 1, .version_max = 3, .size = 24});
  const Written written = WriteClock(kKernel1, Clock1{}, &nothing);
  EXPECT_EQ(written.error, -EOPNOTSUPP);
  EXPECT_EQ(written.fault.type, CRIU_RECORD_IDENTITY);
}

}  // namespace
}  // namespace sample
