// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU does, and reads the statistics that it writes.
#include "base/statistics.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include "image/set.h"
#include "tests/kfd_program.h"

namespace amdgpu_criu::criu {
namespace {

using testing::Contains;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_support::kKfdId;
using testing_support::kRenderId;
using testing_support::program;

class Statistics : public testing_support::KfdHooksTest {
 protected:
  // A failed restore writes none.
  void restore() {
    clear_objects(state_);
    ASSERT_EQ(start(kStageRestore), 0) << log();
    const Fd render(restore_file(kRenderId)), kfd(restore_file(kKfdId));
    ASSERT_TRUE(render.valid() && kfd.valid()) << log();
    EXPECT_THAT(images_.read(kRestoreStatistics), IsEmpty());
    EXPECT_EQ(resume(getpid()), 0) << log();
    end(kStageRestore, 0);
    state_.restored.clear();
  }
};

TEST_F(Statistics, AreWrittenAfterADumpThatSucceeds) {
  state_.failures["CHECKPOINT"] = EIO;
  EXPECT_EQ(dump(), -EIO);
  EXPECT_THAT(images_.names(), IsEmpty());
  state_.failures.clear();
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_THAT(images_.read(kDumpStatistics),
              ContainsRegex("^\\{\"version\": 1, \"paused_us\": [1-9][0-9]*, \"processes\": 1, "
                            "\"render_files\": 0, \"bytes\": 122880, "));
}

// In a task, and in the background.
TEST_F(Statistics, AreWrittenAfterARestoreThatSucceeds) {
  ASSERT_EQ(dump(), 0) << log();
  for (const bool in_background : {false, true}) {
    if (in_background) testing_support::make_fd_store_known();
    restore();
    EXPECT_THAT(images_.read(kRestoreStatistics),
                ContainsRegex("^\\{\"version\": 1, \"restore_us\": [1-9][0-9]*, \"waited_us\": "
                              "[0-9]+, \"processes\": 1, \"render_files\": 0, \"bytes\": 122880, "
                              "\"zero_bytes\": 0, \"submissions\": [1-9][0-9]*\\}\n$"));
    remove_statistics(kRestoreStatistics);
  }
}

TEST_F(Statistics, OfAnEarlierRestoreAreRemoved) {
  ASSERT_EQ(dump(), 0) << log();
  restore();
  EXPECT_THAT(images_.names(), Contains(kRestoreStatistics));
  images_.write(image::process_file_name(0), "damaged");
  EXPECT_NE(start(kStageRestore), 0);
  end(kStageRestore, -1);
  EXPECT_THAT(images_.names(), Not(Contains(kRestoreStatistics)));
}

TEST_F(Statistics, AreLeftByARestoreWithoutGpuState) {
  images_.write(kRestoreStatistics, "of another one");
  program.in_inventory = false;
  ASSERT_EQ(start(kStageRestore), 0) << log();
  end(kStageRestore, 0);
  EXPECT_EQ(images_.read(kRestoreStatistics), "of another one");
}

// Others restore the same images, or may not write there.
TEST_F(Statistics, AreInTheWorkingDirectory) {
  const testing_support::TempDir working;
  std::filesystem::current_path(working.path());
  ASSERT_EQ(dump(), 0) << log();
  restore();
  EXPECT_THAT(working.names(), testing::UnorderedElementsAre(kDumpStatistics, kRestoreStatistics));
  EXPECT_THAT(images_.read(kDumpStatistics), IsEmpty());
}

// A user who owns the working directory chooses no file that root writes.
TEST_F(Statistics, DoNotFollowLinks) {
  const testing_support::TempDir working;
  const std::string target = working.file("target");
  working.write("target", "of root");
  std::filesystem::current_path(working.path());
  std::filesystem::create_symlink(target, kDumpStatistics);
  ASSERT_EQ(dump(), 0) << log();
  std::filesystem::create_symlink(target, kRestoreStatistics);
  restore();
  EXPECT_EQ(working.read("target"), "of root");
  EXPECT_THAT(working.read(kDumpStatistics), HasSubstr("processes"));
  EXPECT_THAT(working.read(kRestoreStatistics), HasSubstr("processes"));
}

TEST_F(Statistics, ThatCannotBeWrittenFailNoDump) {
  std::filesystem::create_directory(images_.file(kDumpStatistics));
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_THAT(log(), HasSubstr("cannot write amdgpu-stats-dump.json: File exists"));
}

// A disk takes the first bytes and is full then.
TEST_F(Statistics, AreNotLeftIncomplete) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit unlimited;
  getrlimit(RLIMIT_FSIZE, &unlimited);
  const rlimit tight{500, unlimited.rlim_max};  // the log is a file, too
  setrlimit(RLIMIT_FSIZE, &tight);
  write_statistics(kDumpStatistics, {{std::string(1000, 'x').c_str(), 1}});
  setrlimit(RLIMIT_FSIZE, &unlimited);
  EXPECT_THAT(images_.names(), IsEmpty());
  EXPECT_THAT(log(), HasSubstr("cannot write amdgpu-stats-dump.json: File too large"));
}

}  // namespace
}  // namespace amdgpu_criu::criu
