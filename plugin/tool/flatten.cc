// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu flatten`: one directory of images out of an incremental dump and those before it.
#include "image/flatten.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "tool/commands.h"
#include "tool/images.h"
#include "tool/output.h"
#include "tool/temp_directory.h"

namespace amdgpu_criu::tool {
namespace {

namespace fs = std::filesystem;

// A new directory. It has another name until it is kept: a directory of that name is complete, even
// if the command was killed.
class NewDirectory {
 public:
  static Result<NewDirectory> create(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    struct stat existing;
    if (lstat(path.c_str(), &existing) == 0)
      return Error::of(EEXIST, "cannot create {}: {}", path, strerror(EEXIST));
    auto unfinished = TRY(TempDirectory::create(path + ".unfinished-"));
    return NewDirectory(std::move(path), std::move(unfinished));
  }

  const std::string& path() const { return unfinished_->path(); }
  int fd() const { return unfinished_->fd(); }
  Status keep() {
    // The copies, and then their names.
    if (syncfs(fd()) != 0 || fsync(fd()) != 0) return Error::system("cannot synchronize {}", path_);
    TRY(unfinished_->keep_as(path_));
    const Fd parent = TRY(Fd::openat(fd(), "..", O_RDONLY | O_DIRECTORY));
    if (fsync(parent.get()) != 0) return Error::system("cannot synchronize {}", path_);
    return {};
  }

 private:
  NewDirectory(std::string path, std::unique_ptr<TempDirectory> unfinished)
      : path_(std::move(path)), unfinished_(std::move(unfinished)) {}

  std::string path_;
  std::unique_ptr<TempDirectory> unfinished_;
};

// A GPU image never changes, so it can be in both directories. CRIU writes a later dump over its
// own images.
Status link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (from.filename().string().starts_with("amdgpu-")) {
    fs::create_hard_link(from, to, error);
    if (!error) return {};
  }
  fs::copy_file(from, to, error);
  if (!error) return {};
  return Error::of(error.value(), "cannot copy {} to {}: {}", from.string(), to.string(),
                   error.message());
}

// Everything but these names and the link to the earlier dump.
Status take_others(const std::string& from, const std::set<std::string>& names,
                   const std::string& to) {
  std::error_code error;
  for (fs::directory_iterator at(from, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename();
    if (names.contains(name) || !at->is_regular_file()) continue;
    TRY(link_or_copy(at->path(), fs::path(to) / name));
  }
  if (error) return Error::of(error.value(), "cannot list {}: {}", from, error.message());
  return {};
}

// True if CRIU has images of memory of its own in the earlier dump, which its images may refer to.
bool criu_needs_earlier(const std::string& directory) {
  std::error_code error;
  for (fs::directory_iterator at(fs::path(directory) / image::kParent, error);
       !error && at != fs::directory_iterator(); at.increment(error))
    if (at->path().filename().string().starts_with("pagemap-")) return true;
  return false;
}

struct Flattened {
  size_t files = 0;
  uint64_t earlier_bytes = 0;
  bool needs_earlier = false;
};

Result<Flattened> flatten_all(const std::string& from, const std::string& to) {
  const Images images = TRY(Images::open(from));
  const auto set = TRY(image::Set::load(images.directory()));
  if (set.empty()) return Error::of(ENOENT, "no GPU images in {}", from);
  Flattened result;
  uint64_t total = 0;
  std::set<std::string> rewritten;
  for (const auto& file : set.contents()) {
    if (file.contents.sources.empty()) continue;
    rewritten.insert(file.name);
    for (const image::Object& object : file.contents.objects) total += object.size;
  }
  auto made = TRY(NewDirectory::create(to));
  const image::Directory target{made.fd(), images.directory().key};
  ProgressLine progress("flatten", total);
  for (const auto& file : set.contents())
    if (rewritten.contains(file.name))
      result.earlier_bytes += TRY(image::flatten(images.directory(), file, target,
                                                 [&](uint64_t bytes) { progress.add(bytes); }));
  TRY(take_others(from, rewritten, made.path()));
  TRY(image::Set::load(target));
  if ((result.needs_earlier = criu_needs_earlier(from))) {
    std::error_code error;
    const fs::path parent = fs::canonical(fs::path(from) / image::kParent, error);
    if (error || symlinkat(parent.c_str(), made.fd(), image::kParent) != 0)
      return Error::system("cannot make the link {} in {}", image::kParent, to);
  }
  TRY(made.keep());
  result.files = rewritten.size();
  return result;
}

}  // namespace

int flatten(const std::string& directory, const std::string& to) {
  const auto done = flatten_all(directory, to);
  if (!done.ok()) return complain(2, done.error().message());
  printf("%zu contents files written to %s, with %llu bytes from earlier dumps\n", done->files,
         to.c_str(), static_cast<unsigned long long>(done->earlier_bytes));
  if (done->needs_earlier)
    printf("CRIU's own images may still need its %s directory, to which %s has a link\n",
           image::kParent, to.c_str());
  return 0;
}

}  // namespace amdgpu_criu::tool
