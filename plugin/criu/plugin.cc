// SPDX-License-Identifier: GPL-2.0
#include "criu/plugin.h"

#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "base/numbers.h"
#include "criu/abi.h"
#include "criu/program.h"
#include "criu/source.h"
#include "dump/room.h"
#include "host/criu_needs.h"
#include "options/restore_file.h"

namespace amdgpu_criu::criu {

Parts real_parts() {
  Parts parts{
      kernel::make_ioctl_api(), {}, gpu::make_sdma_engine, gpu::check_sdma, gpu::count_losses};
  parts.has_late_hook = is_43();
  return parts;
}

Plugin::~Plugin() { kernel::set_call_filter({}); }

Plugin::Plugin(int stage, Parts parts)
    : stage_(stage),
      parts_(std::move(parts)),
      host_(host::Host::create(parts_.host)),
      store_(make_fd_store()) {}

Result<std::unique_ptr<Plugin>> Plugin::create(int stage, Parts parts) {
  std::unique_ptr<Plugin> plugin(new Plugin(stage, std::move(parts)));
  TRY(plugin->prepare());
  return plugin;
}

Result<std::string> Plugin::restore_file() const {
  const auto images = image_directory();
  if (stage_ != kStageRestore || !images.ok()) return std::string();
  std::error_code error;  // leaves an empty path
  const auto path = std::filesystem::read_symlink(formatted("/proc/self/fd/{}", *images), error);
  std::string file = TRY(options::find_restore_file(
      host_.run_directory() + "/" + options::kRestoreFiles, path.string(), host_.container_id()));
  if (!file.empty()) log_info("{} has options of this restore", file);
  return file;
}

// CRIU would end without a plugin that does not start, even if no process uses a GPU.
void Plugin::read_options() {
  auto parsed = [&]() -> Result<options::Options> {
    return options::parse(plugin_options(), parts_.option_file, TRY(restore_file()));
  }();
  if (parsed.ok()) {
    options_ = std::move(*parsed);
    log_info("amdgpu_criu_plugin {}, options: {}", AMDGPU_CRIU_VERSION,
             options::describe(options_));
    if (options_.status_fd >= 0 && !is_writable(options_.status_fd)) {
      log_warning("option status-fd: descriptor {} is not open for writing", options_.status_fd);
      options_.status_fd = -1;
    }
    return;
  }
  log_warning("amdgpu_criu_plugin {}: {}: GPU state is neither dumped nor restored",
              AMDGPU_CRIU_VERSION, parsed.error().message());
  options_mistake_ = std::move(parsed).error();
}

Result<options::Options> Plugin::checked_options() const {
  if (options_mistake_) return *options_mistake_;
  return options_;
}

Status Plugin::prepare() {
  read_options();
  if (!options_.test_fail.empty()) {
    faults_ = TRY(options::Faults::create(options_.test_fail));
    kernel::set_call_filter(
        [this](const char* operation) { return faults_.at("ioctl", operation); });
    TRY(note_hook("INIT"));
  }
  if (stage_ != kStageRestore) return {};
  auto source = TRY(find_source(parts_, host_, checked_options()));
  if (!source) return {};
  stock_ = std::move(source->api);
  // Only the task that has restored an object can fill it, once: there is no second dma-buf to
  // compare it by. The CPU checks each chunk before it is copied.
  if (stock_) options_.parallel = options_.gpu_hashes = false;
  restore_ =
      TRY(restore::Restore::create({api(), host_, *store_, parts_.make_engine, parts_.check_engine,
                                    parts_.count_losses, options_, faults_, image_directory, tasks},
                                   std::move(source->images)));
  if (restore_->empty()) return {};
  const auto tasks = numbers_of_tasks(TRY(image_directory()));
  choose_numbers_of_helpers(tasks.ok() ? *tasks : std::set<uint32_t>());
  return restore_->start_background();
}

// The interface of the kernel is examined at the first process that uses a GPU. Without one,
// /dev/kfd is not opened.
Result<bool> Plugin::need_interface(pid_t pid) {
  if (chosen_) return true;
  if (!TRY(host_.uses_gpu(pid))) return false;
  TRY(checked_options());
  chosen_ = true;
  stock_ = stock_api_if_needed(parts_, host_);
  return true;
}

dump::Dump& Plugin::dump() {
  if (!dump_) {
    dump_ = std::make_unique<dump::Dump>(
        dump::DumpContext{api(), host_, parts_.make_engine, options_, image_directory,
                          parts_.has_late_hook, false, parts_.count_losses});
    for (const pid_t pid : without_gpu_) dump_->note_dumped(pid);
  }
  return *dump_;
}

Status Plugin::note_written() {
  if (required_ || !dump_->has_written()) return {};
  TRY(require_at_restore());
  required_ = true;
  return {};
}

// CRIU names some of them in the middle of its log, and ends with another message.
void Plugin::note_needs(pid_t pid) {
  std::ifstream file("/proc/self/cmdline");
  const std::string command_line{std::istreambuf_iterator<char>(file), {}};
  for (const host::CriuNeed& need : host::criu_needs_of(pid)) {
    if (host::is_met(need, command_line)) continue;
    if (!host::has_no_options(command_line)) log_warning("{}", need.describe());
    needs_ += (needs_.empty() ? "" : ", or ") + need.describe();
  }
}

Result<bool> Plugin::checkpoint_devices(pid_t pid) {
  // CRIU also passes -1, as a marker.
  if (stage_ != kStageDump || pid <= 0) return false;
  if (!TRY(need_interface(pid))) {
    without_gpu_.push_back(pid);
    return false;
  }
  if (streams_images())
    return Error(EOPNOTSUPP,
                 "with criu --stream the images of GPU state and memory would stay behind in the "
                 "image directory: dump without it");
  TRY(dump().lock_images());
  note_needs(pid);
  TRY(dump().pause(pid));
  return dump_->has_paused(pid);
}

Result<bool> Plugin::dump_file(int fd, int id) {
  if (stage_ != kStageDump) return false;
  if (host_.classify(fd) || host_.is_dmabuf(fd)) TRY(checked_options());
  const bool ours = TRY(dump().dump_file(fd, id));
  TRY(note_written());
  return ours;
}

// CRIU does not pass the process of the mapping, but pause() has collected those of all.
Result<bool> Plugin::handle_vma(const struct stat& status) {
  if (!host_.classify(status)) return false;
  if (stage_ == kStagePreDump) return true;
  if (stage_ != kStageDump || !dump_ || !dump_->has_paused()) return false;
  TRY(dump_->prepare());
  TRY(note_written());
  return true;
}

Result<bool> Plugin::finish_contents() {
  if (!dump_ || !dump_->has_work()) return false;
  TRY(dump_->finish());
  return true;
}

// Discarded images leave room.
bool Plugin::finish_dump(bool failed) {
  if (!dump_) return false;
  const bool mine = dump_->has_work();
  if (const auto directory = image_directory(); failed && dump_->has_paused() && directory.ok())
    full_disk_ = dump::full_disk(*directory);
  if (failed)
    dump_->discard();
  else
    dump_->succeed();
  // The stock interface needs a caller that traces the processes, which CRIU soon no longer does.
  if (failed || stock_ || !mine) dump_.reset();
  return mine;
}

Result<std::optional<Fd>> Plugin::restore_file(int id) {
  if (!restore_) return std::optional<Fd>();
  return restore_->open_file(id);
}

Result<std::optional<restore::NewMapping>> Plugin::map(uint64_t start) {
  if (!restore_) return std::optional<restore::NewMapping>();
  return restore_->map(start);
}

Status Plugin::finish_restore() { return restore_ ? restore_->finish() : Status(); }

Result<bool> Plugin::resume(pid_t pid) {
  if (!restore_) return false;
  return restore_->resume(pid);
}

void Plugin::report_failure(std::string_view reason) const {
  if (dump_ && dump_->has_paused()) dump_->status().phase("failed", reason);
  if (restore_ && !restore_->empty()) restore_->status().phase("failed", reason);
}

std::vector<pid_t> Plugin::doomed(pid_t pid, bool failed) {
  resumed_.push_back(pid);
  resume_failed_ = resume_failed_ || failed;
  return resume_failed_ ? std::exchange(resumed_, {}) : std::vector<pid_t>();
}

}  // namespace amdgpu_criu::criu
