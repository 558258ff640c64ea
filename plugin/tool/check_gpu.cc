// SPDX-License-Identifier: GPL-2.0
// Checks the driver, its checkpoint/restore interface, and GPUs.
#include "kernel/kernel_api.h"
#include "tool/check.h"

namespace amdgpu_criu::tool {
namespace {

// KFD's numbers: the generation, two digits of the minor version, two of the stepping.
constexpr uint64_t kGfx8 = 80000, kGfx9 = 90000, kGfx10 = 100000, kGfx11 = 110000, kGfx12 = 120000,
                   kGfx12_6 = 120600;
constexpr char kInterface[] = "kernel interface";
constexpr char kNewModule[] =
    "install an amdgpu module with the checkpoint/restore series (package amdgpu-criu-dkms)";

Item check_gpu(const Machine& machine, const host::Host& host, const topology::Gpu& gpu) {
  const uint64_t target = gpu.property("gfx_target_version");
  const std::string found = formatted("gfx target {}, {} MiB of VRAM, {} links to other GPUs",
                                      target, gpu.property("vram_size") >> 20, gpu.links.size());
  const auto node = host.open_render(gpu.render_minor);
  if (!node.ok())
    return {gpu.describe(), Grade::kBad, found, node.error().message() + ": it cannot be used",
            "make its render node accessible: as root, in its group, in the container's devices"};
  if (const Status engine = machine.check_engine(*node); !engine.ok())
    return {gpu.describe(), Grade::kBad, found,
            engine.error().message() + ": its memory can be neither saved nor restored",
            engine.error().code() == ENOTSUP
                ? "load amdgpu with user_queue=0, or 1 if programs use user queues"
                : "see the kernel log for the reason"};
  if (target < kGfx8 || target >= kGfx12_6)
    return {gpu.describe(), Grade::kLimited, found,
            "processes that have KFD queues on it are refused at dump: its generation is not known",
            "use a GPU of GFX9 to GFX12 for these"};
  const bool tested = (target >= kGfx9 && target < kGfx10) || (target >= kGfx11 && target < kGfx12);
  if (!tested)
    return {gpu.describe(), Grade::kLimited, found,
            "queues of its generation are carried untested (GFX12: not on Linux 6.12)",
            "verify the results of a restored process"};
  return Item::good(gpu.describe(), found);
}

}  // namespace

Item check_driver(const host::Host& host, Fd& kfd) {
  constexpr char kWhat[] = "GPU driver";
  if (!host.has_kfd())
    return {kWhat, Grade::kBad, "no /dev/kfd", "nothing can be dumped or restored here",
            "load amdgpu, or pass /dev/kfd into the container"};
  auto opened = host.open_kfd();
  if (!opened.ok())
    return {kWhat, Grade::kBad, opened.error().message(), "GPU processes cannot be dumped",
            "run as root, or join the group of /dev/kfd (usually render)"};
  kfd = std::move(*opened);
  return Item::good(kWhat, "/dev/kfd");
}

Item check_interface(const Fd& kfd) {
  if (!kfd.valid())
    return {kInterface, Grade::kBad, "not examined: /dev/kfd is not open", "", "see above"};
  const auto query = kernel::make_ioctl_api()->query(kernel::kfd_node(kfd));
  if (!query.ok() && query.error().code() == ENOTTY)
    return {kInterface, Grade::kLimited, "the stock one, AMDKFD_IOC_CRIU_OP",
            "only the state of /dev/kfd is carried, of processes that use all GPUs, to as many "
            "GPUs; trap handlers are lost; if CRIU is killed during a dump, queues stay stopped; "
            "BOs of render nodes, shared BOs, dma-bufs and interrupted compute work are refused",
            kNewModule};
  if (!query.ok())
    return {kInterface, Grade::kBad, query.error().message(), "GPU processes are refused at dump",
            kNewModule};
  const bool render = query->features & AMDGPU_CRIU_FEATURE_RENDER;
  const std::string found =
      formatted("ABI {} to {}, state format {}, {} record types, KFD {}, render nodes {}",
                query->abi_min, query->abi_max, query->blob_format, query->records.size(),
                query->features & AMDGPU_CRIU_FEATURE_KFD ? "yes" : "no", render ? "yes" : "no");
  if (query->abi_min > AMDGPU_CRIU_ABI)
    return {kInterface, Grade::kBad, found, "the kernel no longer supports this plugin's ABI",
            "install a newer plugin"};
  if (!render)
    return {kInterface, Grade::kBad, found,
            "what a process does through render nodes itself (BOs, contexts, shared buffers) is "
            "refused at dump; processes that use them through /dev/kfd only are carried",
            kNewModule};
  return Item::good(kInterface, found);
}

std::vector<Item> check_gpus(const Machine& machine, const host::Host& host) {
  const auto gpus = host.gpus();
  if (!gpus.ok())
    return {{"GPUs", Grade::kBad, gpus.error().message(), "GPUs cannot be matched at restore",
             "make sysfs readable here: mount it, or pass it into the container"}};
  if (gpus->empty())
    return {{"GPUs", Grade::kBad, "none in KFD's topology", "nothing to dump or restore",
             "see the kernel log for the reason"}};
  std::vector<Item> items;
  for (const topology::Gpu& gpu : *gpus) items.push_back(check_gpu(machine, host, gpu));
  return items;
}

}  // namespace amdgpu_criu::tool
