// SPDX-License-Identifier: GPL-2.0
#include <cerrno>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "sample.h"

namespace sample {
namespace {

class Writer {
 public:
  explicit Writer(Bytes* buffer, const criu_blob_schema& schema = kSchema) {
    criu_writer_init(&writer_, &schema, nullptr, 0, buffer ? buffer->data() : nullptr,
                     buffer ? buffer->size() : 0);
  }
  criu_blob_writer* get() { return &writer_; }
  int Finish() { return criu_writer_finish(&writer_, &size); }
  void Device(uint64_t id) {
    const sample::Device device = {.id = id, .gpu_id = 0, .flags = 0};
    criu_writer_record(&writer_, kDevice, &device);
  }
  size_t size = 0;

 private:
  criu_blob_writer writer_;
};

TEST(BlobWriter, SizePassCountsWhatTheWritePassWrites) {
  Writer counting(nullptr);
  WriteSample(counting.get());
  ASSERT_EQ(counting.Finish(), 0);
  Bytes bytes(counting.size + 64, 0xa5);
  Writer writing(&bytes);
  WriteSample(writing.get());
  ASSERT_EQ(writing.Finish(), 0);
  EXPECT_EQ(writing.size, counting.size);
  EXPECT_EQ(Bytes(bytes.begin() + writing.size, bytes.end()), Bytes(64, 0xa5));
  bytes.resize(writing.size);
  EXPECT_EQ(ReadAll(bytes), 0);
}

TEST(BlobWriter, WritesTheSameBytesIntoAnyBuffer) {
  const Bytes expected = MakeSample();
  for (uint8_t dirt : {0x00, 0xff, 0x5a}) {
    Bytes bytes(expected.size(), dirt);
    Writer writer(&bytes);
    WriteSample(writer.get());
    ASSERT_EQ(writer.Finish(), 0);
    EXPECT_EQ(bytes, expected);
  }
}

TEST(BlobWriter, TooLittleRoomIsENOSPCWithTheSizeAndNothingBeyondIsWritten) {
  const size_t needed = MakeSample().size();
  for (size_t room = 0; room < needed; room++) {
    const auto bytes = std::make_unique<uint8_t[]>(room + 1);  // exact, so that ASan sees all
    criu_blob_writer writer;
    criu_writer_init(&writer, &kSchema, nullptr, 0, bytes.get(), room);
    WriteSample(&writer);
    size_t size = 0;
    ASSERT_EQ(criu_writer_finish(&writer, &size), -ENOSPC) << room;
    ASSERT_EQ(size, needed);
    ASSERT_EQ(bytes[room], 0);
  }
}

TEST(BlobWriter, RefusesATypeThatIsNotInTheSchema) {
  for (bool counting : {true, false}) {
    Bytes bytes(4096);
    Writer writer(counting ? nullptr : &bytes);
    writer.Device(1);
    const uint64_t nothing[8] = {};
    criu_writer_record(writer.get(), 0x7777, nothing);
    EXPECT_EQ(writer.Finish(), -EINVAL);
  }
}

TEST(BlobWriter, RefusesTheCodecsOwnTypes) {
  for (uint16_t type : {CRIU_RECORD_IDENTITY, CRIU_RECORD_END}) {
    Writer writer(nullptr);
    writer.Device(1);
    const uint64_t nothing[8] = {};
    criu_writer_record(writer.get(), type, nothing);
    EXPECT_EQ(writer.Finish(), -EINVAL);
  }
}

TEST(BlobWriter, RefusesATailIfTheTypeHasNone) {
  for (bool counting : {true, false}) {
    Bytes bytes(4096);
    Writer writer(counting ? nullptr : &bytes);
    writer.Device(1);
    EXPECT_EQ(criu_writer_tail(writer.get(), 8), nullptr);
    EXPECT_EQ(writer.Finish(), -EINVAL);
  }
}

TEST(BlobWriter, RefusesTooFewOfAType) {
  Writer writer(nullptr);
  EXPECT_EQ(writer.Finish(), -EINVAL);
}

TEST(BlobWriter, RefusesToWriteWhatReadersRefuse) {
  Writer writer(nullptr);
  for (uint64_t id = 0; id < kDevicesMax; id++) writer.Device(id);
  writer.Device(kDevicesMax);
  EXPECT_EQ(writer.Finish(), -EOPNOTSUPP);
}

TEST(BlobWriter, RefusesABlobBeyondTheSizeLimit) {
  const Queue queue = {.device_id = 100, .mqd_size = 0, .stack_size = 0, .cu_mask = 0};
  for (size_t tail :
       {size_t{CRIU_BLOB_SIZE_MAX}, size_t{CRIU_BLOB_SIZE_MAX} + 1, SIZE_MAX - 6, SIZE_MAX}) {
    Writer writer(nullptr);
    writer.Device(1);
    criu_writer_record(writer.get(), kQueue, &queue);
    EXPECT_EQ(criu_writer_tail(writer.get(), tail), nullptr);
    EXPECT_EQ(writer.Finish(), -EOPNOTSUPP) << tail;
  }
}

TEST(BlobWriter, ManyTailsTogetherBeyondTheLimitAreRefused) {
  const Queue queue = {.device_id = 100, .mqd_size = 0, .stack_size = 0, .cu_mask = 0};
  Writer writer(nullptr);
  writer.Device(1);
  for (int i = 0; i < 5; i++) {
    criu_writer_record(writer.get(), kQueue, &queue);
    criu_writer_tail(writer.get(), CRIU_BLOB_SIZE_MAX / 4);
  }
  EXPECT_EQ(writer.Finish(), -EOPNOTSUPP);
}

TEST(BlobWriter, ReturnsTheFirstErrorAndWritesNothingAfterIt) {
  const Queue queue = {.device_id = 100, .mqd_size = 0, .stack_size = 0, .cu_mask = 0};
  const uint64_t nothing[8] = {};
  for (bool by_record : {true, false}) {
    Bytes bytes(4096, 0xa5);
    Writer writer(&bytes);
    writer.Device(1);
    criu_writer_record(writer.get(), kQueue, &queue);
    const size_t end = writer.get()->pos;
    criu_writer_tail(writer.get(), size_t{CRIU_BLOB_SIZE_MAX} + 1);
    if (by_record) {
      criu_writer_record(writer.get(), 0x7777, nothing);
      writer.Device(2);
      EXPECT_EQ(criu_writer_tail(writer.get(), 8), nullptr);
    } else {
      EXPECT_EQ(criu_writer_tail(writer.get(), 8), nullptr);
    }
    EXPECT_EQ(writer.Finish(), -EOPNOTSUPP);
    EXPECT_EQ(Bytes(bytes.begin() + end, bytes.end()), Bytes(4096 - end, 0xa5));
  }
}

TEST(BlobWriter, RefusesADriverNameThatDoesNotFit) {
  criu_blob_schema schema = kSchema;
  schema.driver = "ninechars";
  Writer writer(nullptr, schema);
  writer.Device(1);
  EXPECT_EQ(writer.Finish(), -EINVAL);
}

TEST(BlobWriter, ADriverNameMayFillItsField) {
  criu_blob_schema schema = kSchema;
  schema.driver = "eightchr";
  Bytes bytes(4096);
  Writer writer(&bytes, schema);
  writer.Device(1);
  ASSERT_EQ(writer.Finish(), 0);
  criu_blob blob;
  criu_blob_fault fault;
  EXPECT_EQ(criu_blob_open(&blob, &schema, bytes.data(), writer.size, &fault), 0);
}

}  // namespace
}  // namespace sample
