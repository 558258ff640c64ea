// SPDX-License-Identifier: GPL-2.0
#include "base/key.h"

#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

namespace amdgpu_criu {
namespace {

Status check(const Fd& file, const std::string& path) {
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return Error::system("cannot examine key file {}", path);
  if (!S_ISREG(status.st_mode)) return Error::of(EINVAL, "key file {} is not a regular file", path);
  // No other user can open a file without a name, such as a memfd.
  if (status.st_nlink > 0 && (status.st_mode & 077) != 0)
    return Error::of(EACCES, "key file {} can be read by others: chmod 600 {}", path, path);
  if (status.st_size != static_cast<off_t>(Key::kBytes))
    return Error::of(EINVAL, "key file {} has {} bytes; a key has {} (head -c {} /dev/urandom)",
                     path, status.st_size, Key::kBytes, Key::kBytes);
  return {};
}

}  // namespace

Key::Secret::~Secret() { explicit_bzero(bytes.data(), bytes.size()); }

Result<Key> Key::read(const std::string& path) {
  // A FIFO is not waited for.
  const Fd file = TRY(Fd::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  TRY(check(file, path));
  const auto secret = std::make_shared<Secret>();
  // The file may be an inherited descriptor, which was read to its end before.
  const ssize_t got = pread(file.get(), secret->bytes.data(), kBytes, 0);
  if (got < 0) return Error::system("cannot read key file {}", path);
  if (got != static_cast<ssize_t>(kBytes))
    return Error::of(EINVAL, "key file {} has become shorter", path);
  Key key;
  key.secret_ = secret;
  return key;
}

}  // namespace amdgpu_criu
