// SPDX-License-Identifier: GPL-2.0
#include <chrono>

#include "dump/save_contents.h"
#include "gpu/engine.h"
#include "image/set.h"
#include "restore/fill_contents.h"
#include "tool/bench.h"

namespace amdgpu_criu::tool {
namespace {

constexpr uint64_t kObject = 1;

// The name of the contents file that save() writes and fill() reads.
std::string file_name(const topology::Gpu& gpu) { return image::contents_file_name(0, gpu.gpu_id); }

Result<Fd> open_directory(const std::string& path) {
  return Fd::open(path.c_str(), O_RDONLY | O_DIRECTORY);
}

}  // namespace

Result<BenchGpu> BenchGpu::create(const Fd& render_node, const topology::Gpu& gpu, uint64_t bytes) {
  Fd memory = TRY(gpu::allocate_vram(render_node, bytes));
  BenchGpu result(TRY(render_node.duplicate()), gpu, std::move(memory), bytes);
  TRY(result.randomize());
  return result;
}

Result<std::unique_ptr<gpu::Engine>> BenchGpu::make_engine() const {
  return gpu::make_sdma_engine(TRY(render_.duplicate()), {});
}

Status BenchGpu::randomize() {
  auto engine = TRY(make_engine());
  const std::shared_ptr<gpu::Imported> vram = TRY(engine->import(memory_, bytes_));
  for (uint64_t at = 0; at < bytes_; at += engine->staging(0).size()) {
    const auto part = engine->staging(0).first(std::min(bytes_ - at, engine->staging(0).size()));
    fill_random(part, at + 1);
    const gpu::Piece piece{vram.get(), at, part.size()};
    TRY(engine->start_write(0, {&piece, 1}));
    TRY(engine->wait(0));
  }
  return {};
}

Result<Seconds> BenchGpu::pass(bool write) {
  auto engine = TRY(make_engine());
  const std::shared_ptr<gpu::Imported> vram = TRY(engine->import(memory_, bytes_));
  if (write)
    for (unsigned slot = 0; slot < engine->slots(); slot++)
      fill_random(engine->staging(slot), slot);
  const auto start = std::chrono::steady_clock::now();
  unsigned slot = 0;
  for (uint64_t at = 0; at < bytes_; slot = (slot + 1) % engine->slots()) {
    const size_t size = std::min(bytes_ - at, engine->staging(slot).size());
    TRY(engine->wait(slot));
    const gpu::Piece piece{vram.get(), at, size};
    TRY(write ? engine->start_write(slot, {&piece, 1}) : engine->start_read(slot, {&piece, 1}));
    at += size;
  }
  for (slot = 0; slot < engine->slots(); slot++) TRY(engine->wait(slot));
  return since(start);
}

Result<Seconds> BenchGpu::copy_out() { return pass(false); }
Result<Seconds> BenchGpu::copy_in() { return pass(true); }

gpu::ImportObject BenchGpu::import_with(gpu::Engine& engine) const {
  return [&](uint64_t, uint64_t size) -> Result<std::shared_ptr<gpu::Imported>> {
    return std::shared_ptr<gpu::Imported>(TRY(engine.import(memory_, size)));
  };
}

Result<Seconds> BenchGpu::save(const std::string& directory) {
  const Fd to = TRY(open_directory(directory));
  kernel::Bo bo{};
  bo.object_id = kObject;
  bo.size = bytes_;
  bo.flags = AMDGPU_CRIU_BO_CONTENTS;
  const auto start = std::chrono::steady_clock::now();
  auto engine = TRY(make_engine());
  const auto queue = pipeline::make_io_queue(pipeline::IoKind::kUring, engine->slots());
  auto writer = TRY(image::ContentsWriter::create(to.get(), file_name(gpu_)));
  (void)pipeline::set_direct(writer.fd(), true);
  pipeline::Workers workers(pipeline::worker_threads(pipeline::kMaxThreadsOfGpu));
  dump::SaveOptions options;
  options.workers = &workers;
  auto saved =
      TRY(dump::save_contents(*engine, *queue, {&bo, 1}, import_with(*engine), options, writer));
  TRY(writer.finish(
      image::encode(image::Contents{image::new_dump_id(), 0, gpu_, std::move(saved.objects), {}})));
  return since(start);
}

Result<Seconds> BenchGpu::fill(const std::string& directory) {
  const Fd from = TRY(open_directory(directory));
  const auto start = std::chrono::steady_clock::now();
  const auto loaded = TRY(image::load_contents(from.get()));
  const auto& contents = loaded.at(0).contents;
  auto files = TRY(image::ChunkFiles::open(from.get(), loaded.at(0)));
  files.use_direct();
  auto engine =
      TRY(gpu::make_sdma_engine(TRY(render_.duplicate()), restore::staging_for(contents, {})));
  const auto queue = pipeline::make_io_queue(pipeline::IoKind::kThreads, engine->slots());
  pipeline::Workers workers(pipeline::worker_threads(pipeline::kMaxThreadsOfGpu));
  TRY(restore::fill_contents(*engine, *queue, files, restore::all_of(contents),
                             import_with(*engine), {{}, &workers}));
  return since(start);
}

}  // namespace amdgpu_criu::tool
