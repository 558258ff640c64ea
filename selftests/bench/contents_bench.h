// SPDX-License-Identifier: GPL-2.0
// The memory of a fake GPU, and what is measured with it: the plugin's dump and restore of
// contents, and copies and files alone.
#pragma once

#include <linux/magic.h>
#include <sys/vfs.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dump/earlier.h"
#include "dump/save_contents.h"
#include "image/set.h"
#include "memory_engine.h"
#include "restore/fill_contents.h"
#include "restore/verify_contents.h"
#include "slow_disk.h"

namespace amdgpu_criu::bench {

namespace fs = std::filesystem;

inline constexpr char kFile[] = "raw";

inline uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text ? strtoull(text, nullptr, 10) : otherwise;
}
inline uint64_t mebibytes() { return std::max<uint64_t>(number("BENCH_MIB", 2048), 16); }
inline double slow_rate() {
  return 1e6 * static_cast<double>(std::max<uint64_t>(number("BENCH_SLOW_DISK", 500), 1));
}

inline constexpr unsigned kManyCpus = 16;
inline double slow_link_rate() {
  return 1e6 * static_cast<double>(std::max<uint64_t>(number("BENCH_SLOW_LINK", 400), 1));
}
inline double slow_cpu_rate() {
  return 1e6 * static_cast<double>(std::max<uint64_t>(number("BENCH_SLOW_CPU", 50), 1));
}

inline std::chrono::milliseconds far_disk_delay() {
  return std::chrono::milliseconds(std::max<uint64_t>(number("BENCH_FAR_DISK", 50), 1));
}

// What is slower than on this machine, at rates that do not vary.
enum class Slow { kNothing, kDisk, kFarDisk, kCpus, kLink };
inline constexpr uint64_t kChunk = 256u << 10;  // of the plugin's dumps

inline gpu::StagingSize staging() {
  gpu::StagingSize size{.most_slots = gpu::kMaxSlots};
  if (const char* text = getenv("BENCH_STAGING"))
    if (sscanf(text, "%ux%zu", &size.slots, &size.bytes) == 2) {
      size.bytes <<= 10;
      size.most_slots = size.slots;
    }
  return size.within(gpu::kMaxStaging);
}

inline bool is_disk(const char* directory) {
  struct statfs status;
  return statfs(directory, &status) != 0 || status.f_type != TMPFS_MAGIC;
}

inline const char* directory() {
  const char* where = getenv("BENCH_DIRECTORY");
  return where ? where : ".";
}

