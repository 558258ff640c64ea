// SPDX-License-Identifier: GPL-2.0
// vfio-user messages on the wire (docs/interop/vfio-user.rst of QEMU), little-endian.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpu::vfio {

enum class Command : uint16_t {
  kVersion = 1,
  kDmaMap = 2,
  kDmaUnmap = 3,
  kGetInfo = 4,
  kGetRegionInfo = 5,
  kGetRegionIoFds = 6,
  kGetIrqInfo = 7,
  kSetIrqs = 8,
  kRegionRead = 9,
  kRegionWrite = 10,
  kDmaRead = 11,
  kDmaWrite = 12,
  kReset = 13,
  kRegionWriteMulti = 15,
};

inline constexpr uint32_t kTypeMask = 0xf;
inline constexpr uint32_t kTypeCommand = 0;
inline constexpr uint32_t kTypeReply = 1;
inline constexpr uint32_t kNoReply = 1 << 4;
inline constexpr uint32_t kError = 1 << 5;

struct Header {
  uint16_t id;
  uint16_t command;
  uint32_t size;  // with this header
  uint32_t flags;
  uint32_t error;
};
static_assert(sizeof(Header) == 16);

struct Version {  // followed by JSON, with a NUL
  uint16_t major;
  uint16_t minor;
};

inline constexpr uint32_t kDmaReadable = 1;
inline constexpr uint32_t kDmaWritable = 2;
struct DmaMap {
  uint32_t argsz;
  uint32_t flags;
  uint64_t offset;
  uint64_t iova;
  uint64_t size;
};
static_assert(sizeof(DmaMap) == 32);

struct DmaUnmap {
  uint32_t argsz;
  uint32_t flags;
  uint64_t iova;
  uint64_t size;
};
static_assert(sizeof(DmaUnmap) == 24);

inline constexpr uint32_t kDeviceReset = 1;
inline constexpr uint32_t kDevicePci = 2;
struct DeviceInfo {
  uint32_t argsz;
  uint32_t flags;
  uint32_t regions;
  uint32_t irqs;
};
static_assert(sizeof(DeviceInfo) == 16);

inline constexpr uint32_t kRegionReadable = 1;
inline constexpr uint32_t kRegionWritable = 2;
inline constexpr uint32_t kRegionMappable = 4;
struct RegionInfo {
  uint32_t argsz;
  uint32_t flags;
  uint32_t index;
  uint32_t cap_offset;
  uint64_t size;
  uint64_t offset;
};
static_assert(sizeof(RegionInfo) == 32);

inline constexpr uint32_t kIrqMsi = 1;
inline constexpr uint32_t kIrqError = 3;
inline constexpr uint32_t kIrqs = 5;
inline constexpr uint32_t kIrqEventfd = 1;
inline constexpr uint32_t kIrqNoResize = 8;
struct IrqInfo {
  uint32_t argsz;
  uint32_t flags;
  uint32_t index;
  uint32_t count;
};
static_assert(sizeof(IrqInfo) == 16);

inline constexpr uint32_t kSetNone = 1;
inline constexpr uint32_t kSetEventfd = 4;
inline constexpr uint32_t kSetTrigger = 0x20;
struct SetIrqs {
  uint32_t argsz;
  uint32_t flags;
  uint32_t index;
  uint32_t start;
  uint32_t count;
};
static_assert(sizeof(SetIrqs) == 20);

struct RegionAccess {  // followed by count bytes in a write and in the reply to a read
  uint64_t offset;
  uint32_t region;
  uint32_t count;
};
static_assert(sizeof(RegionAccess) == 16);

struct WriteMulti {  // followed by count times WriteMultiEntry
  uint64_t count;
};
struct WriteMultiEntry {
  uint64_t offset;
  uint32_t region;
  uint32_t count;  // at most 8
  std::byte data[8];
};
static_assert(sizeof(WriteMultiEntry) == 24);

inline constexpr size_t kMaxFds = 8;
inline constexpr size_t kMaxTransfer = 1 << 20;
inline constexpr size_t kMaxMessage = sizeof(Header) + sizeof(RegionAccess) + kMaxTransfer;

}  // namespace gpu::vfio
