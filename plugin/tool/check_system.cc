// SPDX-License-Identifier: GPL-2.0
// Checks permission, limits and other settings of the system.
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "pipeline/io_queue.h"
#include "tool/check.h"

namespace amdgpu_criu::tool {
namespace {

// The most memory that copies need for each GPU: staging memory, and as much again for the rest.
constexpr uint64_t kMemoryPerGpu = 128u << 20;
constexpr rlim_t kManyFiles = 4096;

std::string mebibytes(uint64_t bytes) { return formatted("{} MiB", bytes >> 20); }

std::string text_of(rlim_t limit, uint64_t unit, const char* name) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return formatted("{}{}", limit / unit, name);
}

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The process's path in the hierarchy of cgroup v2.
std::optional<std::string> cgroup_of_self(const Machine& machine) {
  std::ifstream file(machine.proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::")) return line.substr(3);
  return std::nullopt;
}

// A file without a name, or, if the file system does not support that (NFS, FUSE), one that is
// removed at once.
Result<Fd> make_file(const std::string& directory) {
  if (auto file = Fd::open(directory.c_str(), O_TMPFILE | O_RDWR, 0600); file.ok()) return file;
  std::string name = directory + "/amdgpu-criu-check-XXXXXX";
  Fd file(mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) return Error::system("cannot make a file in {}", directory);
  unlink(name.c_str());
  return file;
}

bool has_direct(const std::string& directory) {
  const auto file = make_file(directory);
  return file.ok() && pipeline::set_direct(file->get(), true);
}

}  // namespace

// The series exists for 6.12 and for 7.3.
Item check_kernel(const Machine& machine) {
  constexpr char kWhat[] = "kernel";
  constexpr char kRemedy[] = "boot Linux 6.12 or 7.3";
  utsname name{};
  uname(&name);
  const std::string release =
      machine.kernel_release.empty() ? name.release : machine.kernel_release;
  const std::string found = formatted("{} {} on {}", name.sysname, release, name.machine);
  int major = 0, minor = 0;
  if (sscanf(release.c_str(), "%d.%d", &major, &minor) != 2) return Item::good(kWhat, found);
  const std::pair version(major, minor);
  if (version < std::pair(5, 18))
    return {kWhat, Grade::kBad, found, "KFD has no checkpoint/restore ioctl before Linux 5.18",
            kRemedy};
  if (version != std::pair(6, 12) && version < std::pair(7, 3))
    return {kWhat, Grade::kLimited, found,
            "the amdgpu-criu series does not exist for it: only the stock kernel interface can be "
            "used",
            kRemedy};
  if (version > std::pair(7, 3))
    return {kWhat, Grade::kLimited, found,
            "the amdgpu-criu series was made for Linux 7.3: it may not build here, and was not "
            "tested here",
            "boot Linux 7.3, or build the series with the base 7.3 and run its tests"};
  return Item::good(kWhat, found);
}

bool has_capability(const Machine& machine, unsigned capability) {
  std::ifstream status(machine.proc + "/self/status");
  uint64_t effective = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("CapEff:")) effective = strtoull(line.c_str() + 7, nullptr, 16);
  return effective >> capability & 1;
}

Item check_capability(const Machine& machine) {
  constexpr char kWhat[] = "permission";
  constexpr char kRemedy[] =
      "run criu as root, or give it CAP_CHECKPOINT_RESTORE and CAP_SYS_PTRACE and use criu "
      "--unprivileged";
  const auto has = [&](unsigned capability) { return has_capability(machine, capability); };
  const auto word = [&](unsigned capability) { return has(capability) ? "yes" : "no"; };
  const std::string found =
      formatted("user {}, CAP_SYS_ADMIN {}, CAP_CHECKPOINT_RESTORE {}, CAP_SYS_PTRACE {}",
                geteuid(), word(CAP_SYS_ADMIN), word(CAP_CHECKPOINT_RESTORE), word(CAP_SYS_PTRACE));
  if (!has(CAP_SYS_ADMIN) && !has(CAP_CHECKPOINT_RESTORE))
    return {kWhat, Grade::kBad, found, "CRIU and the driver refuse with EPERM", kRemedy};
  if (has(CAP_SYS_PTRACE)) return Item::good(kWhat, found);
  if (const auto scope = read_number(machine.proc + "/sys/kernel/yama/ptrace_scope").value_or(0))
    return {kWhat, Grade::kBad, formatted("{}; kernel.yama.ptrace_scope is {}", found, scope),
            "CRIU cannot trace, and thus cannot dump, processes that it has not started", kRemedy};
  return {kWhat, Grade::kLimited, found,
          "CRIU cannot trace, and thus cannot dump, other users' processes and those that are not "
          "dumpable (see PR_SET_DUMPABLE)",
          kRemedy};
}

Item check_kcmp() {
  constexpr char kWhat[] = "comparing open files";
  const auto same = host::same_file(STDERR_FILENO, STDERR_FILENO);
  if (same.ok()) return Item::good(kWhat, "kcmp works");
  return {kWhat, Grade::kBad, same.error().message(),
          "neither CRIU nor the plugin can compare open files",
          "a kernel with CONFIG_KCMP, without a seccomp filter against it"};
}

