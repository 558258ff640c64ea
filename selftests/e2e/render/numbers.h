// SPDX-License-Identifier: GPL-2.0
// The numbers that the kernel assigns in a file, and its lists: the same before and after a
// restore.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "render/device.h"

namespace e2e {

struct FileLists {
  // The driver's list of the file's BOs, one line for each BO and each of its mappings. Empty on a
  // kernel without such a list.
  std::string bos;
  // The lowest free numbers of GEM handles, contexts, BO lists and syncobjs.
  std::string next_numbers;

  // Creates and destroys some objects to find the numbers.
  static amdgpu_criu::Result<FileLists> of(const RenderDevice& device);
  // Adds what differs from the present lists of a file.
  amdgpu_criu::Status check(const RenderDevice& device, std::vector<std::string>& problems) const;
};

}  // namespace e2e
