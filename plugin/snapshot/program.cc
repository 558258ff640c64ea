// SPDX-License-Identifier: GPL-2.0
#include "snapshot/program.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace amdgpu_criu::snapshot {
namespace {

constexpr int kCannotRun = 127;
constexpr int kKilled = 128;
constexpr std::chrono::milliseconds kTick{100};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<bool> interrupted = false;

std::string quoted_for_shell(const std::string& word) {
  constexpr std::string_view kPlain = "-_./:=,+@%[]^";
  const auto is_plain = [&](unsigned char c) {
    return isalnum(c) || kPlain.find(static_cast<char>(c)) != kPlain.npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// As nohup(1) lets it be, for this command and for all that it runs.
bool is_ignored(int number) {
  struct sigaction action{};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

[[noreturn]] void execute(const Program& program, const std::function<Status()>& prepare) {
  signal(SIGPIPE, SIG_DFL);
  for (const int number : kSignals)
    if (!is_ignored(number)) signal(number, SIG_DFL);
  if (prepare)
    if (const Status status = prepare(); !status.ok()) {
      fprintf(stderr, "amdgpu-criu: %s\n", status.error().message().c_str());
      _exit(kCannotRun);
    }
  std::vector<char*> arguments;
  for (const std::string& word : program.arguments)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (const auto& [name, value] : program.variables) setenv(name.c_str(), value.c_str(), 1);
  execvp(arguments[0], arguments.data());
  fprintf(stderr, "amdgpu-criu: cannot run %s: %s\n", arguments[0], strerror(errno));
  _exit(kCannotRun);
}

}  // namespace

std::string Program::text() const {
  std::string result;
  for (const auto& [name, value] : variables) result += name + "=" + quoted_for_shell(value) + " ";
  for (const std::string& word : arguments)
    result += (&word == arguments.data() ? "" : " ") + quoted_for_shell(word);
  return result;
}

void watch_for_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = true; };
  for (const int number : kSignals)
    if (!is_ignored(number)) sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

bool is_interrupted() { return interrupted; }

bool pause_for(std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  while (!interrupted && Clock::now() < end)
    std::this_thread::sleep_for(std::min<Clock::duration>(kTick, end - Clock::now()));
  return !interrupted;
}

Result<Child> Child::start(const Program& program, const std::function<Status()>& prepare) {
  const pid_t pid = fork();
  if (pid < 0) return Error::system("cannot fork");
  if (pid == 0) execute(program, prepare);
  return Child(pid);
}

bool Child::has_ended() {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

Result<int> Child::wait(std::optional<std::chrono::milliseconds> limit,
                        const std::function<void()>& meanwhile) {
  const auto start = Clock::now();
  bool asked = false;
  for (pollfd ended{process_.fd().get(), POLLIN, 0};
       poll(&ended, 1, static_cast<int>(kTick.count())) != 1;) {
    if (meanwhile) meanwhile();
    if (!asked && (interrupted || (limit && Clock::now() - start > *limit))) {
      asked = true;
      (void)process_.signal(SIGTERM);
    }
  }
  if (meanwhile) meanwhile();
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) return Error::system("cannot wait for process {}", pid_);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled + WTERMSIG(status);
}

Status run(const Program& program, const std::function<Status()>& prepare) {
  Child child = TRY(Child::start(program, prepare));
  const int status = TRY(child.wait());
  if (status == 0) return {};
  return Error::of(ECHILD, "{} ended with status {}", program.text(), status);
}

}  // namespace amdgpu_criu::snapshot
