// SPDX-License-Identifier: GPL-2.0
// Fills objects from the contents files, each once whichever task restored it.
#pragma once

#include <set>
#include <span>

#include "restore/layout.h"
#include "restore/machine.h"
#include "restore/shared_state.h"

namespace restore {

// What filling works with. Holds no state: any process and any thread may have one.
struct FillTools {
  kernel::Api& api;
  gpu::EngineFactory make_engine;
  gpu::StagingSize staging;
};

struct FillReport {
  size_t objects = 0;
  uint64_t bytes = 0;
  uint64_t milliseconds = 0;
};

// Fills these objects of one contents file, all of which the session has by now, through a file of
// its own of the GPU that they are on. Logs nothing. Objects are independent of one another, as are
// calls: any number may run at the same time.
Result<FillReport> fill_objects(const FillTools& tools, const Fd& session, Fd render_node,
                                int image_directory, const image::Set::ContentsFile& file,
                                std::span<const image::Object> objects);

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
