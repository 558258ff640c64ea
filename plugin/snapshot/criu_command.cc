// SPDX-License-Identifier: GPL-2.0
#include "snapshot/criu_command.h"

#include <algorithm>
#include <filesystem>

namespace amdgpu_criu::snapshot {
namespace {

constexpr char kKeyFile[] = "AMDGPU_CRIU_KEY_FILE";

}  // namespace

// The plugin opens the key when criu has changed its directory.
CriuCommand::CriuCommand(std::string criu, std::string verb)
    : criu_(std::move(criu)), verb_(std::move(verb)) {
  const char* key = getenv(kKeyFile);
  if (key && *key && *key != '/') variables_[kKeyFile] = std::filesystem::absolute(key);
}

void CriuCommand::add(std::string option, std::string value, std::string why) {
  options_.push_back({std::move(option), std::move(value), std::move(why)});
}

void CriuCommand::set(const std::string& name, const std::string& value) {
  const std::string variable = "AMDGPU_CRIU_" + name;
  if (!getenv(variable.c_str())) variables_[variable] = value;
}

void CriuCommand::override_with(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    std::erase_if(options_, [&](const Option& option) { return option.name == name; });
    others_.push_back(word);
  }
}

Status CriuCommand::leave_out(const std::vector<std::string>& options) {
  for (const std::string& name : options) {
    const auto is_chosen = [&](const Option& option) {
      return option.name == name && !option.why.empty();
    };
    if (std::erase_if(options_, is_chosen) == 0)
      return Error::of(EINVAL, "{} is not an option that was added for this snapshot", name);
  }
  return {};
}

Program CriuCommand::program() const {
  Program program{{criu_, verb_}, variables_};
  for (const Option& option : options_) {
    program.arguments.push_back(option.name);
    if (!option.value.empty()) program.arguments.push_back(option.value);
  }
  program.arguments.insert(program.arguments.end(), others_.begin(), others_.end());
  return program;
}

std::vector<std::string> CriuCommand::reasons() const {
  std::vector<std::string> result;
  for (const Option& option : options_)
    if (!option.why.empty()) result.push_back(option.name + ": " + option.why);
  return result;
}

}  // namespace amdgpu_criu::snapshot
