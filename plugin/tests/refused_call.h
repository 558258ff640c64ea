// SPDX-License-Identifier: GPL-2.0
// Simulates file systems that lack a feature, by system calls that fail.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <functional>
#include <iterator>
#include <optional>
#include <thread>

namespace amdgpu_criu::testing_support {

struct Refused {
  uint32_t call;
  uint32_t bits;  // if the third argument has one of them; 0: always
  uint32_t error;
  std::optional<uint32_t> second = {};  // the argument, if only calls with that are refused
  uint32_t allowed_first = 0;           // the argument of calls that are not refused; 0: none
};

// Calls `run` in a thread with such a filter. Threads that it creates have it, too. Returns false
// if the kernel allows no filter.
inline bool without(const Refused& refused, const std::function<void()>& run) {
  const uint32_t second = refused.second.value_or(0), mask = refused.second ? UINT32_MAX : 0;
  const uint32_t any = refused.bits == 0;
  const uint32_t first = refused.allowed_first, first_mask = first ? UINT32_MAX : 0;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused.call, 0, 10),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, first_mask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first ? first : 1, 7, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_STMT(BPF_ALU | BPF_OR | BPF_K, any),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, refused.bits | any, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refused.error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(code)), code};
  bool allowed = false;
  std::thread([&] {
    allowed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
    if (allowed) run();
  }).join();
  return allowed;
}

}  // namespace amdgpu_criu::testing_support
