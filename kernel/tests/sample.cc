// SPDX-License-Identifier: GPL-2.0
#include "sample.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <linux/crc32.h>

namespace sample {
namespace {

// Version 1 of a queue had no cu_mask.
const criu_record_older kQueueOlder[] = {
    {.size_min = 16, .size = offsetof(Queue, cu_mask), .raise = nullptr, .lower = nullptr},
};
static_assert(kQueueVersion == 1 + std::size(kQueueOlder));

const criu_record_desc kRecords[] = {
    CRIU_RECORD_IDENTITY_ROW,
    CRIU_RECORD_END_ROW,
    CRIU_RECORD(kDevice, "device", Device, flags, 1, kDevicesMax, 0),
    CRIU_RECORD(kBo, "bo", Bo, device_id, 0, 0, 0),
    CRIU_RECORD_VERSIONS(kQueue, "queue", Queue, cu_mask, kQueueOlder, 0, 0, CRIU_DESC_TAIL),
    CRIU_RECORD(kHint, "hint", Hint, priority, 0, 0, CRIU_DESC_MAY_SKIP),
};

// The codec broke a promise: a test or a fuzzer must stop here.
void Require(bool promise) {
  if (!promise) abort();
}

template <typename T>
T Get(const criu_record& record) {
  T fixed;
  Require(record.desc->size_now == sizeof(fixed));
  criu_record_get(&record, &fixed, sizeof(fixed));
  return fixed;
}

// Ids are ranges of size 1.
using Ids = std::vector<criu_range>;

void Add(Ids* ids, uint64_t id) {
  ids->push_back({.start = id, .size = 1, .index = static_cast<uint32_t>(ids->size())});
}

int Check(Ids* ranges) {
  const criu_range* culprit;
  return criu_ranges_check(ranges->data(), static_cast<uint32_t>(ranges->size()), &culprit);
}

bool Has(const Ids& ids, uint64_t id) {
  return criu_ranges_find(ids.data(), static_cast<uint32_t>(ids.size()), id, 1);
}

int ReadQueue(criu_record* record, const Ids& devices) {
  const Queue queue = Get<Queue>(*record);
  if (!Has(devices, queue.device_id)) return -EBADMSG;
  uint64_t sum = 0;
  for (uint32_t size : {queue.mqd_size, queue.stack_size}) {
    const auto* piece = static_cast<const uint8_t*>(criu_record_tail(record, size));
    if (!piece) return -EBADMSG;
    for (uint32_t i = 0; i < size; i++) sum += piece[i];
  }
  Require(sum <= uint64_t{UINT32_MAX} * 255 * 2);
  return record->tail_size ? -EBADMSG : 0;
}

int ReadDevices(const criu_blob& blob, Ids* devices) {
  criu_record record = {};
  while (criu_blob_next_of(&blob, kDevice, &record)) Add(devices, Get<Device>(record).id);
  Require(devices->size() == criu_blob_count(&blob, kDevice));
  return Check(devices);
}

int ReadBos(const criu_blob& blob, const Ids& devices) {
  std::vector<criu_range> ranges;
  Ids ids;
  criu_record record = {};
  while (criu_blob_next_of(&blob, kBo, &record)) {
    const Bo bo = Get<Bo>(record);
    const auto index = static_cast<uint32_t>(ranges.size());
    if (!Has(devices, bo.device_id)) return -EBADMSG;
    Add(&ids, bo.id);
    ranges.push_back({.start = bo.va, .size = bo.size, .index = index});
  }
  Require(ranges.size() == criu_blob_count(&blob, kBo));
  if (int ret = Check(&ids)) return ret;
  return Check(&ranges);
}

std::span<const uint8_t> AsBytes(const auto& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof(value)};
}

void Append(Bytes* to, std::span<const uint8_t> bytes) {
  to->insert(to->end(), bytes.begin(), bytes.end());
}

}  // namespace

const criu_blob_schema kSchema = {.driver = "sample",
                                  .node = 7,
                                  .page_size = 4096,
                                  .num_records = std::size(kRecords),
                                  .records = kRecords};

Bytes QueueBytes(uint32_t queue, uint32_t size, uint8_t salt) {
  Bytes bytes(size);
  for (uint32_t i = 0; i < size; i++)
    bytes[i] = static_cast<uint8_t>(1 + salt + queue * 31 + i * 7);
  return bytes;
}

Queue SampleQueue(uint32_t queue) {
  return {.device_id = 100 + queue % kDevices,
          .mqd_size = 24 + queue,
          .stack_size = 8 * queue,
          .cu_mask = queue == 1 ? 0xffu : 0u};
}

