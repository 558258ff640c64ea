// SPDX-License-Identifier: GPL-2.0
// Options of one restore, for engines that pass none: a file of a directory that only root can
// write, named after the images or the container.
#pragma once

#include <string>

#include "base/result.h"

namespace amdgpu_criu::options {

// In the plugin's run directory.
inline constexpr char kRestoreFiles[] = "restore.d";

// The file NAME.conf of the directory; empty: there is none. NAME is the path of the image
// directory as systemd-escape(1) prints it, or else the ID of the container; empty: there is no
// container. Fails if a user other than root and the caller could have written it.
Result<std::string> find_restore_file(const std::string& directory, const std::string& images,
                                      const std::string& container);

}  // namespace amdgpu_criu::options
