// SPDX-License-Identifier: GPL-2.0
// Table layouts: the driver's include/discovery.h.
#include "firmware/discovery.h"

#include <span>

#include "firmware/image.h"

namespace gpu {
namespace {

enum Table : size_t { kIpTable = 0, kGcTable = 1, kHarvestTable = 2 };

constexpr size_t kChecksumAt = 8;
constexpr size_t kTableInfo = 12;
constexpr size_t kIpsAt = 0x80;
constexpr size_t kGcAt = 0x1800;
constexpr size_t kGcBytes = 12 + 4 * 24;
constexpr size_t kHarvestAt = 0x1a00;
constexpr size_t kHarvestBytes = 8 + 32 * 4;

uint16_t sum(const Image& image, size_t at, size_t size) {
  uint16_t sum = 0;
  for (const std::byte byte : std::span(image.bytes()).subspan(at, size))
    sum = static_cast<uint16_t>(sum + std::to_integer<uint16_t>(byte));
  return sum;
}

void put_info(Image& image, Table table, size_t at, size_t size) {
  const size_t info = kTableInfo + 8 * table;
  image.put<uint16_t>(info, static_cast<uint16_t>(at));
  image.put<uint16_t>(info + 2, sum(image, at, size));
  image.put<uint16_t>(info + 4, static_cast<uint16_t>(size));
}

// ip_discovery_header and one die with all IPs.
void put_ips(Image& image, const std::vector<DiscoveredIp>& ips) {
  constexpr size_t kDie = kIpsAt + 80;
  image.text(kIpsAt, "IPDS");
  image.put<uint16_t>(kIpsAt + 4, 3);   // version
  image.put<uint16_t>(kIpsAt + 12, 1);  // dies
  image.put<uint16_t>(kIpsAt + 16, kDie);
  image.put<uint16_t>(kDie + 2, static_cast<uint16_t>(ips.size()));
  size_t at = kDie + 4;
  for (const DiscoveredIp& ip : ips) {
    image.put<uint16_t>(at, ip.hw_id);
    image.put<uint8_t>(at + 2, ip.instance);
    image.put<uint8_t>(at + 3, static_cast<uint8_t>(ip.bases.size()));
    image.put<uint8_t>(at + 4, ip.major);
    image.put<uint8_t>(at + 5, ip.minor);
    image.put<uint8_t>(at + 6, ip.revision);
    at += 8;
    for (const uint32_t base : ip.bases) {
      image.put<uint32_t>(at, base);
      at += 4;
    }
  }
  image.put<uint16_t>(kIpsAt + 6, static_cast<uint16_t>(at - kIpsAt));
  put_info(image, kIpTable, kIpsAt, at - kIpsAt);
}

// gc_info_v2_1: counts are of one XCC.
void put_gc(Image& image, const Asic& asic) {
  enum Word : size_t { kEngines, kUnits, kArrays, kBackEnds, kTccs, kGprs, kWaveSize = 11 };
  constexpr size_t kWavesPerSimd = 12, kScratchSlots = 13, kLds = 14;
  // Caches in KiB, without which ROCm does not start: of a CU, of the CUs of an SQC, of the XCC.
  constexpr size_t kTcpSize = 18, kUnitsPerSqc = 20, kInstructions = 21, kScalars = 22,
                   kTccSize = 23;
  image.text(kGcAt, std::string_view("GC\0\0", 4));
  image.put<uint16_t>(kGcAt + 4, 2);
  image.put<uint16_t>(kGcAt + 6, 1);
  image.put<uint32_t>(kGcAt + 8, kGcBytes);
  const auto put = [&](size_t word, uint32_t value) {
    image.put<uint32_t>(kGcAt + 12 + 4 * word, value);
  };
  put(kEngines, asic.shader_engines);
  put(kUnits, asic.units_per_array);
  put(kArrays, asic.arrays_per_engine);
  put(kBackEnds, 1);
  put(kTccs, 16);
  put(kGprs, 256);
  put(kWaveSize, 64);
  put(kWavesPerSimd, 8);
  put(kScratchSlots, 32);
  put(kLds, 64);
  put(kTcpSize, 32);
  put(kUnitsPerSqc, 2);
  put(kInstructions, 64);
  put(kScalars, 16);
  put(kTccSize, 4096);
  put_info(image, kGcTable, kGcAt, kGcBytes);
}

// Nothing is harvested.
void put_harvest(Image& image) {
  image.text(kHarvestAt, "HARV");
  put_info(image, kHarvestTable, kHarvestAt, kHarvestBytes);
}

}  // namespace

std::vector<std::byte> make_discovery(const Asic& asic) {
  Image image(kDiscoveryBytes);
  image.put<uint32_t>(0, 0x28211407);
  image.put<uint16_t>(4, 1);  // version
  image.put<uint16_t>(10, kDiscoveryBytes);
  put_ips(image, asic.ips);
  put_gc(image, asic);
  put_harvest(image);
  image.put<uint16_t>(kChecksumAt, sum(image, kChecksumAt + 2, kDiscoveryBytes - kChecksumAt - 2));
  return image.take();
}

}  // namespace gpu
