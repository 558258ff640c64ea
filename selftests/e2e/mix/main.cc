// SPDX-License-Identifier: GPL-2.0
// gpu_mix: a process that has done many legal things to its mappings, descriptors and queues, each
// chosen by a random number. Whatever it has done must be carried, or refused when it is dumped.
#include <amdgpu_drm.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "mix/census.h"
#include "mix/pages.h"
#include "mix/queues.h"
#include "render/channel.h"
#include "workload/run.h"
#include "workload/start.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

class Mix {
 public:
  static Result<std::unique_ptr<Mix>> create(Kfd kfd, std::span<const GpuNode> nodes,
                                             const Options& options);
  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);
  void announce() const;
  // A child serves requests of its parent until the parent exits.
  int serve(const Channel& channel);

 private:
  explicit Mix(const Options& options) : options_(options), random_(options.seed) {}
  Status set_up(Kfd kfd, const GpuNode& node);
  Status add_memory(Domain domain, uint64_t pages);
  Status add_gem(int file);
  Status change();
  Status change_descriptors();
  Status pass(int fd);
  Status close_one();
  Status make_child();
  void check_own(std::vector<std::string>& problems);
  // Some children keep a mapping of the memory of a destroyed queue, or the /dev/kfd of their
  // parent. That is legal, and a dump refuses it.
  bool may_take_away() const { return children_.empty() || options_.seed % 8 == 0; }

  static constexpr size_t kMostChildren = 2;
  Options options_;
  Random random_;
  std::unique_ptr<Kfd> kfd_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<Doorbells> doorbells_;
  std::unique_ptr<Queues> queues_;
  std::vector<amdgpu_criu::Mapping> addresses_;  // of the GPU
  std::vector<Source> sources_;
  Pages pages_;
  std::vector<Fd> files_;
  std::vector<Channel> children_;
  Census census_;
  bool is_child_ = false;
  uint64_t done_ = 0;
};

Result<std::unique_ptr<Mix>> Mix::create(Kfd kfd, std::span<const GpuNode> nodes,
                                         const Options& options) {
  std::unique_ptr<Mix> mix(new Mix(options));
  TRY(mix->set_up(std::move(kfd), nodes[options.seed % nodes.size()]));
  for (uint64_t i = 0; i < options.operations; ++i) TRY(mix->change());
  mix->census_ = TRY(take_census());
  return mix;
}

Status Mix::add_memory(Domain domain, uint64_t pages) {
  amdgpu_criu::Mapping range =
      TRY(amdgpu_criu::Mapping::map(pages * kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS));
  const Allocation made = TRY(
      kfd_->allocate({gpu_->id(), domain, reinterpret_cast<uint64_t>(range.data()), range.size()}));
  addresses_.push_back(std::move(range));
  sources_.push_back({sources_.size() + 1, made.mmap_offset, pages, true, gpu_->render_fd()});
  return fill(sources_.back());
}

// Memory of another file of the render node.
Status Mix::add_gem(int file) {
  drm_amdgpu_gem_create create = {};
  create.in.bo_size = (1 + below(random_, 4)) * kPageSize;
  create.in.alignment = kPageSize;
  create.in.domains = AMDGPU_GEM_DOMAIN_GTT;
  const uint64_t pages = create.in.bo_size / kPageSize;
  if (ioctl(file, DRM_IOCTL_AMDGPU_GEM_CREATE, &create) != 0)
    return Error::system("cannot create a BO");
  drm_amdgpu_gem_mmap map = {};
  map.in.handle = create.out.handle;
  if (ioctl(file, DRM_IOCTL_AMDGPU_GEM_MMAP, &map) != 0)
    return Error::system("cannot get the offset of a BO");
  sources_.push_back({sources_.size() + 1, map.out.addr_ptr, pages, true, file});
  return fill(sources_.back());
}

Status Mix::set_up(Kfd kfd, const GpuNode& node) {
  kfd_ = on_heap(std::move(kfd));
  gpu_ = on_heap(TRY(Gpu::open(*kfd_, node)));
  doorbells_ = std::make_unique<Doorbells>();
  for (const Domain domain : {Domain::kVram, Domain::kGtt})
    for (const uint64_t pages : {uint64_t{1}, 2 + below(random_, 8)})
      TRY(add_memory(domain, pages));
  queues_ = on_heap(TRY(Queues::create(*kfd_, *gpu_, *doorbells_, options_.queues)));
  sources_.push_back({sources_.size() + 1, queues_->doorbells_offset(),
                      Kfd::kDoorbellSlice / kPageSize, false, kfd_->fd()});
  return {};
}

// Over a socket, as from another process.
Status Mix::pass(int fd) {
  auto [from, to] = TRY(Channel::pair());
  std::vector<Fd> sent;
  sent.push_back(Fd(fcntl(fd, F_DUPFD, 0)));
  TRY(from.send_fds(sent));
  for (Fd& received : TRY(to.receive_fds(1))) files_.push_back(std::move(received));
  return {};
}

