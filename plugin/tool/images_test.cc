// SPDX-License-Identifier: GPL-2.0
// The commands that read images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "image/set.h"
#include "tests/refused_call.h"
#include "tests/tool_program.h"

namespace amdgpu_criu::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_support::TempDir;

TEST_F(Tool, ShowsProcessesGpusAndBos) {
  const Outcome outcome = run("show " + dir_.path());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("pid 41 (a \"job\")"));
  EXPECT_THAT(outcome.output, HasSubstr("0000:03:00.0"));
  EXPECT_THAT(outcome.output, HasSubstr("object 7: VRAM, 4096 bytes at 0xabc000"));
}

TEST_F(Tool, ShowsJson) {
  const Outcome outcome = run("show --json " + dir_.path());
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("\"comm\": \"a \\\"job\\\"\""));
  EXPECT_THAT(outcome.output, HasSubstr("\"flags\": [\n"));
}

// The name of a process may have any bytes.
TEST_F(Tool, ShowsJsonThatIsUtf8WhateverTheNames) {
  image::Process process = std::move(*image::Set::load(dir_.fd())).processes().at(0);
  process.comm = "caf\xe9\n";
  ASSERT_TRUE(image::write_metadata_file(dir_.fd(), image::process_file_name(0),
                                         image::Kind::kProcess, image::encode(process))
                  .ok());
  const auto json = nlohmann::json::parse(run("show --json " + dir_.path()).output);
  EXPECT_EQ(json.at("processes").at(0).at("comm"), "caf\ufffd\n");
}

TEST_F(Tool, ShowsNoControlCharactersOfNames) {
  image::Process process = std::move(*image::Set::load(dir_.fd())).processes().at(0);
  process.comm = "\x1b[2Jx\x7f\xc2\x9b\xc3\xa9";
  ASSERT_TRUE(image::write_metadata_file(dir_.fd(), image::process_file_name(0),
                                         image::Kind::kProcess, image::encode(process))
                  .ok());
  EXPECT_THAT(run("show " + dir_.path()).output, HasSubstr("(?[2Jx??\xc3\xa9)"));
}

TEST_F(Tool, VerifiesCompleteImages) {
  const Outcome outcome = run("verify " + dir_.path());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("2 files, 4096 bytes of contents: every checksum is right"));
}

TEST_F(Tool, VerifyNamesTheBufferThatIsDamaged) {
  std::string bytes = dir_.read(contents_);
  bytes[image::kDataStart + 100] ^= 1;
  dir_.write(contents_, bytes);
  const Outcome outcome = run("verify " + dir_.path());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr(contents_));
  EXPECT_THAT(outcome.output, HasSubstr("the BO at 0xabc000 of pid 41"));
  EXPECT_EQ(run("verify --json " + dir_.path()).status, 1);
}

TEST_F(Tool, VerifyNamesEveryDamagedFile) {
  for (const std::string& name : dir_.names()) dir_.write(name, dir_.read(name).substr(1));
  const Outcome outcome = run("verify " + dir_.path());
  EXPECT_EQ(outcome.status, 1);
  for (const std::string& name : dir_.names()) EXPECT_THAT(outcome.output, HasSubstr(name));
}

// Images are opened so that a pipe does not block. The command has the filter of the thread.
TEST_F(Tool, ImagesThatCannotBeReadAreNotCalledDamaged) {
  for (const uint32_t error : {EACCES, EIO, ENOENT})
    ASSERT_TRUE(testing_support::without({SYS_openat, O_NONBLOCK, error}, [&] {
      const Outcome verified = run("verify " + dir_.path());
      EXPECT_EQ(verified.status, 2) << verified.output;
      for (const std::string& name : dir_.names())
        EXPECT_THAT(verified.output, HasSubstr("could not be examined: cannot open image " + name +
                                               ": " + strerror(static_cast<int>(error))));
      EXPECT_EQ(run("show " + dir_.path()).status, 2);
    }));
}

