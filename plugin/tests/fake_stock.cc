// SPDX-License-Identifier: GPL-2.0
#include "tests/fake_stock.h"

#include <sys/stat.h>

#include <array>
#include <cstring>

namespace amdgpu_criu::testing_support {

FakeStock fake_stock;

namespace {

template <typename T>
void append(std::vector<std::byte>& to, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}
void pad(std::vector<std::byte>& to, size_t bytes, int with = 0) {
  to.insert(to.end(), bytes, static_cast<std::byte>(with));
}

void append(std::vector<std::byte>& to, uint32_t number, const FakeQueue& queue) {
  constexpr uint32_t kMqdBytes = 2048;
  append<uint32_t>(to, 0);
  append<uint32_t>(to, 0);
  for (int i = 0; i < 7; i++) append<uint64_t>(to, uint64_t{0x1000} * (i + 1));
  append<uint32_t>(to, 0x11);
  append<uint32_t>(to, queue.type);
  append<uint32_t>(to, 0);
  append<uint32_t>(to, number);
  for (int i = 0; i < 7; i++) append<uint32_t>(to, i);
  append<uint32_t>(to, queue.stack_saved);
  append<uint32_t>(to, queue.type == 0 ? kMqdBytes * queue.cores : 512);
  append<uint32_t>(to, 0);
  if (queue.type == 0) {
    std::array<uint32_t, kMqdBytes / 4> mqd = {0xc0310800};
    mqd[174] = queue.stack_size - queue.stack_used;
    mqd[175] = queue.stack_size;
    for (uint32_t core = 0; core < queue.cores; core++) append(to, mqd);
  } else {
    pad(to, 512, 0x5d);
  }
  pad(to, queue.stack_saved, 0xcc);
}

class Fake : public stock::Ioctl {
 public:
  Result<stock::Sizes> process_info(int, const kernel::Interrupted&) override {
    TRY(fails("PROCESS_INFO"));
    fake_stock.evicted++;
    fake_stock.paused = true;
    return stock::Sizes{fake_stock.pid, static_cast<uint32_t>(fake_stock.devices.size()),
                        static_cast<uint32_t>(fake_stock.bos.size()), fake_stock.objects,
                        fake_stock.private_data.size()};
  }

  Result<stock::State> checkpoint(int, const stock::Sizes&) override {
    TRY(fails("CHECKPOINT"));
    if (fake_stock.on_checkpoint) fake_stock.on_checkpoint();
    if (!fake_stock.paused) return Error(EINVAL, "not paused");
    stock::State state;
    state.devices = fake_stock.devices;
    state.objects = fake_stock.objects;
    state.private_data = fake_stock.private_data;
    for (const stock::Bo& bo : fake_stock.bos) state.bos.push_back(TRY(copy_of(bo)));
    return state;
  }

  Status unpause(int) override {
    if (!fake_stock.paused) return Error(EINVAL, "not paused");
    fake_stock.evicted--;
    fake_stock.paused = false;
    if (fake_stock.on_unpause) fake_stock.on_unpause();
    return fails("UNPAUSE");
  }

  Status restore(int, std::span<const kernel::RestoreDevice> devices,
                 stock::State& state) override {
    TRY(fails("RESTORE"));
    for (const kernel::RestoreDevice& device : devices) {
      if (device.drm_fd < 0) return Error(EINVAL, "no render node");
      fake_stock.restored_devices.push_back({device.gpu_id, device.actual_gpu_id});
    }
    fake_stock.restored_data = state.private_data;
    for (stock::Bo& bo : state.bos) {
      fake_stock.restored_flags.push_back(bo.alloc_flags);
      bo.new_mmap_offset = bo.mmap_offset + 0x500000000;
      bo.dmabuf = TRY(dmabuf_of(bo));
    }
    return {};
  }

  Status resume(int, pid_t pid) override {
    TRY(fails("RESUME"));
    fake_stock.resumed = pid;
    return {};
  }

  Result<uint32_t> count_gem_handles(int) override {
    TRY(fails("GEM_LIST_HANDLES"));
    return fake_stock.gem_handles;
  }

 private:
  static Status fails(const std::string& operation) {
    const auto failure = fake_stock.failures.find(operation);
    if (failure == fake_stock.failures.end()) return {};
    return Error(failure->second, "injected failure of " + operation);
  }
  static Result<Fd> dmabuf_of(const stock::Bo& bo) {
    const auto memory = fake_stock.memory.find(bo.va);
    if (memory == fake_stock.memory.end()) return Fd();
    return memory->second.duplicate();
  }
  static Result<stock::Bo> copy_of(const stock::Bo& bo) {
    return stock::Bo{bo.va,          bo.size, bo.mmap_offset,    bo.gpu_id,
                     bo.alloc_flags, 0,       TRY(dmabuf_of(bo))};
  }
};

void write_whole(const Fd& file, const std::string& bytes) {
  if (pwrite(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    abort();
}

}  // namespace

std::vector<std::byte> make_private_data(uint32_t devices, uint32_t bos,
                                         const std::vector<FakeQueue>& queues, uint32_t events,
                                         uint32_t ranges, uint32_t version) {
  std::vector<std::byte> data;
  append<uint32_t>(data, version);
  append<uint32_t>(data, 0);
  pad(data, devices * size_t{8});
  pad(data, bos * size_t{272}, 0xb0);
  for (uint32_t i = 0; i < queues.size(); i++) append(data, i, queues[i]);
  for (uint32_t i = 0; i < events; i++) {
    append<uint32_t>(data, 1);
    pad(data, 60, 0xe0);
  }
  for (uint32_t i = 0; i < ranges; i++) {
    append<uint32_t>(data, 2);
    pad(data, 20 + 8 * (4 + devices), 0x50);
  }
  return data;
}

void FakeStock::add_bo(uint64_t va, uint64_t size, uint64_t offset, uint32_t gpu_id,
                       uint32_t flags) {
  bos.push_back({va, size, offset, gpu_id, flags, 0, Fd()});
  if (!(flags & (stock::kVram | stock::kGtt))) return;
  Fd file(memfd_create("object", MFD_CLOEXEC));
  std::string bytes(size, 0);
  for (size_t i = 0; i < size; i++) bytes[i] = (i * 31 + i / 4096 * 7 + va / 4096) & 0xff;
  write_whole(file, bytes);
  memory[va] = std::move(file);
}

std::string FakeStock::contents(uint64_t va) const {
  const Fd& file = memory.at(va);
  struct stat status;
  fstat(file.get(), &status);
  std::string bytes(status.st_size, 0);
  if (pread(file.get(), bytes.data(), bytes.size(), 0) != status.st_size) abort();
  return bytes;
}

void FakeStock::clear_memory() {
  for (const auto& [va, file] : memory) write_whole(file, std::string(contents(va).size(), 0));
}

std::unique_ptr<stock::Ioctl> make_fake_stock() { return std::make_unique<Fake>(); }

}  // namespace amdgpu_criu::testing_support
