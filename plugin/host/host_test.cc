// SPDX-License-Identifier: GPL-2.0
#include "host/host.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "base/background.h"
#include "base/log.h"
#include "base/pipe.h"
#include "host/bundle.h"
#include "host/files_of_others.h"
#include "host/missing_memory.h"
#include "tests/refused_call.h"
#include "tests/temp_dir.h"

// How many calls for writing a signal will interrupt.
static int interruptions;
// What an open of /proc returns a copy of; -1: it is opened.
static int opened_proc = -1;

extern "C" int __real_openat(int directory, const char* path, int flags, mode_t mode);
extern "C" int __wrap_openat(int directory, const char* path, int flags, mode_t mode) {
  if (opened_proc >= 0 && strcmp(path, "/proc") == 0) return fcntl(opened_proc, F_DUPFD_CLOEXEC, 0);
  if ((flags & O_RDWR) == 0 || interruptions == 0)
    return __real_openat(directory, path, flags, mode);
  interruptions--;
  errno = EINTR;
  return -1;
}

namespace amdgpu_criu::host {
namespace {

class HostTest : public testing::Test {
 protected:
  HostTest() : host_(Host::create(config())) {}

  // What sysfs has for render node 129: a link to its device, which may have a driver.
  void add_node(const std::string& device, const std::string& driver) {
    const std::filesystem::path target = devices_.file(device);
    std::filesystem::create_directories(target);
    if (!driver.empty()) std::filesystem::create_symlink("drivers/" + driver, target / "driver");
    std::filesystem::create_directories(devices_.file("226:129"));
    std::filesystem::create_symlink(target, devices_.file("226:129/device"));
  }
  std::optional<NodeId> classify() const {
    struct stat status = {};
    status.st_mode = S_IFCHR;
    status.st_rdev = makedev(226, 129);
    return host_.classify(status);
  }

  Config config() const {
    Config result;
    result.sys_devices = devices_.path();
    return result;
  }

