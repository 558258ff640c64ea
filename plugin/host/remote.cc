// SPDX-License-Identifier: GPL-2.0
#include "host/remote.h"

#ifdef __x86_64__

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "base/background.h"
#include "base/fd.h"

namespace amdgpu_criu::host {
namespace {

// A process that can run does so much sooner.
constexpr std::chrono::seconds kStopPatience{10};
constexpr std::chrono::seconds kPathPatience{5};
using Limit = std::optional<std::chrono::seconds>;
constexpr std::chrono::microseconds kStopPoll{100};
constexpr std::string_view kInstruction = "\x0f\x05";  // SYSCALL
constexpr uint64_t kCodeSegment = 0x33;                // of 64-bit code
// What a function may use below the stack pointer.
constexpr uint64_t kRedZone = 128;
constexpr int kSyscallStop = SIGTRAP | 0x80;  // with PTRACE_O_TRACESYSGOOD
constexpr rlim_t kMoreDescriptors = 1024;
// In struct rseq.
constexpr uint64_t kCriticalSection = 8;

struct Call {
  uint64_t number;
  std::array<uint64_t, 3> arguments;
  std::string text;  // if it is not empty, argument 1 becomes its address
};

bool has_seccomp(pid_t pid) {
  std::ifstream status(formatted("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Seccomp:")) return !line.ends_with("\t0");
  return false;
}

// Blocks all signals of the thread. What arrives takes effect at the end.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// The first thread of a process. It executes no instruction of its own while this object exists.
class StoppedThread {
 public:
  explicit StoppedThread(pid_t pid) : pid_(pid) {}

  // Returns the result, or a negative errno, of the system call. If the caller died before
  // put_back(), the process would continue with the registers of the call and all signals blocked.
  Result<int64_t> call(const Call& call) {
    const WithoutSignals guard;
    TRY(save());
    auto result = execute(call);
    TRY(put_back());
    return result;
  }

 private:
  Status save();
  Result<int64_t> execute(const Call& call);
  Status put_back();

  Status trace(int request, const char* what, uint64_t address, void* data) const;
  Result<uint64_t> find_instruction() const;
  Status read(uint64_t address, std::string& bytes) const;
  Status write(uint64_t address, std::string_view bytes) const;
  enum class Until { kSyscallStop, kEventStop };
  Status resume(Until until, Limit limit = {}) const;
  Result<std::optional<int>> wait(Limit limit) const;

  pid_t pid_;
  Fd memory_;
  user_regs_struct registers_{};
  uint64_t mask_ = 0;
  // Leaving the kernel outside of a restartable sequence ends it.
  uint64_t sequence_address_ = 0;
  std::string sequence_;
  uint64_t text_address_ = 0;
  std::string text_;  // what was there
};

Status StoppedThread::trace(int request, const char* what, uint64_t address, void* data) const {
  if (ptrace(static_cast<__ptrace_request>(request), pid_, address, data) >= 0) return {};
  return Error::system("{} of the stopped process {}", what, pid_);
}

// Fills `bytes`, or makes it empty.
Status StoppedThread::read(uint64_t address, std::string& bytes) const {
  const ssize_t got = pread(memory_.get(), bytes.data(), bytes.size(), static_cast<off_t>(address));
  if (got == static_cast<ssize_t>(bytes.size())) return {};
  bytes.clear();
  return Error::system("cannot read memory of the stopped process {}", pid_);
}

Status StoppedThread::write(uint64_t address, std::string_view bytes) const {
  if (bytes.empty() || pwrite(memory_.get(), bytes.data(), bytes.size(),
                              static_cast<off_t>(address)) == static_cast<ssize_t>(bytes.size()))
    return {};
  return Error::system("cannot write memory of the stopped process {}", pid_);
}

Status StoppedThread::save() {
  TRY(trace(PTRACE_GETREGS, "cannot read the registers", 0, &registers_));
  if (registers_.cs != kCodeSegment)
    return Error::of(EOPNOTSUPP, "process {} executes 32-bit code", pid_);
  TRY(trace(PTRACE_GETSIGMASK, "cannot read the signal mask", sizeof(mask_), &mask_));
  memory_ = TRY(Fd::open(formatted("/proc/{}/mem", pid_).c_str(), O_RDWR));
  __ptrace_rseq_configuration rseq{};
  if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, pid_, sizeof(rseq), &rseq) > 0 &&
      rseq.rseq_abi_pointer) {
    sequence_address_ = rseq.rseq_abi_pointer + kCriticalSection;
    sequence_.resize(sizeof(uint64_t));
    TRY(read(sequence_address_, sequence_));
  }
  return {};
}