TEST_F(Tool, VerifyListsUnreadAndDamagedImagesSeparately) {
  dir_.write(contents_, dir_.read(contents_).substr(1));
  const std::string process = image::process_file_name(0);
  std::filesystem::remove(dir_.file(process));
  ASSERT_EQ(symlink("/no/such/file", dir_.file(process).c_str()), 0);
  const Outcome outcome = run("verify --json " + dir_.path() + " 2>/dev/null )", "( ");
  EXPECT_EQ(outcome.status, 1);
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_FALSE(json.at("ok"));
  EXPECT_EQ(json.at("findings").at(0).at("file"), contents_);
  EXPECT_EQ(json.at("unread").at(0).at("file"), process);
}

TEST_F(Tool, AnImageThatIsMissingInTheSetIsDamage) {
  std::filesystem::remove(dir_.file(contents_));
  for (const char* command : {"verify ", "show "}) {
    const Outcome outcome = run(command + dir_.path());
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.output, HasSubstr(contents_ + " is missing"));
  }
}

// A second dump, all of whose memory is in the first one.
class IncrementalTool : public Tool {
 protected:
  void SetUp() override {
    Tool::SetUp();
    next_.write(image::process_file_name(0), dir_.read(image::process_file_name(0)));
    next_.write("pstree.img", "CRIU's");
    ASSERT_EQ(symlink(dir_.path().c_str(), next_.file("parent").c_str()), 0);
    const auto file = std::move(image::load_contents(dir_.fd())->at(0));
    image::Contents contents = file.contents;
    contents.sources = {{1, contents_, file.metadata_sum}};
    contents.objects[0].chunks[0].source = 1;
    auto writer = std::move(*image::ContentsWriter::create(next_.fd(), contents_));
    ASSERT_TRUE(writer.finish(image::encode(contents)).ok());
  }
  Outcome flatten() { return run("flatten " + next_.path() + " " + flat_); }

  TempDir next_, place_;
  const std::string flat_ = place_.file("flat");
};

TEST_F(IncrementalTool, IsFlattenedIntoADirectoryThatIsWhole) {
  const Outcome outcome = flatten();
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("1 contents files written to " + flat_ + ", with 4096 bytes"));
  std::filesystem::remove(dir_.file(contents_));
  EXPECT_EQ(run("verify " + next_.path()).status, 2);
  const Outcome verified = run("verify " + flat_);
  EXPECT_EQ(verified.status, 0) << verified.output;
  EXPECT_TRUE(std::filesystem::exists(flat_ + "/pstree.img"));
  EXPECT_EQ(std::filesystem::hard_link_count(flat_ + "/pstree.img"), 1);
  EXPECT_EQ(std::filesystem::hard_link_count(flat_ + "/" + image::process_file_name(0)), 2);
  EXPECT_FALSE(std::filesystem::exists(flat_ + "/parent"));
}

TEST_F(IncrementalTool, KeepsTheLinkThatCriuNeeds) {
  dir_.write("pagemap-41.img", "CRIU's");
  const Outcome outcome = flatten();
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("may still need its parent directory"));
  EXPECT_EQ(std::filesystem::canonical(flat_ + "/parent"), std::filesystem::canonical(dir_.path()));
}

// A limit kills it when it writes CRIU's image.
TEST_F(IncrementalTool, HasNoDirectoryIfFlattenWasKilled) {
  next_.write("pages-1.img", std::string(1 << 20, 'x'));
  const Outcome outcome =
      run("flatten " + next_.path() + " " + flat_ + "; exit $? )", "( ulimit -c 0; ulimit -f 64; ");
  EXPECT_EQ(outcome.status, 128 + SIGXFSZ) << outcome.output;
  EXPECT_FALSE(std::filesystem::exists(flat_));
}

TEST_F(IncrementalTool, IsFlattenedIntoADirectoryWithASlash) {
  EXPECT_EQ(run("flatten " + next_.path() + " " + flat_ + "//").status, 0);
  EXPECT_EQ(run("verify " + flat_).status, 0);
  EXPECT_THAT(place_.names(), testing::ElementsAre("flat"));
}

