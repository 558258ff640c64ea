// SPDX-License-Identifier: GPL-2.0
// render_group: processes that share BOs, a syncobj and files, to be checkpointed together. The
// leader makes them take turns: step n is done by member n mod members.
//
//   fork         a child with a file of its own, which receives the BOs as dma-bufs over a socket
//   family       two children and two GPUs: the first child has only its parent's open files, by
//                inheritance; the second has files of its own on both GPUs. The dma-buf
//                descriptors stay open in all three.
//   serve PATH   with `join PATH`: two unrelated processes; a socket at PATH
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "render/channel.h"
#include "render/numbers.h"
#include "render/stepper.h"
#include "workload/run.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

// The work of one process through one open file.
struct Access {
  std::string name;
  std::shared_ptr<RenderDevice> device;
  std::shared_ptr<SharedBlocks> blocks;
  std::shared_ptr<SyncObject> timeline;
  std::unique_ptr<Stepper> stepper;
  std::unique_ptr<RenderCopier> copier;
  FileLists lists;
};

// Descriptors of the shared BOs, and of the timeline behind them.
using Shared = std::vector<Fd>;
constexpr size_t kSharedCount = SharedBlocks::kCount + 1;

Result<std::shared_ptr<RenderDevice>> open_device(const std::string& path) {
  return std::make_shared<RenderDevice>(TRY(RenderDevice::open(path)));
}

class Member {
 public:
  explicit Member(unsigned timeout_ms) : timeout_ms_(timeout_ms) {}

  // The first member; the others import the BOs that it exports.
  Status create(const std::string& path, uint32_t domain);
  Result<Shared> export_all() const;
  // cpu: the CPU mappings of the BOs, if they are not of this file.
  Status import(const std::string& path, const Shared& shared,
                const std::shared_ptr<SharedBlocks>& cpu);
  // Another one through the file of another member, which this process has inherited.
  Status share(const Access& other, const char* name);
  Status take_stock();

  Status step(uint64_t step, uint32_t access);
  Status check(uint64_t done, std::vector<std::string>& problems);
  Result<Fd> export_bo(size_t index) const;
  const std::vector<Access>& accesses() const { return accesses_; }

 private:
  Status add(std::string name, std::shared_ptr<RenderDevice> device,
             std::shared_ptr<SharedBlocks> blocks, std::shared_ptr<SyncObject> timeline);
  Status check_access(Access& access, uint64_t done, std::vector<std::string>& problems);

  unsigned timeout_ms_;
  std::vector<Access> accesses_;
};

Status Member::add(std::string name, std::shared_ptr<RenderDevice> device,
                   std::shared_ptr<SharedBlocks> blocks, std::shared_ptr<SyncObject> timeline) {
  Access access = {
      std::move(name), std::move(device), std::move(blocks), std::move(timeline), {}, {}, {}};
  const auto ring = static_cast<unsigned>(accesses_.size());
  access.stepper =
      std::make_unique<Stepper>(TRY(Stepper::create(*access.device, *access.blocks, ring, ring)));
  access.copier =
      std::make_unique<RenderCopier>(TRY(RenderCopier::create(*access.device, timeout_ms_)));
  accesses_.push_back(std::move(access));
  return {};
}

Status Member::create(const std::string& path, uint32_t domain) {
  auto device = TRY(open_device(path));
  auto blocks = std::make_shared<SharedBlocks>(TRY(SharedBlocks::create(*device, domain)));
  blocks->prepare();
  auto timeline = std::make_shared<SyncObject>(TRY(SyncObject::create(*device)));
  return add(path, std::move(device), std::move(blocks), std::move(timeline));
}

Result<Shared> Member::export_all() const {
  Shared shared = TRY(accesses_[0].blocks->export_all());
  shared.push_back(TRY(accesses_[0].timeline->export_fd()));
  return shared;
}

Status Member::import(const std::string& path, const Shared& shared,
                      const std::shared_ptr<SharedBlocks>& cpu) {
  auto device = TRY(open_device(path));
  const std::span dmabufs(shared.data(), SharedBlocks::kCount);
  auto blocks = std::make_shared<SharedBlocks>(
      TRY(SharedBlocks::import(*device, dmabufs, cpu ? &cpu->cpu() : nullptr)));
  auto timeline = std::make_shared<SyncObject>(TRY(SyncObject::import(*device, shared.back())));
  return add(path, std::move(device), std::move(blocks), std::move(timeline));
}

Status Member::share(const Access& other, const char* name) {
  return add(name, other.device, other.blocks, other.timeline);
}

Status Member::take_stock() {
  for (Access& access : accesses_) access.lists = TRY(FileLists::of(*access.device));
  return {};
}

