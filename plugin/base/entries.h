// SPDX-License-Identifier: GPL-2.0
// The names in a directory, read without allocating memory: async-signal-safe.
#pragma once

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace amdgpu_criu {

// Calls `body` with each name from the first one on, until it returns false.
template <typename Body>
void for_each_entry(int directory, const Body& body) {
  alignas(dirent64) char entries[4096];
  (void)lseek(directory, 0, SEEK_SET);
  for (long size; (size = syscall(SYS_getdents64, directory, entries, sizeof(entries))) > 0;)
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      if (!body(entry->d_name)) return;
      at += entry->d_reclen;
    }
}

}  // namespace amdgpu_criu
