// SPDX-License-Identifier: GPL-2.0
// rocr_faults: kernels that fail, each in a process of its own, and the error that stock ROCr
// reports to the program. Prints a line for each, and exits with 1 if an error is not reported, or
// as another one.
#include <hsa/hsa_ext_amd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "rocr/code_object.h"
#include "rocr/hsa.h"
#include "workload/control.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Status;

constexpr unsigned kTimeoutMs = 60'000;

struct Case {
  const char* name;
  const char* kernel;
  uint64_t address;  // that the kernel writes to
  int status;        // hsa_status_t of the queue; success: the address is reported instead
  bool on_gfx11 = true;
};

// The driver leaves traps off on GFX11, so nobody reports what a wave does wrong.
constexpr Case kCases[] = {
    {"illegal instruction", "illegal", 0, HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION, false},
    {"page that does not exist", "touch", 0x7654'3210'1000, HSA_STATUS_SUCCESS},
    {"address in no aperture", "touch", uint64_t{0x7654} << 48,
     HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION, false},
    {"trap", "trap", 0, HSA_STATUS_ERROR_EXCEPTION},
};

// What the runtime has reported from its threads.
struct Heard {
  std::atomic<int> status = HSA_STATUS_SUCCESS;
  std::atomic<uint64_t> address = 0;
};

Status provoke(const Case& one, Heard& heard) {
  const auto runtime = TRY(Runtime::create());
  if (!one.on_gfx11 && TRY(runtime->isa()) == "gfx1100") _exit(kGood);
  TRY(when_memory_faults(
      [](uint64_t address, void* to) { static_cast<Heard*>(to)->address = address; }, &heard));
  const QueueSetup setup = {
      .on_error = [](hsa_status_t status, void* to) { static_cast<Heard*>(to)->status = status; },
      .argument = &heard};
  const AqlUserQueue queue = TRY(AqlUserQueue::create_with(*runtime, setup));
  const Executable executable = TRY(Executable::load(*runtime, code_objects()));
  const Kernel kernel = TRY(executable.kernel(one.kernel));
  const Buffer arguments = TRY(Buffer::create(*runtime, Buffer::Place::kHost, 4096));
  memcpy(arguments.data(), &one.address, sizeof(one.address));
  const Signal done = TRY(Signal::create(1));
  TRY(queue.dispatch(kernel, {{64, 1}, {64, 1}}, arguments.data(), &done));
  for (unsigned ms = 0; ms < kTimeoutMs; ++ms) {
    const bool reported = one.status ? heard.status != 0 : heard.address != 0;
    if (reported || !done.load()) break;
    pause_ms(1);
  }
  if (!done.load()) return Error::of(EBADMSG, "the kernel has ended");
  if (one.status ? heard.status != one.status : heard.address >> 12 != one.address >> 12)
    return Error::of(EBADMSG, "status {:#x}, address {:#x}", heard.status.load(),
                     heard.address.load());
  say(amdgpu_criu::formatted("{}: status {:#x} address {:#x}", one.name, heard.status.load(),
                             heard.address.load()));
  // The runtime would wait for the kernel.
  _exit(kGood);
}

bool reported(const Case& one) {
  const pid_t child = fork();
  if (child == 0) {
    Heard heard;
    const Status status = provoke(one, heard);
    if (!status.ok()) say(std::string("FAILED ") + one.name + ": " + status.error().message());
    _exit(kDamaged);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  if (WIFSIGNALED(status))
    say(amdgpu_criu::formatted("FAILED {}: signal {}", one.name, WTERMSIG(status)));
  return WIFEXITED(status) && WEXITSTATUS(status) == kGood;
}

}  // namespace
}  // namespace e2e

int main() {
  bool good = true;
  for (const e2e::Case& one : e2e::kCases) good = e2e::reported(one) && good;
  e2e::say(good ? "final ok" : "final FAILED");
  return good ? e2e::kGood : e2e::kDamaged;
}
