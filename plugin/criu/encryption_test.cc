// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU does, with encrypted images.
#include <gmock/gmock.h>

#include "image/set.h"
#include "tests/criu_program.h"

namespace amdgpu_criu::criu {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::TempDir;

constexpr uint64_t kEncryptedBytes = 0x20000;

class Encryption : public testing_support::HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    use_only_a_render_node(kEncryptedBytes);
    state_.renders[0].blob = "the kernel's state";
    use_key("key", 'k');
  }
  void TearDown() override {
    unsetenv("AMDGPU_CRIU_KEY_FILE");
    HooksTest::TearDown();
  }
  void use_key(const std::string& name, char byte) {
    setenv("AMDGPU_CRIU_KEY_FILE", testing_support::write_key(keys_, name, byte).c_str(), 1);
  }
  void dump() {
    ASSERT_EQ(start(kStageDump), 0) << log();
    ASSERT_EQ(pause(getpid()), 0) << log();
    ASSERT_EQ(dump_file(state_.renders[0].file, 1), 0) << log();
    end(kStageDump, 0);
  }
  int restore() {
    clear_objects(state_);
    const int result = start(kStageRestore);
    if (result != 0) return result;
    const Fd file(restore_file(1));
    const int resumed = file.valid() ? resume(getpid()) : -EIO;
    end(kStageRestore, resumed);
    return resumed;
  }

  TempDir keys_;
};

TEST_F(Encryption, AllImagesAreEncryptedAndRestored) {
  const std::string bytes = contents_of(state_, state_.renders[0].bos[0].object_id);
  const uint64_t id = state_.renders[0].bos[0].object_id;
  dump();
  const auto names = image::list_files(images_.fd());
  ASSERT_EQ(names->size(), 3u);
  for (const std::string& name : *names) {
    const std::string image = images_.read(name);
    EXPECT_THAT(image, Not(HasSubstr(state_.renders[0].blob))) << name;
    EXPECT_THAT(image, Not(HasSubstr(bytes.substr(1000, 32)))) << name;
    EXPECT_THAT(image, Not(HasSubstr("gfx_target_version"))) << name;
  }
  EXPECT_EQ(restore(), 0) << log();
  EXPECT_EQ(contents_of(state_, id), bytes);
}

TEST_F(Encryption, NothingIsRestoredWithoutTheKey) {
  dump();
  unsetenv("AMDGPU_CRIU_KEY_FILE");
  EXPECT_EQ(restore(), -ENOKEY);
  EXPECT_THAT(log(), HasSubstr("is encrypted: name the key by option key-file"));
  use_key("other", 'o');
  EXPECT_EQ(restore(), -EKEYREJECTED);
  EXPECT_TRUE(state_.restored.empty());
}

TEST_F(Encryption, PlainImagesAreRefusedIfThereIsAKey) {
  unsetenv("AMDGPU_CRIU_KEY_FILE");
  dump();
  use_key("key", 'k');
  EXPECT_EQ(restore(), -EKEYREJECTED);
  EXPECT_TRUE(state_.restored.empty());
}

TEST_F(Encryption, AKeyThatOthersCanReadFailsTheDumpBeforeAnythingIsPaused) {
  std::filesystem::permissions(keys_.file("key"), std::filesystem::perms(0644));
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_EQ(pause(getpid()), -EACCES);
  EXPECT_THAT(log(), HasSubstr("can be read by others"));
  EXPECT_FALSE(state_.anything_paused());
  end(kStageDump, -1);
}

// The images would ask for the key that the options name already.
TEST_F(Encryption, AKeyThatOthersCanReadIsTheErrorOfTheRestore) {
  dump();
  std::filesystem::permissions(keys_.file("key"), std::filesystem::perms(0644));
  EXPECT_EQ(restore(), -EACCES);
  EXPECT_THAT(log().substr(log().rfind("Error")), HasSubstr("can be read by others"));
}

}  // namespace
}  // namespace amdgpu_criu::criu
