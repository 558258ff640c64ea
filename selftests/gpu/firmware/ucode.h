// SPDX-License-Identifier: GPL-2.0
// Firmware files for the driver to load: headers around a few zeros, as the model runs no firmware.
#pragma once

#include <string>
#include <vector>

#include "asic/asic.h"
#include "base/result.h"

namespace gpu {

struct FirmwareFile {
  std::string name;  // below /lib/firmware/amdgpu
  std::vector<std::byte> bytes;
};

std::vector<FirmwareFile> make_firmware(const Asic& asic);
// Writes the files of all chips into an existing directory.
amdgpu_criu::Status write_firmware(const std::string& dir);

}  // namespace gpu
