// SPDX-License-Identifier: GPL-2.0
// The functions that CRIU calls. They turn Results into its return values, log each error once, and
// catch all exceptions.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "base/log.h"
#include "base/no_destroy.h"
#include "criu/abi.h"
#include "criu/plugin.h"
#include "criu/program.h"

extern "C" amdgpu_criu::criu::Descriptor CR_PLUGIN_DESC;

namespace amdgpu_criu::criu {
namespace {

// The return value for "not mine: ask the next plugin".
constexpr int kNotMine = -ENOTSUP;
// No GPU node maps this offset: mmap() fails, and so does the restore.
constexpr uint64_t kUnmappable = ~0xfffull;

// CRIU forks while the plugin exists, and some of its children end with exit(). If fini() is not
// called, the end of the process releases everything.
NoDestroy<std::unique_ptr<Plugin>> holder;
std::unique_ptr<Parts> test_parts;
// The first error of this process.
NoDestroy<std::string> first_error;

// A dump that has succeeded, until CRIU ends. Its session keeps the GPU work paused: between fini()
// and the end of the dumped processes, their queues must not write files or memory of others.
struct Succeeded {
  std::unique_ptr<Plugin> plugin;
  pid_t owner = 0;
};
NoDestroy<Succeeded> succeeded;

// CRIU calls no hook if an action script fails at post-dump, or fini() before it.
void at_exit(int status, void*) {
  if (!succeeded->plugin || succeeded->owner != getpid() || status == 0) return;
  (void)without_exceptions([] {
    succeeded->plugin->remove_images_of_living();
    return Status();
  });
}

// CRIU unloads the plugin before it ends, but not after this call.
void stay_loaded() {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(stay_loaded), &self))
    (void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void keep_until_exit(std::unique_ptr<Plugin> plugin) {
  static bool registered = false;
  stay_loaded();
  if (!std::exchange(registered, true)) on_exit(at_exit, nullptr);
  *succeeded = {std::move(plugin), getpid()};
}

// ECANCELED is the consequence of an error of another task, which may still be about to report it.
void report(const char* what, const Error& error) {
  const std::string text = formatted("{}: {}", what, error.message());
  log_error("{}", text);
  if (first_error->empty()) *first_error = text;
  if (error.code() != ECANCELED) (*holder)->note_failure(text);
}

// Runs `body`, a Result, and logs its error. on_value turns the value into CRIU's answer.
template <typename Body, typename OnValue>
int guarded(const char* hook, const char* what, Body body, OnValue on_value) {
  if (!*holder) return kNotMine;
  try {
    auto result = [&]() -> decltype(body()) {
      TRY((*holder)->note_hook(hook));
      return body();
    }();
    if (result.ok()) return on_value(*result);
    report(what, result.error());
    // ENOTSUP would mean "not mine".
    return result.error().code() == ENOTSUP ? -EINVAL : -result.error().code();
  } catch (const std::exception& exception) {
    // There may be no memory for the report either.
    (void)without_exceptions([&] {
      report(what, Error(ENOMEM, exception.what()));
      return Status();
    });
    return -ENOMEM;
  }
}

int zero_if_mine(bool mine) { return mine ? 0 : kNotMine; }

// A signal during the hook fails the dump and does not end CRIU.
template <typename Body>
int guarded_dump(const char* hook, const char* what, Body body) {
  const CaughtSignals signals;
  return guarded(
      hook, what,
      [&]() -> Result<bool> {
        const bool mine = TRY(body());
        TRY(Interruption::check_signals("dump"));
        return mine;
      },
      zero_if_mine);
}

int checkpoint_devices(int pid) {
  return guarded_dump("CHECKPOINT_DEVICES", "pausing GPU work",
                      [&] { return (*holder)->checkpoint_devices(pid); });
}

int dump_ext_file(int fd, int id) {
  return guarded_dump("DUMP_EXT_FILE", "dumping a GPU file",
                      [&] { return (*holder)->dump_file(fd, id); });
}

int handle_device_vma(int, const struct stat* status) {
  return guarded_dump("HANDLE_DEVICE_VMA", "examining a mapping",
                      [&] { return (*holder)->handle_vma(*status); });
}

// After CRIU's own part, if that was successful.
int dump_devices_late(int) {
  return guarded_dump("DUMP_DEVICES_LATE", "saving GPU memory",
                      [&] { return (*holder)->finish_contents(); });
}

// result: 0 if the dump has succeeded
int dump_finish(int result) {
  const auto mine = without_exceptions([&]() -> Result<bool> {
    if (!*holder) return false;
    if (result != 0) (*holder)->report_failure(*first_error);
    return (*holder)->finish_dump(result != 0);
  });
  return guarded("DUMP_FINISH", "finishing the dump", [&] { return mine; }, zero_if_mine);
}

int restore_ext_file(int id, bool* retry) {
  return guarded(
      "RESTORE_EXT_FILE", "restoring a GPU file", [&] { return (*holder)->restore_file(id); },
      [&](std::optional<Fd>& fd) {
        if (!fd) return kNotMine;
        if (is_43()) *retry = false;
        return fd->release();
      });
}

// CRIU ignores an error of this hook and uses the old offset. An offset that cannot be mapped stops
// it.
int update_vma_map(const char* path, uint64_t address, uint64_t, uint64_t* new_offset, int* fd) {
  const int result = guarded(
      "UPDATE_VMA_MAP", "finding a GPU mapping", [&] { return (*holder)->map(address); },
      [&](std::optional<restore::NewMapping>& mapping) {
        if (!mapping) return kNotMine;
        *new_offset = mapping->offset;
        *fd = mapping->file.release();
        return 1;
      });
  if (result >= 0 || result == kNotMine) return result;
  log_error("the mapping of {} at {:#x} cannot be restored", path, address);
  *new_offset = kUnmappable;
  *fd = -1;
  return 1;
}

// CRIU 4.2 asks no other plugin after an answer, so the answer to success is that of no hook.
int post_forking() {
  const CaughtSignals signals;
  return guarded(
      "POST_FORKING", "filling GPU memory",
      []() -> Result<bool> {
        TRY((*holder)->finish_restore());
        return false;
      },
      zero_if_mine);
}

int resume_devices_late(int pid) {
  const CaughtSignals signals;
  const int result = guarded(
      "RESUME_DEVICES_LATE", "resuming GPU work", [&] { return (*holder)->resume(pid); },
      zero_if_mine);
  if (is_43() || !*holder) return result;
  const bool failed = result < 0 && result != kNotMine;
  const Status noted = without_exceptions([&] {
    for (const pid_t doomed : (*holder)->doomed(pid, failed)) {
      log_error("process {} is killed: it or another one cannot continue without its GPU", doomed);
      kill(doomed, SIGKILL);
    }
    return Status();
  });
  if (!noted.ok() && failed) kill(pid, SIGKILL);
  return result;
}

int init(int stage) {
  send_log_to_criu();
  succeeded->plugin.reset();  // of an earlier request to the same process
  try {
    auto created = Plugin::create(stage, test_parts ? std::move(*test_parts) : real_parts());
    test_parts.reset();
    if (!created.ok()) {
      log_error("{}", created.error().message());
      return -created.error().code();
    }
    *holder = std::move(*created);
    if ((*holder)->announces_post_forking() && !is_43()) CR_PLUGIN_DESC.max_hooks = kHookCount42;
    return 0;
  } catch (const std::exception& exception) {
    log_error("cannot start: {}", exception.what());
    return -ENOMEM;
  }
}

// CRIU's last lines name the failed hook and an unrelated errno; the reason is logged after them.
void finish(int stage, bool failed) {
  std::string reason = *first_error;
  if (*holder) {
    (void)(*holder)->note_hook("FINI");
    if (const std::string of_all = (*holder)->failure(); !of_all.empty()) reason = of_all;
    if (failed) (*holder)->report_failure(reason);
    (*holder)->finish_dump(failed);
    if (reason.empty()) reason = (*holder)->full_disk();
    if (reason.empty() && !(*holder)->needs().empty())
      reason = "in CRIU's own part, perhaps because " + (*holder)->needs();
    if (!failed && (*holder)->keeps_paused()) keep_until_exit(std::move(*holder));
  }
  holder->reset();
  if (failed && !reason.empty())
    log_error("the {} has failed: {}", stage == kStageRestore ? "restore" : "dump", reason);
}

// Before 4.3, nothing else announces the end of a dump, even of a failed one.
void fini(int stage, int result) {
  const Status status = without_exceptions([&] {
    finish(stage, result != 0);
    return Status();
  });
  if (!status.ok()) log_error("cannot end in order: {}", status.error().message());
  holder->reset();
  first_error->clear();
}

template <typename Type>
void* hook(Type* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void exit_for_test(int status) {
  at_exit(status, nullptr);
  succeeded->plugin.reset();
}

void set_parts_for_test(Parts parts) { test_parts = std::make_unique<Parts>(std::move(parts)); }

}  // namespace amdgpu_criu::criu

extern "C" {
[[gnu::visibility("default")]] amdgpu_criu::criu::Descriptor CR_PLUGIN_DESC = {
    .name = "amdgpu_criu_plugin",
    .init = amdgpu_criu::criu::init,
    .exit = amdgpu_criu::criu::fini,
    .version = amdgpu_criu::criu::kVersion41,
    .max_hooks = amdgpu_criu::criu::kHookCount41,
    .hooks = {},
};
}

namespace amdgpu_criu::criu {
namespace {

[[gnu::constructor]] void complete_descriptor() {
  CR_PLUGIN_DESC.hooks[kDumpExtFile] = hook<DumpExtFile>(dump_ext_file);
  CR_PLUGIN_DESC.hooks[kRestoreExtFile] = hook<RestoreExtFile>(restore_ext_file);
  CR_PLUGIN_DESC.hooks[kHandleDeviceVma] = hook<HandleDeviceVma>(handle_device_vma);
  CR_PLUGIN_DESC.hooks[kUpdateVmaMap] = hook<UpdateVmaMap>(update_vma_map);
  CR_PLUGIN_DESC.hooks[kResumeDevicesLate] = hook<ResumeDevicesLate>(resume_devices_late);
  CR_PLUGIN_DESC.hooks[kCheckpointDevices] = hook<CheckpointDevices>(checkpoint_devices);
  CR_PLUGIN_DESC.hooks[kPostForking] = hook<PostForking>(post_forking);
  CR_PLUGIN_DESC.hooks[kDumpDevicesLate] = hook<DumpDevicesLate>(dump_devices_late);
  CR_PLUGIN_DESC.hooks[kDumpFinish] = hook<DumpFinish>(dump_finish);
  if (!is_43()) return;
  CR_PLUGIN_DESC.version = kVersion43;
  CR_PLUGIN_DESC.max_hooks = kHookCount43;
}

}  // namespace
}  // namespace amdgpu_criu::criu
