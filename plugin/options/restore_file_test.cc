// SPDX-License-Identifier: GPL-2.0
#include "options/restore_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/options.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::options {
namespace {

using std::filesystem::perms;
using testing::HasSubstr;

class RestoreFile : public testing::Test {
 protected:
  // The file for images in /srv/job-7/images, restored by an engine as container "web".
  Result<std::string> find() const {
    return find_restore_file(dir_.path(), "/srv/job-7/images", "web");
  }
  void allow(const std::string& path, perms what) {
    std::filesystem::permissions(path, what, std::filesystem::perm_options::add);
  }
  testing_support::TempDir dir_;
};

TEST_F(RestoreFile, NothingIsFoundByOtherNames) {
  for (const char* name : {"other.conf", "web", "images.conf", "job-7.conf",
                           "srv-job-7-images.conf", "-srv-job-7-images.conf", ".conf", "runc.conf"})
    dir_.write(name, "timeout = 5");
  EXPECT_EQ(*find(), "");
  EXPECT_EQ(*find_restore_file(dir_.file("no-such-directory"), "/srv", "web"), "");
  EXPECT_EQ(*find_restore_file(dir_.path(), "", ""), "");
  EXPECT_EQ(*find_restore_file(dir_.path(), "/" + std::string(300, 'x'), ""), "");
}

TEST_F(RestoreFile, TheImageDirectoryComesBeforeTheContainer) {
  for (const char* name : {"web.conf", "-srv-job\\x2d7-images.conf"}) {
    dir_.write(name, "");
    EXPECT_EQ(*find(), dir_.file(name));
  }
  EXPECT_EQ(*find_restore_file(dir_.path(), "/srv/job/7/images", ""), "");
}

TEST_F(RestoreFile, ItsOptionsAreBetweenFileAndEnvironment) {
  dir_.write("conf", "chunk-kib = 64\ntimeout = 5\ncompress = lz4\n");
  dir_.write("web.conf", "chunk-kib = 128\ntimeout = 6\n");
  setenv("AMDGPU_CRIU_TIMEOUT", "7", 1);
  const auto options = parse({}, dir_.file("conf"), *find());
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  ASSERT_TRUE(options.ok()) << options.error().message();
  EXPECT_THAT(describe(*options), HasSubstr("chunk-kib=128 compress=lz4 "));
  EXPECT_EQ(options->timeout, 7u);
}

TEST_F(RestoreFile, WhatOthersCanWriteIsRefused) {
  dir_.write("web.conf", "timeout = 5");
  allow(dir_.file("web.conf"), perms::group_write);
  EXPECT_THAT(find().error().message(), HasSubstr("may write " + dir_.file("web.conf")));
  std::filesystem::remove(dir_.file("web.conf"));
  std::filesystem::create_symlink("/etc/passwd", dir_.file("web.conf"));
  EXPECT_EQ(find().error().message(), dir_.file("web.conf") + " is of another type");
  allow(dir_.path(), perms::others_write);
  EXPECT_THAT(find().error().message(), HasSubstr("may write " + dir_.path()));
}

}  // namespace
}  // namespace amdgpu_criu::options
