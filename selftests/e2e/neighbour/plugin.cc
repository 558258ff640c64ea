// SPDX-License-Identifier: GPL-2.0
// A second plugin for CRIU, beside ours: it carries descriptors of /dev/cpu_dma_latency, which CRIU
// does not carry, and answers "not mine" to everything else. The file that NEIGHBOUR_LOG names gets
// a line "HOOK ANSWER" for each call.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "criu/abi.h"

namespace {

using namespace amdgpu_criu::criu;

constexpr char kDevice[] = "/dev/cpu_dma_latency";

// One write(2), also in a restored task.
int answer(const char* hook, int result) {
  const char* path = getenv("NEIGHBOUR_LOG");
  const int log = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
  if (log < 0) return result;
  dprintf(log, "%s %d\n", hook, result);
  close(log);
  return result;
}
int not_mine(const char* hook) { return answer(hook, -ENOTSUP); }

bool is_43() { return criu_plugin_get_options != nullptr; }

struct ImageName {
  explicit ImageName(int id) { snprintf(text, sizeof(text), "neighbour-%d.img", id); }
  char text[40];
};

int dump_ext_file(int fd, int id) {
  struct stat file, device;
  if (fstat(fd, &file) != 0 || stat(kDevice, &device) != 0 || file.st_rdev != device.st_rdev)
    return not_mine("DUMP_EXT_FILE");
  const int image = openat(criu_get_image_dir(), ImageName(id).text, O_WRONLY | O_CREAT, 0600);
  if (image >= 0) close(image);
  return answer("DUMP_EXT_FILE", image < 0 ? -errno : 0);
}

int restore_ext_file(int id, bool* retry) {
  if (faccessat(criu_get_image_dir(), ImageName(id).text, F_OK, 0) != 0)
    return not_mine("RESTORE_EXT_FILE");
  if (is_43()) *retry = false;
  const int file = open(kDevice, O_RDWR);
  answer("RESTORE_EXT_FILE", file < 0 ? -errno : 0);
  return file;
}

int handle_device_vma(int, const struct stat*) { return not_mine("HANDLE_DEVICE_VMA"); }
int update_vma_map(const char*, uint64_t, uint64_t, uint64_t*, int*) {
  return not_mine("UPDATE_VMA_MAP");
}
int pause_devices(int) { return not_mine("PAUSE_DEVICES"); }
int checkpoint_devices(int) { return not_mine("CHECKPOINT_DEVICES"); }
int resume_devices_late(int) { return not_mine("RESUME_DEVICES_LATE"); }
int post_forking() { return not_mine("POST_FORKING"); }
int dump_devices_late(int) { return not_mine("DUMP_DEVICES_LATE"); }
int dump_finish(int) { return not_mine("DUMP_FINISH"); }

int init(int) { return 0; }
void fini(int, int) {}

template <typename Type>
void* hook(Type* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] Descriptor CR_PLUGIN_DESC = {
    .name = "neighbour",
    .init = init,
    .exit = fini,
    .version = kVersion41,
    .max_hooks = kHookCount41,
    .hooks = {},
};
}

[[gnu::constructor]] static void complete_descriptor() {
  CR_PLUGIN_DESC.hooks[kDumpExtFile] = hook<DumpExtFile>(dump_ext_file);
  CR_PLUGIN_DESC.hooks[kRestoreExtFile] = hook<RestoreExtFile>(restore_ext_file);
  CR_PLUGIN_DESC.hooks[kHandleDeviceVma] = hook<HandleDeviceVma>(handle_device_vma);
  CR_PLUGIN_DESC.hooks[kUpdateVmaMap] = hook<UpdateVmaMap>(update_vma_map);
  CR_PLUGIN_DESC.hooks[kPauseDevices] = hook<CheckpointDevices>(pause_devices);
  CR_PLUGIN_DESC.hooks[kCheckpointDevices] = hook<CheckpointDevices>(checkpoint_devices);
  CR_PLUGIN_DESC.hooks[kResumeDevicesLate] = hook<ResumeDevicesLate>(resume_devices_late);
  CR_PLUGIN_DESC.hooks[kPostForking] = hook<PostForking>(post_forking);
  CR_PLUGIN_DESC.hooks[kDumpDevicesLate] = hook<DumpDevicesLate>(dump_devices_late);
  CR_PLUGIN_DESC.hooks[kDumpFinish] = hook<DumpFinish>(dump_finish);
  if (!is_43()) return;
  CR_PLUGIN_DESC.version = kVersion43;
  CR_PLUGIN_DESC.max_hooks = kHookCount43;
}
