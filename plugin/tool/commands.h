// SPDX-License-Identifier: GPL-2.0
// The subcommands of amdgpu-criu. Each returns the program's exit status: 0 success, 1 a finding, 2
// an error.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace amdgpu_criu::tool {

enum class Format { kText, kJson };

// blobs: also list the records of the kernel's state.
int show(const std::string& directory, bool blobs, Format format);
// Writes the images of a directory to a new one, which needs no earlier dump.
int flatten(const std::string& directory, const std::string& to);
// gpu: computes the hashes of contents, too; empty: none.
int verify(const std::string& directory, const std::string& gpu, Format format);
int requirements(const std::string& directory, Format format);
int stack_id(Format format);
// Prints a specification of the Container Device Interface. kind: "VENDOR/CLASS".
int cdi(const std::string& kind);
int list_options(Format format);
// Directories may be empty: CRIU's own, and none.
int check(const std::string& plugin_directory, const std::string& image_directory, Format format);
// A dry run of a dump.
int check_process(pid_t pid, Format format);
int freeze(pid_t pid);
int thaw(pid_t pid);
// As freeze and thaw, with the VRAM in host memory meanwhile.
int suspend(pid_t pid);
int resume(pid_t pid);
int state(pid_t pid, Format format);

struct PreDumpOptions {
  pid_t pid = 0;
  std::string directory;
  std::string earlier;  // from the directory; empty: none
};
int pre_dump(const PreDumpOptions& options);

struct BenchOptions {
  std::vector<std::string> gpus;  // empty: all
  std::string directory = ".";
  uint64_t mebibytes = 256;
  unsigned rounds = 5;
};
int bench(const BenchOptions& options, Format format);

}  // namespace amdgpu_criu::tool