TEST_F(IncrementalTool, IsNotFlattenedIfItIsDamagedOrInTheWay) {
  std::string bytes = dir_.read(contents_);
  bytes[image::kDataStart + 100] ^= 1;
  dir_.write(contents_, bytes);
  const Outcome damaged = flatten();
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.output, HasSubstr("parent/" + contents_));
  EXPECT_FALSE(std::filesystem::exists(flat_));
  EXPECT_EQ(run("flatten " + next_.path() + " " + place_.path()).status, 2);
  EXPECT_EQ(run("flatten " + place_.path() + " " + flat_).status, 2);
  const Outcome nothing = run("flatten " + place_.path() + " " + next_.path());
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.output, HasSubstr("no GPU images in " + place_.path()));
}

TEST_F(Tool, RequirementsNameGpusRecordsAndFilesWithDigests) {
  const auto json = nlohmann::json::parse(run("requirements --json " + dir_.path()).output);
  EXPECT_EQ(json.at("image_format"), 3);
  EXPECT_EQ(json.at("kernel_interface"), "amdgpu-criu");
  ASSERT_EQ(json.at("gpus").size(), 1u);
  EXPECT_EQ(json.at("gpus").at(0).at("pci_address"), "0000:03:00.0");
  EXPECT_EQ(json.at("gpus").at(0).at("contents_bytes"), 4096);
  std::vector<std::string> names;
  for (const auto& file : json.at("files")) {
    names.push_back(file.at("name"));
    const std::string bytes = dir_.read(names.back());
    EXPECT_EQ(file.at("size"), bytes.size());
    EXPECT_EQ(file.at("digest"),
              image::text_of(image::strong_hash(std::as_bytes(std::span(bytes)))));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(dir_.names()));
  EXPECT_THAT(run("requirements " + dir_.path()).output, HasSubstr("a GPU like GPU 0x22"));
}

TEST_F(Tool, AGpuThatNoProcessUsesIsNotRequired) {
  image::Process process = std::move(*image::Set::load(dir_.fd())).processes().at(0);
  image::Device device{0x12, 0x33, false, {}};
  device.gpu.gpu_id = 0x33;
  device.gpu.pci_address = "0000:04:00.0";
  process.devices.push_back(device);
  ASSERT_TRUE(image::write_metadata_file(dir_.fd(), image::process_file_name(0),
                                         image::Kind::kProcess, image::encode(process))
                  .ok());
  const auto json = nlohmann::json::parse(run("requirements --json " + dir_.path()).output);
  EXPECT_EQ(json.at("gpus").at(0).at("used"), true);
  EXPECT_EQ(json.at("gpus").at(1).at("used"), false);
  EXPECT_THAT(run("requirements " + dir_.path()).output,
              AllOf(HasSubstr("a GPU like GPU 0x22"), Not(HasSubstr("a GPU like GPU 0x33")),
                    HasSubstr("not needed, as no process uses it: GPU 0x33")));
  EXPECT_THAT(run("show " + dir_.path()).output, HasSubstr("as 0x12, no process uses it"));
  const auto shown = nlohmann::json::parse(run("show --json " + dir_.path()).output);
  EXPECT_EQ(shown.at("processes").at(0).at("gpus").at(0).at("used"), true);
  EXPECT_EQ(shown.at("processes").at(0).at("gpus").at(1).at("used"), false);
}

TEST_F(Tool, RequirementsOfAnIncrementalDumpNameFilesOfTheEarlierOne) {
  TempDir next;
  ASSERT_EQ(symlink(dir_.path().c_str(), next.file("parent").c_str()), 0);
  const auto earlier = std::move(*image::load_contents(dir_.fd()));
  image::Contents contents = earlier.at(0).contents;
  contents.sources = {{1, contents_, earlier.at(0).metadata_sum}};
  contents.objects.at(0).chunks.at(0).source = 1;
  auto writer = std::move(*image::ContentsWriter::create(next.fd(), contents_));
  ASSERT_TRUE(writer.finish(image::encode(contents)).ok());
  next.write("amdgpu-process-0.img", dir_.read("amdgpu-process-0.img"));
  const auto json = nlohmann::json::parse(run("requirements --json " + next.path()).output);
  ASSERT_EQ(json.at("files").size(), 3u);
  EXPECT_EQ(json.at("files").at(2).at("name"), "parent/" + contents_);
  std::filesystem::remove(dir_.file(contents_));
  EXPECT_EQ(run("requirements " + next.path()).status, 2);
}

}  // namespace
}  // namespace amdgpu_criu::tool
