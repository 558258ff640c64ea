// SPDX-License-Identifier: GPL-2.0
// A schema for the tests of the codec, a blob of it, and functions that make blobs that the writer
// would never write.
#ifndef KERNEL_TESTS_SAMPLE_H_
#define KERNEL_TESTS_SAMPLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

extern "C" {
#include "criu_blob.h"
}

namespace sample {

using Bytes = std::vector<uint8_t>;

inline constexpr uint16_t kDevice = CRIU_RECORD_DRIVER;
inline constexpr uint16_t kBo = CRIU_RECORD_DRIVER + 1;
inline constexpr uint16_t kQueue = CRIU_RECORD_DRIVER + 2;
inline constexpr uint16_t kHint = CRIU_RECORD_DRIVER + 3;
inline constexpr uint32_t kDevicesMax = 4;
inline constexpr uint16_t kQueueVersion = 2;

struct Device {
  uint64_t id;
  uint32_t gpu_id;
  uint32_t flags;
};

struct Bo {
  uint64_t id;
  uint64_t va;
  uint64_t size;
  uint64_t device_id;
};

// cu_mask was appended after the first release.
struct Queue {
  uint64_t device_id;
  uint32_t mqd_size;
  uint32_t stack_size;
  uint64_t cu_mask;
};

struct Hint {
  uint64_t priority;
};

extern const criu_blob_schema kSchema;

// How many of each record the sample has.
inline constexpr uint32_t kDevices = 2;
inline constexpr uint32_t kBos = 5;
inline constexpr uint32_t kQueues = 3;

// The same calls for the size pass (empty buffer) and the write pass.
void WriteSample(criu_blob_writer* writer);
Bytes MakeSample();

// Bytes of an MQD or stack in the sample; its length is no multiple of 8 for odd queues.
Bytes QueueBytes(uint32_t queue, uint32_t size, uint8_t salt);
Queue SampleQueue(uint32_t queue);

// Reads all of a blob, as a driver would. Returns 0 or a negative errno; aborts if the codec breaks
// a promise.
int ReadAll(std::span<const uint8_t> bytes, criu_blob_fault* fault = nullptr);

// Corrects the frame after changes of records: total size, and, if walking finds an END record,
// record count and checksum.
void RepairFrame(Bytes* bytes);

// Assembles a blob by hand.
class Builder {
 public:
  Builder();

  criu_blob_header& header() { return header_; }
  Builder& Identity(const criu_record_identity& identity);
  Builder& Identity();
  Builder& Raw(const criu_record_header& header, std::span<const uint8_t> payload);
  // A record whose fixed part and tail have correct sizes.
  Builder& Record(uint16_t type, uint16_t version, uint32_t flags, std::span<const uint8_t> fixed,
                  std::span<const uint8_t> tail = {});
  template <typename T>
  Builder& Record(uint16_t type, const T& fixed, uint16_t version = 1, uint32_t flags = 0) {
    return Record(type, version, flags, {reinterpret_cast<const uint8_t*>(&fixed), sizeof(fixed)});
  }
  Builder& HeaderTail(std::span<const uint8_t> tail);
  Builder& End();
  Bytes Build() const;

 private:
  criu_blob_header header_;
  Bytes header_tail_;
  Bytes records_;
};

// IDENTITY and one device: the least that kSchema allows.
Builder Minimal();

}  // namespace sample

#endif  // KERNEL_TESTS_SAMPLE_H_
