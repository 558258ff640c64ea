// SPDX-License-Identifier: GPL-2.0
#include "criu/program.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/log.h"
#include "criu/abi.h"

namespace amdgpu_criu::criu {
namespace {

constexpr char kInventoryName[] = "amdgpu_criu_plugin";
constexpr char kForeignName[] = "amdgpu_plugin";

void log_to_criu(LogLevel level, const std::string& line) {
  const char* mark = level == LogLevel::kError     ? "Error "
                     : level == LogLevel::kWarning ? "Warn  "
                                                   : "";
  // CRIU's log is for one thread.
  static std::mutex lock;
  const std::lock_guard guard(lock);
  print_on_level(static_cast<unsigned>(level), "%s(amdgpu): %s\n", mark, line.c_str());
}

// The descriptor store is a socket connected to itself. CRIU 4.1 makes it after it has loaded the
// plugins, and would crash if it was used before.
bool is_fd_store(int fd) {
  constexpr std::string_view kName = "criu-fdstore-";
  sockaddr_un address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sun_family != AF_UNIX)
    return false;
  const std::string_view name(address.sun_path, size - offsetof(sockaddr_un, sun_path));
  return name.find(kName) != name.npos;
}

class CriuFdStore : public restore::FdStore {
 public:
  bool is_ready() const override {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error))
      if (is_fd_store(atoi(entry.path().filename().c_str()))) return true;
    return false;
  }
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
};

}  // namespace

bool is_43() { return criu_plugin_get_options != nullptr; }

Result<int> image_directory() {
  const int fd = criu_get_image_dir ? criu_get_image_dir() : -1;
  if (fd < 0) return Error(ENOENT, "CRIU has no image directory");
  return fd;
}

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

}  // namespace amdgpu_criu::criu
