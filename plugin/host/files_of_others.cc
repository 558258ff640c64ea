// SPDX-License-Identifier: GPL-2.0
#include "host/files_of_others.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <string_view>

#include "base/background.h"
#include "base/entries.h"
#include "base/log.h"

namespace amdgpu_criu::host {
namespace {

// Otherwise the process has ended since.
bool is_refused(const Error& error) { return error.code() == EACCES || error.code() == EPERM; }

// Most descriptors are of other files, and are not examined. path: of this descriptor
void add_file(const Host& host, RenderFile file, std::string_view link, const std::string& path,
              FilesOfOthers& found) {
  const bool is_dmabuf = host.names_dmabuf(link);
  struct stat status;
  if ((!is_dmabuf && !link.starts_with("/dev/")) || !examine(path, status)) return;
  if (is_dmabuf)
    found.dmabufs.push_back({file.pid, status.st_ino, static_cast<uint64_t>(status.st_size)});
  const auto node = host.classify(status);
  if (!node || node->kind != NodeKind::kRender) return;
  file.minor = node->minor;
  found.renders.push_back(file);
}

void add_files(const Host& host, pid_t pid, pid_t thread, FilesOfOthers& found,
               std::set<pid_t>& hidden) {
  const std::string directory = formatted("/proc/{}/task/{}/fd", pid, thread);
  const auto opened = Fd::open(directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (!opened.ok()) {
    if (is_refused(opened.error())) hidden.insert(pid);
    return;
  }
  for_each_entry(opened->get(), [&](const char* name) {
    char target[64];
    const ssize_t length = readlinkat(opened->get(), name, target, sizeof(target));
    if (length > 0)
      add_file(host, {pid, thread, atoi(name), 0}, {target, static_cast<size_t>(length)},
               directory + "/" + name, found);
    return true;
  });
}

// Few processes have threads with a table of descriptors of their own.
void add_files(const Host& host, pid_t pid, FilesOfOthers& found, std::set<pid_t>& hidden) {
  const auto threads = threads_of(pid);
  if (!threads.ok()) {
    if (is_refused(threads.error())) hidden.insert(pid);  // by the option hidepid of /proc
    return;
  }
  for (const pid_t thread : *threads)
    if (thread == pid || syscall(SYS_kcmp, pid, thread, KCMP_FILES, 0, 0) != 0)
      add_files(host, pid, thread, found, hidden);
}

}  // namespace

Result<FilesOfOthers> files_of_others(const Host& host, const std::set<pid_t>& these) {
  const Fd all = TRY(Fd::open("/proc", O_RDONLY | O_DIRECTORY));
  FilesOfOthers found;
  std::set<pid_t> hidden;  // processes that the caller may not examine
  for_each_entry(all.get(), [&](const char* name) {
    const pid_t pid = atoi(name);
    if (pid > 0 && pid != getpid() && !these.contains(pid)) add_files(host, pid, found, hidden);
    return true;
  });
  const auto is_of_helper = [](const auto& file) { return comm_of(file.pid) == kHelperName; };
  std::erase_if(found.dmabufs, is_of_helper);
  std::erase_if(found.renders, is_of_helper);
  if (!hidden.empty())
    log_info(
        "the descriptors of {} processes, such as {} ({}), cannot be examined: whether these "
        "have GPU memory of dumped processes is not known",
        hidden.size(), *hidden.begin(), comm_of(*hidden.begin()));
  return found;
}

}  // namespace amdgpu_criu::host
