// SPDX-License-Identifier: GPL-2.0
#include "dump/tree.h"

#include <algorithm>

#include "base/log.h"
#include "host/remote.h"
#include "image/records.h"

namespace amdgpu_criu::dump {

using host::NodeKind;
using host::TakenFile;

namespace {

// Work that takes longer may wait for other work, which is paused.
constexpr std::chrono::milliseconds kLongWork{200};

// With an alarm the kernel begins again, and its own limit does not end the call.
Result<kernel::ProcessInfo> stop(kernel::Api& api, kernel::Node node, int session, pid_t process,
                                 const Interruption& interruption,
                                 const PausedClient::Meanwhile& meanwhile) {
  using Alarm = Interruption::Alarm;
  const auto end = Interruption::Clock::now() + kLongWork;
  std::optional<Alarm> alarm;
  if (meanwhile)
    if (auto soon = Alarm::start(interruption, kLongWork); soon.ok())
      alarm.emplace(*std::move(soon));
  bool is_long = !alarm;
  if (is_long) alarm.emplace(TRY(Alarm::start(interruption)));
  return api.process_info(node, session, process, [&]() -> Status {
    if (!is_long && Interruption::Clock::now() >= end) {
      is_long = true;
      alarm.reset();
      alarm.emplace(TRY(Alarm::start(interruption)));
      TRY(meanwhile());
    }
    return interruption.check();
  });
}

}  // namespace

Result<PausedClient> PausedClient::pause(kernel::Api& api, int session, kernel::Node::Kind kind,
                                         host::TakenFile file, pid_t process,
                                         const Interruption& interruption,
                                         const Meanwhile& meanwhile) {
  const auto info = TRY(stop(api, {file.get(), kind}, session, process, interruption, meanwhile));
  file.set_idle();
  PausedClient client(api, session, kind, std::move(file), info);
  const uint64_t metadata = info.blob_size + info.num_bos * image::kMaxBoBytes;
  if (metadata > image::kMaxMetadata)
    return Error::of(EFBIG, "its state takes {} bytes, more than the {} that an image can have",
                     metadata, image::kMaxMetadata);
  return client;
}

Status PausedClient::pause_again(const Interruption& interruption) {
  info_ = TRY(stop(*api_, node(), session_, info_.pid, interruption, {}));
  return {};
}

PausedClient::~PausedClient() {
  if (!api_) return;
  const Status status = api_->unpause(node(), session_);
  // The session is closed right after this, which unpauses as well.
  if (!status.ok() && status.error().code() != ESRCH)
    log_warning("process {}: {}", info_.pid, status.error().message());
}

namespace {

Result<bool> is_same(const TakenFile& a, const TakenFile& b) {
  return host::same_file(a.get(), b.get());
}

void note(std::vector<uint32_t>& holders, uint32_t number) {
  if (std::ranges::find(holders, number) == holders.end()) holders.push_back(number);
}

}  // namespace

void Tree::unpause_in_handler() const {
  for (const PausedClient& client : kfd_clients_) client.unpause_in_handler();
  for (const OpenRender& render : renders_)
    if (render.paused) render.paused->unpause_in_handler();
}

const Member* Tree::member_of(pid_t pid) const {
  const auto found = std::ranges::find(members_, pid, &Member::pid);
  return found == members_.end() ? nullptr : &*found;
}

const PausedClient* Tree::kfd_of(pid_t pid) const {
  const auto found = std::ranges::find_if(
      kfd_clients_, [&](const PausedClient& client) { return client.info().pid == pid; });
  return found == kfd_clients_.end() ? nullptr : &*found;
}

std::vector<pid_t> Tree::owners_of(const PausedClient& client) const {
  const auto render = std::ranges::find_if(
      renders_, [&](const OpenRender& one) { return one.paused && &*one.paused == &client; });
  if (render == renders_.end()) return {client.info().pid};
  std::vector<pid_t> result;
  for (const Member& member : members_)
    if (std::ranges::count(render->holders, member.number) > 0) result.push_back(member.pid);
  return result;
}

Result<OpenRender*> Tree::find_render(int fd, unsigned minor) {
  for (OpenRender& render : renders_)
    if (render.minor == minor && TRY(host::same_file(fd, render.file.get()))) return &render;
  return static_cast<OpenRender*>(nullptr);
}

Status Tree::need_session(kernel::Node node) {
  if (session_.valid()) return {};
  session_ = TRY(api_.create_session(node, kernel::SessionKind::kCheckpoint));
  const uint64_t features = TRY(api_.query(node)).features;
  carries_render_ = features & AMDGPU_CRIU_FEATURE_RENDER;
  if (features & AMDGPU_CRIU_FEATURE_UNTESTED)
    log_warning(
        "a GPU here is of a generation whose queues are carried untested: verify the "
        "results of a restored process");
  return {};
}

Status Tree::add(pid_t pid) {
  if (member_of(pid)) return {};
  auto files = TRY(host_.files_of(pid));
  auto vmas = TRY(host_.vmas_of(pid));
  TRY(check_threads(pid));
  const auto opened = TRY(open_kfd_again(pid, files));
  if (files.empty() && vmas.empty()) return {};
  const uint32_t number = TRY(host::namespace_pid(pid));
  if (std::ranges::count(members_, number, &Member::number) > 0)
    return Error::of(EOPNOTSUPP,
                     "two processes that use a GPU have the number {} in their pid namespaces; "
                     "restore could not distinguish them",
                     number);
  const Member& member =
      members_.emplace_back(pid, number, host::comm_of(pid), std::move(vmas), opened);
  // Queues last: the kernel stops them in the middle of their work, and waits until the work of
  // render nodes is done, which may wait for them.
  for (const NodeKind kind : {NodeKind::kRender, NodeKind::kKfd})
    for (const host::ProcessFile& file : files) {
      if (file.node.kind != kind) continue;
      TakenFile taken = TRY(host_.take(pid, file));
      TRY(kind == NodeKind::kKfd ? add_kfd(member, file.number, std::move(taken))
                                 : add_render(member, file.node.minor, std::move(taken)));
    }
  return {};
}

// Files that CRIU does not dump.
Status Tree::check_threads(pid_t pid) const {
  const auto hidden = TRY(host_.files_of_threads(pid));
  if (hidden.empty()) return {};
  const std::string what =
      formatted("thread {} of process {} ({}) has a GPU node open as descriptor {}",
                hidden[0].thread, pid, host::comm_of(pid), hidden[0].file.number);
  if (host::has_ended(pid))
    return Error::of(EOPNOTSUPP,
                     "{}, and the first thread has ended: CRIU cannot dump such a process", what);
  return Error::of(EOPNOTSUPP,
                   "{} of its own, not shared with the first thread (unshare(CLONE_FILES)): CRIU "
                   "dumps only the descriptors of the first thread",
                   what);
}

// State of /dev/kfd belongs to the memory of a process. When no file of it is open, CRIU has none
// to dump and to restore: the process opens one again, for the time of the dump.
Result<std::optional<int>> Tree::open_kfd_again(pid_t pid, std::vector<host::ProcessFile>& files) {
  if (host::has_kfd(files)) return std::optional<int>();
  const host::KfdState state = TRY(host_.kfd_state_of(pid));
  if (!state.exists) return std::optional<int>();
  auto refusal = [&](const Error& error) {
    return Error::of(EOPNOTSUPP,
                     "process {} ({}) has {} queues and {} bytes of VRAM of /dev/kfd, but has "
                     "closed it, and cannot open it again for the dump: {}",
                     pid, host::comm_of(pid), state.queues, state.vram, error.message());
  };
  auto opened = api_.has_series()
                    ? host::open_in(pid, host_.kfd_path())
                    : Error(EOPNOTSUPP, "the stock kernel interface does not show what it has");
  // Without any file, and the right to open one, it can do nothing with other state.
  const bool hidden = state.queues > 0 || state.vram > 0 || !files.empty();
  if (!opened.ok() && !hidden) return std::optional<int>();
  if (!opened.ok()) return refusal(opened.error());
  opened_.emplace_back(pid, *opened);
  const host::ProcessFile kfd{*opened, {NodeKind::kKfd, 0}};
  const auto found = has_state(pid, kfd);
  if (!found.ok()) return refusal(found.error());
  if (!*found) {
    close_opened(pid);
    return std::optional<int>();
  }
  if (const pid_t sharer = TRY(host_.sharer_of_files(pid)))
    return refusal(Error::of(EOPNOTSUPP, "process {} shares its descriptors", sharer));
  files.push_back(kfd);
  return std::optional(*opened);
}

// False: the process has opened /dev/kfd, but done nothing with it, such as amd-smi.
Result<bool> Tree::has_state(pid_t pid, const host::ProcessFile& kfd) {
  TakenFile taken = TRY(host_.take(pid, kfd));
  const auto node = host_.classify(taken.get());
  if (!node || node->kind != NodeKind::kKfd)
    return Error::of(ENODEV, "its {} is another file", host_.kfd_path());
  TRY(need_session({taken.get(), kernel::Node::Kind::kKfd}));
  const PausedClient client = TRY(PausedClient::pause(
      api_, session_.get(), kernel::Node::Kind::kKfd, std::move(taken), pid, interruption_));
  const kernel::ProcessInfo& info = client.info();
  if (info.num_bos + info.num_queues + info.num_events + info.num_svm_ranges > 0) return true;
  const auto state = TRY(api_.checkpoint(client.node(), session_.get(), info));
  return std::ranges::any_of(state.devices,
                             [](const auto& device) { return device.drm_file.valid(); });
}

void Tree::close_opened(std::optional<pid_t> of) {
  std::erase_if(opened_, [of](const auto& opened) {
    if (of && *of != opened.first) return false;
    const Status closed = host::close_in(opened.first, opened.second);
    if (!closed.ok()) log_warning("{}", closed.error().message());
    return true;
  });
}

Status Tree::add_kfd(const Member& member, int descriptor, TakenFile file) {
  TRY(need_session({file.get(), kernel::Node::Kind::kKfd}));
  for (OpenKfd& known : kfd_files_)
    if (TRY(is_same(known.file, file))) {
      note(known.holders, member.number);
      return {};
    }
  auto paused = PausedClient::pause(api_, session_.get(), kernel::Node::Kind::kKfd,
                                    TRY(file.duplicate()), member.pid, interruption_);
  if (!paused.ok())
    return std::move(paused).error().within(
        formatted("pausing the GPU for process {} ({}), which has /dev/kfd open as descriptor {}",
                  member.pid, member.comm, descriptor));
  const pid_t owner = paused->info().pid;
  kfd_files_.push_back({std::move(file), owner, {member.number}});
  if (kfd_of(owner)) {
    // PROCESS_INFO is idempotent, but a second PausedClient would unpause too early.
    paused->keep();
    return {};
  }
  kfd_clients_.push_back(std::move(*paused));
  log_info("paused the GPU queues of process {} ({})", owner, host::comm_of(owner));
  return {};
}

Status Tree::add_render(const Member& member, unsigned minor, TakenFile file) {
  TRY(need_session({file.get(), kernel::Node::Kind::kRender}));
  // A file that is in use is refused if its state is not carried.
  if (!carries_render_) file.set_idle();
  OpenRender* render = TRY(find_render(file.get(), minor));
  if (!render) render = &renders_.emplace_back(std::move(file), minor);
  note(render->holders, member.number);
  return render->paused || !carries_render_ ? Status() : pause(*render, member);
}

Status Tree::add_closed(const Member& member, unsigned minor, const Fd& file) {
  if (!carries_render_ || TRY(find_render(file.get(), minor))) return {};
  TakenFile taken(TRY(file.duplicate()), NodeKind::kRender);
  TRY(pause(renders_.emplace_back(std::move(taken), minor), member));
  return check_paused();
}

std::vector<PausedClient*> Tree::paused_clients() {
  std::vector<PausedClient*> result;
  for (OpenRender& render : renders_)
    if (render.paused) result.push_back(&*render.paused);
  for (PausedClient& client : kfd_clients_) result.push_back(&client);
  return result;
}

// Work of the file may wait for queues that are stopped already, such as those of another process.
// They run again until it has ended. Userptrs of the file may be in the memory of another process
// that has it, which is added later.
Status Tree::pause(OpenRender& render, const Member& member) {
  bool others_run = false;
  const auto let_others_run = [&]() -> Status {
    others_run = true;
    log_info("work of process {} on renderD{} is not done: what is paused already runs meanwhile",
             member.pid, render.minor);
    for (const PausedClient* client : paused_clients()) TRY(client->let_run());
    return {};
  };
  // The state of the queues that use a closed file is saved already.
  const bool closed = render.holders.empty();
  auto paused = PausedClient::pause(
      api_, session_.get(), kernel::Node::Kind::kRender, TRY(render.file.duplicate()),
      closed ? 0 : member.pid, interruption_,
      closed ? PausedClient::Meanwhile() : PausedClient::Meanwhile(let_others_run));
  if (others_run)
    for (PausedClient* client : paused_clients()) TRY(client->pause_again(interruption_));
  if (!paused.ok()) {
    const bool wait = paused.error().code() == EOPNOTSUPP;
    auto error = std::move(paused).error().within(
        formatted("pausing what process {} ({}) does through an open renderD{}", member.pid,
                  member.comm, render.minor));
    if (!wait) return error;
    render.refusal = std::move(error);
    return {};
  }
  render.file.set_idle();
  render.paused.emplace(std::move(*paused));
  render.refusal.reset();
  render.number = member.number;
  render.comm = member.comm;
  log_info("paused an open renderD{} of process {} ({})", render.minor, member.pid, member.comm);
  return {};
}

Status Tree::check_paused() const {
  for (const OpenRender& render : renders_)
    if (render.refusal) return *render.refusal;
  return {};
}

void Tree::leave_to_session() {
  close_opened();
  for (PausedClient& client : kfd_clients_) client.keep();
  for (OpenRender& render : renders_)
    if (render.paused) render.paused->keep();
}

Status Tree::complete() {
  TRY(check_paused());
  for (const OpenKfd& kfd : kfd_files_) TRY(check_kfd_file(kfd));
  return {};
}

// CRIU restores an open file in the process with the lowest number of those that have it, and
// /dev/kfd belongs to the process that opens it.
Status Tree::check_kfd_file(const OpenKfd& kfd) const {
  const Member* owner = member_of(kfd.owner);
  if (owner && std::ranges::min(kfd.holders) == owner->number) return {};
  return Error::of(EOPNOTSUPP,
                   "CRIU would restore an open /dev/kfd of process {} ({}) in process {}, but it "
                   "works only in the process that opened it; this cannot be carried",
                   kfd.owner, host::comm_of(kfd.owner), std::ranges::min(kfd.holders));
}

}  // namespace amdgpu_criu::dump