Status Member::step(uint64_t step, uint32_t index) {
  Access& access = accesses_[index];
  std::vector<SyncPoint> after;
  if (step > 1) after.push_back({access.timeline->handle(), step - 1});
  const Stepper::Fences fences =
      TRY(access.stepper->submit(step, std::move(after), {{access.timeline->handle(), step}}));
  TRY(access.stepper->wait(fences, timeout_ms_));
  return access.blocks->check_step(step);
}

Status Member::check_access(Access& access, uint64_t done, std::vector<std::string>& problems) {
  access.blocks->check(done, "the CPU", problems);
  const RenderBo& x = access.blocks->x();
  const auto seen = TRY(access.copier->read(x.va(), x.size(), access.blocks->handles()));
  if (memcmp(seen.data(), access.blocks->cpu().x().bytes().data(), x.size()) != 0)
    problems.push_back("block X: the GPU and the CPU see different values");
  TRY(access.stepper->check_history());
  const uint64_t point = TRY(access.timeline->last_point());
  if (point != done)
    problems.push_back(amdgpu_criu::formatted("the timeline is at {}, expected {}", point, done));
  return access.lists.check(*access.device, problems);
}

Status Member::check(uint64_t done, std::vector<std::string>& problems) {
  for (Access& access : accesses_) {
    std::vector<std::string> found;
    const Status status = check_access(access, done, found);
    if (!status.ok()) found.push_back(status.error().message());
    for (const std::string& problem : found)
      problems.push_back(
          amdgpu_criu::formatted("process {}, {}: {}", getpid(), access.name, problem));
  }
  return {};
}

Result<Fd> Member::export_bo(size_t index) const {
  return accesses_[0].blocks->all()[index % SharedBlocks::kCount].export_dmabuf();
}

// True if descriptors of two processes are one open file.
Result<bool> same_file(pid_t pid_a, int fd_a, pid_t pid_b, int fd_b) {
  const long order = syscall(SYS_kcmp, pid_a, pid_b, KCMP_FILE, fd_a, fd_b);
  if (order < 0) return Error::system("cannot compare descriptors");
  return order == 0;
}

uint64_t report(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) say("damage: " + problem);
  return problems.size();
}

// Runs a follower until the leader exits. It must not destroy objects that it shares with its
// parent.
[[noreturn]] void follow(Member& member, const Channel& channel) {
  for (;;) {
    const Result<Request> request = channel.next();
    if (!request.ok() || request->what == Ask::kStop) _exit(kGood);
    std::vector<std::string> problems;
    Reply reply = {};
    Status status;
    switch (request->what) {
      case Ask::kStep:
        status = member.step(request->number, request->access);
        break;
      case Ask::kVerify:
        status = member.check(request->number, problems);
        break;
      case Ask::kExport: {
        Result<Fd> fd = member.export_bo(request->number);
        if (fd.ok())
          reply.value = fd->release();
        else
          status = std::move(fd).error();
        break;
      }
      default:
        Fd(static_cast<int>(request->number)).reset();
    }
    if (!status.ok()) problems.push_back(status.error().message());
    reply.problems = report(problems);
    if (!channel.answer(reply).ok()) _exit(kGood);
  }
}

struct Follower {
  pid_t pid;
  Channel channel;
  uint32_t accesses;
};

class Group {
 public:
  explicit Group(unsigned timeout_ms) : timeout_ms_(timeout_ms), own_(timeout_ms) {}
  Status set_up(std::string_view shape, std::span<const std::string> paths,
                const std::string& socket);

  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);
  // The others end first: shared objects must remain.
  bool finish(bool good);
  void announce() const;

 private:
  Status set_up_fork(std::span<const std::string> paths);
  Status set_up_family(std::span<const std::string> paths);
  Status set_up_pair(std::span<const std::string> paths, const std::string& socket);
  // Runs `join` in a child; its Member is ready when this returns.
  template <typename Join>
  Status fork_follower(uint32_t accesses, Join join);
  Status check_identity(std::vector<std::string>& problems);
  Status check_bo_identity(size_t index, std::vector<std::string>& problems);

  unsigned timeout_ms_;
  Member own_;
  std::unique_ptr<Member> inherited_;
  std::vector<Follower> followers_;
  Shared kept_;  // descriptors that stay open in all processes
  bool shares_files_ = false;
  uint64_t done_ = 0;
};

