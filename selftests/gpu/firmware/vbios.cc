// SPDX-License-Identifier: GPL-2.0
// Table layouts: atomfirmware.h, atom.h; which fields matter: amdgpu_atomfirmware.c.
#include "firmware/vbios.h"

#include "firmware/image.h"

namespace gpu {
namespace {

constexpr size_t kSector = 512;
constexpr size_t kRomSize = 8 * kSector;

// The layout of the image. The driver searches the version between the strings and the ROM header.
constexpr size_t kPciData = 0x80;
constexpr size_t kStrings = 0xa0;
constexpr size_t kVersion = 0xe0;
constexpr size_t kConfigText = 0x120;
constexpr size_t kRomHeader = 0x180;
constexpr size_t kCommandTable = 0x200;
constexpr size_t kDataTable = 0x2c0;
constexpr size_t kAsicInit = 0x310;
constexpr size_t kFirmwareInfo = 0x320;
constexpr size_t kSmuInfo = 0x380;
constexpr size_t kGfxInfo = 0x3c0;
constexpr size_t kVramInfo = 0x420;
constexpr size_t kDpmInfo = 0x500;

constexpr uint32_t kSramEcc = 0x200;  // of firmware_capability

constexpr uint16_t kCommandTables = 84;
constexpr uint16_t kDataTables = 35;
// Slots of the master data table.
constexpr size_t kSlotDpmInfo = 2;
constexpr size_t kSlotFirmwareInfo = 4;
constexpr size_t kSlotSmuInfo = 8;
constexpr size_t kSlotGfxInfo = 14;
constexpr size_t kSlotVramInfo = 28;

void table_header(Image& rom, size_t at, uint16_t size, uint8_t format, uint8_t content) {
  rom.put<uint16_t>(at, size);
  rom.put<uint8_t>(at + 2, format);
  rom.put<uint8_t>(at + 3, content);
}

void put_pci(Image& rom, const VbiosSpec& spec) {
  constexpr uint8_t kNotForX86 = 3;  // code type: the system's firmware does not run it
  rom.put<uint16_t>(0, 0xaa55);
  rom.put<uint8_t>(2, kRomSize / kSector);
  rom.put<uint16_t>(0x18, kPciData);
  rom.text(kPciData, "PCIR");
  rom.put<uint16_t>(kPciData + 4, spec.vendor);
  rom.put<uint16_t>(kPciData + 6, spec.asic.device_id);
  rom.put<uint16_t>(kPciData + 0xa, 0x1c);
  rom.put<uint8_t>(kPciData + 0xc, 3);
  rom.put<uint8_t>(kPciData + 0xd, static_cast<uint8_t>(spec.asic.class_code));
  rom.put<uint16_t>(kPciData + 0xe, static_cast<uint16_t>(spec.asic.class_code >> 8));
  rom.put<uint16_t>(kPciData + 0x10, kRomSize / kSector);
  rom.put<uint8_t>(kPciData + 0x14, kNotForX86);
  rom.put<uint8_t>(kPciData + 0x15, 0x80);  // the last image
}

void put_strings(Image& rom, std::string_view target) {
  using namespace std::string_view_literals;
  rom.put<uint8_t>(0x2f, 1);
  rom.text(0x30, " 761295520");
  rom.text(0x50, "01/01/26 00:00");
  rom.put<uint16_t>(0x6e, kStrings);
  constexpr std::string_view kPart = "113-SOFTGPU-001\0\r\nsoftgpu "sv;
  rom.text(kStrings, kPart);
  rom.text(kStrings + kPart.size(), target);
  rom.text(kVersion, "ATOMBIOSBK-AMD VER000.000.000.001.000000\0"sv);
  rom.text(kConfigText,
           "softgpu\0none\0"
           "1\0"sv);
}

void put_masters(Image& rom) {
  rom.put<uint16_t>(0x48, kRomHeader);
  table_header(rom, kRomHeader, 0x28, 2, 2);
  rom.text(kRomHeader + 4, "ATOM");
  rom.put<uint16_t>(kRomHeader + 0xc, kConfigText);
  rom.put<uint16_t>(kRomHeader + 0x1e, kCommandTable);
  rom.put<uint16_t>(kRomHeader + 0x20, kDataTable);

  table_header(rom, kCommandTable, 4 + 2 * kCommandTables, 2, 1);
  rom.put<uint16_t>(kCommandTable + 4, kAsicInit);
  table_header(rom, kDataTable, 4 + 2 * kDataTables, 2, 1);
  rom.put<uint16_t>(kDataTable + 4 + 2 * kSlotFirmwareInfo, kFirmwareInfo);
  rom.put<uint16_t>(kDataTable + 4 + 2 * kSlotSmuInfo, kSmuInfo);
  rom.put<uint16_t>(kDataTable + 4 + 2 * kSlotGfxInfo, kGfxInfo);
  rom.put<uint16_t>(kDataTable + 4 + 2 * kSlotVramInfo, kVramInfo);
}

// asic_init runs after a reset: a program that ends at once.
void put_asic_init(Image& rom, uint8_t format) {
  constexpr uint8_t kEndOfTable = 0x5b;
  table_header(rom, kAsicInit, 8, format, 1);
  rom.put<uint8_t>(kAsicInit + 6, kEndOfTable);
}

void put_firmware_info(Image& rom, bool sram_ecc) {
  table_header(rom, kFirmwareInfo, 0x48, 3, 1);
  rom.put<uint32_t>(kFirmwareInfo + 4, 1);
  rom.put<uint32_t>(kFirmwareInfo + 8, 80000);     // shader clock; zero would refuse asic_init
  rom.put<uint32_t>(kFirmwareInfo + 0xc, 160000);  // memory clock
  rom.put<uint32_t>(kFirmwareInfo + 0x10, sram_ecc ? kSramEcc : 0);
  rom.put<uint32_t>(kFirmwareInfo + 0x18, 0x4c);  // first BIOS scratch register
}

void put_smu_info(Image& rom) {
  table_header(rom, kSmuInfo, 0x1c, 3, 1);
  rom.put<uint32_t>(kSmuInfo + 0x10, kReferenceClock10kHz);
}

void put_gfx_info(Image& rom, const VbiosSpec& spec) {
  table_header(rom, kGfxInfo, 0x48, 2, 4);
  rom.put<uint8_t>(kGfxInfo + 6, spec.asic.shader_engines);
  rom.put<uint8_t>(kGfxInfo + 8, spec.asic.units_per_array);
  rom.put<uint8_t>(kGfxInfo + 9, spec.asic.arrays_per_engine);
  rom.put<uint8_t>(kGfxInfo + 0xa, 1);   // render back-ends
  rom.put<uint8_t>(kGfxInfo + 0xb, 16);  // texture channel caches
  rom.put<uint8_t>(kGfxInfo + 0x2c, spec.asic.units_per_array);
  rom.put<uint16_t>(kGfxInfo + 0x30, 256);  // GPRs
  rom.put<uint16_t>(kGfxInfo + 0x36, 64);   // wave size
  rom.put<uint16_t>(kGfxInfo + 0x38, 8);    // waves a SIMD
  rom.put<uint16_t>(kGfxInfo + 0x3a, 64);   // LDS, KiB
  rom.put<uint8_t>(kGfxInfo + 0x3f, 32);    // scratch slots a CU
}

void put_vram_info(Image& rom) {
  constexpr size_t kModule = kVramInfo + 0x18;
  constexpr uint16_t kModuleSize = 0x34;
  constexpr uint8_t kHbm2 = 0x60;
  table_header(rom, kVramInfo, 0x18 + kModuleSize, 2, 3);
  rom.put<uint8_t>(kVramInfo + 0x14, 1);  // modules
  rom.put<uint16_t>(kModule + 0x14, kModuleSize);
  rom.put<uint8_t>(kModule + 0x17, kHbm2);
  rom.put<uint8_t>(kModule + 0x18, 32);  // channels
  rom.put<uint8_t>(kModule + 0x19, 7);   // of 2^7 bits
}

// smc_dpm_info: required by the driver's power management, which takes every value.
void put_dpm_info(Image& rom, uint16_t bytes) {
  rom.put<uint16_t>(kDataTable + 4 + 2 * kSlotDpmInfo, kDpmInfo);
  table_header(rom, kDpmInfo, bytes, 5, 0);
}

// The sum of all bytes of an expansion ROM is zero.
void put_checksum(Image& rom) {
  uint8_t sum = 0;
  for (const std::byte byte : rom.bytes())
    sum = static_cast<uint8_t>(sum + std::to_integer<uint8_t>(byte));
  rom.put<uint8_t>(kRomSize - 1, static_cast<uint8_t>(-sum));
}

}  // namespace

std::vector<std::byte> make_vbios(const VbiosSpec& spec) {
  Image rom(kRomSize);
  put_pci(rom, spec);
  put_strings(rom, spec.asic.target);
  put_masters(rom);
  put_asic_init(rom, spec.asic.asic_init_format);
  put_firmware_info(rom, spec.asic.sram_ecc);
  put_smu_info(rom);
  put_gfx_info(rom, spec);
  put_vram_info(rom);
  if (spec.asic.dpm_info_bytes) put_dpm_info(rom, spec.asic.dpm_info_bytes);
  put_checksum(rom);
  return rom.take();
}

}  // namespace gpu
