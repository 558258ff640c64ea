// SPDX-License-Identifier: GPL-2.0
#include "dump/page_windows.h"

#include <algorithm>

namespace amdgpu_criu::dump {
namespace {

// At the same time, by that many workers.
constexpr unsigned kMostWindows = 16;

}  // namespace

PageWindows::PageWindows(gpu::Engine& engine, pipeline::Workers& workers,
                         std::span<const std::byte> file)
    : engine_(engine), workers_(workers), file_(file) {}

Result<std::shared_ptr<const gpu::PageWindow>> PageWindows::at(uint64_t place) {
  const uint64_t number = place / kWindow, last = (file_.size() - 1) / kWindow;
  if (place >= file_.size()) return Error(EFBIG, "the file has no more pages");
  while (!prepared_.empty() && prepared_.front()->window->end <= place) {
    (void)workers_.wait(prepared_.front()->batch);
    prepared_.pop_front();
  }
  const uint64_t most = std::clamp(workers_.threads(), 1u, kMostWindows);
  while (prepared_.size() < most && number + prepared_.size() <= last)
    start(number + prepared_.size());
  Prepared& first = *prepared_.front();
  Status status = workers_.wait(first.batch);
  if (status.ok()) status = first.result;
  if (status.ok()) return std::shared_ptr<const gpu::PageWindow>(first.window);
  stop();
  return std::move(status).error();
}

void PageWindows::start(uint64_t number) {
  Prepared& one = *prepared_.emplace_back(std::make_unique<Prepared>());
  one.window->start = number * kWindow;
  one.window->end = std::min<uint64_t>(one.window->start + kWindow, file_.size());
  workers_.start(one.batch, 1, [this, &one](size_t, pipeline::Codec&) {
    gpu::PageWindow& window = *one.window;
    auto pages = engine_.import_pages(file_.subspan(window.start, window.end - window.start),
                                      gpu::PageUse::kWrite);
    if (pages.ok())
      window.pages = std::move(*pages);
    else
      one.result = pages.error();
  });
}

void PageWindows::stop() {
  for (const auto& one : prepared_) (void)workers_.wait(one->batch);
  prepared_.clear();
}

}  // namespace amdgpu_criu::dump
