// SPDX-License-Identifier: GPL-2.0
#include "tool/temp_directory.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/entries.h"

namespace amdgpu_criu::tool {

Result<std::unique_ptr<TempDirectory>> TempDirectory::create(const std::string& prefix) {
  std::string path = prefix + "XXXXXX";
  if (!mkdtemp(path.data())) return Error::system("cannot make a directory {}", path);
  std::unique_ptr<TempDirectory> made(new TempDirectory(std::move(path)));
  made->fd_ = TRY(Fd::open(made->path_.c_str(), O_RDONLY | O_DIRECTORY));
  return made;
}

// Other threads may make a file meanwhile.
void TempDirectory::remove() const {
  constexpr int kTries = 100;
  if (is_kept_) return;
  for (int i = 0; i < kTries && rmdir(path_.c_str()) != 0 && errno == ENOTEMPTY; i++)
    for_each_entry(fd_.get(), [this](const char* name) {
      (void)unlinkat(fd_.get(), name, 0);
      return true;
    });
}

// A signal must not remove files that have their final name.
Status TempDirectory::keep_as(const std::string& path) {
  is_kept_ = true;
  if (rename(path_.c_str(), path.c_str()) == 0) return {};
  Error error = Error::system("cannot create {}", path);
  is_kept_ = false;
  return error;
}

}  // namespace amdgpu_criu::tool