template <typename Join>
Status Group::fork_follower(uint32_t accesses, Join join) {
  auto [here, there] = TRY(Channel::pair());
  const pid_t pid = fork();
  if (pid < 0) return Error::system("cannot fork");
  if (pid == 0) {
    here = std::move(there);
    Result<Member*> member = join(here);
    const Status sent = here.answer({member.ok() ? 0u : 1u, 0});
    if (!member.ok()) say("setup failed: " + member.error().message());
    if (!member.ok() || !sent.ok()) _exit(kSetupFailed);
    follow(**member, here);
  }
  followers_.push_back({pid, std::move(here), accesses});
  return {};
}

Status Group::set_up(std::string_view shape, std::span<const std::string> paths,
                     const std::string& socket) {
  if (shape == "fork") TRY(set_up_fork(paths));
  if (shape == "family") TRY(set_up_family(paths));
  if (shape == "serve") TRY(set_up_pair(paths, socket));
  return own_.take_stock();
}

Status Group::set_up_fork(std::span<const std::string> paths) {
  TRY(fork_follower(1, [&](const Channel& channel) -> Result<Member*> {
    const Shared shared = TRY(channel.receive_fds(kSharedCount));
    auto member = std::make_unique<Member>(timeout_ms_);
    TRY(member->import(paths[0], shared, nullptr));
    TRY(member->take_stock());
    return member.release();  // a follower ends by _exit()
  }));
  TRY(own_.create(paths[0], AMDGPU_GEM_DOMAIN_VRAM));
  TRY(followers_[0].channel.send_fds(TRY(own_.export_all())));
  const Reply ready = TRY(followers_[0].channel.wait_for_answer());
  return ready.problems ? Status(Error(EPROTO, "the child is not ready")) : Status();
}

// Everything that is inherited is created before the forks.
Status Group::set_up_family(std::span<const std::string> paths) {
  TRY(own_.create(paths[0], AMDGPU_GEM_DOMAIN_GTT));
  kept_ = TRY(own_.export_all());
  kept_.back().reset();  // of the syncobj, which cannot be carried
  Shared shared = TRY(own_.export_all());
  const std::shared_ptr<SharedBlocks> cpu = own_.accesses()[0].blocks;
  TRY(own_.import(paths[1], shared, cpu));
  inherited_ = std::make_unique<Member>(timeout_ms_);
  TRY(inherited_->share(own_.accesses()[0], "inherited file"));
  TRY(inherited_->share(own_.accesses()[1], "inherited file of the other GPU"));
  TRY(inherited_->take_stock());
  shares_files_ = true;
  TRY(fork_follower(2, [&](const Channel&) -> Result<Member*> {
    shared.clear();
    return inherited_.get();
  }));
  TRY(fork_follower(2, [&](const Channel&) -> Result<Member*> {
    auto member = std::make_unique<Member>(timeout_ms_);
    TRY(member->import(paths[0], shared, nullptr));
    TRY(member->import(paths[1], shared, cpu));
    TRY(member->take_stock());
    shared.clear();  // the kept ones stay
    return member.release();
  }));
  for (const Follower& follower : followers_)
    if (TRY(follower.channel.wait_for_answer()).problems)
      return Error(EPROTO, "a child is not ready");
  return {};
}

Status Group::set_up_pair(std::span<const std::string> paths, const std::string& socket) {
  TRY(own_.create(paths[0], AMDGPU_GEM_DOMAIN_VRAM));
  Channel channel = TRY(Channel::serve(socket));
  TRY(channel.send_fds(TRY(own_.export_all())));
  const Reply ready = TRY(channel.wait_for_answer());
  followers_.push_back({static_cast<pid_t>(ready.value), std::move(channel), 1});
  return {};
}

Status Group::step() {
  const uint64_t step = done_ + 1, members = followers_.size() + 1;
  const uint64_t turn = step % members, round = step / members;
  if (turn == 0) {
    TRY(own_.step(step, static_cast<uint32_t>(round % own_.accesses().size())));
  } else {
    const Follower& follower = followers_[turn - 1];
    const auto access = static_cast<uint32_t>(round % follower.accesses);
    if (TRY(follower.channel.ask({Ask::kStep, access, step})).problems)
      return Error::of(EBADMSG, "step {} failed in process {}", step, follower.pid);
  }
  done_ = step;
  return {};
}

