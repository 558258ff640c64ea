// SPDX-License-Identifier: GPL-2.0
#include "host/bundle.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>

#include "base/result.h"

namespace amdgpu_criu::host {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// The number of a member of a JSON object, from the position of its name on. A name with its quotes
// cannot be inside a string, where quotes follow a backslash.
std::optional<unsigned> number_after(std::string_view text, size_t at) {
  const size_t colon = text.find_first_not_of(kSpaces, at);
  if (colon == text.npos || text[colon] != ':') return std::nullopt;
  const size_t first = text.find_first_not_of(kSpaces, colon + 1);
  unsigned value = 0;
  if (first == text.npos ||
      std::from_chars(text.data() + first, text.data() + text.size(), value).ec != std::errc())
    return std::nullopt;
  return value;
}

std::optional<unsigned> number_of(std::string_view object, std::string_view name) {
  const size_t at = object.find(name);
  return at == object.npos ? std::nullopt : number_after(object, at + name.size());
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

// A device node has a path, unlike a rule of the device cgroup.
std::set<unsigned> listed_minors(std::string_view config, unsigned major) {
  constexpr std::string_view kMajor = "\"major\"";
  std::set<unsigned> result;
  for (size_t at = config.find(kMajor); at != config.npos; at = config.find(kMajor, at + 1)) {
    if (number_after(config, at + kMajor.size()) != major) continue;
    const size_t begin = config.rfind('{', at), end = config.find('}', at);
    if (begin == config.npos || end == config.npos) continue;
    const std::string_view object = config.substr(begin, end - begin);
    const auto minor = number_of(object, "\"minor\"");
    if (minor && object.find("\"path\"") != object.npos) result.insert(*minor);
  }
  return result;
}

}  // namespace amdgpu_criu::host
