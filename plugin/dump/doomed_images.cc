// SPDX-License-Identifier: GPL-2.0
#include "dump/doomed_images.h"

#include <signal.h>

#include <algorithm>
#include <thread>

#include "base/ending_process.h"
#include "base/entries.h"
#include "image/set.h"

namespace amdgpu_criu::dump {

Result<std::unique_ptr<DoomedImages>> DoomedImages::create(int directory,
                                                           const std::vector<pid_t>& processes) {
  // With a position of its own.
  std::unique_ptr<DoomedImages> images(
      new DoomedImages(TRY(Fd::openat(directory, ".", O_RDONLY | O_DIRECTORY))));
  for (const pid_t pid : processes) images->processes_.push_back(TRY(Pidfd::open(pid)));
  images->at_signal_.emplace([it = images.get()] { it->remove(); });
  return images;
}

// A process that was killed may not have taken the signal yet.
bool DoomedImages::all_continue() const {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return std::ranges::none_of(processes_, is_ending);
}

// False: its disk does not answer. Removing the files would wait for it, too.
bool DoomedImages::end_writer() const {
  const Pidfd* writer = writer_;
  if (!writer) return true;
  writer->signal(SIGKILL);
  return wait_for_end(*writer);
}

void DoomedImages::remove() const {
  if (!end_writer()) return;
  if (std::ranges::any_of(processes_, is_ending)) return;
  for_each_entry(directory_.get(), [this](const char* name) {
    if (image::kind_of(name)) (void)unlinkat(directory_.get(), name, 0);
    return true;
  });
}

}  // namespace amdgpu_criu::dump