// A BO's dma-buf is one file for all exporters.
Status Group::check_bo_identity(size_t index, std::vector<std::string>& problems) {
  const Fd mine = TRY(own_.export_bo(index)), other = TRY(own_.export_bo(index + 1));
  const pid_t self = getpid();
  if (!kept_.empty() && !TRY(same_file(self, mine.get(), self, kept_[index].get())))
    problems.push_back(
        amdgpu_criu::formatted("BO {}: the second export is another dma-buf", index));
  for (const Follower& follower : followers_) {
    const Reply reply = TRY(follower.channel.ask({Ask::kExport, 0, index}));
    const int theirs = static_cast<int>(reply.value);
    if (!TRY(same_file(self, mine.get(), follower.pid, theirs)))
      problems.push_back(
          amdgpu_criu::formatted("BO {}: another dma-buf in process {}", index, follower.pid));
    if (TRY(same_file(self, other.get(), follower.pid, theirs)))
      problems.push_back(amdgpu_criu::formatted("BO {} and the next are one dma-buf", index));
    if (!kept_.empty() && !TRY(same_file(self, mine.get(), follower.pid, kept_[index].get())))
      problems.push_back(amdgpu_criu::formatted(
          "BO {}: the descriptor kept by process {} is another", index, follower.pid));
    TRY(follower.channel.ask({Ask::kClose, 0, static_cast<uint64_t>(theirs)}));
  }
  return {};
}

Status Group::check_identity(std::vector<std::string>& problems) {
  for (size_t i = 0; i < SharedBlocks::kCount; ++i) TRY(check_bo_identity(i, problems));
  if (!shares_files_) return {};
  for (const Access& access : own_.accesses())
    for (const Follower& follower : followers_)
      if (!TRY(same_file(getpid(), access.device->fd(), follower.pid, access.device->fd())))
        problems.push_back(amdgpu_criu::formatted("process {} does not share the file of {}",
                                                  follower.pid, access.name));
  return {};
}

Status Group::check(std::vector<std::string>& problems) {
  TRY(own_.check(done_, problems));
  for (const Follower& follower : followers_) {
    const Reply reply = TRY(follower.channel.ask({Ask::kVerify, 0, done_}));
    if (reply.problems)
      problems.push_back(
          amdgpu_criu::formatted("process {} found {}", follower.pid, reply.problems));
  }
  return check_identity(problems);
}

bool Group::finish(bool good) {
  for (const Follower& follower : followers_) {
    (void)follower.channel.ask({Ask::kStop, 0, 0});  // it answers by closing the connection
    if (waitpid(follower.pid, nullptr, 0) < 0 && errno != ECHILD)
      say(amdgpu_criu::formatted("note: cannot wait for process {}", follower.pid));
  }
  followers_.clear();
  return verify(*this, "alone") && good;
}

void Group::announce() const {
  say(amdgpu_criu::formatted("ready: pid {} members {} bos {} bytes {}", getpid(),
                             followers_.size() + 1, SharedBlocks::kCount,
                             2 * SharedBlocks::kBlockSize));
}

int lead(std::string_view shape, std::span<const std::string> paths, const std::string& socket,
         const Options& options) {
  Group group(options.timeout_s * 1000);
  Status status = handle_signals();
  if (status.ok()) status = group.set_up(shape, paths, socket);
  if (!status.ok()) {
    say("setup failed: " + status.error().message());
    return kSetupFailed;
  }
  group.announce();
  const bool good = run_steps(group, options);
  return group.finish(good) ? kGood : kDamaged;
}

int join(std::span<const std::string> paths, const std::string& socket, const Options& options) {
  const auto run = [&]() -> Status {
    Member member(options.timeout_s * 1000);
    const Channel channel = TRY(Channel::join(socket, options.timeout_s * 1000));
    Shared shared = TRY(channel.receive_fds(kSharedCount));
    TRY(member.import(paths[0], shared, nullptr));
    shared.clear();
    TRY(member.take_stock());
    TRY(channel.answer({0, getpid()}));
    say(amdgpu_criu::formatted("ready: pid {} joined", getpid()));
    follow(member, channel);
  };
  say("setup failed: " + run().error().message());
  return kSetupFailed;
}

int main_with(std::string_view shape, const std::string& socket, const Options& options) {
  const auto paths = list_render_nodes();
  if (!paths.ok()) return skip(paths.error().message());
  const size_t wanted = shape == "family" ? 2 : 1;
  if (paths->size() < wanted)
    return skip(amdgpu_criu::formatted("needs {} GPUs, found {}", wanted, paths->size()));
  return shape == "join" ? join(*paths, socket, options) : lead(shape, *paths, socket, options);
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const std::string_view shape = argc > 1 ? argv[1] : "";
  const bool pair = shape == "serve" || shape == "join";
  if (!pair && shape != "fork" && shape != "family") {
    fprintf(stderr, "usage: render_group fork|family|serve PATH|join PATH [OPTION VALUE]...\n");
    return e2e::kUsageError;
  }
  const int taken = pair ? 2 : 1;
  const std::string socket = pair && argc > 2 ? argv[2] : "";
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"render_group", "Processes that share BOs take turns in a chain of dependent steps.",
       "--steps --interval --timeout"},
      argc - taken, argv + taken);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(shape, socket, parsed.options);
}
