// SPDX-License-Identifier: GPL-2.0
// A background process that keeps the GPU work of a process tree paused. It holds the driver's
// session: the end of the process ends the pause. A socket, whose name has the number of the paused
// process, prevents a second one, and takes requests.
#pragma once

#include <sys/types.h>

#include <functional>

#include "dump/tree.h"

namespace amdgpu_criu::tool {

enum class Request : char { kThaw = 't', kResume = 'r', kState = 's' };

// What the background process does beside the pause. Its functions run in that process.
class Purpose {
 public:
  virtual ~Purpose() = default;
  // The tree is paused, stopped and traced. An error ends the pause.
  virtual Status begin(kernel::Api&, const host::Host&, dump::Tree&,
                       const std::function<void(uint64_t)>& /* gets the bytes to be moved */) {
    return {};
  }
  // What the caller prints when all is done.
  virtual std::string announce(pid_t pid, pid_t holder) const = 0;
  // The answer to kState, as JSON.
  virtual std::string state(pid_t holder) const = 0;
  // Fails if the pause must not end now, or by another request.
  virtual Status may_end(pid_t pid, Request request, kernel::Api&, const host::Host&,
                         dump::Tree&) const = 0;
};

// What may_end() returns after a comparison of memory. The user can still end the pause, by
// SIGKILL.
Status may_end_after(Result<uint64_t> compared, const char* state, pid_t pid);

// Starts the background process. `progress` is called at intervals, with the bytes that it moves.
// Returns the exit status of the command.
int hold_in_background(pid_t pid, Purpose& purpose,
                       const std::function<void(uint64_t)>& progress = {});

// The answer of the background process: empty when it has ended the pause. ESRCH: there is none.
Result<std::string> ask_holder(pid_t pid, Request request,
                               const std::function<void()>& meanwhile = {});
// Writes the reason if the pause has not ended. Returns the exit status of the command.
int status_of(const Result<std::string>& answer);

}  // namespace amdgpu_criu::tool