  testing_support::TempDir devices_;
  Host host_;
};

TEST_F(HostTest, ANodeOfTheDriverIsOurs) {
  add_node("0000:01:00.0", "amdgpu");
  EXPECT_EQ(classify()->minor, 129u);
}

TEST(Nodes, AreOpenedAgainAfterASignal) {
  Config config;
  config.kfd_path = "/dev/null";
  config.kfd_device = makedev(1, 3);
  config.dri_directory = "/dev";
  config.drm_major = 1;
  const Host host = Host::create(config);
  interruptions = 2;
  EXPECT_TRUE(host.open_kfd().ok());
  EXPECT_EQ(interruptions, 0);
  interruptions = 2;
  EXPECT_TRUE(host.open_render(5).ok());  // /dev/zero
  EXPECT_EQ(interruptions, 0);
}

// The GPU work would begin without that memory.
TEST(MissingMemory, OfAProcessThatCannotBeExaminedIsAnError) {
  const Status missing = fetch_missing_memory(-1);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ENOENT);
  EXPECT_TRUE(fetch_missing_memory(getpid()).ok());
}

// A process without state has no entry there. Any other error hides what it has.
TEST_F(HostTest, StateOfKfdThatCannotBeReadIsAnError) {
  struct stat space{};
  ASSERT_EQ(stat("/proc/self/ns/pid", &space), 0);
  Config config = this->config();
  config.kfd_pid_namespace = space.st_ino;
  config.kfd_processes = devices_.path();
  const Host host = Host::create(config);
  EXPECT_FALSE(*host.uses_gpu(getpid()));
  devices_.write(std::to_string(getpid()), "not a directory");
  const auto uses = host.uses_gpu(getpid());
  ASSERT_FALSE(uses.ok());
  EXPECT_EQ(uses.error().code(), ENOTDIR);
}

// A thread may have files of its own. Without the comparison, nothing shows it.
TEST_F(HostTest, FilesOfThreadsThatCannotBeComparedAreAnError) {
  int code = 0;
  const auto examine = [&] {
    const auto files = host_.files_of_threads(getpid());
    if (!files.ok()) code = files.error().code();
  };
  ASSERT_TRUE(testing_support::without({SYS_kcmp, 0, ENOSYS}, examine));
  EXPECT_EQ(code, ENOSYS);
}

TEST_F(HostTest, ThreadsThatMayNotBeListedAreNotAMissingProcess) {
  int code = 0;
  const auto examine = [&] {
    const auto files = host_.files_of_threads(getpid());
    if (!files.ok()) code = files.error().code();
  };
  ASSERT_TRUE(testing_support::without({SYS_openat, O_DIRECTORY, EACCES}, examine));
  EXPECT_EQ(code, EACCES);
  EXPECT_EQ(host_.files_of_threads(1 << 30).error().code(), ESRCH);
}

class FilesOfOthersTest : public HostTest {
 protected:
  // /dev/zero stands for a render node, and a memfd for a dma-buf.
  FilesOfOthersTest() {
    Config config = this->config();
    config.dmabuf_link = "/memfd:of a thread";
    config.drm_major = 1;
    config.first_render_minor = kMinor;
    const std::string device = devices_.file(formatted("1:{}/device", kMinor));
    std::filesystem::create_directories(device);
    std::filesystem::create_symlink("drivers/amdgpu", device + "/driver");
    host_ = Host::create(config);
  }
  // Starts a process of which only a thread with a table of its own has both.
  void start(const char* name) {
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      prctl(PR_SET_NAME, name);
      std::thread([&] {
        const int fd = unshare(CLONE_FILES) == 0 ? memfd_create("of a thread", MFD_CLOEXEC) : -1;
        const Files files{gettid(), ::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
        constexpr ssize_t kSize = sizeof(files);
        if (ftruncate(fd, 4096) == 0 && write(ready_.write.get(), &files, kSize) == kSize) pause();
        _exit(1);
      }).join();
    }
    ASSERT_EQ(read(ready_.read.get(), &files_, sizeof(files_)),
              static_cast<ssize_t>(sizeof(files_)));
  }
  ~FilesOfOthersTest() override {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  FilesOfOthers find(const std::set<pid_t>& these = {}) const {
    FilesOfOthers found = *files_of_others(host_, these);
    std::erase_if(found.renders, [&](const RenderFile& file) { return file.pid != child_; });
    return found;
  }

  static constexpr unsigned kMinor = 5;
  struct Files {
    pid_t thread;
    int render;
  };
  const Pipe ready_ = *Pipe::create();
  pid_t child_ = 0;
  Files files_{};
};

TEST_F(FilesOfOthersTest, OfThreadsOfOtherProcessesAreFound) {
  start("other");
  const FilesOfOthers found = find();
  ASSERT_EQ(found.dmabufs.size(), 1u);
  EXPECT_EQ(found.dmabufs[0].pid, child_);
  EXPECT_EQ(found.dmabufs[0].size, 4096u);
  ASSERT_EQ(found.renders.size(), 1u);
  EXPECT_EQ(found.renders[0].thread, files_.thread);
  EXPECT_EQ(found.renders[0].number, files_.render);
  EXPECT_EQ(found.renders[0].minor, kMinor);
  const FilesOfOthers without = find({child_});
  EXPECT_TRUE(without.dmabufs.empty() && without.renders.empty());
}

// It may wait for a disk that does not answer.
TEST_F(FilesOfOthersTest, OfAProcessThatAnEarlierDumpHasForkedAreNotFound) {
  start(kHelperName);
  const FilesOfOthers found = find();
  EXPECT_TRUE(found.dmabufs.empty() && found.renders.empty());
}

TEST_F(HostTest, AProcessWithTheSameTableOfDescriptorsIsFound) {
  const auto sharer_of_child = [&](unsigned long flags) {
    const auto child = static_cast<pid_t>(syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0));
    if (child == 0)
      for (;;) pause();
    const auto sharer = host_.sharer_of_files(child);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return sharer.ok() ? *sharer : -1;
  };
  EXPECT_EQ(sharer_of_child(CLONE_FILES), getpid());
  EXPECT_EQ(sharer_of_child(0), 0);
}

TEST_F(HostTest, ANodeOfAPartitionHasNoDriverAndIsOurs) {
  add_node("amdgpu_xcp_0", "");
  ASSERT_TRUE(classify());
  EXPECT_EQ(classify()->kind, NodeKind::kRender);
}

TEST_F(HostTest, ANodeOfAnotherDriverIsNotOurs) {
  add_node("0000:02:00.0", "i915");
  EXPECT_FALSE(classify());
}

TEST(Bundle, DeviceNodesAreFoundAndNothingElse) {
  constexpr char kConfig[] = R"({
    "process": {"args": ["sh", "-c", "echo '{\"path\": 1, \"major\": 226, \"minor\": 131}'"]},
    "linux": {
      "devices": [{"path": "/dev/kfd", "type": "c", "major": 235, "minor": 0},
        {"path":"/dev/dri/renderD128","type":"c","major":226,"minor":129,"fileMode":438},
        {"minor" : 1, "major" : 226, "path": "/dev/dri/card1"}, {"path": "/dev/x", "major": 226}],
      "resources": {"devices": [{"allow": false, "type": "c", "major": 226, "minor": 132}]}}})";
  EXPECT_EQ(listed_minors(kConfig, 226), (std::set<unsigned>{1, 129}));
  EXPECT_TRUE(listed_minors("", 226).empty());
  EXPECT_TRUE(listed_minors(R"("major": 226, "minor": 1)", 226).empty());
  EXPECT_TRUE(listed_minors(R"({"linux": {"devices": 226}})", 226).empty());
  EXPECT_TRUE(
      listed_minors(R"({"linux": {"devices": [1, {"major": "226", "minor": 1}]}})", 226).empty());
  EXPECT_EQ(path_of_container_config(), "");
  EXPECT_EQ(id_of_container(), "");
}

