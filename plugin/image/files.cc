// SPDX-License-Identifier: GPL-2.0
#include "image/files.h"

#include <dirent.h>

#include <algorithm>
#include <memory>

namespace amdgpu_criu::image {

namespace {

struct DirCloser {
  void operator()(DIR* stream) const { closedir(stream); }
};

}  // namespace

Status read_at(const Fd& file, const std::string& name, uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = pread(file.get(), to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::system("cannot read image {}", name);
    if (got == 0) return Error::of(EBADMSG, "image {} is truncated", name);
    to = to.subspan(got);
    offset += got;
  }
  return {};
}

Result<std::vector<std::string>> list_names(int directory,
                                            const std::function<bool(std::string_view)>& wanted) {
  // A descriptor of its own: reading a directory moves the file position.
  Fd fd = TRY(Fd::openat(directory, ".", O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, DirCloser> stream(fdopendir(fd.get()));
  if (!stream) return Error::system("cannot list the image directory");
  (void)fd.release();
  std::vector<std::string> result;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (!entry) break;
    if (wanted(entry->d_name)) result.emplace_back(entry->d_name);
  }
  if (errno) return Error::system("cannot list the image directory");
  std::ranges::sort(result);
  return result;
}

}  // namespace amdgpu_criu::image
