// SPDX-License-Identifier: GPL-2.0
// Shared memory as a virtual machine passes it.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <span>

#include "base/fd.h"

namespace gpu::test {

// Fails the test with the error's message if there is no value.
template <typename T>
T expect(amdgpu_criu::Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.error().message();
    std::abort();
  }
  return std::move(*result);
}

template <typename T>
int code_of(const amdgpu_criu::Result<T>& result) {
  return result.ok() ? 0 : result.error().code();
}

class GuestRam {
 public:
  explicit GuestRam(size_t size) : fd_(memfd_create("guest-ram", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
    mapping_ =
        expect(amdgpu_criu::Mapping::map(size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get()));
  }

  amdgpu_criu::Fd fd() const { return expect(fd_.duplicate()); }
  int number() const { return fd_.get(); }
  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  template <typename T>
  T get(size_t offset) const {
    T value;
    std::memcpy(&value, mapping_.data() + offset, sizeof(T));
    return value;
  }
  template <typename T>
  void put(size_t offset, T value) const {
    std::memcpy(mapping_.data() + offset, &value, sizeof(T));
  }

 private:
  amdgpu_criu::Fd fd_;
  amdgpu_criu::Mapping mapping_;
};

}  // namespace gpu::test
