// SPDX-License-Identifier: GPL-2.0
#include "options/faults.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace amdgpu_criu::options {
namespace {

TEST(Faults, NothingFailsUnlessRequested) {
  EXPECT_TRUE(Faults().at("ioctl", "RESTORE").ok());
  auto faults = Faults::create("ioctl:0:EIO");
  ASSERT_TRUE(faults.ok());
  for (int i = 0; i < 5; i++) EXPECT_TRUE(faults->at("ioctl", "RESTORE").ok());
}

TEST(Faults, CountsByKindOrByName) {
  auto by_kind = Faults::create("ioctl:2:ENOSPC");
  ASSERT_TRUE(by_kind.ok());
  EXPECT_TRUE(by_kind->at("ioctl", "QUERY").ok());
  EXPECT_TRUE(by_kind->at("hook", "RESTORE_EXT_FILE").ok());
  EXPECT_EQ(by_kind->at("ioctl", "RESTORE").error().code(), ENOSPC);
  EXPECT_TRUE(by_kind->at("ioctl", "RESTORE").ok());
  auto by_name = Faults::create("RESTORE:1:ENODEV");
  ASSERT_TRUE(by_name.ok());
  EXPECT_TRUE(by_name->at("ioctl", "QUERY").ok());
  EXPECT_EQ(by_name->at("ioctl", "RESTORE").error().code(), ENODEV);
}

TEST(Faults, ProcessesCountTogether) {
  auto faults = Faults::create("fill:2:EIO");
  ASSERT_TRUE(faults.ok());
  const pid_t child = fork();
  if (child == 0) _exit(faults->at("fill", "a").ok() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(faults->at("fill", "b").ok());
}

TEST(Faults, KillsTheRequestedProcess) {
  auto faults = Faults::create("hook:1:kill");
  ASSERT_TRUE(faults.ok());
  const pid_t child = fork();
  if (child == 0) {
    (void)faults->at("hook", "INIT");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(Faults, RefusesInvalidText) {
  for (const char* text : {"", "ioctl", "ioctl:1", ":1:EIO", "ioctl:x:EIO", "ioctl:1:EGREAT"})
    EXPECT_FALSE(Faults::create(text).ok()) << text;
}

}  // namespace
}  // namespace amdgpu_criu::options
