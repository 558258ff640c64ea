// SPDX-License-Identifier: GPL-2.0
#include "render/refused.h"

#include <linux/udmabuf.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xf86drm.h>

#include <cstdlib>
#include <memory>

#include "render/channel.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Mapping;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

using Release = std::function<Status()>;

// Keeps a value until it is released.
template <typename T>
Release until_release(T value) {
  return [kept = std::make_shared<std::optional<T>>(std::move(value))]() -> Status {
    kept->reset();
    return {};
  };
}

// A dma-buf in flight between two sockets of the process. CRIU carries it, so its release checks
// what the socket returns.
Result<Release> in_a_socket(const RenderDevice& device, const SharedBlocks& blocks) {
  auto sockets = std::make_shared<std::pair<Channel, Channel>>(TRY(Channel::pair()));
  std::vector<Fd> fds;
  fds.push_back(TRY(blocks.x().export_dmabuf()));
  TRY(sockets->first.send_fds(fds));
  return Release([sockets, &device, &blocks]() -> Status {
    const std::vector<Fd> received = TRY(sockets->second.receive_fds(1));
    const RenderBo bo = TRY(RenderBo::import(device, received[0]));
    if (bo.handle() == blocks.x().handle()) return {};
    return Error::of(EBADMSG, "the dma-buf in the socket is GEM handle {}, block X is {}",
                     bo.handle(), blocks.x().handle());
  });
}

// A render-node file that is open only in a socket.
Result<Release> node_in_a_socket(const RenderDevice& device, const SharedBlocks&) {
  auto sockets = std::make_shared<std::pair<Channel, Channel>>(TRY(Channel::pair()));
  std::vector<Fd> fds;
  fds.push_back(
      TRY(Fd::open(amdgpu_criu::formatted("/proc/self/fd/{}", device.fd()).c_str(), O_RDWR)));
  TRY(sockets->first.send_fds(fds));
  return Release([sockets]() -> Status {
    TRY(sockets->second.receive_fds(1));
    return {};
  });
}

