// SPDX-License-Identifier: GPL-2.0
// The processes of one dump, and the GPU files that they have open, each file once. All are paused.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/interruption.h"
#include "host/host.h"
#include "kernel/kernel_api.h"

namespace amdgpu_criu::dump {

// An open file of a GPU node whose GPU work is paused while this object exists: for /dev/kfd, the
// queues of its process; for a render node, work submitted through the file.
class PausedClient {
 public:
  // What to do once if a pause takes long; empty: nothing.
  using Meanwhile = std::function<Status()>;
  // process: one that has the file open.
  static Result<PausedClient> pause(kernel::Api& api, int session, kernel::Node::Kind kind,
                                    host::TakenFile file, pid_t process,
                                    const Interruption& interruption,
                                    const Meanwhile& meanwhile = {});

  PausedClient(PausedClient&& other) noexcept
      : api_(std::exchange(other.api_, nullptr)),
        session_(other.session_),
        kind_(other.kind_),
        file_(std::move(other.file_)),
        info_(other.info_) {}
  PausedClient& operator=(PausedClient&&) = delete;
  ~PausedClient();

  // Async-signal-safe unless it fails. The destructor may unpause it again.
  void unpause_in_handler() const {
    if (api_) (void)api_->unpause(node(), session_);
  }
  // Its work runs until pause_again().
  Status let_run() const { return api_->unpause(node(), session_); }
  Status pause_again(const Interruption& interruption);
  // Another object keeps this client paused: do not unpause it.
  void keep() { api_ = nullptr; }

  const kernel::ProcessInfo& info() const { return info_; }
  kernel::Node node() const { return {file_.get(), kind_}; }

 private:
  PausedClient(kernel::Api& api, int session, kernel::Node::Kind kind, host::TakenFile file,
               const kernel::ProcessInfo& info)
      : api_(&api), session_(session), kind_(kind), file_(std::move(file)), info_(info) {}

  kernel::Api* api_;  // null: another object unpauses it
  int session_;       // owned by Tree, which outlives this object
  kernel::Node::Kind kind_;
  host::TakenFile file_;
  kernel::ProcessInfo info_;
};

struct Member {
  pid_t pid;        // in our pid namespace
  uint32_t number;  // in its own pid namespace
  std::string comm;
  std::vector<host::ProcessVma> vmas;
  // Of /dev/kfd, which is open for the time of the dump: a restore closes it.
  std::optional<int> opened;
};

// An open /dev/kfd, which belongs to one process even if others have it open.
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
  std::vector<uint32_t> holders;  // none: only KFD has it open
  // The process that was passed to the kernel when it was paused, or that uses its VM through KFD.
  uint32_t number = 0;
  std::string comm;
  std::optional<PausedClient> paused;
  std::optional<Error> refusal;  // the reason, if it was not paused
};

class Tree {
 public:
  Tree(kernel::Api& api, const host::Host& host, const Interruption& interruption)
      : api_(api), host_(host), interruption_(interruption) {}
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() { close_opened(); }

  // Pauses all GPU files of the process, which must be frozen and traced by the caller.
  Status add(pid_t pid);
  // After all processes were added: pauses a file whose VM `member` uses through KFD, which keeps
  // the file with its BOs and mappings, if no process has it open. Userptrs of it are refused.
  Status add_closed(const Member& member, unsigned minor, const Fd& file);
  // To be called after all processes were added: refuses files that could not be paused.
  Status check_paused() const;
  // Closes what processes have open only for the dump, all or that one. To be called while they are
  // still traced.
  void close_opened(std::optional<pid_t> of = {});
  // From now on only the session keeps everything paused, until it is closed: this process traces
  // no other any more, and could not unpause.
  void leave_to_session();
  // To be called after all processes were added, and before anything is saved: refuses state that
  // cannot be carried.
  Status complete();

  // Creates the session through that node, if there is none yet.
  Status need_session(kernel::Node node);
  bool has_session() const { return session_.valid(); }
  int session() const { return session_.get(); }
  const Fd& session_file() const { return session_; }
  // True if this kernel carries the state of render-node files.
  bool carries_render() const { return carries_render_; }

  bool empty() const { return members_.empty(); }
  // Addresses are stable.
  const std::deque<Member>& members() const { return members_; }
  std::deque<OpenRender>& renders() { return renders_; }
  // Files of render nodes first.
  std::vector<PausedClient*> paused_clients();
  // Unpauses all.
  void unpause_in_handler() const;
  const Member* member_of(pid_t pid) const;
  // The /dev/kfd that the process opened; null: none.
  const PausedClient* kfd_of(pid_t pid) const;
  // The processes whose memory it is: that of /dev/kfd, or all that have the file open.
  std::vector<pid_t> owners_of(const PausedClient& client) const;
  Result<OpenRender*> find_render(int fd, unsigned minor);

 private:
  Status check_threads(pid_t pid) const;
  Result<std::optional<int>> open_kfd_again(pid_t pid, std::vector<host::ProcessFile>& files);
  Result<bool> has_state(pid_t pid, const host::ProcessFile& kfd);
  Status add_kfd(const Member& member, int descriptor, host::TakenFile file);
  Status add_render(const Member& member, unsigned minor, host::TakenFile file);
  Status pause(OpenRender& render, const Member& member);
  Status check_kfd_file(const OpenKfd& kfd) const;

  kernel::Api& api_;
  const host::Host& host_;
  const Interruption& interruption_;
  // Declared before the paused clients, so that it is closed after all of them are unpaused.
  Fd session_;
  bool carries_render_ = false;
  std::deque<Member> members_;
  std::deque<PausedClient> kfd_clients_;  // one for each owner
  std::vector<OpenKfd> kfd_files_;
  std::vector<std::pair<pid_t, int>> opened_;
  std::deque<OpenRender> renders_;
};

}  // namespace amdgpu_criu::dump
