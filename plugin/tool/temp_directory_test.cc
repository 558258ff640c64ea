// SPDX-License-Identifier: GPL-2.0
#include "tool/temp_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/temp_dir.h"

namespace amdgpu_criu::tool {
namespace {

using testing::IsEmpty;
using testing_support::TempDir;

// A command that is interrupted while files are in its directory.
[[noreturn]] void be_interrupted(const std::string& parent, int number) {
  const auto directory = *TempDirectory::create(parent + "/new-");
  for (const char* name : {"one", "two"})
    if (!Fd::openat(directory->fd(), name, O_WRONLY | O_CREAT, 0600).ok()) _exit(1);
  raise(number);
  _exit(2);
}

TEST(TempDirectory, IsRemovedByASignalThatEndsTheCommand) {
  const TempDir parent;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    EXPECT_EXIT(be_interrupted(parent.path(), number), testing::KilledBySignal(number), "");
  EXPECT_THAT(parent.names(), IsEmpty());
}

TEST(TempDirectory, IsRemovedAtTheEndUnlessItIsKept) {
  const TempDir parent;
  for (const bool keep : {false, true}) {
    const auto directory = *TempDirectory::create(parent.file("new-"));
    ASSERT_TRUE(Fd::openat(directory->fd(), "file", O_WRONLY | O_CREAT, 0600).ok());
    ASSERT_TRUE(!keep || directory->keep_as(parent.file("kept")).ok());
  }
  EXPECT_THAT(parent.names(), testing::ElementsAre("kept"));
  EXPECT_TRUE(std::filesystem::exists(parent.file("kept/file")));
}

TEST(TempDirectory, IsRemovedIfItCannotBeKept) {
  const TempDir parent;
  parent.write("file", "");
  EXPECT_FALSE((*TempDirectory::create(parent.file("new-")))->keep_as(parent.file("file")).ok());
  EXPECT_THAT(parent.names(), testing::ElementsAre("file"));
}

}  // namespace
}  // namespace amdgpu_criu::tool
