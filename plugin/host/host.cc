// SPDX-License-Identifier: GPL-2.0
#include "host/host.h"

#include <dirent.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/fd.h"
#include "base/log.h"
#include "host/bundle.h"

namespace amdgpu_criu::host {
namespace {

namespace fs = std::filesystem;

constexpr char kKfdDeviceNumber[] = "/sys/class/kfd/kfd/dev";

constexpr unsigned kEndOfRenderMinors = 192;

std::string render_name(unsigned minor) { return formatted("renderD{}", minor); }

std::optional<dev_t> find_kfd(const Config& config) {
  std::ifstream in(kKfdDeviceNumber);
  unsigned major = 0, minor = 0;
  char colon = 0;
  if (in >> major >> colon >> minor && colon == ':') return makedev(major, minor);
  struct stat status;
  if (stat(config.kfd_path.c_str(), &status) == 0 && S_ISCHR(status.st_mode)) return status.st_rdev;
  return std::nullopt;
}

bool is_node(const struct stat& status, dev_t wanted) {
  return S_ISCHR(status.st_mode) && status.st_rdev == wanted;
}

bool is_node(const Fd& directory, const char* name, dev_t wanted) {
  struct stat status;
  return fstatat(directory.get(), name, &status, 0) == 0 && is_node(status, wanted);
}

// By number, because a restored task may have neither sysfs nor /proc.
std::optional<std::string> find_node(const Fd& directory, dev_t wanted) {
  const int fd = openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> open(fd < 0 ? nullptr : fdopendir(fd), closedir);
  if (!open) return std::nullopt;
  while (const dirent* entry = readdir(open.get()))
    if (is_node(directory, entry->d_name, wanted)) return entry->d_name;
  return std::nullopt;
}

// The driver waits for locks when it opens a node, and signals of CRIU interrupt that.
Result<Fd> open_node(const Fd& directory, const std::string& name, dev_t wanted) {
  auto opened = Fd::openat(directory.get(), name.c_str(), O_RDWR);
  while (!opened.ok() && opened.error().code() == EINTR)
    opened = Fd::openat(directory.get(), name.c_str(), O_RDWR);
  Fd fd = TRY(std::move(opened));
  struct stat status;
  if (fstat(fd.get(), &status) != 0 || !is_node(status, wanted))
    return Error::of(ESTALE, "{} has become another device node", name);
  return fd;
}

// One line of /proc/PID/maps.
struct MapsLine {
  uint64_t start = 0, end = 0, offset = 0, inode = 0;
  bool writable = false, inaccessible = false;
};

std::optional<MapsLine> parse_maps_line(const std::string& line) {
  MapsLine result;
  char permissions[8], device[32];
  const int fields = sscanf(line.c_str(), "%lx-%lx %7s %lx %31s %lu", &result.start, &result.end,
                            permissions, &result.offset, device, &result.inode);
  if (fields != 6) return std::nullopt;
  result.writable = permissions[1] == 'w';
  result.inaccessible = strncmp(permissions, "---", 3) == 0;
  return result;
}

// Its dma-buf may have a name, which follows the link.
bool shows_dmabuf(const std::string& maps_line, const std::string& link) {
  return maps_line.find(" " + link) != std::string::npos;
}

// body(PATH, NUMBER) for each open descriptor of the thread.
template <typename Body>
Status for_each_descriptor(pid_t pid, pid_t thread, const Body& body) {
  std::error_code error;
  const fs::path directory = formatted("/proc/{}/task/{}/fd", pid, thread);
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    body(entry.path(), number);
  }
  if (error)
    return Error::of(error.value(), "cannot list the files of process {}: {}", pid,
                     error.message());
  return {};
}

// body(PATH) for each entry of the directory, which may be missing.
template <typename Body>
Status for_each_entry(const fs::path& directory, const Body& body) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) body(entry.path());
  if (!error || error == std::errc::no_such_file_or_directory) return {};
  return Error::of(error.value(), "cannot list {}: {}", directory.string(), error.message());
}

}  // namespace

Host Host::create(Config config) {
  const auto kfd = config.kfd_device ? config.kfd_device : find_kfd(config);
  return Host(std::move(config), kfd);
}

