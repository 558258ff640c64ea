// SPDX-License-Identifier: GPL-2.0
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/key.h"

namespace amdgpu_criu::testing_support {

// A directory that is removed with its contents.
class TempDir {
 public:
  explicit TempDir(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = parent / "amdgpu-criu-test-XXXXXX";
    path_ = mkdtemp(name.data());
    fd_ = std::move(*Fd::open(path_.c_str(), O_RDONLY | O_DIRECTORY));
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      result.push_back(entry.path().filename());
    return result;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  std::string path_;
  Fd fd_;
};

// Writes a key file, and returns its path.
inline std::string write_key(const TempDir& dir, const std::string& name, char byte) {
  dir.write(name, std::string(Key::kBytes, byte));
  std::filesystem::permissions(dir.file(name), std::filesystem::perms::owner_read);
  return dir.file(name);
}

inline size_t count_open_files() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count++;
  return count;
}

}  // namespace amdgpu_criu::testing_support
