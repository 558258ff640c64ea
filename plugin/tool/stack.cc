// SPDX-License-Identifier: GPL-2.0
#include "tool/stack.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "host/host.h"
#include "image/container.h"
#include "tool/commands.h"
#include "tool/output.h"
#include "topology/fit.h"

namespace amdgpu_criu::tool {
namespace {

// To be changed whenever the text below changes, because ids are compared with those of older
// versions.
constexpr char kPrefix[] = "amdgpu-criu:2:";
constexpr size_t kHexDigits = 40;

std::string text_of(const std::optional<kernel::Query>& kernel, const std::string& release) {
  if (!kernel) return "stock " + release;
  std::string text = formatted("abi {} {} features {} blob {}", kernel->abi_min, kernel->abi_max,
                               kernel->features, kernel->blob_format);
  auto records = kernel->records;
  std::ranges::sort(records, {}, &amdgpu_criu_record_info::type);
  for (const amdgpu_criu_record_info& record : records)
    text += formatted(" {}:{}-{}", record.type, record.version_min, record.version_max);
  return text;
}

}  // namespace

std::string stack_id(const std::optional<kernel::Query>& kernel, const std::string& release,
                     std::span<const topology::Gpu> gpus) {
  std::set<std::string> kinds;
  for (const topology::Gpu& gpu : gpus) {
    std::string kind;
    for (const std::string& property : topology::compared_properties())
      kind += formatted(" {} {}", property, gpu.property(property));
    kinds.insert(kind);
  }
  std::string text = formatted("{} image {} {}", text_of(kernel, release), image::kFormat,
                               image::kEncryptedFormat);
  for (const std::string& kind : kinds) text += ";" + kind;
  const std::string hash = image::text_of(image::strong_hash(std::as_bytes(std::span(text))));
  return kPrefix + hash.substr(hash.find(':') + 1, kHexDigits);
}

Result<std::string> stack_id_of_machine() {
  const host::Host host = host::Host::create();
  const auto kfd = host.open_kfd();
  if (!kfd.ok())
    return Error(kfd.error().code(), "there is no driver stack: " + kfd.error().message());
  const auto gpus = TRY(host.gpus());
  if (gpus.empty()) return Error(ENODEV, "there is no GPU here");
  auto query = kernel::make_ioctl_api()->query(kernel::kfd_node(*kfd));
  if (!query.ok() && query.error().code() != ENOTTY) return query.error();
  utsname name{};
  uname(&name);
  std::optional<kernel::Query> series;
  if (query.ok()) series = std::move(*query);
  return stack_id(series, name.release, gpus);
}

int stack_id(Format format) {
  const auto id = stack_id_of_machine();
  if (!id.ok()) return complain(2, id.error().message());
  if (format == Format::kJson)
    print_json({{"stack_id", *id}});
  else
    printf("%s\n", id->c_str());
  return 0;
}

}  // namespace amdgpu_criu::tool
