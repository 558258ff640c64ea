// SPDX-License-Identifier: GPL-2.0
#include "host/remote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/fuse.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <set>
#include <thread>

#include "base/fd.h"
#include "base/pipe.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::host {
namespace {

using testing::HasSubstr;

std::atomic<bool>* handled;  // shared with the child

// A process that executes `body`, and ends with its result as status.
class Child {
 public:
  explicit Child(const std::function<int()>& body) {
    handled = new (shared_.data()) std::atomic<bool>(false);
    pid_ = fork();
    if (pid_ == 0) _exit(body());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    syscall(SYS_kill, pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  char state() const {
    std::ifstream stat(formatted("/proc/{}/stat", pid_));
    std::string line;
    std::getline(stat, line);
    return line.at(line.rfind(')') + 2);
  }
  void wait_for(char state) const {
    while (this->state() != state) usleep(1000);
  }
  std::set<std::string> descriptors() const {
    std::set<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(formatted("/proc/{}/fd", pid_)))
      result.insert(entry.path().filename());
    return result;
  }

  // As CRIU and amdgpu-criu stop it.
  void stop() const {
    ASSERT_EQ(ptrace(PTRACE_SEIZE, pid_, nullptr, nullptr), 0) << strerror(errno);
    ASSERT_EQ(ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr), 0);
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, __WALL), pid_);
  }
  void go_on() const { ASSERT_EQ(ptrace(PTRACE_DETACH, pid_, nullptr, nullptr), 0); }
  // In it, which is stopped: opens a file, and closes it again.
  void open_and_close() const {
    const auto before = descriptors();
    const auto opened = open_in(pid_, "/dev/null");
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    EXPECT_EQ(std::filesystem::read_symlink(formatted("/proc/{}/fd/{}", pid_, *opened)),
              "/dev/null");
    EXPECT_EQ(descriptors().size(), before.size() + 1);
    const Status closed = close_in(pid_, *opened);
    ASSERT_TRUE(closed.ok()) << closed.error().message();
    EXPECT_EQ(descriptors(), before);
  }
  int end() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    return status;
  }

 private:
  Mapping shared_ = std::move(
      *Mapping::map(sizeof(*handled), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  pid_t pid_;
};

void note_signal(int) { *handled = true; }

// Neither restarts by itself: the kernel does it, by what is in registers, when the stop ends.
TEST(Remote, SystemCallsThatWereInterruptedContinue) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Fd reader(ends[0]), writer(ends[1]);
  const Child child([&] {
    char got = 0;
    if (read(reader.get(), &got, 1) != 1 || got != 'x') return 1;
    const timespec time{0, 300'000'000};
    return nanosleep(&time, nullptr) == 0 ? 0 : 2;
  });
  for (int round = 0; round < 2; round++) {
    child.wait_for('S');
    child.stop();
    child.open_and_close();
    child.go_on();
    if (round == 0) {
      ASSERT_EQ(write(writer.get(), "x", 1), 1);
      usleep(100'000);
    }
  }
  EXPECT_EQ(child.end(), 0);
}

TEST(Remote, ASignalThatIsPendingIsHandledAfterwards) {
  const Child child([] {
    signal(SIGUSR1, note_signal);
    raise(SIGSTOP);
    while (!*handled);
    return 0;
  });
  child.wait_for('T');
  syscall(SYS_kill, child.pid(), SIGCONT);
  child.wait_for('R');
  child.stop();
  syscall(SYS_kill, child.pid(), SIGUSR1);
  child.open_and_close();
  EXPECT_FALSE(*handled);
  child.go_on();
  EXPECT_EQ(child.end(), 0);
}

// Opening the file for writing waits until the lease ends. Its default signal would end the test.
class LeasedFile {
 public:
  LeasedFile() {
    directory_.write("leased", "");
    file_ = std::move(*Fd::open(path().c_str(), O_RDONLY));
    valid_ = fcntl(file_.get(), F_SETSIG, SIGURG) == 0 && set(F_RDLCK);
  }
  bool valid() const { return valid_; }
  std::string path() const { return directory_.file("leased"); }
  bool is_waited_for() const { return fcntl(file_.get(), F_GETLEASE) != F_RDLCK; }
  bool end() const { return set(F_UNLCK); }

 private:
  bool set(int type) const { return fcntl(file_.get(), F_SETLEASE, type) == 0; }

  testing_support::TempDir directory_;
  Fd file_;
  bool valid_ = false;
};

// Such as Ctrl-C.
TEST(Remote, ASignalToTheCallerWaitsUntilTheProcessIsAsItWas) {
  const LeasedFile file;
  if (!file.valid()) GTEST_SKIP() << "the file system has no leases: " << strerror(errno);
  const Child child([] {
    while (!*handled) usleep(1000);
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    return sigismember(&blocked, SIGTERM);
  });
  std::atomic<bool>& end_of_child = *handled;
  const Child caller([&] {
    child.stop();
    (void)open_in(child.pid(), file.path());
    return 0;
  });
  while (!file.is_waited_for()) ASSERT_NE(caller.state(), 'Z');
  syscall(SYS_kill, caller.pid(), SIGTERM);
  usleep(100'000);
  EXPECT_NE(caller.state(), 'Z');
  EXPECT_TRUE(file.end());
  EXPECT_EQ(caller.end(), SIGTERM);
  end_of_child = true;
  EXPECT_EQ(child.end(), 0);
}

// Loops in a restartable sequence until the kernel ends that, after a preemption or a stop.
void run_sequence() {
  auto* const rseq = reinterpret_cast<struct rseq*>(static_cast<char*>(__builtin_thread_pointer()) +
                                                    __rseq_offset);
  asm volatile(
      ".pushsection .data.rseq, \"aw\"\n"
      ".balign 32\n"
      "3: .long 0, 0\n"
      ".quad 1f, 2f - 1f, 4f\n"
      ".popsection\n"
      "lea 3b(%%rip), %%rax\n"
      "mov %%rax, %0\n"
      "1: jmp 1b\n"
      "2: ud2\n"
      ".byte 0x0f, 0xb9, 0x3d\n"
      ".long 0x53053053\n"  // RSEQ_SIG
      "4:\n"
      : "=m"(rseq->rseq_cs)
      :
      : "rax", "memory");
}

TEST(Remote, ARestartableSequenceEndsAsAfterAnyStop) {
  const Child child([] {
    alarm(120);
    for (*handled = true; *handled;) run_sequence();
    return 0;
  });
  while (!*handled) usleep(1000);
  usleep(50'000);
  child.stop();
  child.open_and_close();
  *handled = false;
  child.go_on();
  EXPECT_EQ(child.end(), 0);
}

TEST(Remote, AStoppedProcessStaysStopped) {
  const Child child([] { return raise(SIGSTOP); });
  child.wait_for('T');
  child.stop();
  child.open_and_close();
  child.go_on();
  child.wait_for('T');
  syscall(SYS_kill, child.pid(), SIGCONT);
  EXPECT_EQ(child.end(), 0);
}

int forbid_openat() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  const sock_fprog program{std::size(code), code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// Only a caller with CAP_SYS_ADMIN may suspend its filter.
TEST(Remote, AFilterOfSystemCallsDoesNotKill) {
  const Child child([] {
    if (forbid_openat() != 0) return 1;
    return raise(SIGSTOP);
  });
  child.wait_for('T');
  child.stop();
  const auto opened = open_in(child.pid(), "/dev/null");
  if (opened.ok())
    EXPECT_TRUE(close_in(child.pid(), *opened).ok());
  else
    EXPECT_THAT(opened.error().message(), HasSubstr("cannot suspend seccomp"));
  child.go_on();
  syscall(SYS_kill, child.pid(), SIGCONT);
  EXPECT_EQ(child.end(), 0);
}

TEST(Remote, AFullTableOfDescriptorsHasRoom) {
  const Child child([] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = dup(0) + 1;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    raise(SIGSTOP);
    return dup(0) < 0 && errno == EMFILE ? 0 : 2;
  });
  child.wait_for('T');
  child.stop();
  child.open_and_close();
  child.go_on();
  syscall(SYS_kill, child.pid(), SIGCONT);
  EXPECT_EQ(child.end(), 0);
}

TEST(Remote, ErrorsAreThoseOfTheProcess) {
  const Child child([] { return raise(SIGSTOP); });
  child.wait_for('T');
  child.stop();
  const auto opened = open_in(child.pid(), "/nonexistent");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ENOENT);
  EXPECT_EQ(close_in(child.pid(), 1000).error().code(), EBADF);
  child.go_on();
  syscall(SYS_kill, child.pid(), SIGCONT);
  EXPECT_EQ(child.end(), 0);
}

// One that does not answer.
class SilentFileSystem {
 public:
  SilentFileSystem() : device_(open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    const auto options = formatted("fd={},rootmode=40000,user_id=0,group_id=0", device_.get());
    if (mount("silent", directory_.path().c_str(), "fuse", 0, options.c_str()) != 0) return;
    mounted_ = true;
    char request[FUSE_MIN_READ_BUFFER];
    if (read(device_.get(), request, sizeof(request)) < 0) return;
    struct {
      fuse_out_header header{sizeof(*this), 0, 0};
      fuse_init_out init{};
    } answer;
    answer.header.unique = reinterpret_cast<const fuse_in_header*>(request)->unique;
    answer.init.major = FUSE_KERNEL_VERSION;
    answer.init.minor = FUSE_KERNEL_MINOR_VERSION;
    (void)!write(device_.get(), &answer, sizeof(answer));
  }
  ~SilentFileSystem() {
    if (mounted_) umount2(directory_.path().c_str(), MNT_FORCE | MNT_DETACH);
  }
  bool is_mounted() const { return mounted_; }
  std::string file() const { return directory_.file("x"); }
  // A process that waits for the answer to a request that was read cannot be killed.
  void read_request() const {
    char request[FUSE_MIN_READ_BUFFER];
    (void)!read(device_.get(), request, sizeof(request));
  }

 private:
  testing_support::TempDir directory_;
  Fd device_;
  bool mounted_ = false;
};

// As a session, which pauses GPUs until it is closed.
TEST(Remote, WhatWaitsForAFileSystemKeepsNoFileOpen) {
  const Child child([] { return raise(SIGSTOP); });
  child.wait_for('T');
  child.stop();
  const SilentFileSystem silent;
  if (!silent.is_mounted()) GTEST_SKIP() << "needs to mount a file system: " << strerror(errno);
  Pipe session = std::move(*Pipe::create());
  Result<int> opened(0);
  {
    const std::jthread daemon([&] { silent.read_request(); });
    opened = open_in(child.pid(), silent.file());
  }
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message(), HasSubstr("does not answer"));
  session.write.reset();
  pollfd closed{session.read.get(), POLLIN, 0};
  EXPECT_EQ(poll(&closed, 1, 1000), 1);
}

TEST(Remote, AProcessThatIsNotTracedIsAnError) {
  const auto opened = open_in(getpid(), "/dev/null");
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message(), HasSubstr("of the stopped process"));
}

}  // namespace
}  // namespace amdgpu_criu::host
