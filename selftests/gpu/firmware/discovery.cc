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

// The words behind the header of a GC table.
using GcWords = std::vector<uint32_t>;

// gc_info_v1_2: units come in pairs (WGP).
GcWords gc_words_1(const Asic& asic) {
  enum Word : size_t { kEngines, kPairs0, kPairs1, kBackEnds, kGl2c, kGprs, kWaveSize = 11 };
  constexpr size_t kWavesPerSimd = 12, kScratchSlots = 13, kLds = 14, kScs = 15, kArrays = 16,
                   kPackers = 17, kGl2a = 18, kTcps = 19;
  // Caches in KiB, without which ROCm does not start: of a WGP, of an array, of the GPU.
  constexpr size_t kTcpsPerPair = 22, kTcpSize = 23, kSqcsPerPair = 24, kInstructions = 25,
                   kScalars = 26, kGl1s = 27, kGl1Size = 28, kGl2Size = 29;
  GcWords words(30);
  words[kEngines] = asic.shader_engines;
  words[kPairs0] = asic.units_per_array / 2u;
  words[kBackEnds] = 1;
  words[kGl2c] = 16;
  words[kGprs] = 1024;
  words[kWaveSize] = 32;
  words[kWavesPerSimd] = 16;
  words[kScratchSlots] = 32;
  words[kLds] = 64;
  words[kScs] = 1;
  words[kArrays] = asic.arrays_per_engine;
  words[kPackers] = 1;
  words[kGl2a] = 1;
  words[kTcps] = asic.units_per_array;
  words[kTcpsPerPair] = 2;
  words[kTcpSize] = 32;
  words[kSqcsPerPair] = 1;
  words[kInstructions] = 32;
  words[kScalars] = 16;
  words[kGl1s] = 1;
  words[kGl1Size] = 256;
  words[kGl2Size] = 6144;
  return words;
}

// gc_info_v2_1: counts are of one XCC.
GcWords gc_words_2(const Asic& asic) {
  enum Word : size_t { kEngines, kUnits, kArrays, kBackEnds, kTccs, kGprs, kWaveSize = 11 };
  constexpr size_t kWavesPerSimd = 12, kScratchSlots = 13, kLds = 14;
  // Caches in KiB, without which ROCm does not start: of a CU, of the CUs of an SQC, of the XCC.
  constexpr size_t kTcpSize = 18, kUnitsPerSqc = 20, kInstructions = 21, kScalars = 22,
                   kTccSize = 23;
  GcWords words(24);
  words[kEngines] = asic.shader_engines;
  words[kUnits] = asic.units_per_array;
  words[kArrays] = asic.arrays_per_engine;
  words[kBackEnds] = 1;
  words[kTccs] = 16;
  words[kGprs] = 256;
  words[kWaveSize] = 64;
  words[kWavesPerSimd] = 8;
  words[kScratchSlots] = 32;
  words[kLds] = 64;
  words[kTcpSize] = 32;
  words[kUnitsPerSqc] = 2;
  words[kInstructions] = 64;
  words[kScalars] = 16;
  words[kTccSize] = 4096;
  return words;
}

void put_gc(Image& image, const Asic& asic) {
  const bool is_1 = asic.gc_table == 1;
  const GcWords words = is_1 ? gc_words_1(asic) : gc_words_2(asic);
  const size_t bytes = 12 + 4 * words.size();
  image.text(kGcAt, std::string_view("GC\0\0", 4));
  image.put<uint16_t>(kGcAt + 4, is_1 ? 1 : 2);
  image.put<uint16_t>(kGcAt + 6, is_1 ? 2 : 1);
  image.put<uint32_t>(kGcAt + 8, static_cast<uint32_t>(bytes));
  for (size_t i = 0; i < words.size(); ++i) image.put<uint32_t>(kGcAt + 12 + 4 * i, words[i]);
  put_info(image, kGcTable, kGcAt, bytes);
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
