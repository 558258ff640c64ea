// SPDX-License-Identifier: GPL-2.0
#include "engines/mqd.h"

namespace gpu {

SavedPlace::Words SavedPlace::pack() const {
  const Ib inner = depth > 1 ? ibs[1] : Ib{};
  return {kMagic,          low32(ring_next),  high32(ring_next),
          low32(progress), high32(progress),  skip,
          depth > 1,       low32(started),    high32(started),
          stage,           low32(inner.base), high32(inner.base),
          inner.size,      inner.next};
}

bool SavedPlace::unpack(const Words& words) {
  if (words[0] != kMagic || words[6] > 1) return false;
  SavedPlace place = *this;
  place.ring_next = join(words[1], words[2]);
  place.progress = join(words[3], words[4]);
  place.skip = words[5];
  place.started = join(words[7], words[8]);
  place.stage = words[9];
  Ib& inner = place.ibs[1];
  inner = {.base = join(words[10], words[11]), .size = words[12], .next = words[13]};
  if (inner.next > inner.size) return false;
  if (depth) place.depth = 1 + words[6];
  *this = place;
  return true;
}

}  // namespace gpu
