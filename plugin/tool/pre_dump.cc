// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu pre-dump`: saves GPU memory of processes that run.
#include "dump/pre_dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/log.h"
#include "tool/commands.h"
#include "tool/output.h"
#include "tool/traced.h"

namespace amdgpu_criu::tool {
namespace {

Fd images;  // for DumpContext, whose function takes no argument

void to_stderr(LogLevel, const std::string& line) { complain(0, line); }

// Makes the same link as CRIU: to a path relative to the directory.
Status link_earlier(const std::string& earlier) {
  if (earlier.empty()) return {};
  TRY(Fd::openat(images.get(), earlier.c_str(), O_RDONLY | O_DIRECTORY));
  if (symlinkat(earlier.c_str(), images.get(), image::kParent) == 0) return {};
  if (errno != EEXIST) return Error::system("cannot make the link {}", image::kParent);
  struct stat linked, wanted;
  if (fstatat(images.get(), image::kParent, &linked, 0) == 0 &&
      fstatat(images.get(), earlier.c_str(), &wanted, 0) == 0 && linked.st_dev == wanted.st_dev &&
      linked.st_ino == wanted.st_ino)
    return {};
  return Error::of(EEXIST, "{} in the image directory leads elsewhere", image::kParent);
}

// The processes are stopped only while their files are listed, because the driver obeys only their
// tracer.
Status list_all(dump::PreDump& dump, pid_t pid) {
  const auto stopped = TRY(StoppedTree::stop(pid));
  for (const pid_t one : stopped.pids()) TRY(dump.add(one));
  return {};
}

Status run(const PreDumpOptions& options, dump::PreDump& dump) {
  images = TRY(Fd::open(options.directory.c_str(), O_RDONLY | O_DIRECTORY));
  TRY(link_earlier(options.earlier));
  TRY(list_all(dump, options.pid));
  return dump.processes() == 0 ? Status() : dump.save();
}

}  // namespace

int pre_dump(const PreDumpOptions& options) {
  set_log_sink(to_stderr);
  const auto parsed = options::parse({});
  if (!parsed.ok()) return log_error("{}", parsed.error().message()), 2;
  const auto api = kernel::make_ioctl_api();
  const host::Host host = host::Host::create();
  dump::PreDump dump(
      {*api, host, gpu::make_sdma_engine, *parsed, [] { return Result<int>(images.get()); }});
  if (const Status status = run(options, dump); !status.ok())
    return log_error("{}", status.error().message()), 2;
  if (dump.processes() == 0) return log_error("process {} uses no AMD GPU", options.pid), 1;
  const dump::SaveCounts& counts = dump.counts();
  printf(
      "pre-dump of %zu processes: %llu bytes of GPU memory; %llu stored, %llu of zeros, %llu in "
      "earlier images\n",
      dump.processes(), static_cast<unsigned long long>(counts.bytes),
      static_cast<unsigned long long>(counts.stored_bytes),
      static_cast<unsigned long long>(counts.zero_bytes),
      static_cast<unsigned long long>(counts.earlier_bytes));
  return 0;
}

}  // namespace amdgpu_criu::tool
