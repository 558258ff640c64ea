// SPDX-License-Identifier: GPL-2.0
// Fills objects from the contents files, each once whichever task restored it.
#pragma once

#include <set>

#include "restore/layout.h"
#include "restore/machine.h"
#include "restore/shared_state.h"

namespace restore {

class ObjectFiller {
 public:
  ObjectFiller(const Environment& environment, const image::Set& images, const Machine& machine,
               const Layout& layout, SharedState& shared)
      : env_(environment), images_(images), machine_(machine), layout_(layout), shared_(shared) {}

  // Of these objects, which the session has by now, those that nobody else fills.
  Status fill(const Fd& session, const std::set<uint64_t>& object_ids);
  // All of all files were filled.
  Status check_all_filled() const;

 private:
  Status fill_from(const Fd& session, const image::Set::ContentsFile& file,
                   std::span<const image::Object> objects);

  const Environment& env_;
  const image::Set& images_;
  const Machine& machine_;
  const Layout& layout_;
  SharedState& shared_;
};

}  // namespace restore
