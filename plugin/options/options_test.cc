// SPDX-License-Identifier: GPL-2.0
#include "options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/temp_dir.h"

namespace amdgpu_criu::options {
namespace {

using testing::HasSubstr;

Result<Options> parse_list(std::vector<std::string> arguments) { return parse(arguments); }

TEST(Options, DefaultsAreFourSlotsOfEightMebibytesThatMayBecomeEight) {
  auto options = parse({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->staging.slots, 4u);
  EXPECT_EQ(options->staging.bytes, 8u << 20);
  EXPECT_EQ(options->staging.most_slots, 8u);
  EXPECT_EQ(options->test_restore_delay, 0u);
  EXPECT_EQ(parse_list({"--amdgpu.test-restore-delay=7"})->test_restore_delay, 7u);
}

TEST(Options, CriusOptionsOverrideTheEnvironment) {
  setenv("AMDGPU_CRIU_STAGING_SLOTS", "2", 1);
  setenv("AMDGPU_CRIU_CUT_SHARING", "1", 1);
  auto options = parse_list({"--amdgpu.staging-slots=3", "--cuda.backend=x"});
  unsetenv("AMDGPU_CRIU_STAGING_SLOTS");
  unsetenv("AMDGPU_CRIU_CUT_SHARING");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->staging.slots, 3u);
  EXPECT_EQ(options->staging.most_slots, 3u);
  EXPECT_TRUE(options->cut_sharing);
}

TEST(Options, TheEnvironmentOverridesTheFile) {
  testing_support::TempDir dir;
  dir.write("conf", "# for podman\n\n chunk-kib = 64 # small\ncompress=lz4\n");
  setenv("AMDGPU_CRIU_COMPRESS", "zstd", 1);
  const auto options = parse({}, dir.file("conf"));
  unsetenv("AMDGPU_CRIU_COMPRESS");
  ASSERT_TRUE(options.ok()) << options.error().message();
  EXPECT_EQ(options->chunk_bytes, 64u << 10);
  EXPECT_EQ(options->compression.encoding, pipeline::Encoding::kZstd);
  EXPECT_THAT(describe(*options), HasSubstr(" chunk-kib=64 compress=zstd "));
  EXPECT_EQ(describe(*parse({}, dir.file("no-such-file"))), describe(*parse({})));
}

TEST(Options, AFileThatCannotBeReadIsAnError) {
  testing_support::TempDir dir;
  EXPECT_THAT(parse({}, dir.path()).error().message(),
              AllOf(HasSubstr("cannot read the options in " + dir.path()), HasSubstr("directory")));
  std::filesystem::create_symlink(dir.file("conf"), dir.file("conf"));
  EXPECT_EQ(parse({}, dir.file("conf")).error().code(), ELOOP);
}

TEST(Options, AMistakeInTheFileIsNamedByItsLine) {
  testing_support::TempDir dir;
  dir.write("conf", "timeout = 5\nparalel = off\n");
  EXPECT_EQ(parse({}, dir.file("conf")).error().message(),
            dir.file("conf") + ":2: unknown option amdgpu.paralel");
  dir.write("conf", "timeout\n");
  EXPECT_THAT(parse({}, dir.file("conf")).error().message(),
              HasSubstr(":1: 'timeout' is not NAME"));
}

// The value of the option in a file that has this line alone.
std::string value_in_file(const std::string& option, const std::string& line) {
  testing_support::TempDir dir;
  dir.write("conf", line + "\n");
  const auto options = parse({}, dir.file("conf"));
  if (!options.ok()) return options.error().message();
  const auto given = options->given.find(option);
  return given == options->given.end() ? "not given" : given->second;
}

TEST(Options, AValueInTheFileMayHaveANumberSign) {
  for (const char* map : {"#0=#1", "renderD128=renderD129,#1=#0"})
    for (const char* form : {"map = {}", "map={}", " map =\t{} # comment", "map = {}\r"})
      EXPECT_EQ(value_in_file("map", formatted_from(form, std::make_format_args(map))), map)
          << form;
  testing_support::TempDir dir;
  const std::string key = testing_support::write_key(dir, "key#1", 7);
  EXPECT_EQ(value_in_file("key-file", "key-file = " + key), key);
}

// CRIU's directory, which it changes, is another one.
TEST(Options, ARelativeKeyFileIsInTheDirectoryOfItsFile) {
  testing_support::TempDir dir;
  const std::string key = testing_support::write_key(dir, "key", 7);
  const std::string name = std::filesystem::path(dir.path()).filename();
  for (const std::string& value : {std::string("key"), "../" + name + "/key"}) {
    dir.write("conf", formatted("key-file = {}\n", value));
    for (const bool of_restore : {false, true}) {
      const auto options =
          of_restore ? parse({}, dir.file("none"), dir.file("conf")) : parse({}, dir.file("conf"));
      ASSERT_TRUE(options.ok()) << options.error().message();
      EXPECT_TRUE(options->key);
      EXPECT_EQ(options->key_file, dir.file(value));
    }
  }
  dir.write("conf", "key-file = " + key + "\n");
  EXPECT_EQ(parse({}, dir.file("conf"))->key_file, key);
  EXPECT_EQ(value_in_file("key-file", "key-file ="), "");
}

TEST(Options, ACommentInTheFileFollowsABlankOrNothing) {
  for (const char* line : {"#map = #0=#1", " # map = #0=#1", "\t#", "# a # b = #c"})
    EXPECT_EQ(value_in_file("map", line), "not given") << line;
  EXPECT_EQ(value_in_file("timeout", "timeout = 5 # = #7"), "5");
  EXPECT_EQ(value_in_file("timeout", "timeout = 5\t#7"), "5");
  EXPECT_THAT(value_in_file("timeout", "timeout = 5#7"), HasSubstr("'5#7' is not a number"));
  EXPECT_THAT(value_in_file("timeout", "timeout # = 5"),
              HasSubstr("'timeout' is not NAME = VALUE"));
}

// It undoes what an earlier source has set.
TEST(Options, AnEmptyMapInTheFileIsNoMap) {
  EXPECT_EQ(value_in_file("map", "map ="), "");
  EXPECT_EQ(value_in_file("map", "map = "), "");
  EXPECT_THAT(value_in_file("map", "map = 1=2, #1=#0"), HasSubstr("'' is not SOURCE=TARGET"));
}

// All fields that can be set, as text.
std::string fields_of(const Options& it) {
  return formatted("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", it.map.size(), it.ignore.size(),
                   it.staging.slots, it.staging.most_slots, it.staging.bytes, it.chunk_bytes,
                   static_cast<int>(it.compression.encoding), it.compression.level, it.incremental,
                   static_cast<int>(it.io), it.direct, it.cut_sharing, it.parallel, it.replicas,
                   it.timeout);
}

TEST(Options, TheTableHasTheDefaults) {
  const std::string defaults = fields_of(*parse({}));
  EXPECT_EQ(all_options().size(), 16u);
  for (const Option& option : all_options()) {
    EXPECT_STRNE(option.help, "");
    if (!*option.preset) continue;
    const auto set = parse_list({formatted("--amdgpu.{}={}", option.name, option.preset)});
    ASSERT_TRUE(set.ok()) << set.error().message();
    EXPECT_EQ(fields_of(*set), defaults) << option.name;
  }
}

TEST(Options, TheManualHasThemAll) {
  std::ifstream file(MANUAL);
  const std::string manual{std::istreambuf_iterator<char>(file), {}};
  for (const Option& option : all_options()) {
    std::string name;
    for (const char c : std::string(option.name)) name += c == '-' ? "\\-" : std::string(1, c);
    EXPECT_THAT(manual, HasSubstr("amdgpu." + name + "=")) << option.name;
  }
}

TEST(Options, AnUnknownVariableIsAnError) {
  setenv("AMDGPU_CRIU_PARALEL", "off", 1);
  const auto options = parse({});
  unsetenv("AMDGPU_CRIU_PARALEL");
  EXPECT_EQ(options.error().message(),
            "environment variable AMDGPU_CRIU_PARALEL: unknown option amdgpu.paralel");
}

// Switches for tests make an operation fail, or delay it.
TEST(Options, NoSwitchRestoresWrongMemory) {
  EXPECT_FALSE(parse_list({"--amdgpu.test-skip-contents=1"}).ok());
}

TEST(Options, AllSwitchesAcceptTheSameWords) {
  for (const char* name :
       {"incremental", "gpu-hashes", "direct-io", "cut-sharing", "parallel", "replicas"}) {
    for (const char* word : {"on", "yes", "1", "true", "off", "no", "0", "false"})
      EXPECT_TRUE(parse_list({formatted("--amdgpu.{}={}", name, word)}).ok()) << name << word;
    EXPECT_FALSE(parse_list({formatted("--amdgpu.{}=2", name)}).ok()) << name;
  }
  EXPECT_TRUE(parse_list({"--amdgpu.cut-sharing=yes"})->cut_sharing);
  EXPECT_FALSE(parse_list({"--amdgpu.direct-io=no"})->direct);
}

TEST(Options, ParallelIsOnUnlessItIsTurnedOff) {
  EXPECT_TRUE(parse({})->parallel);
  EXPECT_FALSE(parse_list({"--amdgpu.parallel=off"})->parallel);
  EXPECT_TRUE(parse_list({"--amdgpu.parallel=on"})->parallel);
  EXPECT_THAT(parse_list({"--amdgpu.parallel=maybe"}).error().message(),
              HasSubstr("neither on nor off"));
}

TEST(Options, RefusesAnInvalidFault) {
  EXPECT_EQ(parse_list({"--amdgpu.test-fail=RESTORE:2:EIO"})->test_fail, "RESTORE:2:EIO");
  EXPECT_THAT(parse_list({"--amdgpu.test-fail=RESTORE"}).error().message(),
              HasSubstr("is not EVENT:NUMBER:ACTION"));
}

TEST(Options, ReadsTheGpuMap) {
  auto options = parse_list({"--amdgpu.map=1=2,3=4"});
  ASSERT_TRUE(options.ok());
  ASSERT_EQ(options->map.size(), 2u);
  EXPECT_EQ(options->map[1].target, "4");
}

TEST(Options, ReadsWhatToIgnoreFromOursAndFromCriusSwitches) {
  auto options = parse_list({"--amdgpu.ignore=vram_size,links"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->ignore, (topology::Ignored{"links", "vram_size"}));
  setenv("KFD_NUMA_CHECK", "0", 1);
  setenv("KFD_FW_VER_CHECK", "1", 1);
  options = parse_list({});
  unsetenv("KFD_NUMA_CHECK");
  unsetenv("KFD_FW_VER_CHECK");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->ignore, topology::Ignored{"numa_node"});
  EXPECT_THAT(describe(*options), HasSubstr("ignore=numa_node "));
  EXPECT_THAT(parse_list({"--amdgpu.ignore=simd_count"}).error().message(),
              HasSubstr("'simd_count' is not a property that can be ignored; those are:"));
}

TEST(Options, ParsesHowContentsAreStored) {
  auto options = parse({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->chunk_bytes, 256u << 10);
  EXPECT_EQ(options->compression.encoding, pipeline::Encoding::kPlain);
  EXPECT_FALSE(options->incremental);
  EXPECT_EQ(options->io, pipeline::IoKind::kUring);
  EXPECT_TRUE(options->direct);
  options = parse_list({"--amdgpu.chunk-kib=64", "--amdgpu.compress=zstd:7", "--amdgpu.io=threads",
                        "--amdgpu.incremental=on", "--amdgpu.direct-io=off"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->chunk_bytes, 64u << 10);
  EXPECT_EQ(options->compression.encoding, pipeline::Encoding::kZstd);
  EXPECT_EQ(options->compression.level, 7);
  EXPECT_TRUE(options->incremental);
  EXPECT_EQ(options->io, pipeline::IoKind::kThreads);
  EXPECT_FALSE(options->direct);
  EXPECT_EQ(parse_list({"--amdgpu.compress=lz4"})->compression.encoding, pipeline::Encoding::kLz4);
}

TEST(Options, RefusesCompressionThatTakesMuchMemory) {
  EXPECT_TRUE(parse_list({"--amdgpu.compress=zstd:19"}).ok());
  EXPECT_TRUE(parse_list({"--amdgpu.compress=zstd:3", "--amdgpu.chunk-kib=65536"}).ok());
  EXPECT_THAT(
      parse_list({"--amdgpu.compress=zstd:19", "--amdgpu.chunk-kib=65536"}).error().message(),
      HasSubstr("reduce the level"));
}

TEST(Options, RefusesMoreStagingMemoryThanAGpuMayHave) {
  EXPECT_TRUE(parse_list({"--amdgpu.staging-slots=8"}).ok());
  EXPECT_THAT(parse_list({"--amdgpu.staging-slots=9"}).error().message(),
              HasSubstr("more than the 65536 KiB"));
}

TEST(Options, RefusesInvalidValues) {
  EXPECT_THAT(parse_list({"--amdgpu.compress=gzip"}).error().message(), HasSubstr("'gzip'"));
  EXPECT_FALSE(parse_list({"--amdgpu.compress=lz4:3"}).ok());
  EXPECT_FALSE(parse_list({"--amdgpu.compress=zstd:20"}).ok());
  EXPECT_FALSE(parse_list({"--amdgpu.chunk-kib=6"}).ok());
  EXPECT_FALSE(parse_list({"--amdgpu.incremental=maybe"}).ok());
  EXPECT_FALSE(parse_list({"--amdgpu.io=aio"}).ok());
  EXPECT_THAT(parse_list({"--amdgpu.mpa=1=2"}).error().message(), HasSubstr("amdgpu.mpa"));
  EXPECT_THAT(parse_list({"--amdgpu.map"}).error().message(), HasSubstr("needs a value"));
  EXPECT_FALSE(parse_list({"--amdgpu.staging-slots=0"}).ok());
  EXPECT_FALSE(parse_list({"--amdgpu.staging-slots=4x"}).ok());
}

}  // namespace
}  // namespace amdgpu_criu::options
