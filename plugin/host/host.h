// SPDX-License-Identifier: GPL-2.0
// Facts about this machine: which device nodes are GPUs, and which of them a process has open or
// mapped.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "topology/topology.h"

namespace amdgpu_criu::host {

// kCard: the node of the same GPU for programs that control screens.
enum class NodeKind { kKfd, kRender, kCard };

struct NodeId {
  NodeKind kind;
  unsigned minor;
};

// Defaults are those of a real machine; tests use other devices instead of GPUs.
struct Config {
  std::string kfd_path = "/dev/kfd";
  std::string dri_directory = "/dev/dri";
  std::string topology_nodes = topology::kNodes;
  std::string sys_devices = "/sys/dev/char";
  std::optional<dev_t> kfd_device;  // unset: the number in sysfs, or that of kfd_path
  unsigned drm_major = 226;
  unsigned first_render_minor = 128;
  unsigned card_minors = 64;             // 0 to 63
  std::string dmabuf_link = "/dmabuf:";  // the name of dma-buf descriptors in /proc
  std::string run_directory = "/run/amdgpu-criu";
  std::optional<std::string> container_config;  // unset: that of the engine that has called CRIU
  std::optional<std::string> container_id;      // the same
  std::string kfd_processes = "/sys/class/kfd/kfd/proc";
  ino_t kfd_pid_namespace = 0xeffffffc;  // whose numbers that has: PROC_PID_INIT_INO
};

// An open GPU node of a process.
struct ProcessFile {
  int number;
  NodeId node;
};
bool has_kfd(std::span<const ProcessFile> files);

// An open GPU node that the first thread of the process does not have under that number.
struct ThreadFile {
  pid_t thread;
  ProcessFile file;
};

// What KFD reports in sysfs. It stays when /dev/kfd is closed, until the process ends.
struct KfdState {
  bool exists = false;  // the process has opened /dev/kfd once
  unsigned queues = 0;
  uint64_t vram = 0;  // bytes
};

// A duplicate of an open file of another process. close() of a render node waits without a limit
// until the kernel has scheduled all work submitted through it; exit waits for a second. A file
// that is not known to be idle is therefore closed by the exit of this process.
class TakenFile {
 public:
  TakenFile(Fd file, NodeKind kind) : file_(std::move(file)), idle_(kind != NodeKind::kRender) {}
  TakenFile(TakenFile&&) = default;
  TakenFile& operator=(TakenFile&&) = delete;
  ~TakenFile() {
    if (!idle_) (void)file_.release();
  }

  Result<TakenFile> duplicate() const { return TakenFile(TRY(file_.duplicate()), idle_); }
  // Declares that no work submitted through the file is pending.
  void set_idle() { idle_ = true; }
  Fd idle() && { return std::move(file_); }
  int get() const { return file_.get(); }

 private:
  TakenFile(Fd file, bool idle) : file_(std::move(file)), idle_(idle) {}
  Fd file_;
  bool idle_;
};

struct ProcessVma {
  uint64_t start;
  uint64_t end;
  uint64_t offset;
  NodeId node;
  bool writable = false;      // by the process
  bool inaccessible = false;  // to it: PROT_NONE
};

class Host {
 public:
  static Host create(Config config = {});

  const std::string& kfd_path() const { return config_.kfd_path; }
  // Holds files by which processes of this machine coordinate.
  const std::string& run_directory() const { return config_.run_directory; }
  bool has_kfd() const { return kfd_device_.has_value(); }
  // Nodes of other drivers' GPUs are not ours.
  std::optional<NodeId> classify(const struct stat& status) const;
  std::optional<NodeId> classify(int fd) const;
  // Whether this descriptor of ours is a dma-buf, of any exporter.
  bool is_dmabuf(int fd) const;
  // Whether a link in /proc is to one.
  bool names_dmabuf(std::string_view link) const { return link.starts_with(config_.dmabuf_link); }

  // Identifies nodes by number: a container may have them under other names, and other nodes under
  // their names. The default directory is the caller's /dev.
  Result<Fd> kfd_directory() const;
  Result<Fd> render_directory() const;
  Result<Fd> open_kfd() const { return open_kfd(TRY(kfd_directory())); }
  Result<Fd> open_kfd(const Fd& directory) const;
  Result<Fd> open_render(unsigned minor) const {
    return open_render(minor, TRY(render_directory()));
  }
  Result<Fd> open_render(unsigned minor, const Fd& directory) const;
  // Whether permissions and the device cgroup of the caller allow it.
  bool may_open_render(unsigned minor, const Fd& directory) const;
  bool has_render(unsigned minor, const Fd& directory) const;
  // Makes the node in `directory`, with owner and mode of a render node that is there, or else of
  // the one in `outside`.
  Status make_render(unsigned minor, const Fd& directory, const Fd& outside) const;
  Result<std::vector<topology::Gpu>> gpus() const;
  // Those that an engine gives to the container that it restores; empty: unknown.
  std::set<unsigned> render_minors_of_container() const;
  // Of the container that an engine restores; empty: unknown.
  std::string container_id() const;
  // VRAM of the GPU that is in use, by anything; nullopt: this kernel does not report it.
  std::optional<uint64_t> vram_used(unsigned render_minor) const;
  // The rest of it, or nullopt as well.
  std::optional<uint64_t> vram_free(unsigned render_minor) const;

  // pid must be traced by the caller.
  Result<std::vector<ProcessFile>> files_of(pid_t pid) const;
  // Of threads with a table of their own.
  Result<std::vector<ThreadFile>> files_of_threads(pid_t pid) const;
  // Nothing for a caller in another pid namespace than that of sysfs.
  Result<KfdState> kfd_state_of(pid_t pid) const;
  // True if any of these, or a mapping, shows it. It may only have opened /dev/kfd once.
  Result<bool> uses_gpu(pid_t pid) const;
  // Another process that has the same table of descriptors; 0: none.
  Result<pid_t> sharer_of_files(pid_t pid) const;
  // Descriptors of GPU nodes, dma-bufs and anonymous files.
  Result<std::vector<int>> special_files_of(pid_t pid) const;
  Result<TakenFile> take(pid_t pid, const ProcessFile& file) const;
  Result<std::vector<ProcessVma>> vmas_of(pid_t pid) const;
  // By the descriptor itself. False for a process that has ended.
  bool maps_writable_dmabuf(pid_t pid) const;

 private:
  Host(Config config, std::optional<dev_t> kfd) : config_(std::move(config)), kfd_device_(kfd) {}
  bool is_of_amdgpu(dev_t device) const;
  std::optional<uint64_t> memory_info(unsigned render_minor, const char* name) const;
  Result<std::vector<ProcessFile>> files_of_thread(pid_t pid, pid_t thread) const;

  Config config_;
  std::optional<dev_t> kfd_device_;
};

// Of a process, the first one included. ESRCH if it is gone.
Result<std::vector<pid_t>> threads_of(pid_t pid);
// Of all its threads.
Result<std::vector<pid_t>> children_of(pid_t pid);
// True for a zombie too. The first thread of a process may end before others.
bool has_ended(pid_t thread);
// Whether two of our descriptors are of one open file.
Result<bool> same_file(int a, int b);
// Number of a process in its own (innermost) pid namespace.
Result<pid_t> namespace_pid(pid_t pid);
std::string comm_of(pid_t pid);

// Like stat(2), for kind, size, inode and links. The file system is not asked for newer attributes,
// because one in user space might never answer.
bool examine(const std::string& path, struct stat& status);

}  // namespace amdgpu_criu::host
