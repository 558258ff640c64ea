// SPDX-License-Identifier: GPL-2.0
// rocr_train: trains a small transformer through stock ROCr, and prints the loss of each step and
// at its end a sum of all weights, to the bit. Its queue always has the next steps, so that a dump
// meets waves. --gpus 2 trains on two GPUs, and --processes 2 in two processes with a GPU each,
// which share a buffer. It ends after --steps, or soon after SIGTERM.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <vector>

#include "render/channel.h"
#include "rocr/program.h"
#include "rocr/transformer.h"
#include "workload/control.h"
#include "workload/options.h"

namespace e2e {
namespace {

using amdgpu_criu::Fd;
using amdgpu_criu::formatted;
using amdgpu_criu::Mapping;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

// The number of steps of a run, which its processes share.
class Length {
 public:
  static Result<Length> create(uint64_t wanted) {
    Length length(TRY(Mapping::map(sizeof(std::atomic<uint32_t>), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS)));
    const uint64_t steps =
        wanted ? std::min<uint64_t>(wanted, Transformer::kMaxSteps) : Transformer::kMaxSteps;
    new (length.memory_.data()) std::atomic<uint32_t>(static_cast<uint32_t>(steps));
    return length;
  }

  uint32_t steps() const { return number(); }
  // queued: the steps that this process has queued. Another process has queued at most kAhead more,
  // because each step needs the previous one of all members.
  void end_soon(uint32_t queued) const {
    if (queued + Transformer::kAhead < steps()) number() = queued + Transformer::kAhead;
  }

 private:
  explicit Length(Mapping memory) : memory_(std::move(memory)) {}
  std::atomic<uint32_t>& number() const {
    return *std::launder(reinterpret_cast<std::atomic<uint32_t>*>(memory_.data()));
  }

  Mapping memory_;
};

// The members of a training run that are in this process.
struct Training {
  std::unique_ptr<Runtime> runtime;
  std::optional<Buffer> exchange;
  std::vector<Transformer> members;
  uint32_t first = 0;  // the number of the first one
  unsigned timeout_ms = 0;
  pid_t other = 0;  // the process that has the other member
  const Length* length = nullptr;
};

// The beginning of a line of a member, which is empty for the first member.
std::string prefix(uint32_t member) { return member ? formatted("member {} ", member) : ""; }

Status add_member(Training& t, unsigned gpu) {
  const Transformer::Member member = {.exchange = t.exchange ? &*t.exchange : nullptr,
                                      .number = gpu};
  t.members.push_back(TRY(Transformer::create(*t.runtime, gpu, member)));
  return t.members.back().initialize();
}

Status report_step(const Training& t, uint32_t step) {
  for (size_t i = 0; i < t.members.size(); ++i) {
    TRY(t.members[i].finish_step(step, t.timeout_ms));
    const float loss = t.members[i].loss(step);
    say(formatted("{}step {} loss {:.6f} {:#010x}", prefix(t.first + i), step + 1, loss,
                  std::bit_cast<uint32_t>(loss)));
  }
  return {};
}

Status train(Training& t) {
  for (uint32_t done = 0, queued = 0; done < t.length->steps(); ++done) {
    for (; queued < t.length->steps() && queued < done + Transformer::kAhead; ++queued)
      for (Transformer& member : t.members) TRY(member.queue_step(queued));
    TRY(report_step(t, done));
    if (take_verify_request()) give_verdict("verify", done + 1, {});
    if (stop_requested()) t.length->end_soon(queued);
  }
  for (size_t i = 0; i < t.members.size(); ++i)
    say(formatted("{}weights {:#018x} of {}", prefix(t.first + i),
                  TRY(t.members[i].sum_of_weights(t.timeout_ms)), t.members[i].weights()));
  return {};
}

bool has_ended_well(pid_t process) {
  int status = 0;
  return waitpid(process, &status, 0) == process && WIFEXITED(status) &&
         WEXITSTATUS(status) == kGood;
}

int run(Training& t, const Options&) {
  const Status status = train(t);
  std::vector<std::string> problems;
  if (!status.ok()) problems.push_back(status.error().message());
  if (t.other && !has_ended_well(t.other)) problems.push_back("the other process has failed");
  const char* word = t.first ? "member 1 final" : "final";
  return give_verdict(word, t.length->steps(), problems) ? kGood : kDamaged;
}

Result<Training> set_up(std::unique_ptr<Runtime> runtime, const Options& options) {
  Training t;
  t.runtime = std::move(runtime);
  t.timeout_ms = options.timeout_s * 1000;
  if (options.gpus > 1)
    t.exchange.emplace(TRY(Transformer::make_exchange(*t.runtime, t.timeout_ms)));
  return t;
}

Status add_members(Training& t, const Options& options) {
  t.members.reserve(options.gpus);
  for (unsigned gpu = 0; gpu < options.gpus; ++gpu) TRY(add_member(t, gpu));
  return {};
}

size_t bytes(const Training& t) {
  size_t sum = t.exchange ? t.exchange->size() : 0;
  for (const Transformer& member : t.members) sum += member.bytes();
  return sum;
}

// --- Two processes

// Becomes the process with the second member.
int follow(const Options& options, const Length& length, Channel leader) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Training t;
  t.first = 1;
  t.length = &length;
  t.timeout_ms = options.timeout_s * 1000;
  const auto join = [&]() -> Status {
    const std::vector<Fd> dmabuf = TRY(leader.receive_fds(1));
    t.runtime = TRY(Runtime::create(options.gpus));
    t.exchange.emplace(TRY(Buffer::import(*t.runtime, dmabuf[0])));
    TRY(add_member(t, 1));
    return leader.answer({});
  };
  const Status status = join();
  if (!status.ok()) {
    say("member 1 setup failed: " + status.error().message());
    return kSetupFailed;
  }
  return run(t, options);
}

// Runs the second member in another process, which is forked before the runtime starts.
int lead(const Options& options, const Length& length) {
  auto channels = Channel::pair();
  const pid_t other = channels.ok() ? fork() : -1;
  if (other < 0) {
    say("setup failed: no second process");
    return kSetupFailed;
  }
  // Each process keeps one end of the pair, so that it notices when the other process has ended.
  Channel follower = std::move(channels->first);
  Channel leader = std::move(channels->second);
  const auto drop = [](Channel end) { (void)end; };
  if (other == 0) {
    drop(std::move(follower));
    _exit(follow(options, length, std::move(leader)));
  }
  drop(std::move(leader));
  return run_program(
      options, set_up,
      [&](Training& t) -> Status {
        t.other = other;
        t.length = &length;
        std::vector<Fd> dmabuf;
        dmabuf.push_back(TRY(t.exchange->export_dmabuf()));
        TRY(follower.send_fds(dmabuf));
        TRY(add_member(t, 0));
        TRY(follower.wait_for_answer());
        return {};
      },
      bytes, run);
}

int main_with(Options options) {
  const auto length = Length::create(options.steps);
  if (!length.ok()) {
    say("setup failed: " + length.error().message());
    return kSetupFailed;
  }
  if (options.processes > 1) {
    options.gpus = Transformer::kMembers;
    return lead(options, *length);
  }
  options.gpus = std::min(options.gpus, unsigned{Transformer::kMembers});
  return run_program(
      options, set_up,
      [&](Training& t) {
        t.length = &*length;
        return add_members(t, options);
      },
      bytes, run);
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"rocr_train",
       "Trains a small transformer through stock ROCr, and prints the loss of each step.",
       "--gpus --processes --steps --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
