// SPDX-License-Identifier: GPL-2.0
#include "options/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "options/faults.h"

namespace amdgpu_criu::options {
namespace {

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

Result<uint64_t> whole_pages(const std::string& name, const std::string& text, uint64_t most_kib) {
  const uint64_t kib = TRY(number(name, text, 4, most_kib));
  if (kib % 4 != 0) return Error::of(EINVAL, "option {}: {} is not a multiple of 4", name, kib);
  return kib;
}

Result<bool> on_or_off(const std::string& name, const std::string& text) {
  const bool on = text == "on" || text == "1";
  if (!on && text != "off" && text != "0")
    return Error::of(EINVAL, "option {}: '{}' is neither on nor off", name, text);
  return on;
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
  options.staging.bytes = TRY(whole_pages("staging-kib", value, 64 << 10)) << 10;
  return {};
}
Status set_chunk_size(Options& options, const std::string& value) {
  options.chunk_bytes = static_cast<uint32_t>(TRY(whole_pages("chunk-kib", value, 64 << 10)) << 10);
  return {};
}

struct Method {
  std::string_view name;
  pipeline::Encoding encoding;
};
constexpr Method kMethods[] = {{"none", pipeline::Encoding::kPlain},
                               {"zstd", pipeline::Encoding::kZstd},
                               {"lz4", pipeline::Encoding::kLz4}};

// "zstd:LEVEL" is zstd, too.
Status set_compression(Options& options, const std::string& value) {
  const size_t colon = value.find(':');
  const auto method = std::ranges::find(kMethods, value.substr(0, colon), &Method::name);
  const bool has_level = colon != std::string::npos;
  if (method == std::end(kMethods) || (has_level && method->encoding != pipeline::Encoding::kZstd))
    return Error::of(EINVAL, "option compress: '{}' is none of none, lz4, zstd and zstd:LEVEL",
                     value);
  options.compression = {method->encoding, 0};
  if (has_level)
    options.compression.level =
        static_cast<int>(TRY(number("compress", value.substr(colon + 1), 1, 19)));
  return {};
}
Status set_incremental(Options& options, const std::string& value) {
  options.incremental = TRY(on_or_off("incremental", value));
  return {};
}
Status set_direct(Options& options, const std::string& value) {
  options.direct = TRY(on_or_off("direct-io", value));
  return {};
}
Status set_io(Options& options, const std::string& value) {
  if (value != "io_uring" && value != "threads")
    return Error::of(EINVAL, "option io: '{}' is neither io_uring nor threads", value);
  options.io = value == "threads" ? pipeline::IoKind::kThreads : pipeline::IoKind::kUring;
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
    {"chunk-kib", set_chunk_size},
    {"compress", set_compression},
    {"incremental", set_incremental},
    {"io", set_io},
    {"direct-io", set_direct},
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

// What options say together.
Status check(const Options& options) {
  if (options.staging.total() > gpu::kMaxStaging)
    return Error::of(
        EINVAL,
        "options staging-slots and staging-kib: {} buffers of {} KiB are more than the "
        "{} KiB that a GPU may have",
        options.staging.slots, options.staging.bytes >> 10, gpu::kMaxStaging >> 10);
  return {};
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
  TRY(check(options));
  return options;
}

}  // namespace amdgpu_criu::options
