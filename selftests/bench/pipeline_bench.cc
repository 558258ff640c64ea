// SPDX-License-Identifier: GPL-2.0
// Measures how fast contents are saved on this machine, with a fake GPU: plain memory, and a thread
// that copies from it. BENCH_DIRECTORY: where files are written (default: the current directory).
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <thread>

#include "dump/earlier.h"
#include "dump/save_contents.h"
#include "image/set.h"

namespace amdgpu_criu {
namespace {

constexpr unsigned kObjects = 16;
constexpr uint64_t kBytes = 32u << 20;  // of each

struct Memory : gpu::Imported {
  explicit Memory(std::byte* start) : bytes(start) {}
  std::byte* bytes;
};

// Copies one slot after the other, like the ring of an SDMA engine.
class MemoryEngine : public gpu::Engine {
 public:
  explicit MemoryEngine(gpu::StagingSize staging) : slots_(staging.slots) {
    for (Slot& slot : slots_)
      slot.memory = std::move(*Mapping::map(staging.bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE));
  }
  MemoryEngine(const MemoryEngine&) = delete;
  MemoryEngine& operator=(const MemoryEngine&) = delete;
  ~MemoryEngine() override {
    {
      const std::lock_guard guard(lock_);
      stop_ = true;
    }
    changed_.notify_all();
  }
  int file() const override { return -1; }
  unsigned slots() const override { return static_cast<unsigned>(slots_.size()); }
  std::span<std::byte> staging(unsigned slot) override { return slots_[slot].memory.bytes(); }
  Result<std::unique_ptr<gpu::Imported>> import(const Fd&, uint64_t) override {
    return Error(ENOTSUP, "memory is not imported");
  }
  Status start_read(unsigned slot, std::span<const gpu::Piece> pieces) override {
    const std::lock_guard guard(lock_);
    slots_[slot].pieces.assign(pieces.begin(), pieces.end());
    slots_[slot].busy = true;
    to_do_.push_back(slot);
    changed_.notify_all();
    return {};
  }
  Status start_write(unsigned, std::span<const gpu::Piece>) override {
    return Error(ENOTSUP, "nothing is restored");
  }
  Status wait(unsigned slot) override {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return !slots_[slot].busy; });
    return {};
  }

 private:
  struct Slot {
    Mapping memory;
    std::vector<gpu::Piece> pieces;
    bool busy = false;
  };
  void run() {
    std::unique_lock guard(lock_);
    while (true) {
      changed_.wait(guard, [&] { return stop_ || !to_do_.empty(); });
      if (to_do_.empty()) return;
      Slot& slot = slots_[to_do_.front()];
      to_do_.pop_front();
      guard.unlock();
      for (const gpu::Piece& piece : slot.pieces)
        memcpy(slot.memory.data() + piece.at, static_cast<Memory*>(piece.bo)->bytes + piece.offset,
               piece.size);
      guard.lock();
      slot.busy = false;
      changed_.notify_all();
    }
  }

  std::mutex lock_;  // protects the members below, except the thread
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::deque<unsigned> to_do_;
  bool stop_ = false;
  std::jthread thread_{[this] { run(); }};
};

class Bench {
 public:
  Bench()
      : memory_(std::move(*Mapping::map(kObjects * kBytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS))) {
    uint64_t value = 1;
    for (size_t at = 0; at < memory_.size(); at += sizeof(value)) {
      value = value * 6364136223846793005 + 1442695040888963407;
      memcpy(memory_.data() + at, &value, sizeof(value));
    }
    for (unsigned i = 0; i < kObjects; i++) {
      kernel::Bo bo{};
      bo.object_id = i + 1;
      bo.size = kBytes;
      bos_.push_back(bo);
    }
  }

  // Writes to one in `twentieth` of the chunks.
  void dirty(unsigned twentieths) {
    constexpr uint64_t kChunk = 256u << 10;
    for (uint64_t chunk = 0; chunk < memory_.size() / kChunk; chunk++)
      if (chunk % 20 < twentieths) memory_.data()[chunk * kChunk + 7] ^= std::byte{1};
  }

  Status save(const std::filesystem::path& path, bool hashes, const dump::Earlier* earlier) {
    const Fd directory = TRY(Fd::open(path.c_str(), O_RDONLY | O_DIRECTORY));
    topology::Gpu gpu;
    gpu.gpu_id = 1;
    MemoryEngine engine({});
    const auto queue = pipeline::make_io_queue(pipeline::IoKind::kUring, engine.slots());
    pipeline::Workers workers(pipeline::worker_threads(16));
    auto writer =
        TRY(image::ContentsWriter::create(directory.get(), image::contents_file_name(0, 1)));
    (void)pipeline::set_direct(writer.fd(), true);
    dump::SaveOptions options;
    options.hashes = hashes;
    options.earlier = earlier;
    options.workers = &workers;
    auto import = [&](uint64_t id, uint64_t) -> Result<std::shared_ptr<gpu::Imported>> {
      return std::shared_ptr<gpu::Imported>(
          std::make_shared<Memory>(memory_.data() + (id - 1) * kBytes));
    };
    auto saved = TRY(dump::save_contents(engine, *queue, bos_, import, options, writer));
    return writer.finish(image::encode(image::Contents{
        image::new_dump_id(), 0, gpu, std::move(saved.objects), std::move(saved.sources)}));
  }

 private:
  Mapping memory_;
  std::vector<kernel::Bo> bos_;
};

struct Case {
  const char* name;
  bool hashes;
  bool earlier;
  unsigned dirty;  // twentieths
};
constexpr Case kCases[] = {{"plain", false, false, 0},
                           {"hashes", true, false, 0},
                           {"after_a_pre_dump/0%", true, true, 0},
                           {"after_a_pre_dump/5%", true, true, 1},
                           {"after_a_pre_dump/50%", true, true, 10}};

void run(benchmark::State& state, Bench& bench, const Case& what) {
  const char* where = getenv("BENCH_DIRECTORY");
  const std::filesystem::path top = std::filesystem::absolute(where ? where : ".") / "bench-saved";
  std::filesystem::remove_all(top);
  std::filesystem::create_directories(top / "first");
  std::filesystem::create_directories(top / "second");
  std::filesystem::create_symlink("../first", top / "second" / "parent");
  const Fd second = std::move(*Fd::open((top / "second").c_str(), O_RDONLY | O_DIRECTORY));
  Status status = what.earlier ? bench.save(top / "first", true, nullptr) : Status();
  for (auto _ : state) {
    state.PauseTiming();
    bench.dirty(what.dirty);
    sync();
    state.ResumeTiming();
    std::optional<dump::Earlier> earlier;
    if (what.earlier) earlier = *dump::Earlier::load(second.get());
    if (status.ok())
      status = bench.save(top / "second", what.hashes, earlier ? &*earlier : nullptr);
  }
  if (!status.ok()) state.SkipWithError(status.error().message());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kObjects * kBytes));
  std::filesystem::remove_all(top);
}

}  // namespace
}  // namespace amdgpu_criu

int main(int argc, char** argv) {
  using namespace amdgpu_criu;
  benchmark::Initialize(&argc, argv);
  Bench bench;
  for (const Case& one : kCases)
    benchmark::RegisterBenchmark(one.name, [&](benchmark::State& state) { run(state, bench, one); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
