// SPDX-License-Identifier: GPL-2.0
// CPU mappings of GPU memory, and what a process may do to them: the pages as they should be.
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
  bool has_contents = true;  // false: doorbells; they are mapped as a whole, and not looked at
  int fd = -1;
};

// Fills all of it, through a mapping of its own.
amdgpu_criu::Status fill(const Source& source);

class Pages {
 public:
  // One of the operations below at random, of those that there is something for.
  amdgpu_criu::Status change(Random& random, const std::vector<Source>& sources);
  // The same without new mappings; there must be one.
  amdgpu_criu::Status change_mapped(Random& random);
  // In a new process: MADV_DONTFORK and KFD's own pages are gone.
  void forked();
  // Contents of all that can be read; and that what is written through one mapping is seen in all.
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
