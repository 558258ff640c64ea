// SPDX-License-Identifier: GPL-2.0
#include "pci/config_space.h"

#include <linux/pci_regs.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace gpu {
namespace {

constexpr uint8_t kPowerManagement = 0x50;
constexpr uint8_t kExpress = 0x64;
constexpr uint8_t kMsi = 0xa0;

constexpr uint16_t kSubsystem = 0x0c34;

}  // namespace

amdgpu_criu::Result<ConfigSpace> ConfigSpace::create(const Spec& spec) {
  for (const uint64_t size : {spec.vram_size, spec.doorbell_size, spec.mmio_size, spec.rom_size})
    if (!std::has_single_bit(size) || size < 2048)
      return amdgpu_criu::Error::of(EINVAL, "a BAR of {} bytes: not a power of two", size);
  ConfigSpace space;
  space.put_header(spec);
  space.put_bars(spec);
  space.put_capabilities();
  space.reset();
  return space;
}

template <typename T>
void ConfigSpace::put(size_t offset, T value, T writable) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    reset_.at(offset + i) = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
    mask_.at(offset + i) = static_cast<std::byte>(static_cast<uint64_t>(writable) >> (8 * i));
  }
}

void ConfigSpace::put_header(const Spec& spec) {
  put<uint16_t>(PCI_VENDOR_ID, kPciVendor);
  put<uint16_t>(PCI_DEVICE_ID, spec.device_id);
  put<uint16_t>(PCI_COMMAND, 0,
                PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY | PCI_COMMAND_SERR |
                    PCI_COMMAND_INTX_DISABLE);
  put<uint16_t>(PCI_STATUS, PCI_STATUS_CAP_LIST);
  put<uint32_t>(PCI_CLASS_REVISION, spec.class_code << 8 | spec.revision);
  put<uint8_t>(PCI_CACHE_LINE_SIZE, 0, 0xff);
  put<uint16_t>(PCI_SUBSYSTEM_VENDOR_ID, kPciVendor);
  put<uint16_t>(PCI_SUBSYSTEM_ID, kSubsystem);
  put<uint8_t>(PCI_CAPABILITY_LIST, kPowerManagement);
  put<uint8_t>(PCI_INTERRUPT_LINE, 0, 0xff);
}

void ConfigSpace::put_bars(const Spec& spec) {
  constexpr uint64_t kLarge = PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH;
  put<uint64_t>(PCI_BASE_ADDRESS_0, kLarge, ~(spec.vram_size - 1));
  put<uint64_t>(PCI_BASE_ADDRESS_2, kLarge, ~(spec.doorbell_size - 1));
  put<uint32_t>(PCI_BASE_ADDRESS_5, 0, static_cast<uint32_t>(~(spec.mmio_size - 1)));
  put<uint32_t>(PCI_ROM_ADDRESS, 0,
                static_cast<uint32_t>(~(spec.rom_size - 1)) | PCI_ROM_ADDRESS_ENABLE);
}

void ConfigSpace::put_capabilities() {
  put<uint8_t>(kPowerManagement, PCI_CAP_ID_PM);
  put<uint8_t>(kPowerManagement + 1, kExpress);
  put<uint16_t>(kPowerManagement + PCI_PM_PMC, 3);
  put<uint16_t>(kPowerManagement + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET, PCI_PM_CTRL_STATE_MASK);

  constexpr uint16_t kLink = PCI_EXP_LNKSTA_CLS_16_0GB | PCI_EXP_LNKSTA_NLW_X8 << 1;  // x16
  put<uint8_t>(kExpress, PCI_CAP_ID_EXP);
  put<uint8_t>(kExpress + 1, kMsi);
  put<uint16_t>(kExpress + PCI_EXP_FLAGS, 2);  // version 2, endpoint
  put<uint32_t>(kExpress + PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_RBER | PCI_EXP_DEVCAP_EXT_TAG | 1);
  put<uint16_t>(kExpress + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_NOSNOOP_EN,
                0x7fff);
  put<uint32_t>(kExpress + PCI_EXP_LNKCAP, kLink);
  put<uint16_t>(kExpress + PCI_EXP_LNKCTL, 0, 0x01ff);
  put<uint16_t>(kExpress + PCI_EXP_LNKSTA, kLink);
  put<uint32_t>(kExpress + PCI_EXP_DEVCAP2,
                PCI_EXP_DEVCAP2_ATOMIC_COMP32 | PCI_EXP_DEVCAP2_ATOMIC_COMP64);
  // As a hypervisor sets it: a guest that sees no root port may use atomics then.
  put<uint16_t>(kExpress + PCI_EXP_DEVCTL2, PCI_EXP_DEVCTL2_ATOMIC_REQ, 0xffff);
  put<uint32_t>(kExpress + PCI_EXP_LNKCAP2, 0x1e);
  put<uint16_t>(kExpress + PCI_EXP_LNKCTL2, 4, 0xffff);

  put<uint8_t>(kMsi, PCI_CAP_ID_MSI);
  put<uint8_t>(kMsi + 1, 0);
  put<uint16_t>(kMsi + PCI_MSI_FLAGS, PCI_MSI_FLAGS_64BIT, PCI_MSI_FLAGS_ENABLE);
  put<uint32_t>(kMsi + PCI_MSI_ADDRESS_LO, 0, 0xfffffffc);
  put<uint32_t>(kMsi + PCI_MSI_ADDRESS_HI, 0, 0xffffffff);
  put<uint16_t>(kMsi + PCI_MSI_DATA_64, 0, 0xffff);
}

void ConfigSpace::reset() { now_ = reset_; }

void ConfigSpace::read(size_t offset, std::span<std::byte> out) const {
  std::copy_n(now_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
}

void ConfigSpace::write(size_t offset, std::span<const std::byte> data) {
  for (size_t i = 0; i < data.size(); ++i) {
    std::byte& byte = now_.at(offset + i);
    byte = (byte & ~mask_.at(offset + i)) | (data[i] & mask_.at(offset + i));
  }
}

uint64_t ConfigSpace::bar(size_t offset) const {
  uint64_t bar;
  std::memcpy(&bar, now_.data() + offset, sizeof(bar));
  return bar & static_cast<uint64_t>(PCI_BASE_ADDRESS_MEM_MASK);
}

bool ConfigSpace::bus_master() const {
  return std::to_integer<unsigned>(now_[PCI_COMMAND]) & PCI_COMMAND_MASTER;
}

}  // namespace gpu
