// SPDX-License-Identifier: GPL-2.0
#include "tests/fakes.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "host/host.h"
#include "image/checksum.h"

namespace amdgpu_criu::testing_support {
namespace {

using kernel::Node;

FakeState* current_state = nullptr;  // of the last fake kernel

bool is_same(int a, int b) { return *host::same_file(a, b); }

// The object whose memory this is; 0: none.
uint64_t object_of(const FakeState& state, int memory) {
  struct stat wanted, status;
  fstat(memory, &wanted);
  for (const auto& [id, object] : state.objects)
    if (fstat(object.get(), &status) == 0 && status.st_ino == wanted.st_ino) return id;
  return 0;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
size_t slot_of(const std::string& blob) { return std::hash<std::string>()(blob) % 64; }

class FakeApi : public kernel::Api {
 public:
  explicit FakeApi(FakeState& state) : state_(state) {}

  Result<kernel::Query> query(Node) override {
    TRY(called("QUERY"));
    kernel::Query result;
    result.features = state_.features;
    return result;
  }

  Result<Fd> create_session(Node, kernel::SessionKind) override {
    TRY(called("SESSION"));
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Error::system("pipe");
    state_.session_ends.emplace_back(ends[0]);
    state_.shared().sessions++;
    return Fd(ends[1]);
  }

  Result<kernel::ProcessInfo> process_info(Node node, int, pid_t process,
                                           const kernel::Interrupted& interrupted) override {
    TRY(called("PROCESS_INFO"));
    for (timespec left = state_.busy; nanosleep(&left, &left) != 0 && errno == EINTR;)
      if (interrupted) TRY(interrupted());
    if (node.kind == Node::Kind::kRender) {
      FakeRender* render = TRY(find(node));
      if (render->userptrs_of != 0 && render->userptrs_of != process)
        return Error(EOPNOTSUPP, "userptrs of another process");
      // Signals interrupt the wait, as the kernel's.
      constexpr timespec kLimit{5, 0};
      timespec left = kLimit;
      while (state_.files_wait_for_queues && state_.paused) {
        if (nanosleep(&left, &left) == 0)
          return Error(ETIME, "the GPU does not complete submitted work");
        if (interrupted) TRY(interrupted());
      }
      render->paused = true;
      return kernel::ProcessInfo{.pid = process,
                                 .num_bos = static_cast<uint32_t>(render->bos.size()),
                                 .blob_size = render->blob.size()};
    }
    if (state_.memory_lost) return Error(EOPNOTSUPP, "memory that a reset of the GPU has lost");
    state_.paused = true;
    return kernel::ProcessInfo{
        .pid = state_.pid,
        .num_devices = static_cast<uint32_t>(state_.devices.size()),
        .num_bos = static_cast<uint32_t>(state_.bos.size()),
        .num_queues = state_.devices.empty() ? 0u : 1u,
        .blob_size = state_.announced_blob_size ? state_.announced_blob_size : state_.blob.size()};
  }

  Result<kernel::ProcessInfo> live_info(Node, int, pid_t process) override {
    TRY(called("PROCESS_INFO"));
    state_.live = true;
    return kernel::ProcessInfo{.pid = process};
  }

  Result<kernel::Checkpoint> checkpoint(Node node, int, const kernel::ProcessInfo&) override {
    TRY(called("CHECKPOINT"));
    kernel::Checkpoint result;
    if (state_.live) {
      for (const auto& device : state_.devices)
        result.devices.push_back({device.gpu_id, device.actual_gpu_id, Fd()});
      result.bos = node.kind == Node::Kind::kKfd ? state_.bos : TRY(find(node))->bos;
      return result;
    }
    if (node.kind == Node::Kind::kRender) {
      const FakeRender* render = TRY(find(node));
      if (!render->paused) return Error(EBADFD, "not paused");
      result.bos = render->bos;
      result.blob = bytes_of(render->blob);
      return result;
    }
    if (!state_.paused) return Error(EBADFD, "not paused");
    for (const auto& device : state_.devices)
      result.devices.push_back(
          {device.gpu_id, device.actual_gpu_id, Fd(fcntl(device.drm_fd, F_DUPFD_CLOEXEC, 0))});
    result.bos = state_.bos;
    result.blob = state_.blob;
    if (state_.after_checkpoint) state_.after_checkpoint();
    return result;
  }

  Status unpause(Node node, int) override {
    if (node.kind == Node::Kind::kRender)
      TRY(find(node))->paused = false;
    else
      state_.paused = false;
    return called("UNPAUSE");
  }

  Status restore(Node node, int, std::span<const kernel::RestoreDevice> devices,
                 std::span<kernel::Bo> bos, std::span<const std::byte> blob) override {
    TRY(called("RESTORE"));
    for (const kernel::Bo& bo : bos)
      if (bo.flags & AMDGPU_CRIU_BO_IMPORTED && !state_.present.contains(bo.object_id))
        return Error(EBADFD, "nobody made an object that was imported");
    if (node.kind == Node::Kind::kRender)
      TRY(restore_render(node, text_of(blob)));
    else if (!std::ranges::equal(blob, state_.blob) || bos.size() != state_.bos.size())
      return Error(EBADMSG, "not what was saved");
    else
      state_.restored_devices.assign(devices.begin(), devices.end());
    for (kernel::Bo& bo : bos) {
      state_.present.insert(bo.object_id);
      if (bo.mmap_offset != ~0ull) bo.new_mmap_offset = bo.mmap_offset + 0x500000000;
    }
    return {};
  }

  Status resume(Node node, int, pid_t pid) override {
    if (state_.before_resume) state_.before_resume();
    TRY(called("RESUME"));
    if (node.kind == Node::Kind::kKfd) {
      state_.resumed = pid;
      return {};
    }
    for (FakeRestored& restored : state_.restored)
      if (is_same(restored.file.get(), node.fd)) return restored.resumed = pid, Status();
    return Error(EBADFD, "was not restored");
  }

  Result<Fd> dmabuf(Node node, int, uint64_t object_id) override {
    if (state_.before_dmabuf) state_.before_dmabuf();
    const std::lock_guard guard(lock_);
    TRY(called("DMABUF"));
    const auto found = state_.objects.find(object_id);
    if (found == state_.objects.end()) return Error(ENOENT, "no such object");
    if (node.kind == Node::Kind::kRender)
      state_.marked.emplace_back(fcntl(node.fd, F_DUPFD_CLOEXEC, 0));
    return found->second.duplicate();
  }

  Result<kernel::Exported> save_exported(Node node, int, int dmabuf) override {
    TRY(called("EXPORTED"));
    const auto found = state_.exported.find(object_of(state_, dmabuf));
    if (node.kind != Node::Kind::kRender || found == state_.exported.end())
      return Error(EINVAL, "not a dma-buf");
    if (state_.foreign.contains(found->first)) return Error(EOPNOTSUPP, "of another driver");
    return kernel::Exported{found->second, bytes_of(std::to_string(found->first))};
  }

  Result<uint64_t> available_memory(const Fd&, uint32_t gpu_id) override {
    const auto found = state_.available.find(gpu_id);
    if (found == state_.available.end()) return Error(ENOTTY, "not known");
    return found->second;
  }
  Result<kernel::Outside> outside(Node node, int) override {
    TRY(called("OUTSIDE"));
    if (node.kind != Node::Kind::kRender) return Error(ENOTTY, "not on /dev/kfd");
    return state_.outside;
  }

  Result<kernel::Evicted> evict(Node, int) override {
    TRY(called("EVICT"));
    return kernel::Evicted{.kept = state_.kept};
  }

  Result<Fd> restore_exported(Node node, int, const kernel::Exported& exported) override {
    TRY(called("EXPORTED"));
    const uint64_t id = exported.bo.object_id;
    if (node.kind != Node::Kind::kRender || text_of(exported.blob) != std::to_string(id))
      return Error(EBADMSG, "not what was saved");
    state_.present.insert(id);
    return state_.objects.at(id).duplicate();
  }

 private:
  Status called(const std::string& operation) {
    state_.calls.push_back(operation);
    auto failure = state_.failures.find(operation);
    if (failure == state_.failures.end()) return {};
    return Error(failure->second, "injected failure of " + operation);
  }

  Result<FakeRender*> find(Node node) {
    for (FakeRender& render : state_.renders)
      if (is_same(render.file.get(), node.fd)) return &render;
    return Error(EBADF, "not a file of this process");
  }

  Status restore_render(Node node, const std::string& blob) {
    if (std::ranges::count(state_.renders, blob, &FakeRender::blob) != 1)
      return Error(EBADMSG, "not what was saved");
    for (const FakeRestored& restored : state_.restored)
      if (is_same(restored.file.get(), node.fd)) return Error(EBADFD, "is in use");
    state_.restored.push_back({blob, Fd(fcntl(node.fd, F_DUPFD_CLOEXEC, 0)), 0});
    state_.shared().restored[slot_of(blob)]++;
    return {};
  }

  FakeState& state_;
  std::mutex lock_;  // for dmabuf()
};

struct FakeImported : gpu::Imported {
  FakeImported(Fd file, uint64_t object, uint64_t size)
      : file(std::move(file)), object(object), size(size) {}
  Fd file;
  uint64_t object;
  uint64_t size;
};

struct FakePages : gpu::Imported {
  FakePages(std::span<const std::byte> pages, gpu::PageUse use)
      : bytes(const_cast<std::byte*>(pages.data()), pages.size()), use(use) {}
  std::span<std::byte> bytes;
  gpu::PageUse use;
};

class FakeEngine : public gpu::Engine {
 public:
  static Result<std::unique_ptr<gpu::Engine>> create(Fd render, gpu::StagingSize staging) {
    std::unique_ptr<FakeEngine> engine(new FakeEngine(std::move(render), staging));
    TRY(engine->add_slots(staging.slots));
    return std::unique_ptr<gpu::Engine>(std::move(engine));
  }

  int file() const override { return render_.get(); }
  unsigned slots() const override { return slots_.size(); }
  // Whole pages, as in the real engine, because direct I/O needs them.
  Status add_slots(unsigned count) override {
    for (unsigned i = 0; i < count; i++)
      slots_.emplace_back().memory =
          TRY(Mapping::map(slot_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS));
    const uint64_t total = slots_.size() * slot_bytes_;
    std::atomic<uint64_t>& most = current_state->shared().most_staging;
    for (uint64_t seen = most; seen < total; seen = most) most.compare_exchange_strong(seen, total);
    return {};
  }
  std::span<std::byte> staging(unsigned slot) override { return slots_[slot].memory.bytes(); }

  Result<std::unique_ptr<gpu::Imported>> import(const Fd& dmabuf, uint64_t size) override {
    struct stat status;
    if (fstat(dmabuf.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < size)
      return Error(EINVAL, "dma-buf is too small");
    const FakeState& state = *current_state;
    auto is_ours = [&](const Fd& file) { return is_same(file.get(), render_.get()); };
    const uint64_t object = object_of(state, dmabuf.get());
    if (state.always_valid.contains(object) && std::ranges::none_of(state.marked, is_ours))
      return Error(EPERM, "the BO belongs to another VM");
    return std::unique_ptr<gpu::Imported>(
        new FakeImported(TRY(dmabuf.duplicate()), object, status.st_size));
  }
  Result<std::unique_ptr<gpu::Imported>> import_pages(std::span<const std::byte> pages,
                                                      gpu::PageUse use) override {
    if (before_pages) before_pages();
    for (int left = pages_of_files; left >= 0;) {
      if (left == 0) return Error(EFAULT, "these pages cannot be had");
      if (pages_of_files.compare_exchange_weak(left, left - 1)) break;
    }
    return std::unique_ptr<gpu::Imported>(new FakePages(pages, use));
  }
  Status start_read(unsigned slot, std::span<const gpu::Piece> pieces) override {
    return start(slot, pieces, false);
  }
  Status start_write(unsigned slot, std::span<const gpu::Piece> pieces) override {
    for (const gpu::Piece& piece : pieces) {
      const uint64_t object = static_cast<FakeImported*>(piece.bo)->object;
      current_state->shared().filled[object] += piece.size;
    }
    return start(slot, pieces, true);
  }
  Status wait(unsigned index) override {
    FakeSlot& slot = slots_[index];
    if (during_copies && !slot.pieces.empty()) during_copies();
    for (const gpu::Piece& piece : std::exchange(slot.pieces, {})) TRY(copy(slot, piece));
    return {};
  }
  Status hash(std::span<const gpu::Hashed> bos, uint32_t chunk_bytes,
              const gpu::TakeHashes& take) override {
    if (hashes_of_gpu == 0) return Error(ENOTSUP, "there is no compute kernel");
    for (const gpu::Hashed& one : bos) {
      std::vector<std::byte> bytes(one.size);
      const int fd = static_cast<FakeImported*>(one.bo)->file.get();
      if (pread(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        return Error(EIO, "short read");
      for (std::span<const std::byte> left = bytes; !left.empty();) {
        if (hashes_of_gpu == 0) return Error(ENOTSUP, "there is no compute kernel");
        if (hashes_of_gpu > 0) hashes_of_gpu--;
        if (before_hash) before_hash();
        const auto chunk = left.first(std::min<size_t>(chunk_bytes, left.size()));
        const gpu::ChunkHash hash = image::strong_hash(chunk);
        if (!take({&hash, 1})) return {};
        left = left.subspan(chunk.size());
      }
    }
    return {};
  }

 private:
  struct FakeSlot {
    Mapping memory;
    std::vector<gpu::Piece> pieces;  // none: idle
    bool write = false;
  };
  FakeEngine(Fd render, gpu::StagingSize staging)
      : render_(std::move(render)), slot_bytes_(staging.bytes) {}

  Status start(unsigned index, std::span<const gpu::Piece> pieces, bool write) {
    FakeSlot& slot = slots_[index];
    if (!slot.pieces.empty()) return Error(EBUSY, "slot is still busy");
    uint64_t packets = 0;
    for (const gpu::Piece& piece : pieces) {
      const uint64_t size = static_cast<FakeImported*>(piece.bo)->size;
      const auto* const pages = static_cast<const FakePages*>(piece.pages);
      if (pages && write != (pages->use == gpu::PageUse::kRead))
        return Error(EINVAL, "pages are for the other direction");
      packets += gpu::packets_for(piece.size);
      if (piece.size == 0 || piece.offset + piece.size > size ||
          (!piece.zero && piece.at + piece.size > place(slot, piece).size()))
        return Error(EINVAL, "a copy does not fit");
    }
    if (pieces.empty() || packets > gpu::kMaxPackets) return Error(EINVAL, "too much at once");
    slot.pieces.assign(pieces.begin(), pieces.end());
    slot.write = write;
    return {};
  }

  static std::span<std::byte> place(const FakeSlot& slot, const gpu::Piece& piece) {
    return piece.pages ? static_cast<const FakePages*>(piece.pages)->bytes : slot.memory.bytes();
  }
  static Status copy(const FakeSlot& slot, const gpu::Piece& piece) {
    if (fail_copies_after-- == 0) return Error(EIO, "injected failure of a copy");
    const int fd = static_cast<FakeImported*>(piece.bo)->file.get();
    if (piece.zero) {
      // Zeros get no memory, because there may be more of them than memory.
      constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
      const bool done = fallocate(fd, kHole, static_cast<off_t>(piece.offset),
                                  static_cast<off_t>(piece.size)) == 0;
      return done ? Status() : Error(EIO, "cannot fill with zeros");
    }
    const ssize_t done = slot.write
                             ? pwrite(fd, &place(slot, piece)[piece.at], piece.size, piece.offset)
                             : pread(fd, &place(slot, piece)[piece.at], piece.size, piece.offset);
    if (done != static_cast<ssize_t>(piece.size)) return Error(EIO, "short copy");
    if (!slot.write) bytes_read += piece.size;
    return {};
  }

  Fd render_;
  const size_t slot_bytes_;
  std::vector<FakeSlot> slots_;
};

}  // namespace

std::atomic<int> fail_copies_after = -1;
std::atomic<int> hashes_of_gpu = 0;
std::atomic<uint64_t> bytes_read = 0;
std::atomic<int> pages_of_files = -1;
std::function<void()> before_pages;
std::function<void()> during_copies;
std::function<void()> before_hash;
bool copies_are_refused = false;
std::map<dev_t, uint32_t> losses;

FakeState::FakeState()
    : shared_memory(std::move(
          *Mapping::map(sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS))) {
  new (shared_memory.data()) Shared{};
}

FakeState::Shared& FakeState::shared() const {
  return *std::launder(reinterpret_cast<Shared*>(shared_memory.data()));
}

uint64_t FakeState::bytes_filled(uint64_t object_id) const { return shared().filled[object_id]; }
int FakeState::times_restored(const std::string& blob) const {
  return shared().restored[slot_of(blob)];
}

bool FakeState::anything_paused() const {
  return paused || std::ranges::any_of(renders, &FakeRender::paused);
}

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
  current_state = &state;
  return std::make_unique<FakeApi>(state);
}

void add_object(FakeState& state, kernel::Bo bo, unsigned seed) {
  Fd memory(memfd_create("object", MFD_CLOEXEC));
  std::string bytes(bo.size, 0);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = (i * 31 + i / 4096 * 7 + seed) & 0xff;
  if (pwrite(memory.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    abort();
  state.objects[bo.object_id] = std::move(memory);
}

void add_kfd_object(FakeState& state, kernel::Bo bo, unsigned seed) {
  add_object(state, bo, seed);
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
  new (state.shared_memory.data()) FakeState::Shared{};
  state.marked.clear();
}

Status check_fake_engine(const Fd& render_node) {
  if (!render_node.valid()) return Error(EBADF, "no render node");
  return copies_are_refused ? Status(Error(ENOTSUP, "no copies")) : Status();
}

Result<uint32_t> count_fake_losses(const Fd& render_node) {
  struct stat status;
  if (fstat(render_node.get(), &status) != 0) return Error::system("no render node");
  return losses[status.st_rdev];
}

Result<std::unique_ptr<gpu::Engine>> make_fake_engine(Fd render, gpu::StagingSize staging) {
  TRY(check_fake_engine(render));
  return FakeEngine::create(std::move(render), staging);
}

}  // namespace amdgpu_criu::testing_support
