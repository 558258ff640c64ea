// SPDX-License-Identifier: GPL-2.0
#include "tests/criu_program.h"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <atomic>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/result.h"
#include "criu/program.h"

namespace amdgpu_criu::testing_support {

CriuProgram program;

SharedLog::SharedLog() {
  const Fd memory(memfd_create("log", MFD_CLOEXEC));
  file_ =
      std::move(*Fd::open(formatted("/proc/self/fd/{}", memory.get()).c_str(), O_RDWR | O_APPEND));
}

void SharedLog::clear() { (void)!ftruncate(file_.get(), 0); }

void SharedLog::add(const std::string& text) {
  (void)!write(file_.get(), text.data(), text.size());
}

const std::string& SharedLog::text() {
  text_.resize(lseek(file_.get(), 0, SEEK_END));
  text_.resize(std::max<ssize_t>(0, pread(file_.get(), text_.data(), text_.size(), 0)));
  return text_;
}

namespace {

// Like CRIU's: a datagram socket connected to itself, which all descendants inherit.
struct FdStore {
  Fd socket;
  Mapping shared;
  struct Shared {
    std::atomic_flag locked;
    int count;
  };
  Shared& state() { return *reinterpret_cast<Shared*>(shared.data()); }
};
FdStore store;

class StoreLock {
 public:
  StoreLock() {
    while (store.state().locked.test_and_set()) sched_yield();
  }
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;
  ~StoreLock() { store.state().locked.clear(); }
};

struct Message {
  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{.msg_name = nullptr,
                .msg_namelen = 0,
                .msg_iov = &vector,
                .msg_iovlen = 1,
                .msg_control = control,
                .msg_controllen = sizeof(control),
                .msg_flags = 0};
};

}  // namespace

void clear_fd_store() { store = {}; }

pid_t child_of_ours() {
  std::ifstream children(formatted("/proc/self/task/{}/children", getpid()));
  pid_t child = -1;
  children >> child;
  return child;
}

namespace {

void make_fd_store(const std::string& abstract_name) {
  clear_fd_store();
  store.shared = std::move(*Mapping::map(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  store.socket = Fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t size = sizeof(address.sun_family);
  if (!abstract_name.empty()) {
    abstract_name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
    size += 1 + abstract_name.size();
  }
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (bind(store.socket.get(), generic, size) != 0) abort();
  size = sizeof(address);
  getsockname(store.socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  if (connect(store.socket.get(), generic, size) != 0) abort();
}

}  // namespace

void make_fd_store() { make_fd_store(""); }
// All pid namespaces that share a network namespace have these names in common.
void make_fd_store_known() {
  std::random_device random;
  make_fd_store(formatted("/criu-fdstore-test-{:08x}{:08x}", random(), random()));
}

kernel::Bo vram_bo(uint64_t id, uint64_t size, uint64_t mmap_offset) {
  kernel::Bo bo{};
  bo.object_id = id;
  bo.size = size;
  bo.mmap_offset = mmap_offset;
  bo.gpu_id = kGpu;
  bo.domain = AMDGPU_CRIU_DOMAIN_VRAM;
  bo.flags = AMDGPU_CRIU_BO_CONTENTS;
  return bo;
}

void HooksTest::use_only_a_render_node(uint64_t bo_bytes) {
  machine_has_kfd_ = false;
  FakeRender& render = state_.renders.emplace_back();
  render.file = open(kRenderPath);
  render.blob = "state";
  render.bos.push_back(vram_bo(1, bo_bytes, 0x100000));
  add_object(state_, render.bos.back(), 1);
}

void HooksTest::SetUp() {
  // The state that the previous test left in the plugin.
  for (const int node : open_nodes()) close(node);
  program = {};
  criu::send_log_to_criu();  // also for a test that does not start the plugin
  task_entries = nullptr;
  program.image_directory = images_.fd();
  std::filesystem::current_path(images_.path());  // without criu's option --work-dir
  make_fd_store();
  fail_copies_after = -1;
  copies_are_refused = false;
  losses.clear();
  write_topology(kGpu, 32);
}

void HooksTest::TearDown() {
  if (stage_) end(*stage_, 0);
  clear_fd_store();
  std::filesystem::current_path(working_directory_);
}

void HooksTest::write_topology(uint32_t gpu_id, int simds, unsigned minor) {
  const std::string node = topology_.file(std::to_string(minor));
  std::filesystem::create_directories(node);
  std::ofstream(node + "/gpu_id") << gpu_id;
  std::ofstream(node + "/properties")
      << "simd_count " << simds << "\ndrm_render_minor " << minor << "\n";
  const std::string device = sysfs_.file(formatted("1:{}/device", minor));
  if (std::filesystem::create_directories(device))
    std::filesystem::create_symlink("/sys/bus/pci/drivers/amdgpu", device + "/driver");
}

std::set<int> HooksTest::open_nodes() {
  std::set<int> result;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string path = std::filesystem::read_symlink(entry.path(), gone);
    if (path == kRenderPath || path == kOtherPath)
      result.insert(std::stoi(entry.path().filename()));
  }
  return result;
}

void HooksTest::end(int stage, int result) {
  CR_PLUGIN_DESC.exit(stage, result);
  stage_.reset();
  criu::exit_for_test(result == 0 ? 0 : 1);
  if (state_.open_sessions() == 0) {
    state_.paused = false;
    for (FakeRender& render : state_.renders) render.paused = false;
  }
  // The dumped process is idle, so no open file of it is left.
  if (stage != criu::kStageDump || result == 0) return;
  std::set<int> left = open_nodes();
  for (const int node : nodes_before_) left.erase(node);
  for (const Fd& of_kernel : state_.marked) left.erase(of_kernel.get());
  for (const int node : left) close(node);
}

host::Config HooksTest::host_config() const {
  host::Config host;
  host.kfd_path = machine_has_kfd_ ? kKfdPath : "/dev/no-kfd";
  if (machine_has_kfd_) host.kfd_device = makedev(1, 7);
  host.dri_directory = dri_directory_;
  host.topology_nodes = topology_.path();
  host.sys_devices = sysfs_.path();
  host.drm_major = 1;
  host.first_render_minor = kRenderMinor;
  host.dmabuf_link = "/memfd:object";
  host.run_directory = run_.path();
  host.container_config = container_config_;
  host.container_id = container_id_;
  host.kfd_processes = kfd_processes_.path();
  struct stat space{};
  stat("/proc/self/ns/pid", &space);
  host.kfd_pid_namespace = space.st_ino;
  return host;
}

int HooksTest::start(int stage) {
  nodes_before_ = open_nodes();
  setenv("AMDGPU_CRIU_STAGING_KIB", std::to_string(staging_kib_).c_str(), 1);
  criu::Parts parts{make_fake_api(state_), host_config(), make_fake_engine,     check_fake_engine,
                    count_fake_losses,     make_stock_,   kfd_processes_.path()};
  parts.has_late_hook = has_late_hook_;
  criu::set_parts_for_test(std::move(parts));
  stage_ = stage;
  return CR_PLUGIN_DESC.init(stage);
}

HooksTest::Mapped HooksTest::update_vma(const void* address) {
  uint64_t offset = 0;
  int fd = -1;
  const int result =
      call<criu::UpdateVmaMap>(criu::kUpdateVmaMap, "/dev/dri/renderD128",
                               reinterpret_cast<uintptr_t>(address), 0ul, &offset, &fd);
  return {result, offset, Fd(fd)};
}

}  // namespace amdgpu_criu::testing_support

using amdgpu_criu::testing_support::program;

extern "C" {
// CRIU's; null: a test of a CRIU that does not count its tasks.
amdgpu_criu::criu::TaskEntries* task_entries;
// Replaces that of libc. Only the plugin calls it here.
int kill(pid_t pid, int) noexcept { return program.killed.push_back(pid), 0; }
int criu_get_image_dir(void) { return program.image_directory; }
int add_inventory_plugin(const char*) { return program.inventory_calls++, 0; }
bool check_and_remove_inventory_plugin(const char* name, size_t length) {
  const bool ours = std::string_view(name, length) == "amdgpu_criu_plugin";
  return ours ? program.in_inventory : program.foreign_in_inventory;
}
int fdstore_add(int fd) {
  using namespace amdgpu_criu::testing_support;
  if (!store.socket.valid()) return -1;
  Message message;
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  const StoreLock lock;
  if (sendmsg(store.socket.get(), &message.header, MSG_DONTWAIT) != 1) return -1;
  return store.state().count++;
}
int fdstore_get(int id) {
  using namespace amdgpu_criu::testing_support;
  if (!store.socket.valid()) return -1;
  const StoreLock lock;
  if (setsockopt(store.socket.get(), SOL_SOCKET, SO_PEEK_OFF, &id, sizeof(id)) != 0) return -1;
  Message message;
  if (recvmsg(store.socket.get(), &message.header, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
    return -1;
  int fd = -1;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof(fd));
  return fd;
}
void print_on_level(unsigned, const char* format, ...) {
  if (program.log_throws) throw std::bad_alloc();
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  program.log.add(line);
}
}
