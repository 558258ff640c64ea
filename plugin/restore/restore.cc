// SPDX-License-Identifier: GPL-2.0
#include "restore/restore.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "base/bounded_work.h"
#include "base/log.h"
#include "base/statistics.h"
#include "host/missing_memory.h"
#include "host/remote.h"
#include "restore/orphans.h"

namespace amdgpu_criu::restore {

using image::TableId;

namespace {

// The interval of checks for signals, the deadline, and the end of the tasks.
constexpr std::chrono::milliseconds kLook{10};
// CRIU's main process ends the restore first, if it can.
constexpr std::chrono::milliseconds kGrace{1000};

// Kills the tasks if CRIU's main process dies, or cannot end the restore itself: it may wait for a
// task whose file system does not answer. After the commit it no longer gives up: scripts of CRIU
// may have announced that the tasks run.
class TaskWatch final : public Background::Watch {
 public:
  TaskWatch(pid_t main, const Interruption& interruption, SharedState& shared)
      : main_(main), interruption_(interruption), shared_(shared), tasks_(main, shared.address()) {}

  void look() override {
    tasks_.look();
    Status status = interruption_.check_deadline(kGrace);
    if (status.ok()) status = Interruption::check_signals_of(main_, "restore");
    if (status.ok() || !shared_.give_up()) return;
    log_error("{}", status.error().message());
    shared_.note_failure(status.error().message());
    tasks_.kill_all();
  }
  // A task that was forked just before was not seen.
  void main_died() override {
    tasks_.main_died();
    kill_sharers(shared_.address());
  }