bool Host::is_of_amdgpu(dev_t device) const {
  const fs::path link = formatted("{}/{}:{}/device", config_.sys_devices, gnu_dev_major(device),
                                  gnu_dev_minor(device));
  std::error_code ignored;
  if (fs::read_symlink(link / "driver", ignored).filename() == "amdgpu") return true;
  // Partitions of a GPU after the first one have a platform device without a driver.
  return fs::read_symlink(link, ignored).filename().string().starts_with("amdgpu_xcp_");
}

std::optional<NodeId> Host::classify(const struct stat& status) const {
  if (!S_ISCHR(status.st_mode)) return std::nullopt;
  const unsigned minor = gnu_dev_minor(status.st_rdev);
  if (kfd_device_ && status.st_rdev == *kfd_device_) return NodeId{NodeKind::kKfd, minor};
  if (gnu_dev_major(status.st_rdev) != config_.drm_major) return std::nullopt;
  const bool render = minor >= config_.first_render_minor;
  if ((!render && minor >= config_.card_minors) || !is_of_amdgpu(status.st_rdev))
    return std::nullopt;
  return NodeId{render ? NodeKind::kRender : NodeKind::kCard, minor};
}

std::optional<NodeId> Host::classify(int fd) const {
  struct stat status;
  if (fstat(fd, &status) != 0) return std::nullopt;
  return classify(status);
}

bool Host::is_dmabuf(int fd) const {
  char target[64];
  const ssize_t length =
      readlink(formatted("/proc/self/fd/{}", fd).c_str(), target, sizeof(target));
  return length > 0 && names_dmabuf({target, static_cast<size_t>(length)});
}

Result<Fd> Host::kfd_directory() const {
  return Fd::open(fs::path(config_.kfd_path).parent_path().c_str(), O_PATH | O_DIRECTORY);
}

Result<Fd> Host::render_directory() const {
  return Fd::open(config_.dri_directory.c_str(), O_PATH | O_DIRECTORY);
}

Result<Fd> Host::open_kfd(const Fd& directory) const {
  if (!kfd_device_) return Error(ENODEV, "this machine has no /dev/kfd");
  const std::string name = fs::path(config_.kfd_path).filename();
  if (is_node(directory, name.c_str(), *kfd_device_))
    return open_node(directory, name, *kfd_device_);
  return Error::of(ENOENT, "there is no device node {} with the number {}:{}", config_.kfd_path,
                   gnu_dev_major(*kfd_device_), gnu_dev_minor(*kfd_device_));
}

Result<Fd> Host::open_render(unsigned minor, const Fd& directory) const {
  const dev_t wanted = makedev(config_.drm_major, minor);
  if (const auto name = find_node(directory, wanted)) return open_node(directory, *name, wanted);
  return Error::of(ENOENT, "there is no device node for render minor {} in {}", minor,
                   config_.dri_directory);
}

bool Host::may_open_render(unsigned minor, const Fd& directory) const {
  const auto name = find_node(directory, makedev(config_.drm_major, minor));
  return name && faccessat(directory.get(), name->c_str(), R_OK | W_OK, AT_EACCESS) == 0;
}

bool Host::has_render(unsigned minor, const Fd& directory) const {
  return find_node(directory, makedev(config_.drm_major, minor)).has_value();
}

Status Host::make_render(unsigned minor, const Fd& directory, const Fd& outside) const {
  const dev_t number = makedev(config_.drm_major, minor);
  struct stat like;
  bool known = false;
  for (unsigned other = config_.first_render_minor; !known && other < kEndOfRenderMinors; other++)
    known = fstatat(directory.get(), render_name(other).c_str(), &like, 0) == 0;
  const auto name = find_node(outside, number);
  if (!known && (!name || fstatat(outside.get(), name->c_str(), &like, 0) != 0))
    return Error::system("cannot read a node");
  const std::string made = render_name(minor);
  if (mknodat(directory.get(), made.c_str(), S_IFCHR, number) != 0)
    return Error::system("cannot make {}", made);
  // Not by mknod(2), to which the umask applies.
  if (fchownat(directory.get(), made.c_str(), like.st_uid, like.st_gid, 0) != 0 ||
      fchmodat(directory.get(), made.c_str(), like.st_mode & ACCESSPERMS, 0) != 0)
    return Error::system("cannot give {} its owner and mode", made);
  return {};
}

std::set<unsigned> Host::render_minors_of_container() const {
  const std::string path = config_.container_config.value_or(path_of_container_config());
  std::set<unsigned> minors = listed_minors(contents_of_file(path), config_.drm_major);
  minors.erase(minors.begin(), minors.lower_bound(config_.first_render_minor));
  return minors;
}

