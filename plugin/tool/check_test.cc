// SPDX-License-Identifier: GPL-2.0
// The lines of `amdgpu-criu check`, on fake machines.
#include "tool/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/progress.h"
#include "tests/refused_call.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::tool {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_support::TempDir;

// Good lines have no more text; all others have consequence and remedy.
void expect_whole(const Item& item) {
  EXPECT_FALSE(item.found.empty()) << item.what;
  EXPECT_EQ(item.grade == Grade::kGood, item.remedy.empty()) << item.what << ": " << item.remedy;
}

class Check : public testing::Test {
 protected:
  Check() {
    machine_.proc = dir_.file("proc");
    machine_.cgroups = dir_.file("cgroup");
    machine_.plugin_directory = dir_.path();
    machine_.criu = dir_.file("criu");
    machine_.host.kfd_path = dir_.file("kfd");
    machine_.host.topology_nodes = dir_.file("nodes");
    machine_.check_engine = [](const Fd&) { return Status(); };
    std::filesystem::create_directories(machine_.proc + "/self");
  }

  void capabilities(uint64_t effective) {
    dir_.write("proc/self/status", formatted("Name:\tx\nCapEff:\t{:016x}\n", effective));
  }
  void criu(const std::string& script) {
    dir_.write("criu", "#!/bin/sh\n" + script);
    std::filesystem::permissions(machine_.criu, std::filesystem::perms::owner_all);
  }
  void group(const std::string& path, const std::string& limit, const std::string& used) {
    std::filesystem::create_directories(machine_.cgroups + path);
    dir_.write("cgroup" + path + "/memory.max", limit + "\n");
    dir_.write("cgroup" + path + "/memory.current", used + "\n");
  }
  // The line of a GPU of that generation.
  Item check_one_gpu(unsigned target) {
    std::filesystem::create_directories(dir_.file("nodes/1"));
    std::filesystem::create_directories(dir_.file("dri"));
    std::error_code exists;
    std::filesystem::create_symlink("/dev/zero", dir_.file("dri/renderD5"), exists);
    machine_.host.drm_major = 1;
    machine_.host.dri_directory = dir_.file("dri");
    dir_.write("nodes/1/gpu_id", "7\n");
    dir_.write("nodes/1/properties",
               formatted("simd_count 32\ndrm_render_minor 5\ngfx_target_version {}\n", target));
    const auto items = check_gpus(machine_, host::Host::create(machine_.host));
    EXPECT_EQ(items.size(), 1u);
    expect_whole(items.at(0));
    return items.at(0);
  }

  TempDir dir_;
  Machine machine_;
};

TEST_F(Check, EveryLineThatIsNotGoodHasARemedy) {
  capabilities(0);
  for (const Item& item : check_all(machine_)) expect_whole(item);
}

TEST_F(Check, KernelsWithoutTheSeriesAreNotesIfTheyHaveTheStockInterface) {
  const std::pair<const char*, Grade> kernels[] = {
      {"5.17.0-custom", Grade::kBad},      {"5.18.1", Grade::kLimited},
      {"6.1.0-39-amd64", Grade::kLimited}, {"6.12.107+deb13", Grade::kGood},
      {"6.13.0", Grade::kLimited},         {"7.2.12+deb13", Grade::kLimited},
      {"7.3.4+deb13", Grade::kGood},       {"7.4.0", Grade::kLimited},
      {"8.0.0", Grade::kLimited}};
  for (const auto& [release, grade] : kernels) {
    machine_.kernel_release = release;
    EXPECT_EQ(check_kernel(machine_).grade, grade) << release;
    expect_whole(check_kernel(machine_));
  }
}

TEST_F(Check, PermissionIsOneOfTwoCapabilitiesAndThatToTrace) {
  constexpr uint64_t kPtrace = uint64_t{1} << CAP_SYS_PTRACE;
  for (const unsigned enough : {CAP_SYS_ADMIN, CAP_CHECKPOINT_RESTORE}) {
    capabilities(uint64_t{1} << enough | kPtrace);
    EXPECT_EQ(check_capability(machine_).grade, Grade::kGood) << enough;
    capabilities(uint64_t{1} << enough);
    EXPECT_EQ(check_capability(machine_).grade, Grade::kLimited) << enough;
    EXPECT_THAT(check_capability(machine_).remedy, HasSubstr("CAP_SYS_PTRACE"));
  }
  capabilities(~(uint64_t{1} << CAP_SYS_ADMIN | uint64_t{1} << CAP_CHECKPOINT_RESTORE));
  EXPECT_EQ(check_capability(machine_).grade, Grade::kBad);
}

