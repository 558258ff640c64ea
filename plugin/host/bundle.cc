// SPDX-License-Identifier: GPL-2.0
#include "host/bundle.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/result.h"

namespace amdgpu_criu::host {
namespace {

using Json = nlohmann::json;

std::optional<unsigned> number_of(const Json& object, const char* name) {
  const auto member = object.find(name);
  if (member == object.end() || !member->is_number_unsigned()) return std::nullopt;
  return member->get<unsigned>();
}

}  // namespace

// "criu swrk", which CRIU replaces by "criu: restore --rpc" when it has received the request.
std::string path_of_container_config() {
  using namespace std::string_view_literals;
  std::ifstream in("/proc/self/cmdline");
  const std::string words(std::istreambuf_iterator<char>(in), {});
  if (words.find("\0swrk\0"sv) == words.npos && words.find(" --rpc"sv) == words.npos) return "";
  return formatted("/proc/{}/cwd/config.json", getppid());
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