std::string Host::container_id() const { return config_.container_id.value_or(id_of_container()); }

std::optional<uint64_t> Host::memory_info(unsigned render_minor, const char* name) const {
  std::ifstream in(formatted("{}/{}:{}/device/mem_info_{}", config_.sys_devices, config_.drm_major,
                             render_minor, name));
  uint64_t bytes = 0;
  return in >> bytes ? std::optional(bytes) : std::nullopt;
}

std::optional<uint64_t> Host::vram_used(unsigned render_minor) const {
  return memory_info(render_minor, "vram_used");
}

std::optional<uint64_t> Host::vram_free(unsigned render_minor) const {
  const auto total = memory_info(render_minor, "vram_total");
  const auto used = vram_used(render_minor);
  if (!total || !used) return std::nullopt;
  return *total - std::min(*total, *used);
}

Result<std::vector<topology::Gpu>> Host::gpus() const {
  return topology::read_gpus(config_.topology_nodes);
}

Result<std::vector<ProcessFile>> Host::files_of_thread(pid_t pid, pid_t thread) const {
  std::vector<ProcessFile> result;
  TRY(for_each_descriptor(pid, thread, [&](const fs::path& path, int number) {
    struct stat status;
    if (!examine(path, status)) return;
    if (const auto node = classify(status)) result.push_back({number, *node});
  }));
  return result;
}

bool has_kfd(std::span<const ProcessFile> files) {
  return std::ranges::any_of(
      files, [](const ProcessFile& file) { return file.node.kind == NodeKind::kKfd; });
}

Result<std::vector<ProcessFile>> Host::files_of(pid_t pid) const {
  return files_of_thread(pid, pid);
}

Result<std::vector<pid_t>> threads_of(pid_t pid) {
  std::vector<pid_t> result;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(formatted("/proc/{}/task", pid), error))
    result.push_back(static_cast<pid_t>(atoi(entry.path().filename().c_str())));
  if (error == std::errc::no_such_file_or_directory || error == std::errc::no_such_process)
    return Error::of(ESRCH, "there is no process {}", pid);
  if (error)
    return Error::of(error.value(), "cannot list the threads of process {}: {}", pid,
                     error.message());
  return result;
}

Result<std::vector<pid_t>> children_of(pid_t pid) {
  std::vector<pid_t> result;
  for (const pid_t thread : TRY(threads_of(pid))) {
    std::ifstream children(formatted("/proc/{}/task/{}/children", pid, thread));
    for (pid_t child; children >> child;) result.push_back(child);
  }
  return result;
}

Result<std::vector<ThreadFile>> Host::files_of_threads(pid_t pid) const {
  std::vector<ThreadFile> result;
  for (const pid_t thread : TRY(threads_of(pid))) {
    if (thread == pid) continue;
    const long other = syscall(SYS_kcmp, pid, thread, KCMP_FILES, 0, 0);
    if (other < 0 && errno != ESRCH)
      return Error::system("cannot compare the files of thread {} and process {}", thread, pid);
    if (other <= 0) continue;
    const auto files = files_of_thread(pid, thread);
    if (!files.ok() && has_ended(thread)) continue;
    if (!files.ok()) return files.error();
    for (const ProcessFile& file : *files)
      if (syscall(SYS_kcmp, pid, thread, KCMP_FILE, file.number, file.number) != 0)
        result.push_back({thread, file});
  }
  return result;
}

Result<KfdState> Host::kfd_state_of(pid_t pid) const {
  KfdState result;
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) != 0 || space.st_ino != config_.kfd_pid_namespace)
    return result;
  const fs::path directory = fs::path(config_.kfd_processes) / std::to_string(pid);
  TRY(for_each_entry(directory, [&](const fs::path& path) {
    result.exists = true;
    uint64_t bytes = 0;
    if (path.filename().string().starts_with("vram_") && std::ifstream(path) >> bytes)
      result.vram += bytes;
  }));
  TRY(for_each_entry(directory / "queues", [&](const fs::path&) { result.queues++; }));
  return result;
}

Result<bool> Host::uses_gpu(pid_t pid) const {
  if (!TRY(files_of(pid)).empty() || !TRY(vmas_of(pid)).empty()) return true;
  return TRY(kfd_state_of(pid)).exists || !TRY(files_of_threads(pid)).empty();
}