TEST_F(Check, YamaCanForbidToTraceWithoutTheCapability) {
  std::filesystem::create_directories(machine_.proc + "/sys/kernel/yama");
  for (const auto& [scope, grade] :
       {std::pair("0", Grade::kLimited), std::pair("1", Grade::kBad)}) {
    dir_.write("proc/sys/kernel/yama/ptrace_scope", formatted("{}\n", scope));
    capabilities(uint64_t{1} << CAP_CHECKPOINT_RESTORE);
    EXPECT_EQ(check_capability(machine_).grade, grade) << scope;
    capabilities(uint64_t{1} << CAP_CHECKPOINT_RESTORE | uint64_t{1} << CAP_SYS_PTRACE);
    EXPECT_EQ(check_capability(machine_).grade, Grade::kGood) << scope;
  }
}

TEST_F(Check, CriuMustBeInstalledAndNewEnough) {
  EXPECT_EQ(check_criu_version(machine_).grade, Grade::kBad);
  criu("echo 'Version: 4.0'\n");
  EXPECT_THAT(check_criu_version(machine_).remedy, HasSubstr("4.1 or later"));
  criu("echo 'Version: 4.1.1'\n");
  EXPECT_EQ(check_criu_version(machine_).grade, Grade::kGood);
  criu("echo 'Version: 5.0'\n");
  EXPECT_EQ(check_criu_version(machine_).grade, Grade::kGood);
  const std::string odd = dir_.file("a $(b) 'c'");
  std::filesystem::rename(machine_.criu, odd);
  machine_.criu = odd;
  EXPECT_EQ(check_criu_version(machine_).grade, Grade::kGood);
}

TEST_F(Check, FindingsOfCriuAboutTheKernelAreReported) {
  if (geteuid() != 0) GTEST_SKIP() << "criu check is asked by root only";
  criu("echo 'Warn  no such thing'; echo 'Error (criu/x.c:1): no pagemap'; exit 1\n");
  const Item item = check_criu_kernel(machine_);
  EXPECT_EQ(item.grade, Grade::kBad);
  EXPECT_THAT(item.found, HasSubstr("no pagemap"));
  criu("echo 'Looks good.'\n");
  EXPECT_EQ(check_criu_kernel(machine_).grade, Grade::kGood);
}

TEST_F(Check, ThePluginMustBeTheOnlyOneAndLoad) {
  EXPECT_EQ(check_plugin(machine_).grade, Grade::kBad);
  dir_.write("amdgpu_criu_plugin.so", "not a library");
  EXPECT_THAT(check_plugin(machine_).found, HasSubstr("amdgpu_criu_plugin.so"));
  std::filesystem::remove(dir_.file("amdgpu_criu_plugin.so"));
  std::filesystem::create_symlink(PLUGIN_PATH, dir_.file("amdgpu_criu_plugin.so"));
  EXPECT_EQ(check_plugin(machine_).grade, Grade::kGood) << check_plugin(machine_).found;
  dir_.write("amdgpu_plugin.so", "CRIU's own");
  EXPECT_THAT(check_plugin(machine_).consequence, HasSubstr("claim the same files"));
}

TEST_F(Check, NotesQueuesOfUntestedGenerations) {
  const std::pair<unsigned, const char*> generations[] = {
      {70001, "refused"},   {80003, "untested"},  {90010, ""},
      {90402, ""},          {100300, "untested"}, {110000, ""},
      {120001, "untested"}, {120500, "untested"}, {120600, "refused"}};
  for (const auto& [target, note] : generations) {
    const Item item = check_one_gpu(target);
    EXPECT_EQ(item.grade, *note ? Grade::kLimited : Grade::kGood) << target;
    EXPECT_THAT(item.consequence, HasSubstr(note)) << target;
  }
}

TEST_F(Check, AGpuThatTakesNoCopiesIsBad) {
  machine_.check_engine = [](const Fd&) { return Status(Error(ENOTSUP, "no copies")); };
  const Item refused = check_one_gpu(110000);
  EXPECT_EQ(refused.grade, Grade::kBad);
  EXPECT_THAT(refused.consequence, StartsWith("no copies"));
  EXPECT_THAT(refused.remedy, HasSubstr("user_queue=0"));
  machine_.check_engine = [](const Fd&) { return Status(Error(EIO, "reset")); };
  EXPECT_THAT(check_one_gpu(110000).remedy, HasSubstr("kernel log"));
}

