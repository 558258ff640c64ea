// SPDX-License-Identifier: GPL-2.0
#include "snapshot/verdict.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

namespace amdgpu_criu::snapshot {
namespace {

std::string path_of(const Fd& fd) { return formatted("/proc/{}/fd/{}", getpid(), fd.get()); }

}  // namespace

// CRIU's scripts inherit no descriptors, so they open ours.
Result<Verdict> Verdict::create() {
  Verdict verdict;
  verdict.question_ = TRY(Pipe::create());
  verdict.answer_ = TRY(Pipe::create());
  verdict.script_ = Fd(memfd_create("verdict", MFD_CLOEXEC | MFD_EXEC));
  if (!verdict.script_.valid()) return Error::system("cannot make an action script");
  TRY(write_all(verdict.script_,
                formatted("#!/bin/sh\n"
                          "[ \"$CRTOOLS_SCRIPT_ACTION\" != post-dump ] && exit 0\n"
                          "echo >{}\n"
                          "read -r is_good <{}\n"
                          "[ \"$is_good\" = yes ]\n",
                          path_of(verdict.question_.write), path_of(verdict.answer_.read))));
  return verdict;
}

std::string Verdict::script() const { return path_of(script_); }

bool Verdict::is_asked_for() const {
  pollfd question{question_.read.get(), POLLIN, 0};
  return answer_.write.valid() && poll(&question, 1, 0) == 1;
}

// There is no SIGPIPE: this process has the other end, too.
void Verdict::give(bool is_good) {
  (void)write_all(answer_.write, is_good ? "yes\n" : "no\n");
  answer_.write.reset();
}

}  // namespace amdgpu_criu::snapshot