 private:
  pid_t main_;
  const Interruption& interruption_;
  SharedState& shared_;
  Orphans tasks_;
};

// The contents were not saved. If the process makes it accessible, an access raises SIGBUS.
Result<Fd> freed_memory() {
  Fd file(memfd_create("amdgpu-criu-freed", MFD_CLOEXEC));
  if (!file.valid()) return Error::system("cannot create a file for memory of a freed BO");
  return file;
}

std::set<uint64_t> objects_of(std::span<const kernel::Bo> bos) {
  std::set<uint64_t> result;
  for (const kernel::Bo& bo : bos) result.insert(bo.object_id);
  return result;
}

// Otherwise only a task or the background process would notice it. A task may be able to open what
// this process cannot.
Status check_engines(const RestoreContext& environment, const image::Set& images,
                     const TargetGpus& machine) {
  std::set<uint32_t> sources;
  for (const auto& file : images.contents()) sources.insert(file.contents.gpu.gpu_id);
  for (const uint32_t source : sources) {
    const auto render = machine.open_render(source);
    if (!render.ok()) continue;
    if (Status status = environment.check_engine(*render); !status.ok())
      return std::move(status).error().within(formatted("GPU {:#x}", machine.target(source)));
  }
  return {};
}

}  // namespace

Restore::Restore(RestoreContext environment, const Interruption& interruption, image::Set images,
                 TargetGpus machine, Layout layout, SharedState shared)
    : env_(std::move(environment)),
      interruption_(interruption),
      status_("restore", env_.options.status_fd, interruption_),
      images_(std::move(images)),
      gpus_(std::move(machine)),
      layout_(std::move(layout)),
      shared_(std::move(shared)),
      filling_(env_, images_, gpus_, layout_, shared_, status_) {
  for (const auto& [index, process] : images_.processes()) {
    mappings_.add(process);
    if (process.blob) not_resumed_.insert(process.pid);
  }
  for (const auto& [index, render] : images_.renders()) {
    mappings_.add(render);
    not_resumed_.insert(render.pid);
  }
}

// CRIU kills the tasks. But 4.3 leaves a helper process that a task has created for the cgroups of
// threads. That would keep the descriptor store open: sessions, files of GPUs and all their memory.
Restore::~Restore() {
  if (ended_ || empty() || getpid() != main_) return;
  background_.reset();
  kill_sharers(shared_.address());
}

Result<std::unique_ptr<Restore>> Restore::create(RestoreContext environment, image::Set images) {
  Interruption interruption(std::chrono::seconds(environment.options.timeout), "restore");
  interruption.begin();
  TargetGpus machine = TRY(TargetGpus::create(environment, images, interruption));
  TRY(check_engines(environment, images, machine));
  Layout layout(images);
  SharedState shared = TRY(SharedState::create(layout));
  std::unique_ptr<Restore> restore(new Restore(std::move(environment), interruption,
                                               std::move(images), std::move(machine),
                                               std::move(layout), std::move(shared)));
  TRY(restore->make_session());
  if (!restore->empty()) restore->status_.phase("creating");
  return restore;
}

Status Restore::make_session() {
  if (!env_.store.is_ready()) return {};
  const bool uses_kfd = std::ranges::any_of(
      images_.processes(), [](const auto& entry) { return entry.second.blob.has_value(); });
  if (uses_kfd) {
    const Fd kfd = TRY(gpus_.open_kfd());
    TRY(session(kernel::kfd_node(kfd)));
  } else if (!images_.used_gpus().empty()) {
    const Fd render = TRY(gpus_.open_render(*images_.used_gpus().begin()));
    TRY(session(kernel::render_node(render)));
  }
  return {};
}

Status Restore::start_background() {
  const bool fill = env_.options.parallel && env_.store.is_ready() && !images_.contents().empty();
  if (fill) filling_.leave_to_background();
  const auto work = [&](const Background::Fail& fail_with) {
    const auto fail = [&](const Error& error) {
      note_failure("in the background: " + error.message());
      fail_with(error);
    };
    const auto ready = [&] { fail_with.ready(); };
    if (fill) filling_.fill_added(fail, ready);
  };
  const auto watch = [&](pid_t main) {
    return std::make_unique<TaskWatch>(main, interruption_, shared_);
  };
  background_ = TRY(Background::start({"fills GPU memory", watch, fill}, work));
  return {};
}

// Sessions and files

Result<Fd> Restore::session(kernel::Node node) {
  auto make = [&]() -> Result<int> {
    return env_.store.add(TRY(env_.api.create_session(node, kernel::SessionKind::kRestore)));
  };
  return env_.store.get(TRY(shared_.session_id(make)));
}

Result<Fd> Restore::shared_render(size_t file, uint32_t gpu_id) {
  auto make = [&]() -> Result<int> { return env_.store.add(TRY(gpus_.open_render(gpu_id))); };
  return env_.store.get(TRY(shared_.file_id(file, make)));
}

Result<Fd> Restore::shared_file(size_t file) {
  const int id = shared_.file_id(file);
  if (id < 0) return Error(EPROTO, "a GPU file that is needed was opened by no process");
  return env_.store.get(id);
}

// Tasks restore their files at the same time; the result must not depend on the order.
void Restore::wait_for_test(uint32_t id) const {
  if (!env_.options.test_restore_delay) return;
  constexpr unsigned kMostMs = 200;
  std::seed_seq seed{env_.options.test_restore_delay, static_cast<unsigned>(getpid()), id};
  std::mt19937 random(seed);
  std::this_thread::sleep_for(std::chrono::milliseconds(random() % kMostMs));
}

Result<std::optional<Fd>> Restore::open_file(uint32_t id) {
  const auto file = images_.files().find(id);
  if (file == images_.files().end()) return std::optional<Fd>();
  wait_for_test(id);
  TRY(gpus_.settle());
  Fd fd = TRY(open_kind(file->second.what));
  if (fcntl(fd.get(), F_SETFL, file->second.status_flags) != 0)
    return Error::system("cannot set the flags of a GPU node");
  return std::optional(std::move(fd));
}

Result<Fd> Restore::open_kind(const image::FileKind& kind) {
  if (const auto* kfd = std::get_if<image::KfdFile>(&kind)) return open_kfd(*kfd);
  if (const auto* vm = std::get_if<image::VmFile>(&kind)) return open_vm(*vm);
  if (const auto* render = std::get_if<image::RenderFile>(&kind)) return open_render(*render);
  return open_dmabuf(std::get<image::Exported>(kind));
}

Result<Fd> Restore::open_kfd(const image::KfdFile& file) {
  const image::Process& process = images_.processes().at(file.process);
  TRY(ensure_process(process));
  // All opens of /dev/kfd in one process are equivalent.
  if (std::exchange(kfd_given_, true)) return gpus_.open_kfd();
  return shared_file(layout_.file_of_kfd(file.process));
}

// If KFD uses the VM of a file, only the open file is needed here. The VM may belong to another
// task, which restores the rest, perhaps later.
Result<Fd> Restore::open_vm(const image::VmFile& file) {
  const image::Process& process = images_.processes().at(file.vm.process);
  if (&process == own_process()) TRY(ensure_process(process));
  return shared_render(layout_.file_of_vm(file.vm),
                       image::find_device(process, file.vm.gpu_id)->actual_gpu_id);
}

Result<Fd> Restore::open_render(const image::RenderFile& file) {
  const image::Render& render = images_.renders().at(file.render);
  if (render.vm) return open_vm({*render.vm});
  TRY(ensure_render(render));
  return shared_file(layout_.file_of_render(file.render));
}

Result<Fd> Restore::open_dmabuf(const image::Exported& file) {
  Fd fd = TRY(restore_exported(file));
  TRY(filling_.added({file.state.bo.object_id}));
  return fd;
}

// State

const image::Process* Restore::own_process() const {
  for (const auto& [index, process] : images_.processes())
    if (process.pid == static_cast<uint32_t>(getpid())) return &process;
  return nullptr;
}

Status Restore::ensure_process(const image::Process& process) {
  if (&process != own_process())
    return Error::of(EOPNOTSUPP,
                     "/dev/kfd of process {} ({}) would be opened in process {}, where it does not "
                     "work",
                     process.pid, process.comm, getpid());
  const size_t number = layout_.job_of({false, process.index});
  if (!TRY(shared_.begin(number))) return {};
  Job job(shared_, number);
  Status status = restore_process(process);
  if (!status.ok())
    return std::move(status).error().within("image " + image::process_file_name(process.index));
  job.done();
  for (const auto& [index, render] : images_.renders())
    if (render.vm && render.vm->process == process.index) TRY(restore_render_once(render));
  return {};
}

// If KFD uses the VM of a file, the task of the VM's process restores the file, after the process.
Status Restore::ensure_render(const image::Render& render) {
  if (render.vm && !shared_.is_done(layout_.job_of({false, render.vm->process}))) {
    const image::Process& process = images_.processes().at(render.vm->process);
    return &process == own_process() ? ensure_process(process)
                                     : shared_.wait(layout_.job_of({true, render.index}));
  }
  return restore_render_once(render);
}

Status Restore::restore_render_once(const image::Render& render) {
  const size_t number = layout_.job_of({true, render.index});
  if (!TRY(shared_.begin(number))) return {};
  Job job(shared_, number);
  Status status = restore_render(render);
  if (!status.ok())
    return std::move(status).error().within("image " + image::render_file_name(render.index));
  job.done();
  return {};
}

Result<std::vector<kernel::RestoreDevice>> Restore::devices_of(const image::Process& process,
                                                               std::vector<Fd>& files) {
  std::vector<kernel::RestoreDevice> result;
  for (const image::Device& device : process.devices) {
    int fd = -1;
    if (device.has_vm)
      fd = files
               .emplace_back(TRY(shared_render(layout_.file_of_vm({process.index, device.gpu_id}),
                                               device.actual_gpu_id)))
               .get();
    result.push_back({device.gpu_id, gpus_.target(device.actual_gpu_id), fd});
  }
  return result;
}

Status Restore::restore_process(const image::Process& process) {
  if (!process.blob) return Error(EBADMSG, "has no state of /dev/kfd");
  const Fd kfd = TRY(gpus_.open_kfd());
  const Fd session = TRY(this->session(kernel::kfd_node(kfd)));
  std::vector<Fd> files;
  const auto devices = TRY(devices_of(process, files));
  TRY(make_imports(process.imports));
  std::vector<kernel::Bo> bos = process.bos;
  TRY(env_.api.restore(kernel::kfd_node(kfd), session.get(), devices, bos, *process.blob));
  gpus_.note_allocated(process.index);
  keep_offsets({false, process.index}, bos);
  TRY(filling_.added(objects_of(bos)));
  auto keep = [&] { return env_.store.add(kfd); };
  TRY(shared_.file_id(layout_.file_of_kfd(process.index), keep));
  return {};
}

Status Restore::restore_render(const image::Render& render) {
  const Fd file = TRY(shared_render(layout_.file_of_render(render.index), render.gpu.gpu_id));
  const Fd session = TRY(this->session(kernel::render_node(file)));
  TRY(make_imports(render.imports));
  std::vector<kernel::Bo> bos = render.bos;
  TRY(env_.api.restore(kernel::render_node(file), session.get(), {}, bos, render.blob));
  keep_offsets({true, render.index}, bos);
  return filling_.added(objects_of(bos));
}

// From then on the session holds the objects.
Status Restore::make_imports(std::span<const image::Exported> imports) {
  for (const image::Exported& exported : imports) TRY(restore_exported(exported));
  return {};
}

Result<Fd> Restore::restore_exported(const image::Exported& exported) {
  const Fd file = TRY(gpus_.open_render(exported.gpu.gpu_id));
  const kernel::Node node = kernel::render_node(file);
  const Fd session = TRY(this->session(node));
  return env_.api.restore_exported(node, session.get(), exported.state);
}

void Restore::keep_offsets(TableId table, std::span<const kernel::Bo> bos) {
  for (size_t i = 0; i < bos.size(); i++)
    shared_.set_offset(layout_.offset_of(table, i), bos[i].new_mmap_offset);
}

// Mappings

const std::vector<kernel::Bo>& Restore::bos_of(TableId table) const {
  return table.render ? images_.renders().at(table.index).bos
                      : images_.processes().at(table.index).bos;
}

Result<std::optional<NewMapping>> Restore::map(uint64_t start) {
  const image::Process* process = own_process();
  if (!process) return std::optional<NewMapping>();
  const auto vma = std::ranges::find(process->vmas, start, &image::Vma::start);
  if (vma == process->vmas.end()) return std::optional<NewMapping>();
  TRY(gpus_.settle());
  return std::optional(TRY(new_mapping(*process, *vma)));
}

Result<NewMapping> Restore::new_mapping(const image::Process& process, const image::Vma& vma) {
  if (image::is_freed(mappings_, process, vma)) return NewMapping{0, TRY(freed_memory())};
  if (vma.kfd) TRY(ensure_process(process));
  const auto places = mappings_.find(process, vma);
  if (places.empty()) {
    const topology::Assignment targets = gpus_.targets();
    const uint64_t offset =
        TRY(image::restored_kfd_offset(process, vma, env_.api.has_series() ? nullptr : &targets));
    return NewMapping{offset, TRY(shared_file(layout_.file_of_kfd(process.index)))};
  }
  const image::Place place = best_place(process, places);
  Fd file = TRY(vma.kfd ? shared_file(layout_.file_of_kfd(process.index)) : file_for(place));
  const kernel::Bo& bo = bos_of(place.table)[place.bo];
  const uint64_t offset = shared_.offset(layout_.offset_of(place.table, place.bo)) +
                          image::MappingIndex::offset_in_bo(vma, bo);
  return NewMapping{offset, std::move(file)};
}

// Any file that has the BO can map it. A file of the same process is closest to the original. A
// part of a BO needs a restored file, not one that only KFD had open.
image::Place Restore::best_place(const image::Process& process,
                                 std::span<const image::Place> places) const {
  auto is_restored = [&](const image::VmId& vm) {
    return std::ranges::any_of(images_.renders(),
                               [&](const auto& entry) { return entry.second.vm == vm; });
  };
  auto rank = [&](const image::Place& place) {
    if (!place.table.render) {
      const uint32_t gpu_id = bos_of(place.table)[place.bo].gpu_id;
      if (!is_restored({place.table.index, gpu_id})) return 4;
      return place.table.index == process.index ? 0 : 3;
    }
    const auto& holders = images_.renders().at(place.table.index).holders;
    return std::ranges::count(holders, process.pid) > 0 ? 1 : 2;
  };
  return *std::ranges::min_element(places, {}, rank);
}

// Another task restores it. Parts of BOs can be mapped only through a file that is restored and not
// yet resumed.
Status Restore::wait_for(const image::Process& process) {
  TRY(shared_.wait(layout_.job_of({false, process.index})));
  for (const auto& [index, render] : images_.renders())
    if (render.vm && render.vm->process == process.index)
      TRY(shared_.wait(layout_.job_of({true, index})));
  return {};
}

// A file that can map the BO, which must be restored by then.
Result<Fd> Restore::file_for(image::Place place) {
  if (place.table.render) {
    TRY(ensure_render(images_.renders().at(place.table.index)));
    return shared_file(layout_.file_of_render(place.table.index));
  }
  const image::Process& process = images_.processes().at(place.table.index);
  if (&process == own_process())
    TRY(ensure_process(process));
  else
    TRY(wait_for(process));
  return shared_file(layout_.file_of_vm({process.index, process.bos[place.bo].gpu_id}));
}

// Resume

Status Restore::check_complete() const {
  for (const auto& [index, process] : images_.processes())
    if (process.blob && !shared_.is_done(layout_.job_of({false, index})))
      return Error::of(EPROTO, "/dev/kfd of process {} ({}) was not restored", process.pid,
                       process.comm);
  for (const auto& [index, render] : images_.renders())
    if (!shared_.is_done(layout_.job_of({true, index})))
      return Error::of(EPROTO, "an open renderD{} of process {} ({}) was not restored",
                       render.gpu.render_minor, render.pid, render.comm);
  return filling_.check_all_filled();
}

Status Restore::finish() {
  if (empty() || env_.tasks() == Tasks::kUnknown) return {};
  while (env_.tasks() == Tasks::kBusy) {
    TRY(interruption_.check());
    if (background_ && background_->is_finished(kLook)) TRY(background_->finish());
    std::this_thread::sleep_for(kLook);
  }
  return env_.tasks() == Tasks::kFailed ? Status() : complete();
}

// All tasks have completed their own part.
Status Restore::complete() {
  shared_.close();
  gpus_.release_room();
  const auto complete = Clock::now();
  if (background_) {
    while (!background_->is_finished(kLook)) TRY(interruption_.check());
    TRY(background_->finish());
  }
  waited_ = Clock::now() - complete;
  TRY(check_complete());
  TRY(gpus_.watch_memory());
  if (!shared_.commit()) return Error(ECANCELED, "it was aborted: see the errors above");
  complete_ = true;
  status_.phase("filled");
  return {};
}

void Restore::write_statistics() const {
  const auto microseconds = [](Clock::duration time) -> uint64_t {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  };
  const SharedState::Filled filled = shared_.counted();
  amdgpu_criu::write_statistics(kRestoreStatistics,
                                {{"restore_us", microseconds(Clock::now() - start_)},
                                 {"waited_us", microseconds(waited_)},
                                 {"processes", images_.processes().size()},
                                 {"render_files", images_.renders().size()},
                                 {"bytes", filled.bytes},
                                 {"zero_bytes", filled.zero_bytes},
                                 {"submissions", filled.submissions}});
}

// CRIU has announced the restore by then, but the task must not run without that memory. What
// delayed the tasks since the commit, as a script of CRIU's, does not end it.
Status Restore::fetch_missing_memory(pid_t pid) const {
  if (!host::may_miss_memory()) return {};
  const Interruption interruption = interruption_.anew();
  BoundedWork fetch(interruption, "fetches memory that the GPU uses");
  TRY(fetch.start([pid](const Background::Fail& fail) {
    if (const Status status = host::fetch_missing_memory(pid); !status.ok()) fail(status.error());
  }));
  return fetch.finish();
}

Result<bool> Restore::resume(pid_t pid) {
  if (empty()) return false;
  if (!complete_) TRY(complete());
  const uint32_t number = TRY(host::namespace_pid(pid));
  const bool mine = not_resumed_.contains(number);
  if (mine) {
    TRY(fetch_missing_memory(pid));
    // No process may run on what a reset has left of its memory. RESUME fails for it, too, but does
    // not name the GPU.
    TRY(gpus_.check_memory());
    const Status resumed = resume_objects(pid, number);
    TRY(gpus_.check_memory());
    TRY(resumed);
    not_resumed_.erase(number);
  }
  // Descriptors of dma-bufs alone have no work that is resumed.
  if (not_resumed_.empty() && !std::exchange(ended_, true)) end();
  return mine;
}

Status Restore::resume_objects(pid_t pid, uint32_t number) {
  // Files before queues, which run at once.
  for (const auto& [index, render] : images_.renders()) {
    if (render.pid != number) continue;
    const Fd file = TRY(shared_file(layout_.file_of_render(index)));
    const Fd session = TRY(env_.store.get(shared_.session_id()));
    TRY(env_.api.resume(kernel::render_node(file), session.get(),
                        render.holders.empty() ? 0 : pid));
  }
  for (const auto& [index, process] : images_.processes()) {
    if (process.pid != number || !process.blob) continue;
    const Fd kfd = TRY(env_.host.open_kfd());
    const Fd session = TRY(env_.store.get(shared_.session_id()));
    TRY(env_.api.resume(kernel::kfd_node(kfd), session.get(), pid));
    if (process.opened) TRY(host::close_in(pid, static_cast<int>(*process.opened)));
  }
  return {};
}

// CRIU may wait for the tasks, and keeps its descriptor store meanwhile: the session and open files
// would keep GPU memory that the tasks free.
void Restore::end() {
  if (background_) background_->release();
  gpus_.stop_watching();
  if (const Status dropped = env_.store.drop(shared_.stored_ids()); !dropped.ok())
    log_warning("GPU memory is not free until CRIU ends: {}", dropped.error().message());
  write_statistics();
  status_.phase("succeeded");
}

}  // namespace amdgpu_criu::restore
