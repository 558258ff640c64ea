// SPDX-License-Identifier: GPL-2.0
#include "criu/source.h"

#include "base/log.h"
#include "base/statistics.h"
#include "criu/program.h"
#include "foreign/foreign_api.h"
#include "stock/record.h"

namespace amdgpu_criu::criu {
namespace {

enum class Series { kAbsent, kPresent, kUnknown };

Series look_for_series(const Parts& parts, const host::Host& host) {
  if (!host.has_kfd()) return Series::kUnknown;
  const auto kfd = host.open_kfd();
  if (!kfd.ok()) return Series::kUnknown;
  const auto query = parts.api->query(kernel::kfd_node(*kfd));
  if (query.ok()) return Series::kPresent;
  return query.error().code() == ENOTTY ? Series::kAbsent : Series::kUnknown;
}

stock::StockContext stock_parts(const Parts& parts, const host::Host& host, Series series) {
  return {parts.make_stock(), host, parts.kfd_processes, series == Series::kPresent};
}

stock::StockContext stock_parts(const Parts& parts, const host::Host& host) {
  return stock_parts(parts, host, look_for_series(parts, host));
}

Error missing_images() {
  return Error(ENOENT,
               "CRIU's inventory says that processes had GPU state, but the image directory has "
               "none of its images (amdgpu-*.img): copy them there, too");
}

Result<std::optional<FoundImages>> find_ours(const Parts& parts, const host::Host& host,
                                             const Key& key) {
  FoundImages source{TRY(image::Set::load({TRY(image_directory()), key})), nullptr};
  if (source.images.empty()) return missing_images();
  if (stock::is_stock(source.images)) {
    log_info("the images were made through the stock kernel interface, which restores them");
    source.api = std::make_unique<stock::StockApi>(stock_parts(parts, host), TRY(host.gpus()));
  }
  return std::optional(std::move(source));
}

Result<std::optional<FoundImages>> find_foreign(const Parts& parts, const host::Host& host,
                                                const options::Options& options) {
  if (options.key)
    return Error(
        EKEYREJECTED,
        "there is a key (option key-file), but the images are of CRIU's own amdgpu plugin, "
        "which encrypts nothing");
  foreign::Images images = TRY(foreign::read(TRY(image_directory())));
  if (images.kfds.empty() && images.renders.empty()) return missing_images();
  log_warning(
      "the images are of CRIU's own amdgpu plugin: without checksums, damage may not be detected");
  FoundImages source{TRY(foreign::make_set(images)), nullptr};
  const foreign::Tools tools{parts.make_engine, options.staging, image_directory};
  source.api = std::make_unique<foreign::ForeignApi>(stock_parts(parts, host), TRY(host.gpus()),
                                                     tools, std::move(images));
  return std::optional(std::move(source));
}

}  // namespace

std::unique_ptr<kernel::Api> stock_api_if_needed(const Parts& parts, const host::Host& host) {
  if (look_for_series(parts, host) != Series::kAbsent) return nullptr;
  auto gpus = host.gpus();
  if (!gpus.ok()) return nullptr;
  log_warning(
      "the amdgpu module of this kernel lacks the amdgpu-criu series: only what processes have "
      "through /dev/kfd is carried, by the stock kernel interface; no render nodes' own state, no "
      "shared buffers, no dma-buf descriptors");
  return std::make_unique<stock::StockApi>(stock_parts(parts, host, Series::kAbsent),
                                           std::move(*gpus));
}

Result<std::optional<FoundImages>> find_source(const Parts& parts, const host::Host& host,
                                               const Result<options::Options>& options) {
  const bool ours = required_by_images();
  if (!ours && !foreign_required_by_images()) return std::optional<FoundImages>();
  remove_statistics(kRestoreStatistics);
  if (!options.ok()) return options.error();
  return ours ? find_ours(parts, host, options->key) : find_foreign(parts, host, *options);
}

}  // namespace amdgpu_criu::criu
