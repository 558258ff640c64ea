// SPDX-License-Identifier: GPL-2.0
#include "options/options.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "options/faults.h"

namespace amdgpu_criu::options {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "--amdgpu.";

using Set = Status (*)(Options& options, const std::string& name, const std::string& text);

Result<uint64_t> number(const std::string& name, const std::string& text, uint64_t least,
                        uint64_t most) {
  uint64_t value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || value < least || value > most)
    return Error::of(EINVAL, "option {}: '{}' is not a number from {} to {}", name, text, least,
                     most);
  return value;
}

// The kinds of options.

template <unsigned Options::* Field, unsigned kLeast, unsigned kMost>
Status set_number(Options& options, const std::string& name, const std::string& text) {
  options.*Field = static_cast<unsigned>(TRY(number(name, text, kLeast, kMost)));
  return {};
}

template <bool Options::* Field>
Status set_yes_no(Options& options, const std::string& name, const std::string& text) {
  constexpr std::string_view kYes[] = {"on", "yes", "1", "true"};
  constexpr std::string_view kNo[] = {"off", "no", "0", "false"};
  const bool yes = std::ranges::find(kYes, text) != std::end(kYes);
  if (!yes && std::ranges::find(kNo, text) == std::end(kNo))
    return Error::of(EINVAL, "option {}: '{}' is neither on nor off", name, text);
  options.*Field = yes;
  return {};
}

Result<size_t> whole_pages(const std::string& name, const std::string& text) {
  const uint64_t kib = TRY(number(name, text, 4, 64 << 10));
  if (kib % 4 != 0) return Error::of(EINVAL, "option {}: {} is not a multiple of 4", name, kib);
  return kib << 10;
}

