// SPDX-License-Identifier: GPL-2.0
// NoDestroy<T>: a global whose destructor exit() does not call.
#pragma once

#include <cstddef>
#include <new>

namespace amdgpu_criu {

// For state that forked children inherit and must not tear down for their parent.
template <typename T>
class NoDestroy {
 public:
  NoDestroy() { new (storage_) T(); }
  NoDestroy(const NoDestroy&) = delete;
  NoDestroy& operator=(const NoDestroy&) = delete;

  T& operator*() { return *std::launder(reinterpret_cast<T*>(storage_)); }
  T* operator->() { return &**this; }

 private:
  alignas(T) std::byte storage_[sizeof(T)];
};

}  // namespace amdgpu_criu
