// SPDX-License-Identifier: GPL-2.0
// Blobs that the reader accepts, and every reason for a refusal: each blob is valid except for the
// one thing that its test is about.
#include <cerrno>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample.h"

namespace sample {
namespace {

using ::testing::StrEq;

// Result and reason of opening a blob, as one value to compare.
struct Verdict {
  int error;
  std::string reason;
  uint16_t type = 0;
  bool operator==(const Verdict&) const = default;
};

void PrintTo(const Verdict& verdict, std::ostream* out) {
  *out << "{" << verdict.error << ", " << verdict.reason << ", type " << verdict.type << "}";
}

Verdict Open(const Bytes& bytes, const criu_blob_schema& schema = kSchema) {
  criu_blob blob;
  criu_blob_fault fault;
  const int error = criu_blob_open(&blob, &schema, bytes.data(), bytes.size(), &fault);
  return {error, error ? fault.reason : "", fault.type};
}

const Verdict kFine = {0, "", 0};

template <typename T>
void Patch(Bytes* bytes, size_t at, T value) {
  memcpy(bytes->data() + at, &value, sizeof(value));
}

TEST(Blob, ReadsWhatTheWriterWrote) {
  const Bytes bytes = MakeSample();
  criu_blob blob;
  criu_blob_fault fault;
  ASSERT_EQ(criu_blob_open(&blob, &kSchema, bytes.data(), bytes.size(), &fault), 0);
  EXPECT_EQ(criu_blob_count(&blob, kDevice), kDevices);
  EXPECT_EQ(criu_blob_count(&blob, kBo), kBos);
  EXPECT_EQ(criu_blob_count(&blob, kHint), 1u);
  criu_record record = {};
  for (uint32_t i = 0; i < kQueues; i++) {
    ASSERT_TRUE(criu_blob_next_of(&blob, kQueue, &record));
    Queue queue;
    criu_record_get(&record, &queue, sizeof(queue));
    const Queue expected = SampleQueue(i);
    EXPECT_EQ(memcmp(&queue, &expected, sizeof(queue)), 0);
    EXPECT_EQ(record.version, kQueueVersion);
    const auto* mqd = static_cast<const uint8_t*>(criu_record_tail(&record, queue.mqd_size));
    ASSERT_NE(mqd, nullptr);
    EXPECT_EQ(Bytes(mqd, mqd + queue.mqd_size), QueueBytes(i, queue.mqd_size, 0));
    const auto* stack = static_cast<const uint8_t*>(criu_record_tail(&record, queue.stack_size));
    ASSERT_NE(stack, nullptr);
    EXPECT_EQ(Bytes(stack, stack + queue.stack_size), QueueBytes(i, queue.stack_size, 9));
    EXPECT_EQ(record.tail_size, 0U);
  }
  EXPECT_FALSE(criu_blob_next_of(&blob, kQueue, &record));
}

TEST(Blob, IdentityIsFirstAndEndIsLastInTheWalk) {
  const Bytes bytes = MakeSample();
  criu_blob blob;
  criu_blob_fault fault;
  ASSERT_EQ(criu_blob_open(&blob, &kSchema, bytes.data(), bytes.size(), &fault), 0);
  std::vector<uint16_t> types;
  for (criu_record record = {}; criu_blob_next(&blob, &record);) types.push_back(record.desc->type);
  ASSERT_EQ(types.size(), 2 + kDevices + kBos + kQueues + 1);
  EXPECT_EQ(types.front(), CRIU_RECORD_IDENTITY);
  EXPECT_EQ(types.back(), CRIU_RECORD_END);
}

TEST(Blob, TheSmallestBlobIsAccepted) { EXPECT_EQ(Open(Minimal().End().Build()), kFine); }

// Header.

TEST(Blob, RefusesABadMagic) {
  Builder builder = Minimal().End();
  builder.header().magic ^= 1;
  EXPECT_EQ(Open(builder.Build()), (Verdict{-EBADMSG, "bad magic"}));
}

TEST(Blob, RefusesTheOtherByteOrderByName) {
  Builder builder = Minimal().End();
  builder.header().magic = __builtin_bswap64(CRIU_BLOB_MAGIC);
  EXPECT_EQ(Open(builder.Build()), (Verdict{-EOPNOTSUPP, "other byte order"}));
}

TEST(Blob, RefusesANewerFormat) {
  Builder builder = Minimal().End();
  builder.header().format = CRIU_BLOB_FORMAT + 1;
  EXPECT_EQ(Open(builder.Build()), (Verdict{-EOPNOTSUPP, "newer format"}));
}

TEST(Blob, RefusesFormatZero) {
  Builder builder = Minimal().End();
  builder.header().format = 0;
  EXPECT_EQ(Open(builder.Build()), (Verdict{-EBADMSG, "bad format"}));
}

TEST(Blob, RefusesAnUnknownHeaderFlag) {
  Builder builder = Minimal().End();
  builder.header().flags = 1;
  EXPECT_EQ(Open(builder.Build()), (Verdict{-EOPNOTSUPP, "unknown flag or field in the header"}));
}

TEST(Blob, RefusesAHeaderPadThatIsSet) {
  Builder builder = Minimal().End();
  builder.header().pad = 1;
  EXPECT_EQ(Open(builder.Build()), (Verdict{-EOPNOTSUPP, "unknown flag or field in the header"}));
}

TEST(Blob, AcceptsALongerHeaderOnlyWithZeros) {
  EXPECT_EQ(Open(Minimal().HeaderTail(Bytes(8, 0)).End().Build()), kFine);
  EXPECT_EQ(Open(Minimal().HeaderTail(Bytes(8, 1)).End().Build()),
            (Verdict{-EOPNOTSUPP, "unknown flag or field in the header"}));
}

TEST(Blob, RefusesImpossibleHeaderSizes) {
  for (uint32_t size : {0u, 8u, 24u, 31u, 33u, 36u, 0x7ffffff8u, 0xfffffff8u, 0xffffffffu}) {
    Bytes bytes = Minimal().End().Build();
    Patch(&bytes, offsetof(criu_blob_header, header_size), size);
    EXPECT_EQ(Open(bytes), (Verdict{-EBADMSG, "bad size of header"})) << size;
  }
}

TEST(Blob, RefusesAWrongTotalSize) {
  const uint64_t right = Minimal().End().Build().size();
  for (uint64_t size : {uint64_t{0}, right - 8, right + 8, uint64_t{1} << 63,
                        std::numeric_limits<uint64_t>::max(), right + (uint64_t{1} << 32)}) {
    Bytes bytes = Minimal().End().Build();
    Patch(&bytes, offsetof(criu_blob_header, total_size), size);
    EXPECT_EQ(Open(bytes), (Verdict{-EBADMSG, "not the size in the header"})) << size;
  }
}

TEST(Blob, RefusesAnUnalignedSize) {
  Bytes bytes = Minimal().End().Build();
  bytes.resize(bytes.size() + 4);
  RepairFrame(&bytes);
  EXPECT_EQ(Open(bytes), (Verdict{-EBADMSG, "not the size in the header"}));
}

TEST(Blob, RefusesAnEmptyBlob) {
  EXPECT_EQ(Open({}), (Verdict{-EBADMSG, "size of blob out of bounds"}));
}

TEST(Blob, RefusesABlobBeyondTheLimitWithoutReadingIt) {
  criu_blob blob;
  criu_blob_fault fault;
  const Bytes bytes = MakeSample();
  EXPECT_EQ(criu_blob_open(&blob, &kSchema, bytes.data(), size_t{CRIU_BLOB_SIZE_MAX} + 8, &fault),
            -EBADMSG);
  EXPECT_EQ(criu_blob_open(&blob, &kSchema, bytes.data(), SIZE_MAX, &fault), -EBADMSG);
}

// Frame of the records.

TEST(Blob, RefusesABlobWithoutEnd) {
  EXPECT_EQ(Open(Minimal().Build()), (Verdict{-EBADMSG, "no end record"}));
}

TEST(Blob, RefusesAHeaderWithNoRecords) {
  EXPECT_EQ(Open(Builder().Build()), (Verdict{-EBADMSG, "no end record"}));
}

TEST(Blob, RefusesAnythingAfterEnd) {
  Bytes bytes = Minimal().End().Build();
  bytes.resize(bytes.size() + 8);
  RepairFrame(&bytes);
  const Verdict refused = {-EBADMSG, "bytes after the end record", CRIU_RECORD_END};
  EXPECT_EQ(Open(bytes), refused);
  EXPECT_EQ(Open(Minimal().End().End().Build()), refused);
}

TEST(Blob, RefusesARecordBeforeIdentity) {
  Builder builder;
  builder.Record(kDevice, Device{.id = 1, .gpu_id = 1, .flags = 0}).Identity().End();
  EXPECT_EQ(Open(builder.Build()),
            (Verdict{-EBADMSG, "identity is not the first record", kDevice}));
}

TEST(Blob, RefusesEndAsTheOnlyRecord) {
  EXPECT_EQ(Open(Builder().End().Build()),
            (Verdict{-EBADMSG, "identity is not the first record", CRIU_RECORD_END}));
}

TEST(Blob, RefusesASecondIdentity) {
  EXPECT_EQ(Open(Minimal().Identity().End().Build()),
            (Verdict{-EBADMSG, "too many of the type", CRIU_RECORD_IDENTITY}));
}

TEST(Blob, RefusesARecordThatReachesBeyondTheBlob) {
  for (uint32_t size : {16u + 8u, 0x1000u, 0x7ffffff8u, 0xfffffff0u, 0xfffffff8u, 0xffffffffu}) {
    const criu_record_header header = {
        .type = kDevice, .version = 1, .flags = 0, .fixed_size = 16, .size = size};
    Builder builder = Minimal();
    builder.Raw(header, Bytes(16));
    EXPECT_EQ(Open(builder.Build()), (Verdict{-EBADMSG, "cut off in a record", kDevice})) << size;
  }
}

TEST(Blob, RefusesHalfARecordHeader) {
  Bytes bytes = Minimal().Build();
  bytes.resize(bytes.size() + 8);
  RepairFrame(&bytes);
  EXPECT_EQ(Open(bytes), (Verdict{-EBADMSG, "cut off in the header of a record"}));
}

TEST(Blob, RefusesImpossibleRecordSizes) {
  struct Sizes {
    uint32_t fixed, all, payload;
  };
  for (Sizes sizes : {Sizes{24, 16, 16}, Sizes{0xfffffff8, 16, 16}, Sizes{12, 16, 16},
                      Sizes{16, 20, 24}, Sizes{16, 17, 24}}) {
    const criu_record_header header = {
        .type = kBo, .version = 1, .flags = 0, .fixed_size = sizes.fixed, .size = sizes.all};
    Builder builder = Minimal();
    builder.Raw(header, Bytes(sizes.payload)).End();
    EXPECT_EQ(Open(builder.Build()), (Verdict{-EBADMSG, "bad size of record", kBo}))
        << sizes.fixed << " " << sizes.all;
  }
}

TEST(Blob, RefusesAWrongChecksum) {
  Bytes bytes = Minimal().End().Build();
  bytes.back() ^= 0x80;
  EXPECT_EQ(Open(bytes), (Verdict{-EBADMSG, "wrong checksum", CRIU_RECORD_END}));
}

// The checksum of END covers num_records and pad, so each change of these needs a new checksum.
void BreakEnd(Bytes* bytes, uint64_t more_records, uint32_t pad) {
  const size_t at = bytes->size() - sizeof(criu_record_end);
  criu_record_end end;
  memcpy(&end, bytes->data() + at, sizeof(end));
  Patch(bytes, at, criu_record_end{end.num_records + more_records, pad, 0});
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes->size() - sizeof(crc); i++) {
    crc ^= (*bytes)[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
  }
  Patch(bytes, bytes->size() - sizeof(crc), crc);
}

TEST(Blob, TheChecksumIsCrc32cOfAllBeforeIt) {
  Bytes bytes = Minimal().End().Build();
  BreakEnd(&bytes, 0, 0);
  EXPECT_EQ(Open(bytes), kFine);
}

TEST(Blob, RefusesAWrongNumberOfRecords) {
  for (uint64_t more : {uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 32}) {
    Bytes bytes = Minimal().End().Build();
    BreakEnd(&bytes, more, 0);
    EXPECT_EQ(Open(bytes), (Verdict{-EBADMSG, "wrong number of records", CRIU_RECORD_END}));
  }
}

TEST(Blob, RefusesAnEndPadThatIsSet) {
  Bytes bytes = Minimal().End().Build();
  BreakEnd(&bytes, 0, 1);
  EXPECT_EQ(Open(bytes), (Verdict{-EBADMSG, "wrong number of records", CRIU_RECORD_END}));
}

TEST(Blob, RefusesAnEndThatIsTooShort) {
  EXPECT_EQ(Open(Minimal().Record(CRIU_RECORD_END, uint64_t{4}).Build()),
            (Verdict{-EBADMSG, "record too short", CRIU_RECORD_END}));
}

TEST(Blob, RefusesMoreRecordsThanTheLimit) {
  Builder builder = Minimal();
  const criu_record_header hint = {
      .type = 0x6666, .version = 1, .flags = CRIU_RECORD_MAY_SKIP, .fixed_size = 0, .size = 0};
  for (uint32_t i = 0; i < CRIU_BLOB_RECORDS_MAX; i++) builder.Raw(hint, {});
  EXPECT_EQ(Open(builder.End().Build()), (Verdict{-EBADMSG, "too many records", hint.type}));
}

// Identity.

TEST(Blob, RefusesAnotherDriverNodeOrPageSizeByName) {
  const criu_record_identity right = {
      .driver = {'s', 'a', 'm', 'p', 'l', 'e', 0, 0}, .node = kSchema.node, .page_size = 4096};
  const auto open = [](const criu_record_identity& identity) {
    Builder builder;
    builder.Identity(identity).Record(kDevice, Device{}).End();
    return Open(builder.Build());
  };
  ASSERT_EQ(open(right), kFine);
  criu_record_identity other = right;
  other.driver[6] = 'x';
  EXPECT_EQ(open(other), (Verdict{-EOPNOTSUPP, "of another driver", CRIU_RECORD_IDENTITY}));
  other = right;
  other.node++;
  EXPECT_EQ(open(other), (Verdict{-EOPNOTSUPP, "of another kind of node", CRIU_RECORD_IDENTITY}));
  other = right;
  other.page_size = 65536;
  EXPECT_EQ(open(other), (Verdict{-EOPNOTSUPP, "of another page size", CRIU_RECORD_IDENTITY}));
}

// Records.

TEST(Blob, RefusesAnUnknownTypeUnlessItMayBeSkipped) {
  EXPECT_EQ(Open(Minimal().Record(0x6666, uint64_t{1}).End().Build()),
            (Verdict{-EOPNOTSUPP, "unknown type of record", 0x6666}));
  EXPECT_EQ(Open(Minimal().Record(0x6666, uint64_t{1}, 1, CRIU_RECORD_MAY_SKIP).End().Build()),
            kFine);
}

TEST(Blob, ASkippedRecordIsNeitherCountedNorReturned) {
  const Bytes bytes = Minimal()
                          .Record(0x6666, uint64_t{1}, 1, CRIU_RECORD_MAY_SKIP)
                          .Record(kHint, Hint{5}, 9, CRIU_RECORD_MAY_SKIP)
                          .Record(kHint, Hint{6}, 1, CRIU_RECORD_MAY_SKIP)
                          .End()
                          .Build();
  criu_blob blob;
  criu_blob_fault fault;
  ASSERT_EQ(criu_blob_open(&blob, &kSchema, bytes.data(), bytes.size(), &fault), 0);
  EXPECT_EQ(criu_blob_count(&blob, kHint), 1u);
  criu_record record = {};
  ASSERT_TRUE(criu_blob_next_of(&blob, kHint, &record));
  Hint hint;
  criu_record_get(&record, &hint, sizeof(hint));
  EXPECT_EQ(hint.priority, 6u);
  EXPECT_FALSE(criu_blob_next_of(&blob, kHint, &record));
  uint32_t seen = 0;
  for (criu_record all = {}; criu_blob_next(&blob, &all);) seen++;
  EXPECT_EQ(seen, 4u);
}

TEST(Blob, RefusesANewerVersion) {
  EXPECT_EQ(Open(Minimal().Record(kBo, Bo{}, 2).End().Build()),
            (Verdict{-EOPNOTSUPP, "newer version of record", kBo}));
}

TEST(Blob, RefusesAVersionThatIsNoLongerSupported) {
  std::vector<criu_record_desc> records(kSchema.records, kSchema.records + kSchema.num_records);
  for (criu_record_desc& row : records)
    if (row.type == kQueue) row.version_min = 2;
  criu_blob_schema schema = kSchema;
  schema.records = records.data();
  EXPECT_EQ(Open(Minimal().Record(kQueue, Queue{}, 1).End().Build(), schema),
            (Verdict{-EOPNOTSUPP, "version of record no longer known", kQueue}));
  EXPECT_EQ(Open(Minimal().Record(kQueue, Queue{}, 2).End().Build(), schema), kFine);
}

TEST(Blob, AcceptsAnOlderVersion) {
  EXPECT_EQ(Open(Minimal().Record(kQueue, Queue{}, 1).End().Build()), kFine);
}

TEST(Blob, RefusesVersionZero) {
  EXPECT_EQ(Open(Minimal().Record(kBo, Bo{}, 0).End().Build()),
            (Verdict{-EBADMSG, "version 0", kBo}));
}

TEST(Blob, RefusesAnUnknownRecordFlag) {
  for (uint32_t flags : {2u, 3u, 0x80000000u})
    EXPECT_EQ(Open(Minimal().Record(kBo, Bo{}, 1, flags).End().Build()),
              (Verdict{-EOPNOTSUPP, "unknown flag of record", kBo}));
}

TEST(Blob, RefusesToSkipTheCodecsOwnRecords) {
  Builder builder;
  criu_record_identity identity = {.driver = {}, .node = kSchema.node, .page_size = 4096};
  memcpy(identity.driver, kSchema.driver, strlen(kSchema.driver));
  builder.Record(CRIU_RECORD_IDENTITY, identity, 1, CRIU_RECORD_MAY_SKIP);
  builder.Record(kDevice, Device{}).End();
  EXPECT_EQ(Open(builder.Build()),
            (Verdict{-EBADMSG, "must not be skipped", CRIU_RECORD_IDENTITY}));
}

TEST(Blob, FillsFieldsThatAnOlderWriterLacksWithZeros) {
  const uint64_t old_queue[] = {100, 0};
  const Bytes bytes = Minimal().Record(kQueue, old_queue).End().Build();
  criu_blob blob;
  criu_blob_fault fault;
  ASSERT_EQ(criu_blob_open(&blob, &kSchema, bytes.data(), bytes.size(), &fault), 0);
  criu_record record = {};
  ASSERT_TRUE(criu_blob_next_of(&blob, kQueue, &record));
  Queue queue;
  memset(&queue, 0xff, sizeof(queue));
  criu_record_get(&record, &queue, sizeof(queue));
  EXPECT_EQ(queue.device_id, 100u);
  EXPECT_EQ(queue.cu_mask, 0u);
}

TEST(Blob, RefusesARecordShorterThanItsFirstVersion) {
  EXPECT_EQ(Open(Minimal().Record(kQueue, uint64_t{100}).End().Build()),
            (Verdict{-EBADMSG, "record too short", kQueue}));
  EXPECT_EQ(Open(Minimal().Record(kQueue, 1, 0, Bytes{}).End().Build()),
            (Verdict{-EBADMSG, "record too short", kQueue}));
}

TEST(Blob, AcceptsALongerRecordOnlyIfTheRestIsZero) {
  struct Newer {
    Bo bo;
    uint64_t field;
  };
  EXPECT_EQ(Open(Minimal().Record(kBo, Newer{}).End().Build()), kFine);
  Newer newer = {};
  newer.field = uint64_t{1} << 63;
  EXPECT_EQ(Open(Minimal().Record(kBo, newer).End().Build()),
            (Verdict{-EOPNOTSUPP, "record has a field that is not known", kBo}));
}

TEST(Blob, RefusesATailIfTheTypeHasNone) {
  const Bo bo = {};
  const std::span<const uint8_t> fixed(reinterpret_cast<const uint8_t*>(&bo), sizeof(bo));
  EXPECT_EQ(Open(Minimal().Record(kBo, 1, 0, fixed, Bytes(8)).End().Build()),
            (Verdict{-EBADMSG, "record has a tail", kBo}));
}

TEST(Blob, RefusesMoreOfATypeThanItsLimit) {
  Builder builder;
  builder.Identity();
  for (uint32_t i = 0; i < kDevicesMax; i++) builder.Record(kDevice, Device{});
  Builder full = builder;
  EXPECT_EQ(Open(full.End().Build()), kFine);
  EXPECT_EQ(Open(builder.Record(kDevice, Device{}).End().Build()),
            (Verdict{-EBADMSG, "too many of the type", kDevice}));
}

TEST(Blob, RefusesFewerOfATypeThanItsLimit) {
  Builder builder;
  EXPECT_EQ(Open(builder.Identity().End().Build()),
            (Verdict{-EBADMSG, "too few of the type", kDevice}));
}

TEST(Blob, DamageIsReportedBeforeUnsupportedRecords) {
  Bytes bytes = Minimal().Record(0x6666, uint64_t{1}).End().Build();
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_EQ(Open(bytes).error, -EBADMSG);
}

TEST(Blob, ReportsThePositionOfTheFault) {
  const Bytes bytes = Minimal().Record(0x6666, uint64_t{1}, 3).End().Build();
  criu_blob blob;
  criu_blob_fault fault;
  ASSERT_EQ(criu_blob_open(&blob, &kSchema, bytes.data(), bytes.size(), &fault), -EOPNOTSUPP);
  uint16_t type;
  memcpy(&type, bytes.data() + fault.offset, sizeof(type));
  EXPECT_EQ(type, 0x6666);
  EXPECT_EQ(fault.type, 0x6666);
  EXPECT_EQ(fault.version, 3);
}

// Tails.

criu_record QueueRecord(const criu_blob& blob) {
  criu_record record = {};
  EXPECT_TRUE(criu_blob_next_of(&blob, kQueue, &record));
  return record;
}

class Tail : public ::testing::Test {
 protected:
  void Make(const Bytes& tail) {
    const Queue queue = {};
    const std::span<const uint8_t> fixed(reinterpret_cast<const uint8_t*>(&queue), sizeof(queue));
    bytes_ = Minimal().Record(kQueue, 1, 0, fixed, tail).End().Build();
    criu_blob_fault fault;
    ASSERT_EQ(criu_blob_open(&blob_, &kSchema, bytes_.data(), bytes_.size(), &fault), 0);
    record_ = QueueRecord(blob_);
  }
  Bytes bytes_;
  criu_blob blob_;
  criu_record record_;
};

TEST_F(Tail, ReturnsPiecesInOrderAndThenNone) {
  Make({1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(static_cast<const uint8_t*>(criu_record_tail(&record_, 3))[2], 3);
  EXPECT_EQ(record_.tail_size, 8U);
  EXPECT_EQ(static_cast<const uint8_t*>(criu_record_tail(&record_, 8))[7], 11);
  EXPECT_EQ(record_.tail_size, 0U);
  EXPECT_EQ(criu_record_tail(&record_, 1), nullptr);
}

TEST_F(Tail, ReturnsAnEmptyPiece) {
  Make({});
  EXPECT_NE(criu_record_tail(&record_, 0), nullptr);
  EXPECT_EQ(record_.tail_size, 0U);
}

TEST_F(Tail, RefusesPiecesBeyondTheTail) {
  Make(Bytes(16));
  for (uint64_t size :
       {uint64_t{17}, uint64_t{1} << 32, (uint64_t{1} << 32) + 8, ~uint64_t{0}, ~uint64_t{0} - 7})
    EXPECT_EQ(criu_record_tail(&record_, size), nullptr) << size;
  EXPECT_NE(criu_record_tail(&record_, 16), nullptr);
}

TEST_F(Tail, RefusesPaddingThatIsNotZero) {
  Make({1, 2, 3, 0, 0, 0, 0, 1});
  EXPECT_EQ(criu_record_tail(&record_, 3), nullptr);
}

}  // namespace
}  // namespace sample