Status set_map(Options& options, const std::string&, const std::string& text) {
  options.map = TRY(topology::parse_map(text));
  return {};
}
Status set_ignore(Options& options, const std::string&, const std::string& text) {
  options.ignore = TRY(topology::parse_ignored(text));
  return {};
}
Status set_slots(Options& options, const std::string& name, const std::string& text) {
  constexpr gpu::StagingSize kPreset;
  const bool by_measuring = text == "auto";
  options.staging.slots = by_measuring
                              ? kPreset.slots
                              : static_cast<unsigned>(TRY(number(name, text, 1, gpu::kMaxSlots)));
  options.staging.most_slots = by_measuring ? gpu::kMaxSlots : options.staging.slots;
  return {};
}
Status set_slot_size(Options& options, const std::string& name, const std::string& text) {
  options.staging.bytes = TRY(whole_pages(name, text));
  return {};
}
Status set_chunk_size(Options& options, const std::string& name, const std::string& text) {
  options.chunk_bytes = static_cast<uint32_t>(TRY(whole_pages(name, text)));
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
Status set_compression(Options& options, const std::string& name, const std::string& text) {
  const size_t colon = text.find(':');
  const auto method = std::ranges::find(kMethods, text.substr(0, colon), &Method::name);
  const bool has_level = colon != std::string::npos;
  if (method == std::end(kMethods) || (has_level && method->encoding != pipeline::Encoding::kZstd))
    return Error::of(EINVAL, "option {}: '{}' is none of none, lz4, zstd and zstd:LEVEL", name,
                     text);
  options.compression = {method->encoding, 0};
  if (has_level)
    options.compression.level = static_cast<int>(TRY(number(name, text.substr(colon + 1), 1, 19)));
  return {};
}
Status set_io(Options& options, const std::string& name, const std::string& text) {
  if (text != "io_uring" && text != "threads")
    return Error::of(EINVAL, "option {}: '{}' is neither io_uring nor threads", name, text);
  options.io = text == "threads" ? pipeline::IoKind::kThreads : pipeline::IoKind::kUring;
  return {};
}
Status set_status_fd(Options& options, const std::string& name, const std::string& text) {
  options.status_fd = static_cast<int>(TRY(number(name, text, 0, 1 << 20)));
  return {};
}
Status set_key_file(Options& options, const std::string&, const std::string& text) {
  options.key_file = text;
  return {};
}
Status set_fail(Options& options, const std::string&, const std::string& text) {
  TRY(Faults::create(text));
  options.test_fail = text;
  return {};
}

// The one table of options. criu-amdgpu(1) says more about each.
struct Entry {
  Option option;
  Set set;
};
constexpr char kOnOff[] = "on, off";
constexpr char kTest[] = "for tests";
constexpr Entry kOptions[] = {
    {{"map", "GPU=GPU,...", "", "on which GPU of this machine each GPU of the images is restored"},
     set_map},
    {{"ignore", "property,...", "", "properties in which GPUs may differ at a restore"},
     set_ignore},
    {{"staging-slots", "auto, 1 to 64", "auto", "number of staging buffers of a GPU"}, set_slots},
    {{"staging-kib", "4 to 65536", "8192", "size of a staging buffer"}, set_slot_size},
    {{"chunk-kib", "4 to 65536", "256", "size of what is compared, omitted and compressed"},
     set_chunk_size},
    {{"compress", "none, lz4, zstd, zstd:LEVEL", "none", "how GPU memory is compressed"},
     set_compression},
    {{"incremental", kOnOff, "off", "a later dump will refer to this one"},
     set_yes_no<&Options::incremental>},
    {{"gpu-hashes", kOnOff, "on", "GPUs hash their memory, where it needs hashes or has them"},
     set_yes_no<&Options::gpu_hashes>},
    {{"io", "io_uring, threads", "io_uring", "how a dump writes files"}, set_io},
    {{"direct-io", kOnOff, "on", "files are read and written past the page cache"},
     set_yes_no<&Options::direct>},
    {{"key-file", "path", "", "the key of encrypted images: a file of 32 bytes"}, set_key_file},
    {{"cut-sharing", kOnOff, "off", "dump memory that processes outside of the dump share"},
     set_yes_no<&Options::cut_sharing>},
    {{"parallel", kOnOff, "on", "save and fill GPU memory while CRIU does its own part"},
     set_yes_no<&Options::parallel>},
    {{"replicas", kOnOff, "off", "the images are restored several times"},
     set_yes_no<&Options::replicas>},
    {{"timeout", "seconds", "0", "how long a dump or a restore may take; 0: no limit"},
     set_number<&Options::timeout, 0, 86400>},
    {{"status-fd", "number", "", "an open descriptor, for progress as lines of JSON"},
     set_status_fd},
    {{"test-fail", "EVENT:NUMBER:ACTION", "", kTest}, set_fail},
    {{"test-restore-delay", "0 to 65535", "0", kTest},
     set_number<&Options::test_restore_delay, 0, 65535>},
};

Status set_option(Options& options, const std::string& name, const std::string& text) {
  const auto entry =
      std::ranges::find_if(kOptions, [&](const Entry& one) { return one.option.name == name; });
  if (entry == std::end(kOptions)) return Error::of(EINVAL, "unknown option amdgpu.{}", name);
  TRY(entry->set(options, name, text));
  options.given[name] = text;
  return {};
}

constexpr std::string_view kBlanks = " \t\r";

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// A value may begin with '#', as in "map = #0=#1", and contain it, but not after a blank.
std::string without_comment(const std::string& line) {
  const size_t equals = line.find('=');
  const size_t value =
      equals == line.npos ? line.npos : line.find_first_not_of(kBlanks, equals + 1);
  for (size_t at = line.find('#'); at != line.npos; at = line.find('#', at + 1))
    if (at != value && (at == 0 || kBlanks.find(line[at - 1]) != kBlanks.npos))
      return line.substr(0, at);
  return line;
}

// CRIU's directory depends on the caller, and the file does not. directory: of the file
Status set_line(Options& options, const std::string& line, const fs::path& directory) {
  const std::string text = trimmed(without_comment(line));
  if (text.empty()) return {};
  const size_t equals = text.find('=');
  if (equals == text.npos) return Error::of(EINVAL, "'{}' is not NAME = VALUE", text);
  const std::string name = trimmed(text.substr(0, equals));
  std::string value = trimmed(text.substr(equals + 1));
  if (name == "key-file" && !value.empty()) value = directory / value;
  return set_option(options, name, value);
}

Status set_from_file(Options& options, const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return {};
  if (!file) return Error::system("cannot read the options in {}", path);
  const fs::path directory = fs::absolute(path).parent_path();
  unsigned number = 0;
  for (std::string line; std::getline(file, line);) {
    number++;
    Status status = set_line(options, line, directory);
    if (!status.ok()) return std::move(status).error().within(formatted("{}:{}", path, number));
  }
  if (file.bad()) return Error::system("cannot read the options in {}", path);
  return {};
}

// AMDGPU_CRIU_STAGING_KIB is "staging-kib".
Status set_from_environment(Options& options) {
  constexpr std::string_view kVariables = "AMDGPU_CRIU_";
  for (char** variable = environ; *variable; variable++) {
    const std::string_view text = *variable;
    if (!text.starts_with(kVariables)) continue;
    const size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    std::string option = name.substr(kVariables.size());
    for (char& c : option) c = c == '_' ? '-' : static_cast<char>(tolower(c));
    Status status = set_option(options, option, std::string(text.substr(equals + 1)));
    if (!status.ok()) return std::move(status).error().within("environment variable " + name);
  }
  return {};
}

Status set_from_argument(Options& options, std::string_view argument) {
  const size_t equals = argument.find('=');
  const std::string name(argument.substr(0, equals));
  if (equals == argument.npos) return Error::of(EINVAL, "option amdgpu.{} needs a value", name);
  return set_option(options, name, std::string(argument.substr(equals + 1)));
}

// Conditions on several options.
Status check(const Options& options) {
  if (options.staging.total() > gpu::kMaxStaging)
    return Error::of(
        EINVAL,
        "options staging-slots and staging-kib: {} buffers of {} KiB are more than the "
        "{} KiB that a GPU may have",
        options.staging.slots, options.staging.bytes >> 10, gpu::kMaxStaging >> 10);
  const size_t codec = pipeline::codec_bytes(options.compression, options.chunk_bytes);
  if (codec > pipeline::kMaxCodecBytes)
    return Error::of(EINVAL,
                     "options compress and chunk-kib: each thread would take {} MiB to compress "
                     "such chunks, more than {}: reduce the level or the size of chunks",
                     codec >> 20, pipeline::kMaxCodecBytes >> 20);
  return {};
}

}  // namespace