class Bench {
 public:
  explicit Bench(fs::path top)
      : top_(std::move(top)),
        memory_(std::move(*Mapping::map(mebibytes() << 20, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS))) {
    (void)madvise(memory_.data(), memory_.size(), MADV_HUGEPAGE);
    uint64_t value = 1;
    for (size_t at = 0; at < memory_.size(); at += sizeof(value)) {
      value = value * 6364136223846793005 + 1442695040888963407;
      memcpy(memory_.data() + at, &value, sizeof(value));
    }
    fs::remove_all(top_);
    for (const char* name : {"first", "second"}) fs::create_directories(top_ / name);
    fs::create_symlink("../first", top_ / "second" / "parent");
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { fs::remove_all(top_); }

  uint64_t bytes() const { return memory_.size(); }
  fs::path first() const { return top_ / "first"; }
  fs::path second() const { return top_ / "second"; }
  void set_objects(unsigned count) {
    bos_.clear();
    for (unsigned i = 0; i < count; i++) {
      kernel::Bo bo{};
      bo.object_id = i + 1;
      bo.size = memory_.size() / count;
      bos_.push_back(bo);
    }
  }

  void set_slow(Slow slow) { slow_ = slow; }
  void set_growth(bool on) { staging_.most_slots = on ? staging().most_slots : staging_.slots; }

  // Removes all files. A dump would take up to half longer if it had to free those of another.
  Status clear() const {
    for (const fs::path& path : {first(), second(), top_})
      for (const fs::directory_entry& entry : fs::directory_iterator(path))
        if (entry.is_regular_file() && !entry.is_symlink()) fs::remove(entry.path());
    return {};
  }

  // Changes one byte in that many twentieths of the chunks.
  void dirty(unsigned twentieths) {
    for (uint64_t chunk = 0; chunk < memory_.size() / kChunk; chunk++)
      if (chunk % 20 < twentieths) memory_.data()[chunk * kChunk + 7] ^= std::byte{1};
  }
  // The hashes that the slow link's GPU is going to compute.
  void hash_all() {
    hashes_.clear();
    for (uint64_t at = 0; at < memory_.size(); at += kChunk)
      hashes_.push_back(image::strong_hash(memory_.bytes().subspan(at, kChunk)));
  }

  // gpus: each has a part of the objects, of the link and of the CPUs.
  Status save(const fs::path& path, bool hashes, bool incremental, bool encrypted = false,
              unsigned gpus = 1) {
    const Fd fd = TRY(Fd::open(path.c_str(), O_RDONLY | O_DIRECTORY));
    const auto directory = TRY(images(fd, encrypted));
    std::optional<dump::Earlier> earlier;
    if (incremental) {
      auto loaded = dump::Earlier::load(directory);
      if (!loaded.ok()) return loaded.error();
      earlier = std::move(*loaded);
    }
    return by_each(gpus, [&](unsigned gpu) {
      return save_of(gpu, gpus, directory, hashes, earlier ? &*earlier : nullptr);
    });
  }
  Status save_of(unsigned number, unsigned gpus, const image::Directory& directory, bool hashes,
                 const dump::Earlier* earlier) {
    topology::Gpu gpu;
    gpu.gpu_id = number + 1;
    MemoryEngine engine = this->engine(gpus);
    const auto queue = TRY(make_queue(staging_.most_slots));
    pipeline::Workers workers(threads(gpus));
    auto writer =
        TRY(image::ContentsWriter::create(directory, image::contents_file_name(0, gpu.gpu_id)));
    if (!earlier) (void)writer.allocate(bytes() / gpus);
    (void)pipeline::set_direct(writer.fd(), true);
    dump::SaveOptions options;
    options.hashes = hashes;
    options.earlier = earlier;
    options.workers = &workers;
    options.gpu_hashes = slow_ == Slow::kLink;
    if (slow_ == Slow::kCpus) options.write = slow_copies();
    // The GPU copies to pages of the file.
    if (slow_ == Slow::kLink && hashes)
      options.write = [](const auto&...) -> ssize_t { return -EIO; };
    options.paused = true;
    options.most_slots = staging_.most_slots;
    const size_t each = bos_.size() / gpus;
    const auto bos = std::span<const kernel::Bo>(bos_).subspan(number * each, each);
    auto saved = TRY(dump::save_contents(engine, *queue, bos, import(), options, writer));
    return writer.finish(image::encode(image::Contents{
        image::new_dump_id(), 0, gpu, std::move(saved.objects), std::move(saved.sources)}));
  }

  // pages: the GPU copies from them and compares, and the CPU reads nothing.
  Status restore(const fs::path& path, bool encrypted = false, bool pages = false) {
    const Fd fd = TRY(Fd::open(path.c_str(), O_RDONLY | O_DIRECTORY));
    const auto directory = TRY(images(fd, encrypted));
    const auto found = TRY(image::load_contents(directory));
    const auto gpus = static_cast<unsigned>(found.size());
    return by_each(gpus,
                   [&](unsigned gpu) { return restore_of(gpus, directory, found[gpu], pages); });
  }
  Status restore_of(unsigned gpus, const image::Directory& directory,
                    const image::Set::ContentsFile& found, bool pages) {
    MemoryEngine engine = this->engine(gpus);
    const auto queue = TRY(make_queue(staging_.most_slots));
    auto files = TRY(image::ChunkFiles::open(directory, found));
    files.use_direct();
    pipeline::Workers workers(threads(gpus));
    restore::FillOptions options{{}, &workers};
    if (slow_ == Slow::kCpus) options.read = slow_copies();
    options.pages = pages;
    options.most_slots = staging_.most_slots;
    if (pages) options.read = [](const auto&...) -> ssize_t { return -EIO; };
    const restore::Objects objects = restore::all_of(found.contents);
    const auto counts =
        TRY(restore::fill_contents(engine, *queue, files, objects, import(), options));
    if (pages && TRY(restore::verify_contents(engine, objects, import())) != counts.bytes)
      return Error(EIO, "not all was compared");
    return {};
  }

  // Copies to staging memory, and does nothing else.
  Status copy() {
    MemoryEngine engine(staging_, rates());
    Memory memory(memory_.data());
    uint64_t at = 0;
    for (unsigned slot = 0; at < bytes(); slot = (slot + 1) % engine.slots()) {
      const uint64_t size = std::min<uint64_t>(engine.staging(slot).size(), bytes() - at);
      const gpu::Piece piece{&memory, at, size, 0};
      TRY(engine.wait(slot));
      TRY(engine.start_read(slot, std::span(&piece, 1)));
      at += size;
    }
    for (unsigned slot = 0; slot < engine.slots(); slot++) TRY(engine.wait(slot));
    return {};
  }

  // Creates the file for transfer(), allocated where a dump allocates its own.
  Status prepare_file() {
    TRY(clear());
    const Fd file = TRY(open_file(O_RDWR | O_CREAT | O_TRUNC));
    if (is_disk(top_.c_str()) && fallocate(file.get(), 0, 0, static_cast<off_t>(bytes())) != 0)
      return Error::system("cannot allocate {}", kFile);
    return {};
  }
  // Writes or reads the file, and does nothing else.
  Status transfer(bool write, unsigned depth, size_t size) {
    const Fd file = TRY(open_file(O_RDWR));
    (void)pipeline::set_direct(file.get(), true);
    const auto queue = TRY(make_queue(depth));
    const std::string name = kFile;
    const Mapping buffers = TRY(Mapping::map(depth * size, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE));
    memcpy(buffers.data(), memory_.data(), buffers.size());
    unsigned slot = 0;
    for (uint64_t at = 0; at < bytes(); at += size, slot = (slot + 1) % depth) {
      TRY(queue->finish(slot));
      queue->submit(slot, {file.get(), write, at, {{buffers.data() + slot * size, size}}, &name});
    }
    for (slot = 0; slot < depth; slot++) TRY(queue->finish(slot));
    if (write && fdatasync(file.get()) != 0) return Error::system("cannot write {}", name);
    return {};
  }

  // Writes or reads the file by 16 threads, and does nothing else.
  Status transfer_by_threads(bool write) {
    constexpr uint64_t kPiece = 256u << 10;
    const Fd file = TRY(open_file(O_RDWR));
    const auto transfer = slow_copies();
    std::atomic<uint64_t> next = 0;
    std::atomic<bool> failed = false;
    const auto run = [&] {
      const Mapping buffer = std::move(*Mapping::map(kPiece, PROT_READ | PROT_WRITE,
                                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE));
      for (uint64_t at; (at = next.fetch_add(kPiece)) < bytes();) {
        const iovec part{buffer.data(), std::min(kPiece, bytes() - at)};
        const pipeline::IoRequest request{file.get(), write, at, {part}, nullptr};
        if (transfer(request, &part, 1) != static_cast<ssize_t>(part.iov_len)) failed = true;
      }
    };
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < kManyCpus; i++) threads.emplace_back(run);
    threads.clear();  // waits
    return failed ? Status(Error::of(EIO, "cannot transfer {}", kFile)) : Status();
  }

