// SPDX-License-Identifier: GPL-2.0
#include "criu/program.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>

#include "base/log.h"
#include "criu/abi.h"
#include "image/container.h"

namespace amdgpu_criu::criu {
namespace {

constexpr char kInventoryName[] = "amdgpu_criu_plugin";
constexpr char kForeignName[] = "amdgpu_plugin";

void log_to_criu(LogLevel level, const std::string& line) {
  const char* mark = level == LogLevel::kError     ? "Error "
                     : level == LogLevel::kWarning ? "Warn  "
                                                   : "";
  // CRIU's log is not thread-safe.
  static std::mutex lock;
  const std::lock_guard guard(lock);
  print_on_level(static_cast<unsigned>(level), "%s(amdgpu): %s\n", mark, line.c_str());
}

// The name of a UNIX socket; empty: it is none. A path may fill the address, without a 0 at its
// end, which the kernel counts nevertheless. An abstract name begins with 0.
std::string socket_name(int (*get)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_un address{};
  socklen_t size = sizeof(address);
  if (get(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sun_family != AF_UNIX)
    return {};
  const size_t room = std::min<size_t>(size, sizeof(address)) - offsetof(sockaddr_un, sun_path);
  const std::string_view name(address.sun_path, room);
  return std::string(name.substr(0, name.find('\0', 1)));
}

// The descriptor store is a socket connected to itself. CRIU 4.1 creates it after it has loaded the
// plugins, and would crash if it were used before.
bool is_fd_store(int fd) {
  constexpr std::string_view kName = "criu-fdstore-";
  return socket_name(getsockname, fd).find(kName) != std::string::npos;
}

// criu --stream connects to criu-image-streamer, which listens in the image directory.
bool is_streamer(int fd) {
  constexpr std::string_view kName = "streamer-capture.sock";
  return socket_name(getpeername, fd).ends_with(kName);
}

// -1: there is none.
int find_open(bool (*is_it)(int fd)) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error))
    if (const int fd = atoi(entry.path().filename().c_str()); is_it(fd)) return fd;
  return -1;
}

