// SPDX-License-Identifier: GPL-2.0
// Header layouts: amdgpu_ucode.h.
#include "firmware/ucode.h"

#include "base/fd.h"
#include "firmware/image.h"

namespace gpu {
namespace {

constexpr size_t kHeader = 256;  // more than any header; payload follows
constexpr size_t kPayload = 64;  // each dword costs the guest one register write
constexpr size_t kVersionAt = 16;
constexpr size_t kCommonHeader = 32;

Image make_common(uint32_t header_size, uint16_t major, uint16_t ip_major, uint16_t ip_minor,
                  uint32_t payload = kPayload) {
  Image image(kHeader + payload);
  image.put<uint32_t>(0, kHeader + payload);
  image.put<uint32_t>(4, header_size);
  image.put<uint16_t>(8, major);
  image.put<uint16_t>(12, ip_major);
  image.put<uint16_t>(14, ip_minor);
  image.put<uint32_t>(20, payload);
  image.put<uint32_t>(24, kHeader);
  return image;
}

// gfx_firmware_header_v1_0: feature version, jump table offset and size in dwords.
Image make_mec() {
  Image image = make_common(kCommonHeader + 12, 1, 9, 4);
  image.put<uint32_t>(kCommonHeader, 1);
  image.put<uint32_t>(kCommonHeader + 8, 4);
  return image;
}

// rlc_firmware_header_v2_0: all lists empty.
Image make_rlc() {
  Image image = make_common(kCommonHeader + 76, 2, 9, 4);
  image.put<uint32_t>(kCommonHeader, 1);
  return image;
}

// sdma_firmware_header_v1_0. A feature version below 20: no burst NOPs.
Image make_sdma() {
  Image image = make_common(kCommonHeader + 20, 1, 4, 4);
  image.put<uint32_t>(kCommonHeader, 1);
  return image;
}

// gfx_firmware_header_v2_0: code and data of a RISC core.
Image make_gfx_rs64() {
  constexpr size_t kHalf = kPayload / 2;
  Image image = make_common(kCommonHeader + 28, 2, 11, 0);
  image.put<uint32_t>(kCommonHeader, 1);
  image.put<uint32_t>(kCommonHeader + 4, kHalf);
  image.put<uint32_t>(kCommonHeader + 8, kHeader);
  image.put<uint32_t>(kCommonHeader + 12, kHalf);
  image.put<uint32_t>(kCommonHeader + 16, kHeader + kHalf);
  return image;
}

// mes_firmware_header_v1_0. The driver reads the version of MES from inside of the code.
Image make_mes(uint32_t version) {
  constexpr size_t kVersionInCode = 96;
  constexpr size_t kCode = 128;
  Image image = make_common(kCommonHeader + 40, 1, 11, 0, kCode + kPayload);
  image.put<uint32_t>(kCommonHeader, version);
  image.put<uint32_t>(kCommonHeader + 4, kCode);
  image.put<uint32_t>(kCommonHeader + 8, kHeader);
  image.put<uint32_t>(kCommonHeader + 16, kPayload);
  image.put<uint32_t>(kCommonHeader + 20, kHeader + kCode);
  image.put<uint32_t>(kHeader + kVersionInCode, version);
  return image;
}

// sdma_firmware_header_v2_0: a context thread and a control thread.
Image make_sdma_threads() {
  constexpr size_t kHalf = kPayload / 2;
  Image image = make_common(kCommonHeader + 32, 2, 6, 0);
  image.put<uint32_t>(kCommonHeader, 1);
  image.put<uint32_t>(kCommonHeader + 4, kHalf);
  image.put<uint32_t>(kCommonHeader + 16, kHeader + kHalf);
  image.put<uint32_t>(kCommonHeader + 20, kHalf);
  return image;
}

// The driver copies it to VRAM only without a PSP.
Image make_vcn() { return make_common(kCommonHeader, 1, 4, 0); }
// imu_firmware_header_v1_0 and smc_firmware_header_v1_0: nothing loads them.
Image make_imu() { return make_common(kCommonHeader + 16, 1, 11, 0); }
Image make_smc() { return make_common(kCommonHeader + 4, 1, 13, 0); }

std::vector<std::byte> make_ucode(const Ucode& ucode) {
  const auto make = [&] {
    switch (ucode.kind) {
      case UcodeKind::kMec:
        return make_mec();
      case UcodeKind::kRlc:
        return make_rlc();
      case UcodeKind::kSdma:
        return make_sdma();
      case UcodeKind::kGfxRs64:
        return make_gfx_rs64();
      case UcodeKind::kMes:
        return make_mes(ucode.version);
      case UcodeKind::kImu:
        return make_imu();
      case UcodeKind::kSdmaThreads:
        return make_sdma_threads();
      case UcodeKind::kVcn:
        return make_vcn();
      case UcodeKind::kSmc:
        break;
    }
    return make_smc();
  };
  Image image = make();
  image.put<uint32_t>(kVersionAt, ucode.version);
  return image.take();
}

amdgpu_criu::Status write_file(const std::string& path, const std::vector<std::byte>& bytes) {
  const auto file = TRY(amdgpu_criu::Fd::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
  amdgpu_criu::Status written = amdgpu_criu::write_all(file, bytes);
  return written.ok() ? std::move(written) : std::move(written).error().within(path);
}

}  // namespace

std::vector<FirmwareFile> make_firmware(const Asic& asic) {
  std::vector<FirmwareFile> files;
  for (const Ucode& ucode : asic.firmware)
    files.push_back({std::string(ucode.name) + ".bin", make_ucode(ucode)});
  return files;
}

amdgpu_criu::Status write_firmware(const std::string& dir) {
  for (const Asic* asic : all_asics())
    for (const FirmwareFile& file : make_firmware(*asic))
      TRY(write_file(dir + "/" + file.name, file.bytes));
  return {};
}

}  // namespace gpu
