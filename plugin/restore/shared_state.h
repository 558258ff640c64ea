// SPDX-License-Identifier: GPL-2.0
// What CRIU's main process and the restored tasks, forked from it, know of one another.
#pragma once

#include <functional>

#include "base/fd.h"
#include "base/result.h"

namespace restore {

class SharedState {
 public:
  static base::Result<SharedState> create(size_t processes);

  // The store's id of the one session; `make` is called by whoever comes first.
  base::Result<int> session_id(const std::function<base::Result<int>()>& make);
  // -1 if nobody made it.
  int session_id() const;

  void set_restored(size_t process);
  bool is_restored(size_t process) const;

 private:
  struct Page;
  explicit SharedState(base::Mapping mapping) : mapping_(std::move(mapping)) {}
  Page& page() const;

  base::Mapping mapping_;
};

}  // namespace restore