TEST(Bundle, TheContainerIsTheLastWordOfTheEnginesCommand) {
  using namespace std::string_view_literals;
  EXPECT_EQ(restored_container("crun\0--root=/run/x\0restore\0-d\0web-1\0"sv), "web-1");
  EXPECT_EQ(restored_container("runc\0restore\0--bundle\0/srv/web\0"sv), "");
  EXPECT_EQ(restored_container("runc\0restore\0--help\0"sv), "");
  EXPECT_EQ(restored_container("criu\0service\0--address\0x\0"sv), "");
  EXPECT_EQ(restored_container("sh\0restore"sv), "");
  EXPECT_EQ(restored_container(""), "");
}

TEST_F(HostTest, TheContainerHasTheRenderNodesThatItsConfigurationLists) {
  Config config = this->config();
  EXPECT_TRUE(Host::create(config).render_minors_of_container().empty());
  devices_.write("config.json", R"({"linux": {"devices": [
    {"path": "a", "major": 226, "minor": 1}, {"path": "b", "major": 226, "minor": 130}]}})");
  config.container_config = devices_.file("config.json");
  EXPECT_EQ(Host::create(config).render_minors_of_container(), std::set<unsigned>{130});
}

std::string log_lines;

// The option hidepid of /proc may hide the threads of a process that it lists.
TEST(FilesOfOthers, AProcessWhoseThreadsAreHiddenIsNotOneThatHasEnded) {
  const pid_t hidden = fork();
  if (hidden == 0)
    for (;;) pause();
  std::set<pid_t> others;
  for (const auto& entry : std::filesystem::directory_iterator("/proc"))
    others.insert(atoi(entry.path().filename().c_str()));
  others.erase(hidden);
  log_lines.clear();
  const LogSink before =
      set_log_sink([](LogLevel, const std::string& line) { log_lines += line + "\n"; });
  const Fd proc = std::move(*Fd::open("/proc", O_RDONLY | O_DIRECTORY));
  opened_proc = proc.get();
  EXPECT_TRUE(testing_support::without({SYS_openat, O_DIRECTORY, EPERM}, [&] {
    EXPECT_TRUE(files_of_others(Host::create({}), others).ok());
  }));
  opened_proc = -1;
  set_log_sink(before);
  EXPECT_NE(log_lines.find(formatted("such as {} (", hidden)), log_lines.npos) << log_lines;
  kill(hidden, SIGKILL);
  waitpid(hidden, nullptr, 0);
}

TEST_F(HostTest, AConfigurationThatIsNoFileIsNotRead) {
  Config config = this->config();
  config.container_config = devices_.file("fifo");
  ASSERT_EQ(mkfifo(config.container_config->c_str(), 0600), 0);
  std::atomic<bool> done = false;
  // A reader that waits for a writer ends with the test, too.
  const std::jthread writer([&] {
    for (int tries = 0; tries < 200 && !done; tries++) usleep(10'000);
    const Fd end(open(config.container_config->c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    EXPECT_FALSE(end.valid()) << "the FIFO has a reader";
  });
  EXPECT_TRUE(Host::create(config).render_minors_of_container().empty());
  done = true;
}

}  // namespace
}  // namespace amdgpu_criu::host
