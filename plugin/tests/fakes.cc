// SPDX-License-Identifier: GPL-2.0
#include "tests/fakes.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>

namespace testing_support {
namespace {

using base::Error;
using base::Fd;
using base::Result;
using base::Status;
using kernel::Node;

class FakeApi : public kernel::Api {
 public:
  explicit FakeApi(FakeState& state) : state_(state) {}

  Result<kernel::Query> query(Node) override {
    TRY(called("QUERY"));
    return kernel::Query{};
  }

  Result<Fd> create_session(Node, kernel::SessionKind) override {
    TRY(called("SESSION"));
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Error::system("pipe");
    state_.session_ends.emplace_back(ends[0]);
    return Fd(ends[1]);
  }

  Result<kernel::ProcessInfo> process_info(Node, int) override {
    TRY(called("PROCESS_INFO"));
    state_.paused = true;
    return kernel::ProcessInfo{.pid = state_.pid,
                               .num_devices = static_cast<uint32_t>(state_.devices.size()),
                               .num_bos = static_cast<uint32_t>(state_.bos.size()),
                               .num_queues = 1,
                               .blob_size = state_.blob.size()};
  }

  Result<kernel::Checkpoint> checkpoint(Node, int, const kernel::ProcessInfo&) override {
    TRY(called("CHECKPOINT"));
    if (!state_.paused) return Error(EBADFD, "not paused");
    kernel::Checkpoint result;
    for (const auto& device : state_.devices)
      result.devices.push_back(
          {device.gpu_id, device.actual_gpu_id, Fd(fcntl(device.drm_fd, F_DUPFD_CLOEXEC, 0))});
    result.bos = state_.bos;
    result.blob = state_.blob;
    return result;
  }

  Status unpause(Node, int) override {
    state_.paused = false;
    return called("UNPAUSE");
  }

  Status restore(Node, int, std::span<const kernel::RestoreDevice> devices,
                 std::span<kernel::Bo> bos, std::span<const std::byte> blob) override {
    TRY(called("RESTORE"));
    if (!std::ranges::equal(blob, state_.blob) || bos.size() != state_.bos.size())
      return Error(EBADMSG, "not what was saved");
    state_.restored_devices.assign(devices.begin(), devices.end());
    for (kernel::Bo& bo : bos) bo.new_mmap_offset = bo.mmap_offset + 0x500000000;
    return {};
  }

  Status resume(Node, int, pid_t pid) override {
    TRY(called("RESUME"));
    state_.resumed = pid;
    return {};
  }

  Result<Fd> dmabuf(Node, int, uint64_t object_id) override {
    TRY(called("DMABUF"));
    auto found = state_.objects.find(object_id);
    if (found == state_.objects.end()) return Error(ENOENT, "no such object");
    return found->second.duplicate();
  }

 private:
  Status called(const std::string& operation) {
    state_.calls.push_back(operation);
    auto failure = state_.failures.find(operation);
    if (failure == state_.failures.end()) return {};
    return Error(failure->second, "injected failure of " + operation);
  }

  FakeState& state_;
};

struct FakeImported : gpu::Imported {
  explicit FakeImported(Fd file) : file(std::move(file)) {}
  Fd file;
};

class FakeEngine : public gpu::Engine {
 public:
  explicit FakeEngine(gpu::StagingSize staging)
      : slots_(staging.slots), bytes_(staging.slots, std::vector<std::byte>(staging.bytes)) {}

  unsigned slots() const override { return slots_.size(); }
  std::span<std::byte> staging(unsigned slot) override { return bytes_[slot]; }

  Result<std::unique_ptr<gpu::Imported>> import(const Fd& dmabuf, uint64_t size) override {
    struct stat status;
    if (fstat(dmabuf.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < size)
      return Error(EINVAL, "dma-buf is too small");
    return std::unique_ptr<gpu::Imported>(new FakeImported(TRY(dmabuf.duplicate())));
  }
  Status start_read(unsigned slot, gpu::Imported& bo, uint64_t offset, size_t size) override {
    return start(slot, bo, offset, size, false);
  }
  Status start_write(unsigned slot, gpu::Imported& bo, uint64_t offset, size_t size) override {
    return start(slot, bo, offset, size, true);
  }
  Status wait(unsigned index) override {
    const Slot slot = std::exchange(slots_[index], Slot());
    if (slot.fd < 0) return {};
    if (fail_copies_after-- == 0) return Error(EIO, "injected failure of a copy");
    const ssize_t done = slot.write ? pwrite(slot.fd, bytes_[index].data(), slot.size, slot.offset)
                                    : pread(slot.fd, bytes_[index].data(), slot.size, slot.offset);
    if (done != static_cast<ssize_t>(slot.size)) return Error(EIO, "short copy");
    return {};
  }

 private:
  struct Slot {
    int fd = -1;
    uint64_t offset = 0;
    size_t size = 0;
    bool write = false;
  };
  Status start(unsigned index, gpu::Imported& bo, uint64_t offset, size_t size, bool write) {
    if (slots_[index].fd >= 0) return Error(EBUSY, "slot is still busy");
    slots_[index] = {static_cast<FakeImported&>(bo).file.get(), offset, size, write};
    return {};
  }

  std::vector<Slot> slots_;
  std::vector<std::vector<std::byte>> bytes_;
};

}  // namespace

int fail_copies_after = -1;

int FakeState::open_sessions() const {
  int open = 0;
  for (const Fd& end : session_ends) {
    pollfd poll_fd{end.get(), 0, 0};
    poll(&poll_fd, 1, 0);
    if (!(poll_fd.revents & POLLHUP)) open++;
  }
  return open;
}

std::unique_ptr<kernel::Api> make_fake_api(FakeState& state) {
  return std::make_unique<FakeApi>(state);
}

void add_object(FakeState& state, kernel::Bo bo, unsigned seed) {
  Fd memory(memfd_create("object", MFD_CLOEXEC));
  std::string bytes(bo.size, 0);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = (i * 31 + i / 4096 * 7 + seed) & 0xff;
  if (pwrite(memory.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    abort();
  state.objects[bo.object_id] = std::move(memory);
  state.bos.push_back(bo);
}

std::string contents_of(const FakeState& state, uint64_t object_id) {
  const Fd& memory = state.objects.at(object_id);
  struct stat status;
  fstat(memory.get(), &status);
  std::string bytes(status.st_size, 0);
  if (pread(memory.get(), bytes.data(), bytes.size(), 0) != status.st_size) abort();
  return bytes;
}

void clear_objects(FakeState& state) {
  for (auto& [id, memory] : state.objects) {
    struct stat status;
    fstat(memory.get(), &status);
    if (ftruncate(memory.get(), 0) != 0 || ftruncate(memory.get(), status.st_size) != 0) abort();
  }
}

base::Result<std::unique_ptr<gpu::Engine>> make_fake_engine(Fd render, gpu::StagingSize staging) {
  if (!render.valid()) return Error(EBADF, "no render node");
  return std::unique_ptr<gpu::Engine>(new FakeEngine(staging));
}

}  // namespace testing_support
