// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU does, for a process whose /dev is not that of CRIU's main process.
#include <gmock/gmock.h>

#include "tests/criu_program.h"

namespace amdgpu_criu::criu {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::kOtherGpu;
using testing_support::kOtherMinor;
using testing_support::kOtherPath;
using testing_support::kRenderPath;

class Containers : public testing_support::HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    dri_directory_ = nodes_.file("dri");
    show({{"renderD128", kRenderPath}});
    use_only_a_render_node(0x3000);
    ASSERT_EQ(start(kStageDump), 0);
    ASSERT_EQ(pause(getpid()), 0) << log();
    ASSERT_EQ(dump_file(state_.renders[0].file, 1), 0) << log();
    end(kStageDump, 0);
    testing_support::clear_objects(state_);
    testing_support::make_fd_store_known();
  }

  // Replaces the nodes of GPUs. A process that has the directory open keeps the old ones.
  void show(const std::map<std::string, std::string>& nodes) {
    const std::string path = nodes_.file("dri");
    if (std::filesystem::exists(path))
      std::filesystem::rename(path, nodes_.file("before-" + std::to_string(changes_++)));
    std::filesystem::create_directory(path);
    for (const auto& [name, device] : nodes)
      std::filesystem::create_symlink(device, path + "/" + name);
  }
  // The engine's configuration has that node of /dev/dri/renderD128.
  void list_in_container(unsigned minor) {
    container_config_ = nodes_.file("config.json");
    nodes_.write("config.json",
                 formatted(R"({{"linux": {{"devices": [{{"path": "/dev/dri/renderD128", "type": "c",
                   "major": 1, "minor": {}}}]}}}})",
                           minor));
  }
  // Device number of the node that the task opened.
  std::optional<dev_t> restored() {
    const Fd file(restore_file(1));
    struct stat status;
    if (!file.valid() || fstat(file.get(), &status) != 0) return std::nullopt;
    return status.st_rdev;
  }
  static dev_t number_of(const char* path) {
    struct stat status;
    return stat(path, &status) == 0 ? status.st_rdev : 0;
  }

  testing_support::TempDir nodes_;
  int changes_ = 0;
};

TEST_F(Containers, ANodeHasAnotherNameInTheContainer) {
  ASSERT_EQ(start(kStageRestore), 0) << log();
  show({{"renderD200", kRenderPath}, {"renderD128", "/dev/null"}});
  EXPECT_EQ(restored(), number_of(kRenderPath)) << log();
  EXPECT_THAT(log(), Not(HasSubstr("outside of the container")));
  end(kStageRestore, 0);
}

TEST_F(Containers, ANodeThatTheContainerLacksIsOpenedAsItIsOutside) {
  ASSERT_EQ(start(kStageRestore), 0) << log();
  show({{"renderD128", "/dev/null"}});
  EXPECT_EQ(restored(), number_of(kRenderPath)) << log();
  EXPECT_THAT(log(), HasSubstr("no device node for render minor 5"));
  EXPECT_THAT(log(), HasSubstr("opened as it is outside of the container"));
  end(kStageRestore, 0);
}

// The restored program, and programs that are started there later, may open the GPU again. Making
// the node needs CAP_MKNOD in the initial user namespace, without which the log has a warning.
TEST_F(Containers, ANodeThatTheContainerLacksIsMadeThere) {
  ASSERT_EQ(start(kStageRestore), 0) << log();
  show({{"renderD128", "/dev/null"}});
  const Fd file(restore_file(1));
  struct stat like, made;
  ASSERT_EQ(stat("/dev/null", &like), 0);
  if (stat((dri_directory_ + "/renderD5").c_str(), &made) == 0) {
    EXPECT_TRUE(S_ISCHR(made.st_mode));
    EXPECT_EQ(made.st_rdev, number_of(kRenderPath));
    EXPECT_EQ(made.st_mode, like.st_mode);
    // A file of another mount could not be dumped again.
    EXPECT_EQ(std::filesystem::read_symlink(formatted("/proc/self/fd/{}", file.get())),
              std::filesystem::canonical(dri_directory_) / "renderD5");
  } else {
    EXPECT_THAT(log(), HasSubstr("Operation not permitted: the container has no name for"));
  }
  end(kStageRestore, 0);
}

TEST_F(Containers, TheGpuOfTheContainerWinsOverAPreferredOne) {
  write_topology(kOtherGpu, 32, kOtherMinor);
  show({{"renderD128", kRenderPath}, {"renderD129", kOtherPath}});
  ASSERT_EQ(start(kStageRestore), 0) << log();
  EXPECT_THAT(log(), HasSubstr("GPU 0x11 of the images is restored on GPU 0x11"));
  show({{"renderD128", kOtherPath}});
  EXPECT_EQ(restored(), number_of(kOtherPath)) << log();
  EXPECT_THAT(log(), HasSubstr("GPU 0x11 of the images is restored on GPU 0x12"));
  end(kStageRestore, 0);
}