Result<Fd> make_udmabuf() {
  constexpr uint64_t kSize = 64 << 10;
  const Fd memory(memfd_create("udmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid() || ftruncate(memory.get(), kSize) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return Error::system("cannot create memory for a udmabuf");
  const Fd device = TRY(Fd::open("/dev/udmabuf", O_RDWR));
  udmabuf_create args = {static_cast<uint32_t>(memory.get()), UDMABUF_FLAGS_CLOEXEC, 0, kSize};
  Fd fd(ioctl(device.get(), UDMABUF_CREATE, &args));
  if (!fd.valid()) return Error::system("cannot create a udmabuf");
  return fd;
}

Result<Release> foreign_import(const RenderDevice& device, const SharedBlocks&) {
  const Fd fd = TRY(make_udmabuf());
  return until_release(TRY(RenderBo::import(device, fd)));
}

Result<Release> foreign_descriptor(const RenderDevice&, const SharedBlocks&) {
  return until_release(TRY(make_udmabuf()));
}

Result<Release> syncobj_descriptor(const RenderDevice& device, const SharedBlocks&) {
  const SyncObject object = TRY(SyncObject::create(device));
  return until_release(TRY(object.export_fd()));
}

Result<Release> fence_descriptor(const RenderDevice& device, const SharedBlocks&) {
  const SyncObject object = TRY(SyncObject::create(device, true));
  int fd = -1;
  TRY(checked(amdgpu_cs_syncobj_export_sync_file(device.get(), object.handle(), &fd),
              "cannot export a fence"));
  return until_release(Fd(fd));
}

// Signaling the syncobj would have to signal an eventfd.
Result<Release> waiting_eventfd(const RenderDevice& device, const SharedBlocks&) {
  auto object = std::make_shared<SyncObject>(TRY(SyncObject::create(device)));
  const Fd event(eventfd(0, EFD_CLOEXEC));
  drm_syncobj_eventfd args = {};
  args.handle = object->handle();
  args.fd = event.get();
  TRY(device.call(DRM_IOCTL_SYNCOBJ_EVENTFD, &args, "cannot attach an eventfd to a syncobj"));
  return Release([object]() -> Status { return object->signal(); });
}

Result<Release> card_node(const RenderDevice& device, const SharedBlocks&) {
  const std::unique_ptr<char, void (*)(void*)> path(drmGetPrimaryDeviceNameFromFd(device.fd()),
                                                    free);
  if (!path) return Error(ENODEV, "the GPU has no card node");
  return until_release(TRY(Fd::open(path.get(), O_RDWR)));
}

// One file with userptr BOs over the memory of two processes.
Result<Release> userptr_of_a_child(const RenderDevice& device, const SharedBlocks&) {
  auto own = std::make_shared<RenderBo>(
      TRY(RenderBo::create_userptr(device, 64 << 10, AMDGPU_GEM_USERPTR_REGISTER)));
  auto [here, there] = TRY(Channel::pair());
  const pid_t child = fork();
  if (child < 0) return Error::system("cannot fork");
  if (child == 0) {
    here = std::move(there);
    Result<RenderBo> bo = RenderBo::create_userptr(device, 64 << 10, AMDGPU_GEM_USERPTR_REGISTER);
    if (!here.answer({bo.ok() ? 0u : 1u, 0}).ok() || !bo.ok()) _exit(1);
    (void)here.next();  // until the parent releases it, or exits
    std::optional<RenderBo>(*std::move(bo)).reset();
    _exit(0);
  }
  if (TRY(here.wait_for_answer()).problems) return Error(EPROTO, "the child has no userptr BO");
  auto channel = std::make_shared<std::optional<Channel>>(std::move(here));
  return Release([own, channel, child]() -> Status {
    channel->reset();
    while (waitpid(child, nullptr, 0) < 0)
      if (errno != EINTR) return Error::system("cannot wait for the child");
    return {};
  });
}

Result<Release> mapped_dmabuf(const RenderDevice&, const SharedBlocks& blocks) {
  const Fd fd = TRY(blocks.x().export_dmabuf());
  return until_release(
      TRY(Mapping::map(blocks.x().size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get())));
}

// A program outside of the tree that has nothing of a GPU but this descriptor.
Result<Release> have_outside(int descriptor) {
  auto [here, there] = TRY(Channel::pair());
  const pid_t child = fork();
  if (child < 0) return Error::system("cannot fork");
  if (child == 0) {
    here = std::move(there);
    const pid_t orphan = fork();
    if (orphan != 0) _exit(here.answer({static_cast<uint64_t>(orphan), 0}).ok() ? 0 : 1);
    setsid();
    dup2(descriptor, STDIN_FILENO);
    close_range(STDERR_FILENO + 1, ~0u, 0);
    execlp("sleep", "sleep", "600", nullptr);
    _exit(127);
  }
  const auto orphan = static_cast<pid_t>(TRY(here.wait_for_answer()).problems);
  if (waitpid(child, nullptr, 0) != child || orphan <= 0)
    return Error(ECHILD, "cannot start a program outside of the tree");
  return Release([orphan]() -> Status {
    if (kill(orphan, SIGKILL) != 0) return Error::system("the program is gone");
    while (kill(orphan, 0) == 0) usleep(10'000);
    return {};
  });
}

Result<Release> outside_dmabuf(const RenderDevice&, const SharedBlocks& blocks) {
  const Fd dmabuf = TRY(blocks.x().export_dmabuf());
  return have_outside(dmabuf.get());
}

Result<Release> outside_node(const RenderDevice& device, const SharedBlocks&) {
  return have_outside(device.fd());
}

// Only a CPU mapping holds the BO.
Result<Release> only_mapped(const RenderDevice& device, const SharedBlocks&) {
  const RenderBo bo =
      TRY(RenderBo::create(device, {"mapped only", AMDGPU_GEM_DOMAIN_GTT, 0, 64 << 10}));
  return until_release(TRY(Mapping::map(bo.size(), PROT_READ | PROT_WRITE, MAP_SHARED, device.fd(),
                                        static_cast<off_t>(TRY(bo.mmap_offset())))));
}

constexpr Uncarried kAll[] = {
    {"socket", "a dma-buf descriptor in a socket", in_a_socket},
    {"node_in_socket", "a render-node descriptor in a socket", node_in_a_socket},
    {"udmabuf", "a BO imported from another driver", foreign_import},
    {"udmabuf_fd", "a dma-buf descriptor of another driver", foreign_descriptor},
    {"syncobj_fd", "a descriptor of a syncobj", syncobj_descriptor},
    {"fence_fd", "a descriptor of a fence", fence_descriptor},
    {"eventfd", "an eventfd that waits for a syncobj", waiting_eventfd},
    {"card_node", "an open card node", card_node},
    {"foreign_userptr", "userptr BOs over the memory of two processes", userptr_of_a_child},
    {"mapped_dmabuf", "a mapping of a dma-buf itself", mapped_dmabuf},
    {"outside_dmabuf", "a dma-buf descriptor of a program that is not dumped", outside_dmabuf},
    {"outside_node", "the open file of a program that is not dumped", outside_node},
    {"only_mapped", "a BO that is mapped, but has no handle", only_mapped},
};

}  // namespace

std::span<const Uncarried> all_uncarried() { return kAll; }

}  // namespace e2e