std::vector<Option> all_options() {
  std::vector<Option> result;
  for (const Entry& entry : kOptions)
    if (entry.option.help != kTest) result.push_back(entry.option);
  return result;
}

Result<Options> parse(std::span<const std::string> arguments, const std::string& file,
                      const std::string& restore_file) {
  Options options;
  options.ignore = topology::ignored_by_environment(
      [](const char* name) -> const char* { return getenv(name); });
  TRY(set_from_file(options, file));
  if (!restore_file.empty()) TRY(set_from_file(options, restore_file));
  TRY(set_from_environment(options));
  for (const std::string& argument : arguments)
    if (argument.starts_with(kPrefix))
      TRY(set_from_argument(options, std::string_view(argument).substr(kPrefix.size())));
  TRY(check(options));
  options.staging = options.staging.within(gpu::kMaxStaging);
  if (!options.key_file.empty()) options.key = TRY(Key::read(options.key_file));
  return options;
}

// Other variables than those of options change `ignore`, too.
std::string describe(const Options& options) {
  std::string ignored;
  for (const std::string& property : options.ignore)
    ignored += (ignored.empty() ? "" : ",") + property;
  std::string result;
  for (const Entry& entry : kOptions) {
    const auto given = options.given.find(entry.option.name);
    std::string value = given == options.given.end() ? entry.option.preset : given->second;
    if (entry.set == set_ignore) value = ignored;
    if (entry.option.help == kTest && given == options.given.end()) continue;
    if (!value.empty())
      result += formatted("{}{}={}", result.empty() ? "" : " ", entry.option.name, value);
  }
  return result;
}

}  // namespace amdgpu_criu::options
