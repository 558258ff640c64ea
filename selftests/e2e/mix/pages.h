// SPDX-License-Identifier: GPL-2.0
// CPU mappings of GPU memory, the operations that a process may apply to them, and the expected
// state of the pages.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace e2e {

inline constexpr uint64_t kPageSize = 4096;
using Random = std::mt19937_64;

inline uint64_t below(Random& random, uint64_t limit) { return random() % limit; }

// Memory that can be mapped through any of these descriptors.
struct Source {
  uint64_t id = 0;
  uint64_t offset = 0;
  uint64_t pages = 0;
  bool has_contents = true;  // false: doorbells, which are mapped as a whole and not read
  int fd = -1;
};

// Fills all of it through a separate mapping.
amdgpu_criu::Status fill(const Source& source);

class Pages {
 public:
  // Does one of the operations below, chosen at random from those that are possible.
  amdgpu_criu::Status change(Random& random, const std::vector<Source>& sources);
  // The same without new mappings; there must be an old one.
  amdgpu_criu::Status change_mapped(Random& random);
  // In a new process: drops pages with MADV_DONTFORK and KFD's own pages.
  void forked();
  // Checks the contents of all readable pages, and that a write through one mapping is visible in
  // all.
  void check(std::vector<std::string>& problems);
  size_t count() const { return pages_.size(); }

 private:
  struct Page {
    uint64_t source = 0;
    uint64_t number = 0;
    int protection = 0;
    bool has_contents = true;
    bool goes_with_fork = true;
  };
  using Map = std::map<uint64_t, Page>;  // by address
  struct Run {
    uint64_t start = 0;
    uint64_t pages = 0;
  };

  amdgpu_criu::Status map(Random& random, const Source& source);
  amdgpu_criu::Status unmap(const Run& run);
  amdgpu_criu::Status protect(Random& random, const Run& run);
  amdgpu_criu::Status move(const Run& run);
  amdgpu_criu::Status advise(Random& random, const Run& run);
  // Some pages that were mapped by one call.
  Run choose(Random& random) const;
  static uint64_t free_range(uint64_t pages);

  Map pages_;
};

}  // namespace e2e
