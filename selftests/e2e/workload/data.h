// SPDX-License-Identifier: GPL-2.0
// The memory that the process fills and checks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "workload/copier.h"
#include "workload/options.h"

namespace e2e {

struct DataBo {
  Bo bo;
  Pattern pattern;
  std::string label;
  std::vector<size_t> gpus;  // indices of the GPUs that it is mapped on
};

// One line: which BO, how much of it, and the first wrong word.
std::string describe(const std::string& what, uint64_t size, const Damage& damage);

class DataSet {
 public:
  static amdgpu_criu::Result<DataSet> create(const Kfd& kfd, std::span<const Gpu* const> gpus,
                                             const Options& options);
  amdgpu_criu::Status fill(std::span<Copier* const> copiers);
  // Appends a line for each BO that is damaged, as the CPU sees it and as each GPU does.
  amdgpu_criu::Status check(std::span<Copier* const> copiers,
                            std::vector<std::string>& problems) const;

  unsigned bo_count() const { return static_cast<unsigned>(bos_.size()); }
  uint64_t bytes() const;

 private:
  amdgpu_criu::Status add(const Kfd& kfd, std::span<const Gpu* const> gpus, size_t owner,
                          bool shared, const BoSpec& spec);
  amdgpu_criu::Status add_own(const Kfd& kfd, std::span<const Gpu* const> gpus, size_t owner,
                              const Options& options);
  std::vector<DataBo> bos_;
};

}  // namespace e2e