  // Works like CRIU's own plugin: copies a whole BO to memory, then writes it to the page cache.
  Status one_after_the_other() {
    const Fd file = TRY(open_file(O_RDWR | O_CREAT | O_TRUNC));
    for (const kernel::Bo& bo : bos_) {
      const Mapping bounce =
          TRY(Mapping::map(bo.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS));
      memcpy(bounce.data(), memory_of(bo.object_id), bo.size);
      for (size_t done = 0; done < bo.size;) {
        const ssize_t size = write(file.get(), bounce.data() + done, bo.size - done);
        if (size < 0) return Error::system("cannot write {}", kFile);
        done += static_cast<size_t>(size);
      }
    }
    if (fdatasync(file.get()) != 0) return Error::system("cannot write {}", kFile);
    return {};
  }

 private:
  // As ObjectSaver and Filling do, with a thread for each GPU.
  static Status by_each(unsigned gpus, const std::function<Status(unsigned)>& work) {
    std::vector<Status> results(gpus);
    std::vector<std::jthread> threads;
    for (unsigned gpu = 0; gpu < gpus; gpu++)
      threads.emplace_back([&, gpu] { results[gpu] = work(gpu); });
    threads.clear();  // waits
    for (Status& result : results) TRY(std::move(result));
    return {};
  }
  MemoryEngine engine(unsigned gpus = 1) const {
    return MemoryEngine(staging_, rates(gpus), [this](const std::byte* chunk) {
      return hashes_.at((chunk - memory_.data()) / kChunk);
    });
  }
  Result<image::Directory> images(const Fd& directory, bool encrypted) const {
    if (!encrypted) return image::Directory(directory.get());
    const fs::path key = top_ / "key";
    std::ofstream(key) << std::string(Key::kBytes, 'k');
    fs::permissions(key, fs::perms::owner_read | fs::perms::owner_write);
    return image::Directory(directory.get(), TRY(Key::read(key)));
  }
  std::byte* memory_of(uint64_t object) const {
    return memory_.data() + (object - 1) * bos_.front().size;
  }
  gpu::ImportObject import() const {
    return [this](uint64_t id, uint64_t) -> Result<std::shared_ptr<gpu::Imported>> {
      return std::shared_ptr<gpu::Imported>(std::make_shared<Memory>(memory_of(id)));
    };
  }
  Result<std::unique_ptr<pipeline::IoQueue>> make_queue(unsigned depth) {
    if (slow_ == Slow::kNothing || slow_ == Slow::kLink)
      return pipeline::make_io_queue(pipeline::IoKind::kUring, depth);
    if (slow_ == Slow::kCpus) return pipeline::make_thread_queue(depth, slow_copies());
    if (slow_ == Slow::kFarDisk)
      return pipeline::make_thread_queue(
          depth, [this](const auto&... transfer) { return far_disk_.transfer(transfer...); });
    return pipeline::make_thread_queue(
        depth, [this](const auto&... transfer) { return slow_disk_.transfer(transfer...); });
  }
  pipeline::Transfer slow_copies() const {
    return
        [copies = slow_copies_](const auto&... transfer) { return copies.transfer(transfer...); };
  }
  EngineRates rates(unsigned gpus = 1) const {
    const double link = slow_link_rate() / gpus;
    if (slow_ == Slow::kCpus) return {.link = 0.8 * kManyCpus * slow_cpu_rate()};
    if (slow_ == Slow::kLink) return {.link = link, .hashes = 20 * link};
    return {};
  }
  unsigned threads(unsigned gpus = 1) const {
    const unsigned cpus =
        slow_ == Slow::kCpus ? kManyCpus : pipeline::worker_threads(pipeline::kMaxThreadsOfGpu);
    return pipeline::threads_by_bytes(std::vector<uint64_t>(gpus, bytes()), cpus).front();
  }
  Result<Fd> open_file(int flags) const { return Fd::open((top_ / kFile).c_str(), flags, 0600); }

  fs::path top_;
  Mapping memory_;
  std::vector<kernel::Bo> bos_;
  std::vector<gpu::ChunkHash> hashes_;  // of the chunks of the memory
  gpu::StagingSize staging_ = staging();
  Slow slow_ = Slow::kNothing;
  SlowDisk slow_disk_{slow_rate()};
  const FarDisk far_disk_{far_disk_delay()};
  SlowCopies slow_copies_{slow_cpu_rate()};
};

}  // namespace amdgpu_criu::bench