// Closes a file through which no mapping is made.
Status Mix::close_one() {
  const auto used = [&](const Fd& file) {
    return std::ranges::count(sources_, file.get(), &Source::fd) > 0;
  };
  const auto unused = std::ranges::find_if_not(files_, used);
  if (unused != files_.end()) files_.erase(unused);
  return {};
}

Status Mix::change_descriptors() {
  constexpr size_t kMost = 12;
  const int fds[] = {kfd_->fd(), gpu_->render_fd(),
                     files_.empty() ? kfd_->fd() : files_[below(random_, files_.size())].get()};
  const int fd = fds[below(random_, std::size(fds))];
  switch (files_.size() < kMost ? below(random_, 6) : 4 + below(random_, 2)) {
    case 0:
      files_.push_back(Fd(dup(fd)));
      return {};
    case 1:
      return pass(fd);
    case 2: {
      const std::string path =
          amdgpu_criu::formatted("/dev/dri/renderD{}", gpu_->node().render_minor);
      files_.push_back(TRY(Fd::open(path.c_str(), O_RDWR)));
      return below(random_, 2) ? add_gem(files_.back().get()) : Status();
    }
    case 3:
      files_.push_back(TRY(Fd::open("/dev/kfd", O_RDWR)));
      return {};
    case 4:
      return may_take_away() ? close_one() : Status();
    default:
      if (fcntl(fd, F_SETFD, below(random_, 2) ? FD_CLOEXEC : 0) != 0)
        return Error::system("cannot set a flag of a descriptor");
      return {};
  }
}

Status Mix::make_child() {
  auto [mine, childs] = TRY(Channel::pair());
  const pid_t pid = fork();
  if (pid < 0) return Error::system("cannot fork");
  if (pid == 0) {
    is_child_ = true;
    children_.clear();
    // With its own copy, the child would not notice the end of the parent.
    {
      const Channel not_ours = std::move(mine);
    }
    pages_.forked();
    _exit(serve(childs));
  }
  children_.push_back(std::move(mine));
  TRY(children_.back().wait_for_answer());
  return {};
}

Status Mix::change() {
  const uint64_t what = below(random_, 20);
  if (what == 0 && children_.size() < kMostChildren) return make_child();
  if (what < 4) return queues_->change(random_, may_take_away());
  if (what < 7) return change_descriptors();
  return pages_.change(random_, sources_);
}

// Only the parent maps KFD's own pages and creates BOs; children have mappings, too.
int Mix::serve(const Channel& channel) {
  for (uint64_t i = 0; i < options_.operations / 4 && pages_.count() != 0; ++i)
    if (!pages_.change_mapped(random_).ok()) return kSetupFailed;
  auto census = take_census();
  if (!census.ok() || !channel.answer({}).ok()) return kSetupFailed;
  census_ = *std::move(census);
  for (auto request = channel.next(); request.ok() && request->what != Ask::kStop;
       request = channel.next()) {
    std::vector<std::string> problems;
    check_own(problems);
    for (const std::string& problem : problems) say("damage: in the child: " + problem);
    if (!channel.answer({problems.size(), 0}).ok()) break;
  }
  return kGood;
}

void Mix::check_own(std::vector<std::string>& problems) {
  const auto now = take_census();
  if (!now.ok()) problems.push_back(now.error().message());
  if (now.ok() && *now != census_) {
    for (const std::string& line : census_)
      if (std::ranges::count(*now, line) == 0) problems.push_back("there was: " + line);
    for (const std::string& line : *now)
      if (std::ranges::count(census_, line) == 0) problems.push_back("there is: " + line);
  }
  pages_.check(problems);
  if (!is_child_) queues_->check(problems, options_.timeout_s * 1000);
}

Status Mix::check(std::vector<std::string>& problems) {
  check_own(problems);
  for (const Channel& child : children_)
    if (TRY(child.ask({Ask::kVerify, 0, done_})).problems != 0)
      problems.emplace_back("a child has found damage");
  return {};
}

Status Mix::step() {
  ++done_;
  return {};
}

void Mix::announce() const {
  say(amdgpu_criu::formatted(
      "ready: pid {} seed {} operations {} pages {} memories {} queues {} descriptors "
      "{} children {}",
      getpid(), options_.seed, options_.operations, pages_.count(), sources_.size(),
      queues_->count(), files_.size(), children_.size()));
}

bool run(std::unique_ptr<Mix>& mix, const Options& options) {
  mix->announce();
  return run_steps(*mix, options);
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"gpu_mix", "Does legal things to mappings, descriptors and queues of a GPU at random.",
       "--gpus --queues --seed --operations --steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_on_gpus(parsed.options, e2e::Mix::create, e2e::run);
}