Result<pid_t> Host::sharer_of_files(pid_t pid) const {
  pid_t sharer = 0;
  TRY(for_each_entry("/proc", [&](const fs::path& path) {
    const pid_t other = atoi(path.filename().c_str());
    if (other > 0 && other != pid && syscall(SYS_kcmp, pid, other, KCMP_FILES, 0, 0) == 0)
      sharer = other;
  }));
  return sharer;
}

Result<std::vector<int>> Host::special_files_of(pid_t pid) const {
  std::vector<int> result;
  TRY(for_each_descriptor(pid, pid, [&](const fs::path& path, int number) {
    struct stat status;
    std::error_code gone;
    const std::string target = fs::read_symlink(path, gone);
    if (names_dmabuf(target) || target.starts_with("anon_inode:") ||
        (examine(path, status) && classify(status)))
      result.push_back(number);
  }));
  return result;
}

Result<TakenFile> Host::take(pid_t pid, const ProcessFile& file) const {
  const Pidfd process = TRY(Pidfd::open(pid));
  Fd taken = process.take_descriptor(file.number);
  if (!taken.valid())
    return Error::system("cannot get descriptor {} of process {}", file.number, pid);
  return TakenFile(std::move(taken), file.node.kind);
}

Result<std::vector<ProcessVma>> Host::vmas_of(pid_t pid) const {
  std::ifstream maps(formatted("/proc/{}/maps", pid));
  if (!maps) return Error::of(errno, "cannot read the mappings of process {}", pid);
  std::vector<ProcessVma> result;
  for (std::string line; std::getline(maps, line);) {
    const auto map = parse_maps_line(line);
    if (!map || map->inode == 0) continue;
    // CRIU refuses it too, but does not name it.
    if (shows_dmabuf(line, config_.dmabuf_link))
      log_refused(
          "process {} maps a dma-buf descriptor itself at {:#x}, which cannot be carried; a "
          "mapping "
          "of the render node can",
          pid, map->start);
    struct stat status;
    const std::string link = formatted("/proc/{}/map_files/{:x}-{:x}", pid, map->start, map->end);
    // Not every file-backed mapping has a link. One that cannot be examined might be a GPU's.
    if (!examine(link, status)) {
      if (errno == ENOENT) continue;
      return Error::system("cannot examine a mapping of process {}", pid);
    }
    if (const auto node = classify(status))
      result.push_back(
          {map->start, map->end, map->offset, *node, map->writable, map->inaccessible});
  }
  return result;
}

bool Host::maps_writable_dmabuf(pid_t pid) const {
  std::ifstream maps(formatted("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);)
    if (const auto map = parse_maps_line(line);
        map && map->writable && shows_dmabuf(line, config_.dmabuf_link))
      return true;
  return false;
}

bool has_ended(pid_t thread) {
  std::ifstream stat(formatted("/proc/{}/stat", thread));
  std::string line;
  if (!std::getline(stat, line)) return true;
  const size_t name_end = line.rfind(')');  // the end of the name, which may contain parentheses
  return name_end + 2 >= line.size() || line[name_end + 2] == 'Z' || line[name_end + 2] == 'X';
}

Result<bool> same_file(int a, int b) {
  const pid_t self = getpid();
  const long result = syscall(SYS_kcmp, self, self, KCMP_FILE, a, b);
  if (result < 0) return Error::system("cannot compare open files");
  return result == 0;
}

bool examine(const std::string& path, struct stat& status) {
  constexpr unsigned kWanted = STATX_TYPE | STATX_SIZE | STATX_INO | STATX_NLINK;
  struct statx found{};
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, kWanted, &found) != 0) return false;
  status = {};
  status.st_mode = found.stx_mode;
  status.st_rdev = makedev(found.stx_rdev_major, found.stx_rdev_minor);
  status.st_size = static_cast<off_t>(found.stx_size);
  status.st_ino = found.stx_ino;
  status.st_nlink = found.stx_nlink;
  return true;
}

Result<pid_t> namespace_pid(pid_t pid) {
  std::ifstream status(formatted("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(6));
    pid_t last = 0;
    for (pid_t number; numbers >> number;) last = number;
    if (last > 0) return last;
  }
  return Error::of(ESRCH, "cannot read the status of process {}", pid);
}

std::string comm_of(pid_t pid) {
  std::ifstream in(formatted("/proc/{}/comm", pid));
  std::string comm;
  std::getline(in, comm);
  return comm;
}

}  // namespace amdgpu_criu::host
