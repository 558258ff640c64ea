// SPDX-License-Identifier: GPL-2.0
// Header layouts: amdgpu_ucode.h.
#include "firmware/ucode.h"

#include "base/fd.h"
#include "firmware/image.h"

namespace gpu {
namespace {

constexpr size_t kHeader = 256;  // more than any header; payload follows
constexpr size_t kPayload = 64;  // each dword costs the guest one register write
constexpr uint32_t kUcodeVersion = 1;
// The driver gives queues GWS from 40 on.
constexpr uint32_t kMecVersion = 72;
constexpr size_t kVersionAt = 16;
constexpr size_t kCommonHeader = 32;

Image make_common(uint32_t header_size, uint16_t major, uint16_t ip_major, uint16_t ip_minor) {
  Image image(kHeader + kPayload);
  image.put<uint32_t>(0, kHeader + kPayload);
  image.put<uint32_t>(4, header_size);
  image.put<uint16_t>(8, major);
  image.put<uint16_t>(12, ip_major);
  image.put<uint16_t>(14, ip_minor);
  image.put<uint32_t>(kVersionAt, kUcodeVersion);
  image.put<uint32_t>(20, kPayload);
  image.put<uint32_t>(24, kHeader);
  return image;
}

// gfx_firmware_header_v1_0: feature version, jump table offset and size in dwords.
std::vector<std::byte> make_mec() {
  Image image = make_common(kCommonHeader + 12, 1, 9, 4);
  image.put<uint32_t>(kVersionAt, kMecVersion);
  image.put<uint32_t>(kCommonHeader, 1);
  image.put<uint32_t>(kCommonHeader + 8, 4);
  return image.take();
}

// rlc_firmware_header_v2_0: all lists empty.
std::vector<std::byte> make_rlc() {
  Image image = make_common(kCommonHeader + 76, 2, 9, 4);
  image.put<uint32_t>(kCommonHeader, 1);
  return image.take();
}

// sdma_firmware_header_v1_0. A feature version below 20: no burst NOPs.
std::vector<std::byte> make_sdma() {
  Image image = make_common(kCommonHeader + 20, 1, 4, 4);
  image.put<uint32_t>(kCommonHeader, 1);
  return image.take();
}

amdgpu_criu::Status write_file(const std::string& path, const std::vector<std::byte>& bytes) {
  const auto file = TRY(amdgpu_criu::Fd::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
  const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
  if (written < 0) return amdgpu_criu::Error::system("cannot write {}", path);
  if (static_cast<size_t>(written) != bytes.size())
    return amdgpu_criu::Error::of(ENOSPC, "cannot write all of {}", path);
  return {};
}

}  // namespace

std::vector<FirmwareFile> make_firmware(const Asic& asic) {
  std::vector<FirmwareFile> files;
  files.push_back({std::string(asic.firmware_gc) + "_mec.bin", make_mec()});
  files.push_back({std::string(asic.firmware_gc) + "_rlc.bin", make_rlc()});
  files.push_back({std::string(asic.firmware_sdma) + ".bin", make_sdma()});
  return files;
}

amdgpu_criu::Status write_firmware(const std::string& dir) {
  for (const Asic* asic : all_asics())
    for (const FirmwareFile& file : make_firmware(*asic))
      TRY(write_file(dir + "/" + file.name, file.bytes));
  return {};
}

}  // namespace gpu
