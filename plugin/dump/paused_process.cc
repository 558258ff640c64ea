// SPDX-License-Identifier: GPL-2.0
#include "dump/paused_process.h"

#include "base/log.h"

namespace dump {

base::Result<PausedProcess> PausedProcess::pause(kernel::Api& api, int session, base::Fd kfd_file) {
  const auto info = TRY(api.process_info(kernel::kfd_node(kfd_file), session));
  return PausedProcess(api, session, std::move(kfd_file), info);
}

PausedProcess::~PausedProcess() {
  if (!api_) return;
  const base::Status status = api_->unpause(node(), session_);
  // The session is closed right after this, which unpauses as well.
  if (!status.ok() && status.error().code() != ESRCH)
    base::log_warning("process {}: {}", info_.pid, status.error().message());
}

}  // namespace dump
