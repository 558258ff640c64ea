// SPDX-License-Identifier: GPL-2.0
#include "stock/private_data.h"

#include <cstring>

namespace amdgpu_criu::stock {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t kVersion = 1;
constexpr uint64_t kDeviceSize = 8;
// An address, a handle, and the gpu_ids of up to 64 GPUs, aligned to 8 bytes.
constexpr uint64_t kBoSize = 272;
constexpr uint32_t kCommonAttributes = 4;  // of an SVM range; and one of each GPU
constexpr uint32_t kCompute = 0;           // type of queue

enum ObjectType : uint32_t { kQueue = 0, kEvent = 1, kSvmRange = 2 };

struct ProcessRecord {
  uint32_t version;
  uint32_t xnack_mode;
};
struct QueueRecord {
  uint32_t object_type;
  uint32_t pad;
  uint64_t addresses[7];
  uint32_t gpu_id;
  uint32_t type;
  uint32_t format;
  uint32_t id;
  uint32_t settings[7];
  uint32_t control_stack_size;
  uint32_t mqd_size;
  uint32_t pad2;
};
static_assert(sizeof(QueueRecord) == 120);
constexpr uint64_t kEventSize = 64;
constexpr uint64_t kSvmHeader = 24;
constexpr uint64_t kSvmAttribute = 8;

// MQDs of compute queues. The words used here are the same for GFX9 to GFX11.
constexpr uint32_t kMqdSize = 2048;
constexpr uint32_t kStackOffsetWord = 174;
constexpr uint32_t kStackSizeWord = 175;
constexpr uint32_t kMaxStack = 1u << 20;
constexpr size_t kMaxCores = 16;

Error bad(const char* why) {
  return Error::of(EBADMSG, "the stock kernel's private data: {}", why);
}

class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  Result<Bytes> take(uint64_t size) {
    if (size > rest_.size()) return bad("is shorter than what is in it");
    const Bytes taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  template <typename T>
  Result<T> peek() const {
    T value;
    if (rest_.size() < sizeof(T)) return bad("is shorter than what is in it");
    memcpy(&value, rest_.data(), sizeof(T));
    return value;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  Bytes rest_;
};

uint32_t word(Bytes mqd, uint32_t number) {
  uint32_t value;
  memcpy(&value, mqd.data() + number * sizeof(value), sizeof(value));
  return value;
}

class Describer {
 public:
  Describer(Bytes bytes, const Counts& counts) : in_(bytes), counts_(counts) {}

  Result<Described> describe() {
    const auto process = TRY(in_.peek<ProcessRecord>());
    if (process.version != kVersion)
      return Error::of(EOPNOTSUPP,
                       "the stock kernel's private data is of version {}; this plugin knows {}",
                       process.version, kVersion);
    TRY(copy(sizeof(process) + counts_.devices * kDeviceSize + counts_.bos * kBoSize));
    for (uint32_t i = 0; i < counts_.objects; i++) TRY(object());
    if (!in_.at_end()) return bad("is longer than what is in it");
    return std::move(result_);
  }

 private:
  void put(Bytes bytes) { result_.data.insert(result_.data.end(), bytes.begin(), bytes.end()); }
  Status copy(uint64_t size) {
    put(TRY(in_.take(size)));
    return {};
  }

  Status object() {
    switch (TRY(in_.peek<uint32_t>())) {
      case kQueue:
        result_.queues++;
        return queue();
      case kEvent:
        result_.events++;
        return copy(kEventSize);
      case kSvmRange:
        result_.svm_ranges++;
        return copy(kSvmHeader + (kCommonAttributes + uint64_t{counts_.devices}) * kSvmAttribute);
    }
    return bad("has an object of an unknown type");
  }

  Status queue() {
    auto record = TRY(in_.peek<QueueRecord>());
    TRY(in_.take(sizeof(record)));
    const Bytes mqd = TRY(in_.take(record.mqd_size));
    const Bytes stacks = TRY(in_.take(record.control_stack_size));
    const uint64_t room = TRY(room_wanted(record, mqd));
    record.control_stack_size += room;
    put(std::as_bytes(std::span(&record, 1)));
    put(mqd);
    put(stacks);
    result_.data.resize(result_.data.size() + room);
    return {};
  }

  // Bytes of control stack that the queue must have but was saved without. Each graphics core has
  // an MQD and a control stack.
  Result<uint64_t> room_wanted(const QueueRecord& record, Bytes mqds) {
    if (record.type != kCompute || record.control_stack_size != 0 || mqds.size() % kMqdSize != 0)
      return uint64_t{0};
    if (mqds.size() > kMaxCores * kMqdSize)
      return bad("a queue has more MQDs than a GPU has cores");
    uint64_t wanted = 0;
    for (; !mqds.empty(); mqds = mqds.subspan(kMqdSize)) {
      const uint32_t size = word(mqds, kStackSizeWord);
      const uint32_t offset = word(mqds, kStackOffsetWord);
      if (offset > size || size > kMaxStack) return bad("a queue's control stack is inconsistent");
      if (offset < size)
        return Error::of(EOPNOTSUPP,
                         "queue {} on GPU {:#x} was stopped in the middle of its work, and of the "
                         "{} bytes that its control stack holds this kernel has saved none; it "
                         "cannot be carried (let the work end before the dump)",
                         record.id, record.gpu_id, size - offset);
      wanted += size;
    }
    return wanted;
  }

  Reader in_;
  const Counts& counts_;
  Described result_;
};

}  // namespace

Result<Described> describe(Bytes private_data, const Counts& counts) {
  return Describer(private_data, counts).describe();
}

}  // namespace amdgpu_criu::stock
