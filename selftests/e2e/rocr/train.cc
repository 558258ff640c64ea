// SPDX-License-Identifier: GPL-2.0
// rocr_train: trains a small transformer through stock ROCr, and prints the loss of each step and
// at its end a sum of all weights, to the bit. Its queue always has the next steps, so that a dump
// meets waves. --gpus 2 trains on two GPUs, and --processes 2 in two processes with a GPU each,
// which share a buffer. --steps decides how long it is.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <bit>
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
using amdgpu_criu::Result;
using amdgpu_criu::Status;

// The members of a training run that are in this process.
struct Training {
  std::unique_ptr<Runtime> runtime;
  std::optional<Buffer> exchange;
  std::vector<Transformer> members;
  uint32_t first = 0;  // the number of the first one
  unsigned timeout_ms = 0;
  pid_t other = 0;  // the process that has the other member
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

Status train(Training& t, uint32_t steps) {
  for (uint32_t done = 0, queued = 0; done < steps; ++done) {
    for (; queued < steps && queued < done + Transformer::kAhead; ++queued)
      for (Transformer& member : t.members) TRY(member.queue_step(queued));
    TRY(report_step(t, done));
    if (take_verify_request()) give_verdict("verify", done + 1, {});
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

int run(Training& t, const Options& options) {
  const auto steps = static_cast<uint32_t>(
      options.steps ? std::min<uint64_t>(options.steps, Transformer::kMaxSteps)
                    : Transformer::kMaxSteps);
  const Status status = train(t, steps);
  std::vector<std::string> problems;
  if (!status.ok()) problems.push_back(status.error().message());
  if (t.other && !has_ended_well(t.other)) problems.push_back("the other process has failed");
  return give_verdict(t.first ? "member 1 final" : "final", steps, problems) ? kGood : kDamaged;
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
int follow(const Options& options, Channel leader) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Training t;
  t.first = 1;
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
int lead(const Options& options) {
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
    _exit(follow(options, std::move(leader)));
  }
  drop(std::move(leader));
  return run_program(
      options, set_up,
      [&](Training& t) -> Status {
        t.other = other;
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
  if (options.processes > 1) {
    options.gpus = Transformer::kMembers;
    return lead(options);
  }
  options.gpus = std::min(options.gpus, unsigned{Transformer::kMembers});
  return run_program(
      options, set_up, [&](Training& t) { return add_members(t, options); }, bytes, run);
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