// Like a restore by crun: the container's /dev has the node of the images, which may be opened
// until the engine has set the device rules.
TEST_F(Containers, TheGpuThatTheEngineListsWins) {
  write_topology(kOtherGpu, 32, kOtherMinor);
  list_in_container(kOtherMinor);
  show({{"renderD128", kRenderPath}, {"renderD129", kOtherPath}});
  ASSERT_EQ(start(kStageRestore), 0) << log();
  show({{"renderD128", kRenderPath}});
  EXPECT_EQ(restored(), number_of(kOtherPath)) << log();
  end(kStageRestore, 0);
}

// After the restore the container could not open another one.
TEST_F(Containers, NoOtherGpuIsChosenIfTheListedOneDoesNotFit) {
  write_topology(kOtherGpu, 64, kOtherMinor);
  list_in_container(kOtherMinor);
  show({{"renderD128", kRenderPath}, {"renderD129", kOtherPath}});
  EXPECT_EQ(start(kStageRestore), -ENODEV);
  EXPECT_THAT(log(), HasSubstr("its configuration lists (GPU 0x12"));
  EXPECT_THAT(log(), HasSubstr("do not fit: no GPU of this machine fits the saved GPU 0x11"));
  EXPECT_THAT(state_.calls, Not(testing::Contains("RESTORE")));
}

TEST_F(Containers, NoGpuIsChosenIfOnlyOtherNodesAreListed) {
  list_in_container(200);
  EXPECT_EQ(start(kStageRestore), -ENODEV);
  EXPECT_THAT(log(), HasSubstr("its configuration lists (none of this machine)"));
}

// A place in the order of render nodes is one among all GPUs.
TEST_F(Containers, TheMapMayNameAGpuThatIsNotListed) {
  write_topology(kOtherGpu, 64, kOtherMinor);
  list_in_container(kOtherMinor);
  show({{"renderD128", kRenderPath}, {"renderD129", kOtherPath}});
  setenv("AMDGPU_CRIU_MAP", "#0=#0", 1);
  const int result = start(kStageRestore);
  unsetenv("AMDGPU_CRIU_MAP");
  ASSERT_EQ(result, 0) << log();
  EXPECT_EQ(restored(), number_of(kRenderPath)) << log();
  end(kStageRestore, 0);
}

// Its device rules are those of the listed GPU.
TEST_F(Containers, ATaskChoosesNoGpuThatIsNotListed) {
  write_topology(kOtherGpu, 32, kOtherMinor);
  list_in_container(kOtherMinor);
  show({{"renderD128", kRenderPath}, {"renderD129", kOtherPath}});
  ASSERT_EQ(start(kStageRestore), 0) << log();
  std::filesystem::remove(nodes_.file("dri/renderD129"));
  EXPECT_EQ(restored(), std::nullopt);
  EXPECT_THAT(log(), HasSubstr("the processes may open no GPU where they are restored"));
  end(kStageRestore, -1);
}

TEST_F(Containers, AGpuOfTheContainerThatDoesNotFitIsLeftForOneOutside) {
  write_topology(kOtherGpu, 64, kOtherMinor);
  show({{"renderD128", kRenderPath}, {"renderD129", kOtherPath}});
  ASSERT_EQ(start(kStageRestore), 0) << log();
  show({{"renderD129", kOtherPath}});
  EXPECT_EQ(restored(), number_of(kRenderPath)) << log();
  end(kStageRestore, 0);
}

TEST_F(Containers, ReportsThatNoGpuMayBeOpened) {
  ASSERT_EQ(start(kStageRestore), 0) << log();
  std::filesystem::remove(nodes_.file("dri/renderD128"));
  EXPECT_EQ(restored(), std::nullopt);
  EXPECT_THAT(log(), HasSubstr("the processes may open no GPU where they are restored"));
  EXPECT_TRUE(state_.restored.empty());
  end(kStageRestore, -1);
}

// A task in a user namespace of its own may not make one.
TEST_F(Containers, TheSessionIsCreatedBeforeTasks) {
  const int before = state_.shared().sessions;
  ASSERT_EQ(start(kStageRestore), 0) << log();
  EXPECT_EQ(state_.shared().sessions, before + 1);
  show({{"renderD128", kRenderPath}});
  state_.failures["SESSION"] = EPERM;
  EXPECT_EQ(restored(), number_of(kRenderPath)) << log();
  EXPECT_EQ(state_.shared().sessions, before + 1);
  end(kStageRestore, 0);
}

TEST_F(Containers, WithoutASessionNoRestoreBegins) {
  state_.failures["SESSION"] = EPERM;
  EXPECT_EQ(start(kStageRestore), -EPERM);
  EXPECT_THAT(log(), HasSubstr("injected failure of SESSION"));
}

// CRIU 4.1 has no store yet when the plugin starts.
TEST_F(Containers, WithoutAStoreTheNodeMustBeInTheContainer) {
  testing_support::make_fd_store();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  show({{"renderD128", "/dev/null"}});
  EXPECT_EQ(restored(), std::nullopt);
  EXPECT_THAT(log(), HasSubstr("may open no GPU"));
  end(kStageRestore, -1);
}

}  // namespace
}  // namespace amdgpu_criu::criu