void WriteSample(criu_blob_writer* writer) {
  for (uint32_t i = 0; i < kDevices; i++) {
    const Device device = {.id = 100 + i, .gpu_id = 0x9000 + i, .flags = 0};
    criu_writer_record(writer, kDevice, &device);
  }
  for (uint32_t i = 0; i < kBos; i++) {
    const Bo bo = {.id = 1 + i, .va = 0x100000 + i * 0x2000, .size = 0x2000, .device_id = 100};
    criu_writer_record(writer, kBo, &bo);
  }
  for (uint32_t i = 0; i < kQueues; i++) {
    const Queue queue = SampleQueue(i);
    criu_writer_record(writer, kQueue, &queue);
    criu_writer_tail_copy(writer, QueueBytes(i, queue.mqd_size, 0).data(), queue.mqd_size);
    if (void* to = criu_writer_tail(writer, queue.stack_size))
      memcpy(to, QueueBytes(i, queue.stack_size, 9).data(), queue.stack_size);
  }
  const Hint hint = {.priority = 3};
  criu_writer_record(writer, kHint, &hint);
}

Bytes MakeSample() {
  criu_blob_writer writer;
  size_t size;
  criu_writer_init(&writer, &kSchema, nullptr, 0, nullptr, 0);
  WriteSample(&writer);
  Require(criu_writer_finish(&writer, &size) == 0);
  Bytes bytes(size);
  criu_writer_init(&writer, &kSchema, nullptr, 0, bytes.data(), bytes.size());
  WriteSample(&writer);
  Require(criu_writer_finish(&writer, &size) == 0 && size == bytes.size());
  return bytes;
}

int ReadAll(std::span<const uint8_t> bytes, criu_blob_fault* fault) {
  criu_blob_fault unused;
  criu_blob_fault* why = fault ? fault : &unused;
  criu_blob blob;
  const int ret = criu_blob_open(&blob, &kSchema, bytes.data(), bytes.size(), why);
  Require(ret == 0 || ret == -EBADMSG || ret == -EOPNOTSUPP);
  if (ret) {
    Require(why->reason && why->offset <= bytes.size());
    return ret;
  }
  Ids devices;
  if (int error = ReadDevices(blob, &devices)) return error;
  Require(!devices.empty() && devices.size() <= kDevicesMax);
  if (int error = ReadBos(blob, devices)) return error;
  criu_record record = {};
  while (criu_blob_next_of(&blob, kQueue, &record))
    if (int error = ReadQueue(&record, devices)) return error;
  return 0;
}

void RepairFrame(Bytes* bytes) {
  criu_blob_header header;
  if (bytes->size() < sizeof(header)) return;
  memcpy(&header, bytes->data(), sizeof(header));
  header.total_size = bytes->size();
  memcpy(bytes->data(), &header, sizeof(header));
  uint64_t records = 0;
  for (size_t at = header.header_size; at + sizeof(criu_record_header) <= bytes->size();) {
    criu_record_header record;
    memcpy(&record, bytes->data() + at, sizeof(record));
    at += sizeof(record);
    if (record.size > bytes->size() - at) return;
    records++;
    if (record.type == CRIU_RECORD_END && record.size >= sizeof(criu_record_end)) {
      criu_record_end end = {.num_records = records, .pad = 0, .crc = 0};
      memcpy(bytes->data() + at, &end, sizeof(end));
      end.crc = crc32c(~0u, bytes->data(), at + offsetof(criu_record_end, crc));
      memcpy(bytes->data() + at, &end, sizeof(end));
      return;
    }
    at += record.size;
  }
}

Builder::Builder()
    : header_{.magic = CRIU_BLOB_MAGIC,
              .format = CRIU_BLOB_FORMAT,
              .header_size = sizeof(criu_blob_header),
              .total_size = 0,
              .flags = 0,
              .pad = 0} {}

Builder& Builder::Raw(const criu_record_header& header, std::span<const uint8_t> payload) {
  Append(&records_, AsBytes(header));
  Append(&records_, payload);
  return *this;
}

Builder& Builder::Record(uint16_t type, uint16_t version, uint32_t flags,
                         std::span<const uint8_t> fixed, std::span<const uint8_t> tail) {
  const criu_record_header header = {.type = type,
                                     .version = version,
                                     .flags = flags,
                                     .fixed_size = static_cast<uint32_t>(fixed.size()),
                                     .size = static_cast<uint32_t>(fixed.size() + tail.size())};
  Append(&records_, AsBytes(header));
  Append(&records_, fixed);
  Append(&records_, tail);
  return *this;
}

Builder& Builder::Identity(const criu_record_identity& identity) {
  return Record(CRIU_RECORD_IDENTITY, identity);
}

Builder& Builder::Identity() {
  criu_record_identity identity = {.driver = {}, .node = kSchema.node, .page_size = 4096};
  memcpy(identity.driver, kSchema.driver, strlen(kSchema.driver));
  return Identity(identity);
}

Builder& Builder::HeaderTail(std::span<const uint8_t> tail) {
  Append(&header_tail_, tail);
  header_.header_size += static_cast<uint32_t>(tail.size());
  return *this;
}

Builder& Builder::End() { return Record(CRIU_RECORD_END, criu_record_end{}); }

Bytes Builder::Build() const {
  Bytes bytes;
  Append(&bytes, AsBytes(header_));
  Append(&bytes, header_tail_);
  Append(&bytes, records_);
  RepairFrame(&bytes);
  return bytes;
}

Builder Minimal() {
  Builder builder;
  builder.Identity().Record(kDevice, Device{.id = 100, .gpu_id = 1, .flags = 0});
  return builder;
}

}  // namespace sample
