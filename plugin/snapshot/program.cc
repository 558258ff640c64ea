// SPDX-License-Identifier: GPL-2.0
#include "snapshot/program.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "base/pipe.h"
#include "base/shell_word.h"

namespace amdgpu_criu::snapshot {
namespace {

constexpr int kCannotRun = 127;
constexpr int kKilled = 128;
constexpr std::chrono::milliseconds kTick{100};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

std::atomic<unsigned> signals_received = 0;
bool pipe_was_ignored = false;       // SIGPIPE, before watch_for_signals()
std::optional<rlimit> files_before;  // before allow_open_files()

// As nohup(1) lets it be, for this command and for all that it runs.
bool is_ignored(int number) {
  struct sigaction action{};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// The end of a child that has no program. The parent has the message from the pipe.
[[noreturn]] void give_up(const std::string& message, int problems) {
  (void)!write(problems, message.data(), message.size());
  _exit(kCannotRun);
}

[[noreturn]] void execute(const Program& program, const std::function<Status()>& prepare,
                          int problems) {
  if (!pipe_was_ignored) signal(SIGPIPE, SIG_DFL);
  if (files_before) (void)setrlimit(RLIMIT_NOFILE, &*files_before);
  for (const int number : kSignals)
    if (!is_ignored(number)) signal(number, SIG_DFL);
  if (prepare)
    if (const Status status = prepare(); !status.ok()) give_up(status.error().message(), problems);
  std::vector<char*> arguments;
  for (const std::string& word : program.arguments)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (const auto& [name, value] : program.variables) setenv(name.c_str(), value.c_str(), 1);
  execvp(arguments[0], arguments.data());
  give_up(formatted("cannot run {}: {}", arguments[0], strerror(errno)), problems);
}

// All that is written until the program runs; nothing, if it does.
std::string read_problem(const Fd& problems) {
  std::string result;
  char buffer[4096];
  ssize_t got;
  while ((got = read(problems.get(), buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR))
    if (got > 0) result.append(buffer, static_cast<size_t>(got));
  return result;
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
  action.sa_handler = [](int) { signals_received++; };
  for (const int number : kSignals)
    if (!is_ignored(number)) sigaction(number, &action, nullptr);
  pipe_was_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
}

bool is_interrupted() { return signals_received > 0; }

Status allow_open_files(uint64_t needed) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Error::system("cannot read a limit");
  if (!files_before) files_before = limit;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  if (needed <= limit.rlim_cur) return {};
  return Error::of(EMFILE,
                   "{} open files are needed, and this command may have {}: raise the hard limit "
                   "(ulimit -Hn, or LimitNOFILE= of a service)",
                   needed, limit.rlim_cur);
}

void ignore_signals() {
  for (const int number : kSignals) signal(number, SIG_IGN);
}

bool pause_for(std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  while (!is_interrupted() && Clock::now() < end)
    std::this_thread::sleep_for(std::min<Clock::duration>(kTick, end - Clock::now()));
  return !is_interrupted();
}

Result<Child> Child::start(const Program& program, const std::function<Status()>& prepare) {
  Pipe problems = TRY(Pipe::create());
  const unsigned earlier_signals = signals_received;
  const pid_t pid = fork();
  if (pid < 0) return Error::system("cannot fork");
  if (pid == 0) execute(program, prepare, problems.write.get());
  problems.write.reset();
  const std::string problem = read_problem(problems.read);
  if (problem.empty()) return Child(pid, earlier_signals);
  waitpid(pid, nullptr, 0);
  return Error(ECHILD, problem);
}

bool Child::has_ended() {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

Result<int> Child::wait(std::optional<std::chrono::milliseconds> limit,
                        const std::function<void()>& meanwhile, EndedBy ended_by) {
  const unsigned ignored = ended_by == EndedBy::kLaterSignals ? earlier_signals_ : 0;
  const auto start = Clock::now();
  bool asked = false;
  // Without a descriptor, such as in a container that refuses pidfd_open(), poll() only waits.
  for (pollfd ended{process_.fd().get(), POLLIN, 0};
       poll(&ended, 1, static_cast<int>(kTick.count())) != 1 && !has_ended();) {
    if (meanwhile) meanwhile();
    if (!asked && (signals_received != ignored || (limit && Clock::now() - start > *limit))) {
      asked = true;
      (void)kill(pid_, SIGTERM);  // nobody else gets its number before waitpid()
    }
  }
  if (meanwhile) meanwhile();
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) return Error::system("cannot wait for process {}", pid_);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled + WTERMSIG(status);
}

Status run(const Program& program, EndedBy ended_by) {
  Child child = TRY(Child::start(program));
  const int status = TRY(child.wait({}, {}, ended_by));
  if (status == 0) return {};
  return Error::of(ECHILD, "{} ended with status {}", program.text(), status);
}

Status run_all(size_t count, const std::function<Status(size_t)>& body) {
  std::vector<Status> results(count);
  {
    std::vector<std::jthread> threads;
    bool created = true;
    for (size_t i = 0; created && i < count; i++) {
      try {
        threads.emplace_back([&, i] { results[i] = without_exceptions([&] { return body(i); }); });
      } catch (const std::system_error& error) {
        results[i] = Error::of(error.code().value(), "cannot create a thread: {}", error.what());
        created = false;
      }
    }
  }
  for (const Status& result : results) TRY(result);
  return {};
}

}  // namespace amdgpu_criu::snapshot
