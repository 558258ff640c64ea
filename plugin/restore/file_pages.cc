// SPDX-License-Identifier: GPL-2.0
#include "restore/file_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace amdgpu_criu::restore {
namespace {

// Of a GPU, at the same time, by that many workers.
constexpr unsigned kMostWindows = 8;

}  // namespace

Result<std::shared_ptr<const gpu::PageWindow>> FilePages::at(const image::Chunk& chunk,
                                                             uint64_t place) {
  File& file = *TRY(open(chunk));
  const uint64_t number = place / kWindow;
  if (!file.windows.contains(number)) TRY(prepare(file, number));
  return file.windows.at(number);
}

// Nothing reads the mapping but the GPU: if the file becomes shorter, its copy fails.
Result<FilePages::File*> FilePages::open(const image::Chunk& chunk) {
  const auto found = by_source_.find(chunk.source);
  if (found != by_source_.end()) return &found->second;
  const image::Opened& opened = files_.of(chunk);
  File file;
  file.mapping = TRY(Mapping::map(opened.data_end, PROT_READ, MAP_SHARED, opened.file.get()));
  return &by_source_.emplace(chunk.source, std::move(file)).first->second;
}

// Chunks mostly follow one another, so these windows are used next, and those before no more.
Status FilePages::prepare(File& file, uint64_t number) {
  file.windows.clear();
  const uint64_t bytes = file.mapping.size(), page = sysconf(_SC_PAGESIZE);
  const uint64_t left = gpu::chunks_of(bytes - number * kWindow, kWindow);
  const uint64_t count = std::min<uint64_t>(left, std::clamp(workers_.threads(), 1u, kMostWindows));
  std::vector<gpu::PageWindow> windows(count);
  std::vector<Status> results(count);
  pipeline::Workers::Batch batch;
  workers_.start(batch, count, [&](size_t i, pipeline::Codec&) {
    gpu::PageWindow& window = windows[i];
    window.start = (number + i) * kWindow;
    window.end = std::min(window.start + kWindow, (bytes + page - 1) / page * page);
    auto pages = engine_.import_pages(
        {file.mapping.data() + window.start, window.end - window.start}, gpu::PageUse::kRead);
    if (pages.ok())
      window.pages = std::move(*pages);
    else
      results[i] = pages.error();
  });
  TRY(workers_.wait(batch));
  for (Status& result : results) TRY(std::move(result));
  for (size_t i = 0; i < count; i++)
    file.windows[number + i] = std::make_shared<const gpu::PageWindow>(std::move(windows[i]));
  return {};
}

}  // namespace amdgpu_criu::restore
