// SPDX-License-Identifier: GPL-2.0
// A kernel and a GPU made of memfds, for tests of the plugin without either.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpu/engine.h"
#include "kernel/api.h"

namespace testing_support {

// What the fake kernel holds, apart from it, so that a test can look after the plugin is gone.
struct FakeState {
  // A process's GPU state, as CHECKPOINT gives it.
  pid_t pid = 0;
  std::vector<kernel::RestoreDevice> devices;  // drm_fd: the test's own descriptor
  std::vector<kernel::Bo> bos;
  std::vector<std::byte> blob;
  std::map<uint64_t, base::Fd> objects;  // contents by object id

  std::map<std::string, int> failures;  // operation to errno
  std::vector<std::string> calls;
  bool paused = false;
  int open_sessions() const;

  std::vector<base::Fd> session_ends;  // sees the session's last close
  std::vector<kernel::RestoreDevice> restored_devices;
  pid_t resumed = 0;
};

std::unique_ptr<kernel::Api> make_fake_api(FakeState& state);

// A BO of `size` with contents that depend on every byte's place.
void add_object(FakeState& state, kernel::Bo bo, unsigned seed);
std::string contents_of(const FakeState& state, uint64_t object_id);
void clear_objects(FakeState& state);

// Copies are only done at wait(), and out of order use of a slot is an error. `fail_copies_after`
// counts down over all engines; at 0 waits fail with EIO.
extern int fail_copies_after;
base::Result<std::unique_ptr<gpu::Engine>> make_fake_engine(base::Fd, gpu::StagingSize staging);

}  // namespace testing_support