// The vDSO has one. The next instruction is not executed.
Result<uint64_t> StoppedThread::find_instruction() const {
  std::ifstream maps(formatted("/proc/{}/maps", pid_));
  for (std::string line; std::getline(maps, line);) {
    uint64_t start = 0, end = 0;
    if (!line.ends_with("[vdso]") || sscanf(line.c_str(), "%lx-%lx", &start, &end) != 2) continue;
    std::string code(end - start, 0);
    TRY(read(start, code));
    if (const size_t at = code.find(kInstruction); at != code.npos) return start + at;
  }
  return Error::of(EOPNOTSUPP, "process {} has no vDSO with a system call", pid_);
}

Result<int64_t> StoppedThread::execute(const Call& call) {
  uint64_t options = PTRACE_O_TRACESYSGOOD;
  if (has_seccomp(pid_)) options |= PTRACE_O_SUSPEND_SECCOMP;
  if (ptrace(PTRACE_SETOPTIONS, pid_, 0, options) != 0)
    return Error::system("cannot suspend seccomp of process {}", pid_);
  user_regs_struct registers = registers_;
  registers.rip = TRY(find_instruction());
  registers.rax = call.number;
  registers.orig_rax = ~0ull;  // there is nothing to restart
  registers.rdi = call.arguments[0];
  registers.rsi = call.arguments[1];
  registers.rdx = call.arguments[2];
  if (!call.text.empty()) {
    text_.resize(call.text.size() + 1);
    text_address_ = registers.rsi = registers.rsp - kRedZone - text_.size();
    TRY(read(text_address_, text_));
    TRY(write(text_address_, std::string_view(call.text.c_str(), text_.size())));
  }
  // Signals that arrive wait until everything is as it was.
  uint64_t all = ~0ull;
  TRY(trace(PTRACE_SETSIGMASK, "cannot block signals", sizeof(all), &all));
  TRY(trace(PTRACE_SETREGS, "cannot write the registers", 0, &registers));
  TRY(resume(Until::kSyscallStop, kStopPatience));
  TRY(resume(Until::kSyscallStop));
  TRY(trace(PTRACE_GETREGS, "cannot read the result", 0, &registers));
  return static_cast<int64_t>(registers.rax);
}

// The kernel restarts an interrupted system call only on its way out of a stop for an event.
Status StoppedThread::put_back() {
  TRY(trace(PTRACE_SETREGS, "cannot restore the registers", 0, &registers_));
  TRY(write(text_address_, text_));
  TRY(write(sequence_address_, sequence_));
  TRY(trace(PTRACE_INTERRUPT, "cannot stop again", 0, nullptr));
  TRY(resume(Until::kEventStop));
  return trace(PTRACE_SETSIGMASK, "cannot restore the signal mask", sizeof(mask_), &mask_);
}

// Nothing blocks SIGSTOP, which takes effect as it would have.
Status StoppedThread::resume(Until until, Limit limit) const {
  const auto request = until == Until::kSyscallStop ? PTRACE_SYSCALL : PTRACE_CONT;
  for (uint64_t signal = 0;;) {
    if (ptrace(request, pid_, 0, signal) != 0)
      return Error::system("cannot continue the stopped process {}", pid_);
    const auto status = TRY(wait(limit));
    if (!status) {
      TRY(trace(PTRACE_INTERRUPT, "cannot stop again", 0, nullptr));
      TRY(wait(kStopPatience));
      return Error::of(ETIMEDOUT, "process {} does not run: is its cgroup frozen?", pid_);
    }
    const bool event = *status >> 16 == PTRACE_EVENT_STOP;
    if (until == Until::kEventStop ? event : WSTOPSIG(*status) == kSyscallStop) return {};
    signal = event ? 0 : WSTOPSIG(*status);
  }
}