Item check_io_uring(const Machine& machine) {
  constexpr char kWhat[] = "io_uring";
  io_uring_params parameters{};
  const Fd ring(static_cast<int>(syscall(SYS_io_uring_setup, 1, &parameters)));
  if (ring.valid()) return Item::good(kWhat, "works");
  const std::string why = strerror(errno);
  const auto disabled = read_number(machine.proc + "/sys/kernel/io_uring_disabled").value_or(0);
  return {kWhat, Grade::kLimited,
          disabled ? formatted("{}; kernel.io_uring_disabled is {}", why, disabled) : why,
          "contents are read and written by threads: dump and restore take longer",
          "set the sysctl kernel.io_uring_disabled to 0, or allow io_uring_setup in the seccomp "
          "filter"};
}

Item check_open_files() {
  constexpr char kWhat[] = "limit of open files";
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string found = formatted("{} now, {} at most", text_of(limit.rlim_cur, 1, ""),
                                      text_of(limit.rlim_max, 1, ""));
  if (limit.rlim_max >= kManyFiles) return Item::good(kWhat, found);
  return {kWhat, Grade::kLimited, found,
          "process trees that have more files open than that are refused at dump, with EMFILE",
          formatted("raise the hard limit (ulimit -Hn, LimitNOFILE=) to {} or more", kManyFiles)};
}

Item check_locked_memory(const Machine& machine, unsigned gpus) {
  constexpr char kWhat[] = "limit of locked memory";
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string found = text_of(limit.rlim_cur, 1 << 10, " KiB");
  if (has_capability(machine, CAP_IPC_LOCK))
    return Item::good(kWhat, found + ", does not apply with CAP_IPC_LOCK");
  if (limit.rlim_cur >= gpus * kMemoryPerGpu) return Item::good(kWhat, found);
  return {kWhat, Grade::kLimited, found,
          "processes that have more memory than that locked are not restored",
          formatted("raise it (ulimit -l, LimitMEMLOCK=) to {}, or run as root",
                    mebibytes(gpus * kMemoryPerGpu))};
}

Item check_file_size() {
  constexpr char kWhat[] = "limit of file size";
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const std::string found = text_of(limit.rlim_cur, 1 << 20, " MiB");
  if (limit.rlim_cur == RLIM_INFINITY) return Item::good(kWhat, found);
  return {kWhat, Grade::kLimited, found,
          "a process with more GPU memory than that is not dumped: an image would be larger",
          "ulimit -f unlimited, or LimitFSIZE=infinity"};
}

std::optional<MemoryLimit> tightest_memory_limit(const Machine& machine) {
  std::optional<MemoryLimit> tightest;
  auto path = cgroup_of_self(machine);
  while (path && !path->empty()) {
    const std::string group = machine.cgroups + *path;
    const auto limit = read_number(group + "/memory.max");  // "max" is no number
    const auto used = read_number(group + "/memory.current");
    if (limit && used) {
      const MemoryLimit one{*path, *limit, std::min(*used, *limit)};
      if (!tightest || one.free() < tightest->free()) tightest = one;
    }
    path->erase(path->find_last_of('/'));
  }
  return tightest;
}

Item check_memory_cgroup(const Machine& machine, unsigned gpus) {
  constexpr char kWhat[] = "memory limit of the cgroup";
  const auto tightest = tightest_memory_limit(machine);
  if (!tightest) return Item::good(kWhat, "none");
  const uint64_t free = tightest->free();
  const std::string found = formatted("{} of {} free in {}", mebibytes(free),
                                      mebibytes(tightest->limit), tightest->group);
  const uint64_t wanted = std::max(gpus, 1u) * kMemoryPerGpu;
  if (free >= wanted) return Item::good(kWhat, found);
  return {kWhat, Grade::kLimited, found,
          formatted("CRIU may be killed when it copies GPU memory: up to {} are needed",
                    mebibytes(wanted)),
          "raise memory.max, run criu in another cgroup, or use less staging memory: see "
          "criu-amdgpu(1)"};
}

Item check_images(const Machine& machine, const host::Host& host) {
  const std::string what = "image directory " + machine.image_directory;
  const bool direct = has_direct(machine.image_directory);
  const auto plain = direct ? Fd::open(machine.image_directory.c_str(), O_RDONLY | O_DIRECTORY)
                            : make_file(machine.image_directory);
  struct statvfs status{};
  if (!plain.ok() || fstatvfs(plain->get(), &status) != 0)
    return {what, Grade::kBad, plain.ok() ? "statvfs fails" : plain.error().message(),
            "no images can be written there", "choose a directory that exists and is writable"};
  uint64_t used = 0;
  const auto gpus = host.gpus();
  for (const topology::Gpu& gpu : gpus.ok() ? *gpus : std::vector<topology::Gpu>())
    used += read_number(formatted("{}/{}:{}/device/mem_info_vram_used", machine.host.sys_devices,
                                  machine.host.drm_major, gpu.render_minor))
                .value_or(0);
  const uint64_t free = status.f_bavail * status.f_frsize;
  const std::string found =
      formatted("{} free, direct I/O {}; {} of VRAM are in use on all GPUs", mebibytes(free),
                direct ? "works" : "does not work", mebibytes(used));
  if (free < used)
    return {what, Grade::kLimited, found, "a dump of all of it would end with ENOSPC",
            "make room, or choose another directory"};
  if (!direct)
    return {what, Grade::kLimited, found, "contents go through the page cache: slower",
            "choose a file system that has O_DIRECT"};
  return Item::good(what, found);
}

}  // namespace amdgpu_criu::tool
