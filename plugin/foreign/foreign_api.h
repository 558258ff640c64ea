// SPDX-License-Identifier: GPL-2.0
// Restores a process from the images of CRIU's own plugin, contents included. Their files have no
// checksums, so they have their own reader.
#pragma once

#include "foreign/images.h"
#include "gpu/engine.h"
#include "stock/stock_api.h"

namespace amdgpu_criu::foreign {

struct Tools {
  gpu::EngineFactory make_engine;
  gpu::StagingSize staging;
  Result<int> (*image_directory)();  // another descriptor in each process
};

class ForeignApi : public stock::StockApi {
 public:
  ForeignApi(stock::StockContext parts, std::vector<topology::Gpu> gpus, Tools tools, Images images)
      : stock::StockApi(std::move(parts), std::move(gpus)),
        tools_(tools),
        images_(std::move(images)) {}

  Status restore(kernel::Node node, int session, std::span<const kernel::RestoreDevice> devices,
                 std::span<kernel::Bo> bos, std::span<const std::byte> blob) override;

 private:
  Status fill(const kernel::RestoreDevice& device, std::span<const kernel::Bo> bos,
              stock::State& state) const;

  Tools tools_;
  Images images_;
};

}  // namespace amdgpu_criu::foreign
