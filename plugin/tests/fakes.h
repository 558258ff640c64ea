// SPDX-License-Identifier: GPL-2.0
// A fake kernel and GPU made of memfds, for unit tests of the plugin.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpu/engine.h"
#include "kernel/kernel_api.h"

namespace amdgpu_criu::testing_support {

// An open render-node file and its state.
struct FakeRender {
  Fd file;  // of the same struct file as the process's
  std::vector<kernel::Bo> bos;
  std::string blob;
  pid_t userptrs_of = 0;  // PROCESS_INFO of another process is EOPNOTSUPP; 0: of none
  bool paused = false;
};

// The arguments of RESTORE and RESUME.
struct FakeRestored {
  std::string blob;
  Fd file;
  pid_t resumed = 0;
};

// The state of the fake kernel, in its own object, so that a test can examine it after the end of
// the plugin.
struct FakeState {
  FakeState();

  uint64_t features = AMDGPU_CRIU_FEATURE_KFD | AMDGPU_CRIU_FEATURE_RENDER;
  // A process's state of /dev/kfd, as CHECKPOINT returns it.
  pid_t pid = 0;
  std::vector<kernel::RestoreDevice> devices;  // drm_fd: the test's own descriptor
  std::vector<kernel::Bo> bos;
  std::vector<std::byte> blob;
  bool paused = false;
  bool live = false;                 // live_info() was called
  bool memory_lost = false;          // by a reset since it began
  uint64_t announced_blob_size = 0;  // of PROCESS_INFO, if it is not that of the blob

  std::vector<FakeRender> renders;
  std::map<uint64_t, Fd> objects;           // contents by object id
  std::map<uint64_t, kernel::Bo> exported;  // what EXPORTED returns, by object id
  std::set<uint64_t> always_valid;          // DMABUF must be called on the importing file
  std::set<uint64_t> foreign;               // exported by another driver
  kernel::Outside outside;                  // what OUTSIDE returns
  uint64_t kept = 0;                        // what EVICT returns, for each file
  timespec busy{};                          // how long PROCESS_INFO waits for submitted work
  bool files_wait_for_queues = false;       // submitted work ends only if the queues run

  std::map<uint32_t, uint64_t> available;  // memory by GPU; none: the kernel cannot report it

  std::function<void()> before_dmabuf;     // called by any thread
  std::function<void()> after_checkpoint;  // of /dev/kfd
  std::function<void()> before_resume;

  std::map<std::string, int> failures;  // operation to errno
  std::vector<std::string> calls;
  bool anything_paused() const;
  int open_sessions() const;
  // The number of bytes that this process and its descendants have written into the object.
  uint64_t bytes_filled(uint64_t object_id) const;
  // How often the blob was restored, by any process.
  int times_restored(const std::string& blob) const;

  std::vector<Fd> session_ends;  // detects the session's last close
  std::vector<kernel::RestoreDevice> restored_devices;
  std::vector<FakeRestored> restored;  // render nodes
  std::set<uint64_t> present;          // objects that RESTORE or EXPORTED made
  std::vector<Fd> marked;              // files on which DMABUF was called
  pid_t resumed = 0;

  // Shared by processes that are forked from this one.
  struct Shared {
    std::atomic<uint64_t> filled[512];  // by object id
    std::atomic<int> restored[64];
    std::atomic<int> sessions;
    std::atomic<uint64_t> most_staging;  // bytes that an engine was made with
  };
  Mapping shared_memory;
  Shared& shared() const;
};

// The last one made is the one that fake engines copy for.
std::unique_ptr<kernel::Api> make_fake_api(FakeState& state);

// A BO in which each byte of the contents depends on its place.
void add_object(FakeState& state, kernel::Bo bo, unsigned seed);
// Also adds the object to the table of /dev/kfd.
void add_kfd_object(FakeState& state, kernel::Bo bo, unsigned seed);
std::string contents_of(const FakeState& state, uint64_t object_id);
// Forgets all contents and all restored state.
void clear_objects(FakeState& state);

// Copies are done only in wait(), and using a slot out of order is an error. `fail_copies_after`
// counts down the pieces of all engines; at 0, waits fail with EIO.
extern std::atomic<int> fail_copies_after;
// Chunks that engines can hash from now on; -1: any number, 0: they have no kernel for it.
extern std::atomic<int> hashes_of_gpu;
// Bytes that engines have copied from objects.
extern std::atomic<uint64_t> bytes_read;
// How often engines can make pages of files known; -1: no limit.
extern std::atomic<int> pages_of_files;
// Called before each of these, if set.
extern std::function<void()> before_pages;
// Called at each wait for copies, if set.
extern std::function<void()> during_copies;
// Called before each hash that an engine computes, if set.
extern std::function<void()> before_hash;
// If set, the driver takes no copies.
extern bool copies_are_refused;
Result<std::unique_ptr<gpu::Engine>> make_fake_engine(Fd, gpu::StagingSize staging);
Status check_fake_engine(const Fd& render_node);
// How often each GPU has lost its memory, by its device number.
extern std::map<dev_t, uint32_t> losses;
Result<uint32_t> count_fake_losses(const Fd& render_node);

}  // namespace amdgpu_criu::testing_support
