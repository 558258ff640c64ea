// SPDX-License-Identifier: GPL-2.0
// The processes of one dump and the GPU files that they have open, each file once whoever has it,
// and all of them paused.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "dump/paused_client.h"
#include "host/host.h"

namespace amdgpu_criu::dump {

struct Member {
  pid_t pid;        // as we know it
  uint32_t number;  // in its own pid namespace
  std::string comm;
  std::vector<host::ProcessVma> vmas;
};

// An open /dev/kfd, which belongs to one process whoever else has it.
struct OpenKfd {
  host::TakenFile file;
  pid_t owner;
  std::vector<uint32_t> holders;  // numbers
};

struct OpenRender {
  OpenRender(host::TakenFile taken, unsigned node_minor)
      : file(std::move(taken)), minor(node_minor) {}

  host::TakenFile file;
  unsigned minor;
  std::vector<uint32_t> holders;
  // The process that the kernel was told of, when paused.
  uint32_t number = 0;
  std::string comm;
  std::optional<PausedClient> paused;
  std::optional<Error> refusal;  // why not, if not
};

class Tree {
 public:
  Tree(kernel::Api& api, const host::Host& host) : api_(api), host_(host) {}
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // Pauses what the process has open. It must be frozen, and traced by the caller.
  Status add(pid_t pid);
  // All processes were added: refuses by name what cannot be carried. To be called before
  // anything is saved.
  Status complete();

  // Makes the session through that node, if there is none yet.
  Status need_session(kernel::Node node);
  bool has_session() const { return session_.valid(); }
  int session() const { return session_.get(); }
  // This kernel carries the state of render-node files.
  bool carries_render() const { return carries_render_; }

  bool empty() const { return members_.empty(); }
  // Addresses are stable.
  const std::deque<Member>& members() const { return members_; }
  std::deque<OpenRender>& renders() { return renders_; }
  const Member* member_of(pid_t pid) const;
  // The process's /dev/kfd; null: it has none of its own.
  const PausedClient* kfd_of(pid_t pid) const;
  Result<OpenRender*> find_render(int fd, unsigned minor);

 private:
  Status add_kfd(const Member& member, int descriptor, host::TakenFile file);
  Status add_render(const Member& member, unsigned minor, host::TakenFile file);
  Status pause(OpenRender& render, const Member& member);
  Status check_kfd_file(const OpenKfd& kfd) const;

  kernel::Api& api_;
  const host::Host& host_;
  // Before what is paused, so that it is closed after everything is unpaused.
  Fd session_;
  bool carries_render_ = false;
  std::deque<Member> members_;
  std::deque<PausedClient> kfd_clients_;  // one for each owner
  std::vector<OpenKfd> kfd_files_;
  std::deque<OpenRender> renders_;
};

}  // namespace amdgpu_criu::dump
