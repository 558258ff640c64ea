// SPDX-License-Identifier: GPL-2.0
#include "base/statistics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.h"
#include "base/log.h"

namespace amdgpu_criu {

void write_statistics(const char* file,
                      std::initializer_list<std::pair<const char*, uint64_t>> members) {
  std::string text = R"({"version": 1)";
  for (const auto& [name, value] : members) text += formatted(R"(, "{}": {})", name, value);
  text += "}\n";
  // A user may own the directory, and link the name to a file of root.
  remove_statistics(file);
  const auto opened = Fd::openat(AT_FDCWD, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  const Status written = opened.ok() ? write_all(*opened, text) : opened.error();
  if (written.ok()) return;
  log_warning("cannot write {}: {}", file, strerror(written.error().code()));
  if (opened.ok()) remove_statistics(file);  // it is not complete
}

void remove_statistics(const char* file) { (void)unlink(file); }

}  // namespace amdgpu_criu