// One descriptor in a datagram of one byte, as CRIU sends them.
class Message {
 public:
  Message() {
    header_.msg_iov = &vector_;
    header_.msg_iovlen = 1;
    header_.msg_control = control_;
    header_.msg_controllen = sizeof(control_);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // Takes the oldest one out of the socket.
  Result<Fd> receive(int socket) {
    if (recvmsg(socket, &header_, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
      return Error::system("cannot take a descriptor out of CRIU's store");
    const cmsghdr* control = CMSG_FIRSTHDR(&header_);
    if (!control || control->cmsg_type != SCM_RIGHTS)
      return Error(EIO, "CRIU's store has a message without a descriptor");
    int fd = -1;
    memcpy(&fd, CMSG_DATA(control), sizeof(fd));
    return Fd(fd);
  }
  Status send(int socket, const Fd& fd) {
    cmsghdr* control = CMSG_FIRSTHDR(&header_);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = fd.get();
    memcpy(CMSG_DATA(control), &number, sizeof(number));
    if (sendmsg(socket, &header_, MSG_DONTWAIT) != 1)
      return Error::system("cannot put a descriptor into CRIU's store");
    return {};
  }

 private:
  char byte_ = 0;
  iovec vector_{&byte_, 1};
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
  msghdr header_{};
};

class CriuFdStore : public restore::FdStore {
 public:
  bool is_ready() const override { return find_open(is_fd_store) >= 0; }
  Result<int> add(const Fd& fd) override {
    if (!fdstore_add) return Error(ENOSYS, "this CRIU has no descriptor store");
    const int id = fdstore_add(fd.get());
    if (id < 0) return Error(EIO, "CRIU could not store a descriptor");
    return id;
  }
  Result<Fd> get(int id) override {
    if (!fdstore_get) return Error(ENOSYS, "this CRIU has no descriptor store");
    Fd fd(fdstore_get(id));
    if (!fd.valid()) return Error(EIO, "CRIU could not return a stored descriptor");
    return fd;
  }
  // Each descriptor moves from the head of the queue to its end. A placeholder is the last one.
  Status drop(const std::set<int>& ids) override {
    const int socket = find_open(is_fd_store);
    if (socket < 0) return Error(ENOENT, "CRIU's descriptor store has another name");
    const Fd placeholder = TRY(Fd::open("/dev/null", O_RDONLY));
    const int last = TRY(add(placeholder));
    for (int id = 0; id <= last; id++) {
      const Fd fd = TRY(Message().receive(socket));
      TRY(Message().send(socket, ids.contains(id) ? placeholder : fd));
    }
    return {};
  }
};

constexpr char kProcessTree[] = "pstree.img";
// Two magic numbers, then entries: a size and a protobuf message.
constexpr uint64_t kFirstEntry = 8;
constexpr uint32_t kMaxEntry = 16u << 20;

// Fields of pstree_entry: pid, ppid, pgid, sid, threads (repeated; packed or not).
constexpr uint64_t kLastField = 5;

// Reads a protobuf message. Each function returns nullopt if it is malformed.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }

  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint64_t>(rest_.front());
      rest_ = rest_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    return std::nullopt;
  }
  std::optional<Reader> bytes() {
    const auto size = varint();
    if (!size || *size > rest_.size()) return std::nullopt;
    const Reader result(rest_.first(*size));
    rest_ = rest_.subspan(*size);
    return result;
  }

 private:
  std::span<const std::byte> rest_;
};
enum WireType : uint64_t { kVarint = 0, kBytes = 2 };

// Returns false if it is malformed.
bool collect_numbers(Reader reader, bool packed, std::set<uint32_t>& numbers) {
  while (!reader.at_end()) {
    const auto tag = packed ? std::optional<uint64_t>(kVarint) : reader.varint();
    if (!tag) return false;
    if ((*tag & 7) == kVarint) {
      const auto value = reader.varint();
      if (!value) return false;
      if (*tag >> 3 <= kLastField) numbers.insert(static_cast<uint32_t>(*value));
    } else if ((*tag & 7) == kBytes) {
      const auto inner = reader.bytes();
      if (!inner || (*tag >> 3 == kLastField && !collect_numbers(*inner, true, numbers)))
        return false;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_43() { return criu_plugin_get_options != nullptr; }

Result<int> image_directory() {
  const int fd = criu_get_image_dir ? criu_get_image_dir() : -1;
  if (fd < 0) return Error(ENOENT, "CRIU has no image directory");
  return fd;
}

bool streams_images() { return find_open(is_streamer) >= 0; }

std::vector<std::string> plugin_options() {
  int argc = 0;
  char** argv = nullptr;
  if (!is_43() || criu_plugin_get_options(&argc, &argv) != 0) return {};
  std::vector<std::string> result;
  for (int i = 1; i < argc; i++) result.emplace_back(argv[i]);
  return result;
}

void send_log_to_criu() {
  if (print_on_level) set_log_sink(log_to_criu);
}

Status require_at_restore() {
  if (add_inventory_plugin && add_inventory_plugin(kInventoryName) != 0)
    return Error(ENOMEM, "cannot put the plugin into CRIU's inventory");
  return {};
}

bool required_by_images() {
  return !check_and_remove_inventory_plugin ||
         check_and_remove_inventory_plugin(kInventoryName, strlen(kInventoryName));
}

bool foreign_required_by_images() {
  return !check_and_remove_inventory_plugin ||
         check_and_remove_inventory_plugin(kForeignName, strlen(kForeignName));
}

std::unique_ptr<restore::FdStore> make_fd_store() { return std::make_unique<CriuFdStore>(); }

restore::Tasks tasks() {
  using restore::Tasks;
  if (&task_entries == nullptr || !task_entries) return Tasks::kUnknown;
  const int busy = __atomic_load_n(&task_entries->in_progress, __ATOMIC_SEQ_CST);
  if (busy < 0) return Tasks::kFailed;
  return busy > 0 ? Tasks::kBusy : Tasks::kDone;
}

Result<std::set<uint32_t>> numbers_of_tasks(int image_directory) {
  const Fd file = TRY(Fd::openat(image_directory, kProcessTree, O_RDONLY));
  const off_t end = lseek(file.get(), 0, SEEK_END);
  std::set<uint32_t> numbers;
  for (uint64_t at = kFirstEntry; at < static_cast<uint64_t>(end);) {
    uint32_t size = 0;
    TRY(image::read_at(file, kProcessTree, at, std::as_writable_bytes(std::span(&size, 1))));
    if (size > kMaxEntry)
      return Error::of(EBADMSG, "image {}: an entry is too large", kProcessTree);
    std::vector<std::byte> entry(size);
    TRY(image::read_at(file, kProcessTree, at + sizeof(size), entry));
    if (!collect_numbers(Reader(entry), false, numbers))
      return Error::of(EBADMSG, "image {}: an entry cannot be decoded", kProcessTree);
    at += sizeof(size) + size;
  }
  return numbers;
}

}  // namespace amdgpu_criu::criu
