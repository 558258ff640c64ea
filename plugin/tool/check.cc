// SPDX-License-Identifier: GPL-2.0
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "host/host.h"
#include "kernel/api.h"
#include "tool/commands.h"
#include "tool/json.h"

namespace tool {
namespace {

constexpr char kPluginDirectory[] = "/usr/lib/criu";
constexpr char kPluginName[] = "amdgpu_criu_plugin.so";
constexpr unsigned kCapSysAdmin = 21;
constexpr unsigned kCapCheckpointRestore = 40;

// One line of the report. Where ok, consequence and remedy are empty.
struct Item {
  std::string what;
  bool ok;
  std::string found;
  std::string consequence;
  std::string remedy;
};

Item check_device(const host::Host& host, base::Fd& kfd) {
  if (!host.has_kfd())
    return {"GPU driver", false, "no /dev/kfd", "nothing can be dumped or restored here",
            "load amdgpu, or pass /dev/kfd into the container"};
  auto opened = host.open_kfd();
  if (!opened.ok())
    return {"GPU driver", false, opened.error().message(), "GPU processes cannot be dumped",
            "run as root, or join the group of /dev/kfd (usually render)"};
  kfd = std::move(*opened);
  return {"GPU driver", true, "/dev/kfd", "", ""};
}

Item check_interface(const base::Fd& kfd) {
  if (!kfd.valid()) return {"kernel interface", false, "not asked: no /dev/kfd", "", ""};
  const auto query = kernel::make_ioctl_api()->query(kernel::kfd_node(kfd));
  if (!query.ok())
    return {"kernel interface", false, query.error().message(), "GPU processes are refused at dump",
            "install an amdgpu module with the checkpoint/restore series (amdgpu-criu-dkms)"};
  const std::string found =
      std::format("ABI {} to {}, state format {}, {} record types, KFD {}, render nodes {}",
                  query->abi_min, query->abi_max, query->blob_format, query->records.size(),
                  query->features & AMDGPU_CRIU_FEATURE_KFD ? "yes" : "no",
                  query->features & AMDGPU_CRIU_FEATURE_RENDER ? "yes" : "no");
  if (query->abi_min > AMDGPU_CRIU_ABI)
    return {"kernel interface", false, found, "the kernel no longer speaks this plugin's ABI",
            "install a newer plugin"};
  if (!(query->features & AMDGPU_CRIU_FEATURE_RENDER))
    return {"kernel interface", false, found,
            "what a process does through render nodes itself (BOs, contexts, shared buffers) is "
            "refused at dump; processes that use them through /dev/kfd only are carried",
            "install a newer amdgpu module with the checkpoint/restore series (amdgpu-criu-dkms)"};
  return {"kernel interface", true, found, "", ""};
}

Item check_capability() {
  std::ifstream status("/proc/self/status");
  uint64_t effective = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("CapEff:")) effective = strtoull(line.c_str() + 7, nullptr, 16);
  const bool ok = effective >> kCapSysAdmin & 1 || effective >> kCapCheckpointRestore & 1;
  return {"permission", ok, std::format("effective capabilities {:#x}", effective),
          ok ? "" : "the kernel refuses with EPERM",
          ok ? "" : "run criu as root or with CAP_CHECKPOINT_RESTORE"};
}

std::vector<Item> check_gpus(const host::Host& host) {
  std::vector<Item> items;
  const auto gpus = host.gpus();
  if (!gpus.ok())
    return {{"GPUs", false, gpus.error().message(), "GPUs cannot be matched at restore", ""}};
  for (const topology::Gpu& gpu : *gpus) {
    const auto node = host.open_render(gpu.render_minor);
    items.push_back(
        {gpu.describe(), node.ok(),
         std::format("gfx target {}, {} MiB of VRAM", gpu.property("gfx_target_version"),
                     gpu.property("vram_size") >> 20),
         node.ok() ? "" : node.error().message() + ": its memory cannot be copied",
         node.ok() ? "" : "make the render node accessible"});
  }
  if (items.empty())
    items.push_back({"GPUs", false, "none in KFD's topology", "nothing to dump or restore", ""});
  return items;
}

Item check_criu() {
  struct Closer {
    void operator()(FILE* pipe) const { pclose(pipe); }
  };
  const std::unique_ptr<FILE, Closer> pipe(popen("criu --version 2>/dev/null", "r"));
  int major = 0, minor = 0;
  if (!pipe || fscanf(pipe.get(), "Version: %d.%d", &major, &minor) != 2)
    return {"CRIU", false, "no criu command", "nothing to load the plugin", "install criu"};
  const std::string found = std::format("version {}.{}", major, minor);
  if (major < 4 || (major == 4 && minor < 1))
    return {"CRIU", false, found, "it lacks the hook at which GPUs are paused",
            "install CRIU 4.1 or later"};
  return {"CRIU", true, found, "", ""};
}

Item check_plugin() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(fs::path(kPluginDirectory) / "amdgpu_plugin.so", error))
    return {"plugin", false, "amdgpu_plugin.so, CRIU's own, is installed as well",
            "two plugins claim the same files",
            std::format("remove it from {}, or choose a directory with criu --libdir",
                        kPluginDirectory)};
  if (!fs::exists(fs::path(kPluginDirectory) / kPluginName, error))
    return {"plugin", false, std::format("no {} in {}", kPluginName, kPluginDirectory),
            "CRIU does not find it by itself", "install it there, or use criu --libdir DIR"};
  return {"plugin", true, std::format("{}/{}", kPluginDirectory, kPluginName), "", ""};
}

Item check_kcmp() {
  const auto same = host::same_file(STDERR_FILENO, STDERR_FILENO);
  return {"comparing open files", same.ok(), same.ok() ? "kcmp works" : same.error().message(),
          same.ok() ? "" : "neither CRIU nor the plugin can tell files apart",
          same.ok() ? "" : "a kernel with CONFIG_KCMP, without a seccomp filter against it"};
}

void print(const Item& item) {
  printf("%-4s %s: %s\n", item.ok ? "ok" : "BAD", item.what.c_str(), item.found.c_str());
  if (!item.consequence.empty()) printf("       consequence: %s\n", item.consequence.c_str());
  if (!item.remedy.empty()) printf("       remedy: %s\n", item.remedy.c_str());
}

}  // namespace

int check(Format format) {
  const host::Host host = host::Host::create();
  base::Fd kfd;
  std::vector<Item> items{check_device(host, kfd)};
  items.push_back(check_interface(kfd));
  for (Item& item : check_gpus(host)) items.push_back(std::move(item));
  for (auto function : {check_capability, check_criu, check_plugin, check_kcmp})
    items.push_back(function());
  bool ok = true;
  Json::Array array;
  for (const Item& item : items) {
    ok = ok && item.ok;
    if (format == Format::kText) print(item);
    array.push_back(Json::Object{{"what", item.what},
                                 {"ok", item.ok},
                                 {"found", item.found},
                                 {"consequence", item.consequence},
                                 {"remedy", item.remedy}});
  }
  if (format == Format::kJson)
    printf("%s\n", Json(Json::Object{{"ok", ok}, {"checks", std::move(array)}}).text().c_str());
  return ok ? 0 : 1;
}

}  // namespace tool
