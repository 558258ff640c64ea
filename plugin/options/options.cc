// SPDX-License-Identifier: GPL-2.0
#include "options/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "options/faults.h"

namespace options {
namespace {

using base::Error;
using base::Result;
using base::Status;

constexpr std::string_view kPrefix = "--amdgpu.";

Result<uint64_t> number(const std::string& name, const std::string& text, uint64_t least,
                        uint64_t most) {
  uint64_t value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || value < least || value > most)
    return Error::of(EINVAL, "option {}: '{}' is not a number from {} to {}", name, text, least,
                     most);
  return value;
}

Status set_map(Options& options, const std::string& value) {
  options.map = TRY(topology::parse_map(value));
  return {};
}
Status set_ignore(Options& options, const std::string& value) {
  options.ignore = TRY(topology::parse_ignored(value));
  return {};
}
Status set_slots(Options& options, const std::string& value) {
  options.staging.slots = TRY(number("staging-slots", value, 1, 64));
  return {};
}
Status set_slot_size(Options& options, const std::string& value) {
  options.staging.bytes = TRY(number("staging-kib", value, 4, 64 << 10)) << 10;
  return {};
}
Status set_cut_sharing(Options& options, const std::string& value) {
  options.cut_sharing = TRY(number("cut-sharing", value, 0, 1)) == 1;
  return {};
}
Status set_parallel(Options& options, const std::string& value) {
  if (value != "on" && value != "off")
    return Error::of(EINVAL, "option parallel: '{}' is neither on nor off", value);
  options.parallel = value == "on";
  return {};
}
Status set_skip_contents(Options& options, const std::string& value) {
  options.test_skip_contents = TRY(number("test-skip-contents", value, 0, 1)) == 1;
  return {};
}

Status set_fail(Options& options, const std::string& value) {
  TRY(Faults::create(value));
  options.test_fail = value;
  return {};
}

Status set_restore_delay(Options& options, const std::string& value) {
  options.test_restore_delay =
      static_cast<unsigned>(TRY(number("test-restore-delay", value, 0, 65535)));
  return {};
}

struct Setting {
  const char* name;
  Status (*set)(Options& options, const std::string& value);
};
constexpr Setting kSettings[] = {
    {"map", set_map},
    {"ignore", set_ignore},
    {"staging-slots", set_slots},
    {"staging-kib", set_slot_size},
    {"cut-sharing", set_cut_sharing},
    {"parallel", set_parallel},
    {"test-skip-contents", set_skip_contents},
    {"test-fail", set_fail},
    {"test-restore-delay", set_restore_delay},
};

// "staging-kib" is AMDGPU_CRIU_STAGING_KIB.
std::string environment_name(std::string_view name) {
  std::string result = "AMDGPU_CRIU_";
  for (char c : name) result += c == '-' ? '_' : static_cast<char>(c >= 'a' ? c - 'a' + 'A' : c);
  return result;
}

Status set_argument(Options& options, std::string_view argument) {
  const std::string_view name = argument.substr(0, argument.find('='));
  auto setting = std::ranges::find(kSettings, name, &Setting::name);
  if (setting == std::end(kSettings)) return Error::of(EINVAL, "unknown option amdgpu.{}", name);
  if (name.size() == argument.size())
    return Error::of(EINVAL, "option amdgpu.{} needs a value", name);
  return setting->set(options, std::string(argument.substr(name.size() + 1)));
}

}  // namespace

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  options.ignore = topology::ignored_by_environment(
      [](const char* name) -> const char* { return getenv(name); });
  for (const Setting& setting : kSettings)
    if (const char* value = getenv(environment_name(setting.name).c_str()))
      TRY(setting.set(options, value));
  for (const std::string& argument : arguments)
    if (argument.starts_with(kPrefix))
      TRY(set_argument(options, std::string_view(argument).substr(kPrefix.size())));
  return options;
}

}  // namespace options
