// SPDX-License-Identifier: GPL-2.0
#include "snapshot/verdict.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

namespace amdgpu_criu::snapshot {
namespace {

std::string path_of(const Fd& fd) { return formatted("/proc/{}/fd/{}", getpid(), fd.get()); }

Status write_text(const Fd& fd, std::string_view text) {
  if (write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return {};
  return Error::system("cannot write");
}

}  // namespace

Result<Verdict::Pipe> Verdict::create_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error::system("cannot make a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// CRIU's scripts inherit no descriptors, so they open ours.
Result<Verdict> Verdict::create() {
  Verdict verdict;
  verdict.question_ = TRY(create_pipe());
  verdict.answer_ = TRY(create_pipe());
  verdict.script_ = Fd(memfd_create("verdict", MFD_CLOEXEC | MFD_EXEC));
  if (!verdict.script_.valid()) return Error::system("cannot make an action script");
  TRY(write_text(verdict.script_,
                 formatted("#!/bin/sh\n"
                           "[ \"$CRTOOLS_SCRIPT_ACTION\" != post-dump ] && exit 0\n"
                           "echo >{}\n"
                           "read -r is_good <{}\n"
                           "[ \"$is_good\" = yes ]\n",
                           path_of(verdict.question_.writer), path_of(verdict.answer_.reader))));
  return verdict;
}

std::string Verdict::script() const { return path_of(script_); }

bool Verdict::is_asked_for() const {
  pollfd question{question_.reader.get(), POLLIN, 0};
  return answer_.writer.valid() && poll(&question, 1, 0) == 1;
}

// There is no SIGPIPE: this process has the other end, too.
void Verdict::give(bool is_good) {
  (void)write_text(answer_.writer, is_good ? "yes\n" : "no\n");
  answer_.writer.reset();
}

}  // namespace amdgpu_criu::snapshot
