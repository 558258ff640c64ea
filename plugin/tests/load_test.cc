// SPDX-License-Identifier: GPL-2.0
// Loads the plugin as CRIU does and checks its descriptor. Built twice: with and without the
// function by which the plugin recognizes CRIU 4.3.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <string>
#include <vector>

#include "criu/abi.h"

#ifdef PRETEND_43
extern "C" int criu_plugin_get_options(int* argc, char*** argv) {
  static char name[] = "criu-plugin";
  static char* options[] = {name, nullptr};
  *argc = 1;
  *argv = options;
  return 0;
}
#endif

namespace amdgpu_criu::criu {
namespace {

class Load : public testing::Test {
 protected:
  void SetUp() override {
    handle_ = dlopen(PLUGIN_PATH, RTLD_LAZY);
    ASSERT_NE(handle_, nullptr) << dlerror();
    descriptor_ = static_cast<Descriptor*>(dlsym(handle_, "CR_PLUGIN_DESC"));
    ASSERT_NE(descriptor_, nullptr) << dlerror();
  }
  void TearDown() override {
    if (handle_) dlclose(handle_);
  }
  void* handle_ = nullptr;
  Descriptor* descriptor_ = nullptr;
};

TEST_F(Load, DescriptorIsOneThatThisCriuAccepts) {
#ifdef PRETEND_43
  EXPECT_EQ(descriptor_->version, 0x000300u);
  EXPECT_EQ(descriptor_->max_hooks, 17u);
#else
  EXPECT_EQ(descriptor_->version, 0x000200u);
  EXPECT_EQ(descriptor_->max_hooks, 12u);
#endif
  EXPECT_STREQ(descriptor_->name, "amdgpu_criu_plugin");
}

// CRIU would not even start where another one is missing.
TEST_F(Load, NeedsNoLibraryButThoseOfTheCompiler) {
  link_map* map = nullptr;
  ASSERT_EQ(dlinfo(handle_, RTLD_DI_LINKMAP, &map), 0);
  const char* names = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  std::vector<std::string> needed;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_NEEDED) needed.emplace_back(names + entry->d_un.d_val);
  EXPECT_THAT(needed, testing::Contains("libc.so.6"));
  EXPECT_THAT(needed,
              testing::Each(testing::AnyOf("libc.so.6", "libm.so.6", "libstdc++.so.6",
                                           "libgcc_s.so.1", testing::StartsWith("ld-linux-"))));
}

TEST_F(Load, HooksAreAtTheirNumbers) {
  for (unsigned hook : {2, 3, 7, 8, 9, 11, 12, 14, 16})
    EXPECT_NE(descriptor_->hooks[hook], nullptr) << hook;
  for (unsigned hook : {0, 1, 4, 5, 6, 10, 13, 15})
    EXPECT_EQ(descriptor_->hooks[hook], nullptr) << hook;
}

TEST_F(Load, StartsAndEndsWithoutAGpu) {
  for (int stage : {criu::kStageDump, criu::kStagePreDump}) {
    EXPECT_EQ(descriptor_->init(stage), 0);
    auto dump = reinterpret_cast<criu::DumpExtFile*>(descriptor_->hooks[criu::kDumpExtFile]);
    EXPECT_EQ(dump(0, 1), -ENOTSUP);
    descriptor_->exit(stage, 0);
  }
}

TEST_F(Load, CanBeLoadedAgainAfterUnloading) {
  dlclose(handle_);
  handle_ = dlopen(PLUGIN_PATH, RTLD_LAZY);
  ASSERT_NE(handle_, nullptr);
  descriptor_ = static_cast<Descriptor*>(dlsym(handle_, "CR_PLUGIN_DESC"));
  EXPECT_EQ(descriptor_->init(criu::kStageDump), 0);
  descriptor_->exit(criu::kStageDump, 0);
}

}  // namespace
}  // namespace amdgpu_criu::criu
