// SPDX-License-Identifier: GPL-2.0
// What dumped processes share with others.
#include "base/log.h"
#include "dump/dump.h"

namespace amdgpu_criu::dump {

// A BO that processes outside of the tree share would become two.
Status Dump::check_outside() {
  TRY(need_any_render());
  const auto outside = env_.api.outside(kernel::render_node(any_render_), tree_.session());
  if (!outside.ok()) {
    if (outside.error().code() != ENOTTY) return outside.error();
    log_info("the amdgpu module of this kernel cannot report what is shared with others");
    return {};
  }
  if (outside->num_bos == 0 && outside->num_syncobjs == 0) return {};
  const std::string who =
      outside->pid != 0 ? formatted("process {} ({})", outside->pid, host::comm_of(outside->pid))
                        : std::string("a process of another pid namespace");
  const std::string what =
      outside->num_bos != 0
          ? formatted(
                "{}, which is not dumped, shares GPU memory with dumped processes: {} BOs, one of "
                "them of {} bytes with handle {} in process {}",
                who, outside->num_bos, outside->size, outside->handle, outside->paused_pid)
          : formatted(
                "{}, which is not dumped, shares {} syncobjs with dumped processes, one of them "
                "with handle {} in process {}",
                who, outside->num_syncobjs, outside->handle, outside->paused_pid);
  return refuse_sharing(what);
}

Status Dump::check_outside_files() {
  outside_files_ = TRY(OutsideFiles::find(env_.host, dumped_));
  for (const OpenRender& render : tree_.renders())
    if (const auto* outside = outside_files_.same_render(render.file.get(), render.minor))
      TRY(refuse_sharing(formatted(
          "process {} ({}), which is not dumped, has the open renderD{} of process {} ({}) "
          "as descriptor {}",
          outside->pid, host::comm_of(outside->pid), render.minor, render.number, render.comm,
          outside->number)));
  const auto check = [&](const auto& record) -> Status {
    const auto shared = TRY(outside_files_.find_bo(env_.api, kernel::render_node(any_render_),
                                                   tree_.session(), record.bos));
    if (!shared) return {};
    return refuse_outside_dmabuf(
        shared->pid, formatted("the BO of {} bytes with handle {} in process {}", shared->bo.size,
                               shared->bo.handle, record.pid));
  };
  for (const image::Process& process : processes_) TRY(check(process));
  for (const image::Render& render : renders_) TRY(check(render));
  return {};
}

Status Dump::refuse_outside_dmabuf(pid_t holder, const std::string& what) const {
  return refuse_sharing(formatted(
      "process {} ({}), which is not dumped, has a dma-buf descriptor of GPU memory of dumped "
      "processes: {}",
      holder, host::comm_of(holder), what));
}

Status Dump::refuse_sharing(const std::string& what) const {
  if (!env_.options.cut_sharing)
    return Error::of(EOPNOTSUPP,
                     "{}. After a restore, neither side would see the writes of the other: dump "
                     "them together, or allow this with amdgpu.cut-sharing=1",
                     what);
  log_warning("{}; amdgpu.cut-sharing allows separate copies after a restore", what);
  return {};
}

}  // namespace amdgpu_criu::dump
