// SPDX-License-Identifier: GPL-2.0
// Fd and Mapping: sole owners of a file descriptor and of an mmap()ed range.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace amdgpu_criu {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  static Result<Fd> open(const char* path, int flags, mode_t mode = 0) {
    return openat(AT_FDCWD, path, flags, mode);
  }
  static Result<Fd> openat(int dir, const char* path, int flags, mode_t mode = 0) {
    Fd fd(::openat(dir, path, flags | O_CLOEXEC, mode));
    if (!fd.valid()) return Error::system("cannot open {}", path);
    return fd;
  }
  Result<Fd> duplicate() const {
    Fd copy(fcntl(fd_, F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return Error::system("cannot duplicate descriptor {}", fd_);
    return copy;
  }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // The caller closes it from now on.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  // Closes the descriptor. Not retried on EINTR: Linux has closed it by then.
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Writes all of it, also in parts and after signals.
inline Status write_all(const Fd& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written == 0) return Error(EIO, "nothing was written");
    if (written < 0 && errno != EINTR) return Error::system("cannot write");
    if (written > 0) bytes = bytes.subspan(written);
  }
  return {};
}
inline Status write_all(const Fd& file, std::string_view text) {
  return write_all(file, std::as_bytes(std::span(text)));
}

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    unmap();
    address_ = std::exchange(other.address_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { unmap(); }

  // fd -1 with MAP_ANONYMOUS in flags maps fresh memory.
  static Result<Mapping> map(size_t size, int protection, int flags, int fd = -1, off_t offset = 0,
                             void* hint = nullptr) {
    void* address = mmap(hint, size, protection, flags, fd, offset);
    if (address == MAP_FAILED) return Error::system("cannot map {} bytes", size);
    Mapping mapping;
    mapping.address_ = static_cast<std::byte*>(address);
    mapping.size_ = size;
    return mapping;
  }

  std::byte* data() const { return address_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {address_, size_}; }

 private:
  void unmap() {
    if (address_) munmap(address_, size_);
  }

  std::byte* address_ = nullptr;
  size_t size_ = 0;
};

// A descriptor of a process, which stays valid when another process gets the number: pidfd_open(2),
// pidfd_send_signal(2) and pidfd_getfd(2), which the C library of Debian 12 does not have.
class Pidfd {
 public:
  Pidfd() = default;
  static Result<Pidfd> open(pid_t pid) {
    Pidfd process = find(pid);
    if (!process.valid()) return Error::system("cannot open process {}", pid);
    return process;
  }
  // For callers to whom it does not matter why a process cannot be opened: not valid then.
  static Pidfd find(pid_t pid) {
    return {Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))), pid};
  }

  bool valid() const { return fd_.valid(); }
  // Becomes readable when the process ends.
  const Fd& fd() const { return fd_; }
  // Another process may have it when this one has ended.
  pid_t pid() const { return pid_; }

  bool signal(int number) const {
    return syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0) == 0;
  }

  // A close-on-exec copy of its descriptor of that number. If it is not valid, errno has the
  // reason.
  Fd take_descriptor(int number) const {
    return Fd(static_cast<int>(syscall(SYS_pidfd_getfd, fd_.get(), number, 0)));
  }

 private:
  Pidfd(Fd fd, pid_t pid) : fd_(std::move(fd)), pid_(pid) {}
  Fd fd_;
  pid_t pid_ = -1;
};

}  // namespace amdgpu_criu