TEST_F(Check, TheTightestMemoryLimitOfAllGroupsAboveCounts) {
  EXPECT_EQ(check_memory_cgroup(machine_, 1).found, "none");
  dir_.write("proc/self/cgroup", "1:name=x:/old\n0::/a/b\n");
  group("/a/b", "max", "1");
  group("/a", std::to_string(1u << 30), std::to_string(1000u << 20));
  EXPECT_THAT(check_memory_cgroup(machine_, 1).found, HasSubstr("24 MiB of 1024 MiB free in /a"));
  EXPECT_EQ(check_memory_cgroup(machine_, 1).grade, Grade::kLimited);
  group("/a", std::to_string(1u << 30), std::to_string(2u << 30));  // over its limit
  EXPECT_THAT(check_memory_cgroup(machine_, 1).found, StartsWith("0 MiB"));
  group("/a", std::to_string(1u << 30), "0");
  EXPECT_EQ(check_memory_cgroup(machine_, 1).grade, Grade::kGood);
}

// Lowers a soft limit until destroyed.
class LowLimit {
 public:
  LowLimit(__rlimit_resource what, rlim_t value) : what_(what) {
    getrlimit(what_, &old_);
    const rlimit low{value, old_.rlim_max};
    setrlimit(what_, &low);
  }
  LowLimit(const LowLimit&) = delete;
  LowLimit& operator=(const LowLimit&) = delete;
  ~LowLimit() { setrlimit(what_, &old_); }

 private:
  __rlimit_resource what_;
  rlimit old_{};
};

TEST_F(Check, LimitsThatAreTooLowAreNotes) {
  capabilities(0);
  {
    const LowLimit limit(RLIMIT_FSIZE, 5 << 20);
    EXPECT_EQ(check_file_size().found, "5 MiB");
    EXPECT_EQ(check_file_size().grade, Grade::kLimited);
  }
  const LowLimit limit(RLIMIT_MEMLOCK, 64 << 10);
  EXPECT_EQ(check_locked_memory(machine_, 1).found, "64 KiB");
  EXPECT_EQ(check_locked_memory(machine_, 1).grade, Grade::kLimited);
  capabilities(uint64_t{1} << CAP_IPC_LOCK);
  EXPECT_EQ(check_locked_memory(machine_, 1).grade, Grade::kGood);
}

TEST_F(Check, ImageDirectoryMustBeWritableAndLargeEnough) {
  const host::Host host = host::Host::create(machine_.host);
  machine_.image_directory = dir_.file("none");
  EXPECT_EQ(check_images(machine_, host).grade, Grade::kBad);
  machine_.image_directory = dir_.path();
  EXPECT_THAT(check_images(machine_, host).found, HasSubstr("MiB free, direct I/O"));
}

// As on NFS and FUSE.
TEST_F(Check, AnImageDirectoryNeedsNoFilesWithoutNames) {
  constexpr int kFlag = O_TMPFILE & ~O_DIRECTORY;
  const host::Host host = host::Host::create(machine_.host);
  machine_.image_directory = dir_.path();
  const auto before = dir_.names();
  ASSERT_TRUE(testing_support::without({SYS_openat, kFlag, EOPNOTSUPP}, [&] {
    ASSERT_FALSE(Fd::open(dir_.path().c_str(), O_TMPFILE | O_RDWR, 0600).ok());
    EXPECT_THAT(check_images(machine_, host).found, HasSubstr("MiB free, direct I/O works"));
  }));
  EXPECT_EQ(dir_.names(), before);
}

TEST_F(Check, AnImageDirectoryWithoutDirectIoIsANote) {
  const host::Host host = host::Host::create(machine_.host);
  machine_.image_directory = dir_.path();
  ASSERT_TRUE(testing_support::without({SYS_fcntl, O_DIRECT, EINVAL, F_SETFL}, [&] {
    const Item item = check_images(machine_, host);
    EXPECT_EQ(item.grade, Grade::kLimited);
    EXPECT_THAT(item.found, HasSubstr("direct I/O does not work"));
  }));
}

TEST(Progress, ReportsAtMostOncePerInterval) {
  using std::chrono::seconds;
  const Progress::Clock::time_point start{};
  Progress progress(100 << 20, seconds(1), start);
  EXPECT_EQ(progress.add(10 << 20, start), std::nullopt);
  EXPECT_EQ(progress.add(10 << 20, start + seconds(2)), "20 %, 20 of 100 MiB, 2.0 s, 10 MiB/s");
  EXPECT_EQ(progress.add(10 << 20, start + seconds(2)), std::nullopt);
  EXPECT_EQ(progress.add(70 << 20, start + seconds(4)), std::nullopt) << "it is over";
  EXPECT_EQ(progress.text(start + seconds(4)), "100 %, 100 of 100 MiB, 4.0 s, 25 MiB/s");
}

TEST(Progress, OfZeroBytesIsComplete) {
  const Progress::Clock::time_point start{};
  EXPECT_EQ(Progress(0, std::chrono::seconds(1), start).text(start),
            "100 %, 0 of 0 MiB, 0.0 s, 0 MiB/s");
}

}  // namespace
}  // namespace amdgpu_criu::tool