// nullopt: it did not stop in time.
Result<std::optional<int>> StoppedThread::wait(Limit limit) const {
  const auto start = std::chrono::steady_clock::now();
  while (!limit || std::chrono::steady_clock::now() - start < *limit) {
    int status = 0;
    const pid_t stopped = waitpid(pid_, &status, __WALL | WNOHANG);
    if (stopped == pid_ && WIFSTOPPED(status)) return std::optional(status);
    if (stopped != 0 && !(stopped < 0 && errno == EINTR))
      return Error::of(ESRCH, "process {} has ended", pid_);
    std::this_thread::sleep_for(kStopPoll);
  }
  return std::optional<int>();
}

Error failure(int64_t result, const char* what, pid_t pid) {
  errno = static_cast<int>(-result);
  return Error::system("process {} cannot {}", pid, what);
}

// The file system may be one of the user's, which never answers. A process of ours can be killed
// while it waits; a system call of that process could not be taken back.
Status wait_for_path(pid_t pid, const std::string& path) {
  const auto look = TRY(Background::start({"examines a path"}, [&](const Background::Fail&) {
    const std::string seen = formatted("/proc/{}/root{}", pid, path);
    // It may stay after it was killed, but not with a session, whose processes would stay paused.
    (void)close_range(3, ~0u, CLOSE_RANGE_UNSHARE);
    struct stat status;
    (void)stat(seen.c_str(), &status);
    _exit(0);
  }));
  const auto end = std::chrono::steady_clock::now() + kPathPatience;
  while (!look->is_finished(kPathPatience))
    if (std::chrono::steady_clock::now() >= end)
      return Error::of(ETIMEDOUT, "the file system of {} in process {} does not answer", path, pid);
  return {};
}

}  // namespace

Result<int> open_in(pid_t pid, const std::string& path) {
  TRY(wait_for_path(pid, path));
  const Call call{SYS_openat, {static_cast<uint64_t>(AT_FDCWD), 0, O_RDWR | O_CLOEXEC}, path};
  int64_t result = TRY(StoppedThread(pid).call(call));
  rlimit limit{};
  if (result == -EMFILE && prlimit(pid, RLIMIT_NOFILE, nullptr, &limit) == 0) {
    // Descriptors above a limit that was lowered count, too.
    const rlim_t enough = limit.rlim_cur + kMoreDescriptors;
    const rlimit more{enough, std::max(enough, limit.rlim_max)};
    const WithoutSignals guard;  // until the process has its limit again
    if (prlimit(pid, RLIMIT_NOFILE, &more, nullptr) == 0) {
      auto again = StoppedThread(pid).call(call);
      (void)prlimit(pid, RLIMIT_NOFILE, &limit, nullptr);
      result = TRY(std::move(again));
    }
  }
  if (result < 0) return failure(result, formatted("open {}", path).c_str(), pid);
  return static_cast<int>(result);
}

Status close_in(pid_t pid, int descriptor) {
  const Call call{SYS_close, {static_cast<uint64_t>(descriptor), 0, 0}, {}};
  const int64_t result = TRY(StoppedThread(pid).call(call));
  if (result < 0) return failure(result, formatted("close descriptor {}", descriptor).c_str(), pid);
  return {};
}

}  // namespace amdgpu_criu::host

#else

namespace amdgpu_criu::host {

Result<int> open_in(pid_t, const std::string&) {
  return Error(EOPNOTSUPP, "this is implemented on x86-64 only");
}

Status close_in(pid_t, int) { return Error(EOPNOTSUPP, "this is implemented on x86-64 only"); }

}  // namespace amdgpu_criu::host

#endif
