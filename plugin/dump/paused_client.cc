// SPDX-License-Identifier: GPL-2.0
#include "dump/paused_client.h"

#include "base/log.h"

namespace amdgpu_criu::dump {

Result<PausedClient> PausedClient::pause(kernel::Api& api, int session, kernel::Node::Kind kind,
                                         host::TakenFile file, pid_t process) {
  const auto info = TRY(api.process_info({file.get(), kind}, session, process));
  file.set_idle();
  return PausedClient(api, session, kind, std::move(file), info);
}

PausedClient::~PausedClient() {
  if (!api_) return;
  const Status status = api_->unpause(node(), session_);
  // The session is closed right after this, which unpauses as well.
  if (!status.ok() && status.error().code() != ESRCH)
    log_warning("process {}: {}", info_.pid, status.error().message());
}

}  // namespace amdgpu_criu::dump
