// SPDX-License-Identifier: GPL-2.0
#include "host/bundle.h"

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/fd.h"

namespace amdgpu_criu::host {
namespace {

using Json = nlohmann::json;
using namespace std::string_view_literals;

std::optional<unsigned> number_of(const Json& object, const char* name) {
  const auto member = object.find(name);
  if (member == object.end() || !member->is_number_unsigned()) return std::nullopt;
  return member->get<unsigned>();
}

// "criu swrk", which CRIU replaces by "criu: restore --rpc" when it has received the request.
bool is_called_by_engine() {
  const std::string words = contents_of_file("/proc/self/cmdline");
  return words.find("\0swrk\0"sv) != words.npos || words.find(" --rpc"sv) != words.npos;
}

}  // namespace

std::string contents_of_file(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(file.get(), buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(size));
  return text;
}

std::string path_of_container_config() {
  return is_called_by_engine() ? formatted("/proc/{}/cwd/config.json", getppid()) : "";
}

std::string id_of_container() {
  if (!is_called_by_engine()) return "";
  return restored_container(contents_of_file(formatted("/proc/{}/cmdline", getppid())));
}

std::string restored_container(std::string_view command) {
  const size_t restore = command.find("\0restore\0"sv);
  if (restore == command.npos || !command.ends_with('\0')) return "";
  command.remove_suffix(1);
  const std::string_view last = command.substr(command.rfind('\0') + 1);
  const bool is_id = !last.starts_with('-') && last.find('/') == last.npos;
  return is_id ? std::string(last) : "";
}

std::set<unsigned> listed_minors(std::string_view config, unsigned major) {
  const Json::json_pointer devices("/linux/devices");
  const Json json = Json::parse(config, nullptr, /*allow_exceptions=*/false);
  std::set<unsigned> result;
  if (!json.contains(devices)) return result;
  for (const Json& node : json[devices]) {
    const auto minor = number_of(node, "minor");
    if (minor && number_of(node, "major") == major) result.insert(*minor);
  }
  return result;
}

}  // namespace amdgpu_criu::host
