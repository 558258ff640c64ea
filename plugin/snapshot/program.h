// SPDX-License-Identifier: GPL-2.0
// Programs that a snapshot runs: criu, ip, the server, and the user's hooks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::snapshot {

using Clock = std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

struct Program {
  std::vector<std::string> arguments;  // the first one is searched for in PATH
  Variables variables;                 // in addition to ours

  static Program shell(const std::string& command, Variables variables = {}) {
    return {{"/bin/sh", "-c", command}, std::move(variables)};
  }
  // As a line for a shell.
  std::string text() const;
};

// SIGINT, SIGTERM, SIGHUP and SIGQUIT, unless they are ignored, end what this command waits for;
// programs get SIGTERM. A reader of its output that ends, ends nothing: a stopped server would
// stay.
void watch_for_signals();
bool is_interrupted();
// Lets this command have as many open files as it may, and programs that it starts as many as
// before. Fails if it needs more.
Status allow_open_files(uint64_t needed);
// In a child: these signals do not end the program.
void ignore_signals();
// Returns false at once if this command is interrupted.
bool pause_for(std::chrono::milliseconds time);

// Which signals end a program that this command waits for.
enum class EndedBy {
  kAnySignal,
  kLaterSignals,  // those that this command received after it started the program
};

// A running program. Its end is awaited by wait(); the destructor does not end it.
class Child {
 public:
  // prepare: called in the child, before the program. Returns when the program runs; fails with
  // the error of prepare, or if there is no such program.
  static Result<Child> start(const Program& program, const std::function<Status()>& prepare = {});

  pid_t pid() const { return pid_; }
  // Its exit status, or 128 and the number of the signal that killed it. A signal to this command,
  // and the time limit, end it with SIGTERM. `meanwhile` is called at least five times a second.
  Result<int> wait(std::optional<std::chrono::milliseconds> limit = {},
                   const std::function<void()>& meanwhile = {},
                   EndedBy ended_by = EndedBy::kAnySignal);
  bool has_ended();

 private:
  Child(pid_t pid, unsigned earlier_signals)
      : pid_(pid), earlier_signals_(earlier_signals), process_(Pidfd::find(pid)) {}
  pid_t pid_;
  unsigned earlier_signals_;  // how many this command had received at its start
  Pidfd process_;
};

// Runs it to its end. A status other than 0 is an error that names the program.
Status run(const Program& program, EndedBy ended_by = EndedBy::kAnySignal);

// Calls body(0) to body(COUNT - 1) at the same time, and returns the first error when all have
// returned. If a thread cannot be created, later ones are not called.
Status run_all(size_t count, const std::function<Status(size_t)>& body);

}  // namespace amdgpu_criu::snapshot
