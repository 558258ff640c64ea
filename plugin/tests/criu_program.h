// SPDX-License-Identifier: GPL-2.0
// A fake criu program for tests of the hooks: the functions that the plugin calls, and calls of the
// hooks.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "criu/abi.h"
#include "criu/plugin.h"
#include "tests/fakes.h"
#include "tests/temp_dir.h"

extern "C" amdgpu_criu::criu::Descriptor CR_PLUGIN_DESC;

namespace amdgpu_criu::testing_support {

// Shared with processes that are forked from this one, as CRIU's log is.
class SharedLog {
 public:
  SharedLog();
  void clear();
  void add(const std::string& text);
  const std::string& text();

 private:
  Fd file_;
  std::string text_;
};

struct CriuProgram {
  int image_directory = -1;
  int inventory_calls = 0;
  bool in_inventory = true;
  bool foreign_in_inventory = false;
  SharedLog log;
  bool log_throws = false;  // as if there were no memory for a line
  std::vector<pid_t> killed;
};
extern CriuProgram program;
// Forgets every stored descriptor.
void clear_fd_store();
// Our only child, or a process that this one, a subreaper, has adopted.
pid_t child_of_ours();
// Creates an empty store.
void make_fd_store();
// As since CRIU 4.2: it exists when the plugin starts.
void make_fd_store_known();

template <typename Type, typename... Args>
int call(criu::Hook hook, Args... args) {
  return reinterpret_cast<Type*>(CR_PLUGIN_DESC.hooks[hook])(args...);
}

// /dev/full stands for /dev/kfd, /dev/zero and /dev/urandom stand for render nodes. Only their
// numbers matter.
inline constexpr uint32_t kGpu = 0x11;
inline constexpr uint32_t kOtherGpu = 0x12;
inline constexpr unsigned kRenderMinor = 5;
inline constexpr unsigned kOtherMinor = 9;
inline constexpr char kKfdPath[] = "/dev/full";
inline constexpr char kRenderPath[] = "/dev/zero";
inline constexpr char kOtherPath[] = "/dev/urandom";

// A BO of kGpu in VRAM, whose contents are saved.
kernel::Bo vram_bo(uint64_t id, uint64_t size, uint64_t mmap_offset = 0);

// A test of the hooks: an image directory, a topology with one GPU, a kernel.
class HooksTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // The process has one file, of a render node, with one BO.
  void use_only_a_render_node(uint64_t bo_bytes);
  // Makes GPU `gpu_id` the one with that render minor.
  void write_topology(uint32_t gpu_id, int simds, unsigned minor = kRenderMinor);
  host::Config host_config() const;
  int start(int stage);
  // Does what the exit of CRIU does, also for descriptors of nodes that the plugin leaves open.
  void end(int stage, int result);
  const std::string& log() const { return program.log.text(); }

  static Fd open(const char* path) { return std::move(*Fd::open(path, O_RDWR)); }
  static int restore_file(int id) {
    return call<criu::RestoreExtFile>(criu::kRestoreExtFile, id, nullptr);
  }
  static int dump_file(const Fd& fd, int id) {
    return call<criu::DumpExtFile>(criu::kDumpExtFile, fd.get(), id);
  }
  static int pause(pid_t pid) {
    return call<criu::CheckpointDevices>(criu::kCheckpointDevices, pid);
  }
  static int resume(pid_t pid) {
    return call<criu::ResumeDevicesLate>(criu::kResumeDevicesLate, pid);
  }
  // The result for the mapping that was at `address`; `offset` is unchanged if it is not ours.
  struct Mapped {
    int result;
    uint64_t offset;
    Fd file;
  };
  static Mapped update_vma(const void* address);

  TempDir images_;
  TempDir topology_;
  TempDir sysfs_;
  TempDir run_;
  FakeState state_;
  bool machine_has_kfd_ = true;
  bool has_late_hook_ = false;
  // Creates the stock kernel interface; null: the real one.
  std::unique_ptr<stock::Ioctl> (*make_stock_)() = stock::make_ioctl;
  TempDir kfd_processes_;
  std::string dri_directory_ = "/dev";
  std::string container_config_;  // of the engine; empty: there is none
  std::string container_id_;
  unsigned staging_kib_ = 8;

 private:
  static std::set<int> open_nodes();
  std::filesystem::path working_directory_ = std::filesystem::current_path();
  std::set<int> nodes_before_;  // open at start()
  std::optional<int> stage_;    // of the running plugin
};

}  // namespace amdgpu_criu::testing_support
