// SPDX-License-Identifier: GPL-2.0
// Implements the plugin's kernel interface with the stock ioctl, so that dump and restore use the
// same code on a kernel without our series. Refuses state that such a kernel would lose or that
// would crash it.
//
// A session is only a descriptor; this object holds its state. Only the task that has restored an
// object can fill it, once.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "host/host.h"
#include "stock/ioctl.h"

namespace amdgpu_criu::stock {

// Has a directory for every KFD process, named by its pid.
inline constexpr char kKfdProcesses[] = "/sys/class/kfd/kfd/proc";

struct StockContext {
  std::unique_ptr<Ioctl> ioctl;
  const host::Host& host;
  std::string kfd_processes = kKfdProcesses;
  bool has_series = false;  // of the kernel, which has the stock ioctl in any case
};

class StockApi : public kernel::Api {
 public:
  // gpus: those of this machine.
  StockApi(StockContext parts, std::vector<topology::Gpu> gpus)
      : parts_(std::move(parts)), gpus_(std::move(gpus)) {}
  StockApi(const StockApi&) = delete;
  StockApi& operator=(const StockApi&) = delete;
  // Unpauses processes that are still paused, which the kernel does not do.
  ~StockApi() override;

  bool has_series() const override { return parts_.has_series; }
  void unpause_in_handler() override {
    for (const Paused& process : paused_) (void)parts_.ioctl->unpause(process.files.front().get());
  }
  Result<kernel::Query> query(kernel::Node node) override;
  Result<Fd> create_session(kernel::Node node, kernel::SessionKind kind) override;
  // Saves the state at once, so that a refusal occurs here and the process continues.
  Result<kernel::ProcessInfo> process_info(kernel::Node node, int session, pid_t process,
                                           const kernel::Interrupted& interrupted) override;
  Result<kernel::Checkpoint> checkpoint(kernel::Node node, int session,
                                        const kernel::ProcessInfo& sizes) override;
  Status unpause(kernel::Node node, int session) override;
  Status restore(kernel::Node node, int session, std::span<const kernel::RestoreDevice> devices,
                 std::span<kernel::Bo> bos, std::span<const std::byte> blob) override;
  Status resume(kernel::Node node, int session, pid_t pid) override;
  Result<Fd> dmabuf(kernel::Node node, int session, uint64_t object_id) override;
  Result<kernel::Exported> save_exported(kernel::Node node, int session, int dmabuf) override;
  Result<Fd> restore_exported(kernel::Node node, int session,
                              const kernel::Exported& exported) override;
  Result<kernel::Outside> outside(kernel::Node node, int session) override;

 protected:
  // Like restore(), but returns the state with its dma-bufs.
  Result<State> restore_state(int kfd, std::span<const kernel::RestoreDevice> devices,
                              std::span<kernel::Bo> bos, std::span<const std::byte> blob);
  const host::Host& host() const { return parts_.host; }
  std::span<const topology::Gpu> gpus() const { return gpus_; }

 private:
  struct Paused {
    pid_t pid;
    std::vector<Fd> files;  // of its /dev/kfd; the first one was paused through
    kernel::ProcessInfo info;
    std::map<uint32_t, Fd> vms;  // render files by actual gpu_id
    std::vector<Device> devices;
    std::vector<kernel::Bo> bos;
    std::vector<std::byte> blob;
  };
  Result<Paused*> find(int kfd);
  Paused* find_process(pid_t pid);
  Status pause(Paused& process, const kernel::Interrupted& interrupted);
  void unpause_or_log(const Paused& process);
  Status check_pid(const Paused& process, const Sizes& sizes) const;
  Status find_vms(Paused& process, uint32_t num_devices) const;
  Status check_render(const Paused& process, int file, unsigned minor) const;
  Status save(Paused& process, const Sizes& sizes);
  Result<kernel::Bo> add_object(const Paused& process, Bo bo);

  StockContext parts_;
  std::vector<topology::Gpu> gpus_;
  std::deque<Paused> paused_;
  std::map<uint64_t, Fd> objects_;  // dma-bufs by object id
  std::mutex taking_;               // for dmabuf(), which several threads call
  std::set<uint64_t> inodes_;       // of all dma-bufs of the dump
  uint64_t next_object_ = 1;
};

}  // namespace amdgpu_criu::stock
