// SPDX-License-Identifier: GPL-2.0
#include "restore/nodes.h"

#include "base/log.h"

namespace amdgpu_criu::restore {

Result<Nodes> Nodes::create(const host::Host& host, FdStore& store) {
  Nodes nodes(host, store);
  if (!store.is_ready()) return nodes;
  if (const auto directory = host.kfd_directory(); directory.ok())
    nodes.kfd_directory_ = TRY(store.add(*directory));
  if (const auto directory = host.render_directory(); directory.ok())
    nodes.render_directory_ = TRY(store.add(*directory));
  return nodes;
}

// The restored program may open the GPU again, as may programs that the engine starts there.
void Nodes::make_render(unsigned minor) const {
  if (!render_directory_) return;
  const auto own = host_->render_directory();
  const auto outside = store_->get(*render_directory_);
  if (!own.ok() || !outside.ok()) return;
  const Status made = host_->make_render(minor, *own, *outside);
  if (made.ok())
    log_info("made renderD{} in /dev/dri of the container", minor);
  else
    log_warning("{}: the container has no name for render minor {}", made.error().message(), minor);
}

template <typename Open>
Result<Fd> Nodes::open(Result<Fd> own_directory, const std::optional<int>& this_machine,
                       const Open& open) const {
  auto own = own_directory.ok() ? open(*own_directory) : std::move(own_directory);
  if (own.ok() || !this_machine) return own;
  auto other = open(TRY(store_->get(*this_machine)));
  if (!other.ok())
    return Error::of(other.error().code(), "{}; outside of the container: {}",
                     own.error().message(), other.error().message());
  log_info("{}: opened as it is outside of the container", own.error().message());
  return other;
}

Result<Fd> Nodes::open_kfd() const {
  return open(host_->kfd_directory(), kfd_directory_,
              [&](const Fd& directory) { return host_->open_kfd(directory); });
}

Result<Fd> Nodes::open_render(unsigned minor) const {
  const auto open_in = [&](const Fd& directory) { return host_->open_render(minor, directory); };
  const auto own = host_->render_directory();
  const bool lacks = own.ok() && !host_->has_render(minor, *own);
  auto outside = open(host_->render_directory(), render_directory_, open_in);
  if (!outside.ok() || !lacks || !render_directory_) return outside;
  if (!host_->has_render(minor, *own)) make_render(minor);
  // CRIU dumps mappings of a file only if the container has its mount.
  auto inside = open_in(*own);
  return inside.ok() ? std::move(inside) : std::move(outside);
}

bool Nodes::has_render(unsigned minor) const {
  const auto directory = host_->render_directory();
  return directory.ok() && host_->may_open_render(minor, *directory);
}

bool Nodes::may_open_render(unsigned minor) const {
  if (has_render(minor)) return true;
  if (!render_directory_) return false;
  const auto directory = store_->get(*render_directory_);
  return directory.ok() && host_->may_open_render(minor, *directory);
}

}  // namespace amdgpu_criu::restore
