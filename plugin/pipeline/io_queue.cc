// SPDX-License-Identifier: GPL-2.0
#include "pipeline/io_queue.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>

namespace amdgpu_criu::pipeline {

bool set_direct(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  return fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

bool is_direct(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && flags & O_DIRECT;
}

void IoRequest::add(std::span<std::byte> bytes) {
  const bool goes_on =
      !parts.empty() &&
      static_cast<std::byte*>(parts.back().iov_base) + parts.back().iov_len == bytes.data();
  if (goes_on)
    parts.back().iov_len += bytes.size();
  else
    parts.push_back({bytes.data(), bytes.size()});
}

size_t IoQueue::Work::parts() const {
  return std::min<size_t>(request.parts.size() - first, IOV_MAX);
}

void IoQueue::submit(unsigned group, IoRequest request) {
  while (works_.size() >= depth()) complete_one();
  auto owned = std::make_unique<Work>();
  Work& work = *owned;
  work.group = group;
  work.request = std::move(request);
  Group& others = groups_[group];
  works_.emplace(&work, std::move(owned));
  others.under_way++;
  start_again(work);
}

void IoQueue::start_again(Work& work) {
  work.direct = is_direct(work.request.fd);
  start(work);
}

Status IoQueue::finish(unsigned group) {
  while (groups_[group].under_way > 0) complete_one();
  return std::exchange(groups_[group], Group()).status;
}

void IoQueue::drain() {
  while (!works_.empty()) complete_one();
}

void IoQueue::complete_one() {
  const Completion done = wait_for_any();
  auto more = without_exceptions([&] { return advance(*done.work, done.result); });
  if (more.ok() && *more) return start_again(*done.work);
  Group& group = groups_[done.work->group];
  group.under_way--;
  if (!more.ok() && group.status.ok()) group.status = std::move(more).error();
  works_.erase(done.work);
}

// A file system may accept O_DIRECT at open() and refuse the transfer (EINVAL), and pages of a
// device cannot be transferred with it (EFAULT).
Status IoQueue::without_direct(const Work& work, int error) {
  const IoRequest& request = work.request;
  if (work.direct && (error == EINVAL || error == EFAULT) && set_direct(request.fd, false))
    return {};
  return Error::of(error, "cannot {} image {}: {}", request.write ? "write" : "read", *request.name,
                   strerror(error));
}

// Returns true if part of the request remains.
Result<bool> IoQueue::advance(Work& work, ssize_t result) {
  IoRequest& request = work.request;
  if (result == -EINTR || result == -EAGAIN) return true;
  if (result < 0) {
    TRY(without_direct(work, static_cast<int>(-result)));
    return true;
  }
  if (result == 0 && request.write)
    return Error::of(EIO, "cannot write image {}: nothing was written", *request.name);
  if (result == 0) return Error::of(EBADMSG, "image {} is truncated", *request.name);
  request.offset += result;
  while (result > 0) {
    iovec& part = request.parts[work.first];
    const size_t done = std::min<size_t>(part.iov_len, result);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + done;
    part.iov_len -= done;
    result -= static_cast<ssize_t>(done);
    if (part.iov_len == 0) work.first++;
  }
  // The rest of a short transfer may be unaligned for O_DIRECT.
  const bool more = work.first < request.parts.size();
  if (more && request.offset % 512 != 0) (void)set_direct(request.fd, false);
  return more;
}

}  // namespace amdgpu_criu::pipeline
