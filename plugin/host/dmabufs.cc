// SPDX-License-Identifier: GPL-2.0
#include "host/dmabufs.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <string_view>

#include "base/entries.h"
#include "base/log.h"

namespace amdgpu_criu::host {
namespace {

// Otherwise the process has ended since.
bool is_refused(const Error& error) { return error.code() == EACCES || error.code() == EPERM; }

void add_dmabufs(const Host& host, pid_t pid, const std::string& directory,
                 std::vector<DmabufFile>& found, std::set<pid_t>& hidden) {
  const auto opened = Fd::open(directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (!opened.ok()) {
    if (is_refused(opened.error())) hidden.insert(pid);
    return;
  }
  for_each_entry(opened->get(), [&](const char* name) {
    char target[64];
    const ssize_t length = readlinkat(opened->get(), name, target, sizeof(target));
    struct stat status;
    if (length > 0 && host.names_dmabuf({target, static_cast<size_t>(length)}) &&
        examine(directory + "/" + name, status))
      found.push_back({pid, status.st_ino, static_cast<uint64_t>(status.st_size)});
    return true;
  });
}

// Few processes have threads with a table of descriptors of their own.
void add_dmabufs(const Host& host, pid_t pid, std::vector<DmabufFile>& found,
                 std::set<pid_t>& hidden) {
  const auto threads = threads_of(pid);
  if (!threads.ok()) {
    if (is_refused(threads.error())) hidden.insert(pid);  // by the option hidepid of /proc
    return;
  }
  for (const pid_t thread : *threads)
    if (thread == pid || syscall(SYS_kcmp, pid, thread, KCMP_FILES, 0, 0) != 0)
      add_dmabufs(host, pid, formatted("/proc/{}/task/{}/fd", pid, thread), found, hidden);
}

}  // namespace

Result<std::vector<DmabufFile>> dmabufs_of_others(const Host& host, const std::set<pid_t>& these) {
  const Fd all = TRY(Fd::open("/proc", O_RDONLY | O_DIRECTORY));
  std::vector<DmabufFile> found;
  std::set<pid_t> hidden;  // processes that the caller may not examine
  for_each_entry(all.get(), [&](const char* name) {
    const pid_t pid = atoi(name);
    if (pid > 0 && pid != getpid() && !these.contains(pid)) add_dmabufs(host, pid, found, hidden);
    return true;
  });
  if (!hidden.empty())
    log_info(
        "the descriptors of {} processes, such as {} ({}), cannot be examined: whether these "
        "have GPU memory of dumped processes is not known",
        hidden.size(), *hidden.begin(), comm_of(*hidden.begin()));
  return found;
}

}  // namespace amdgpu_criu::host
