// SPDX-License-Identifier: GPL-2.0
#include "engines/mqd.h"

namespace gpu {

SavedPlace::Words SavedPlace::pack() const {
  Words words = {kMagic,
                 low32(ring_next),
                 high32(ring_next),
                 low32(progress),
                 high32(progress),
                 skip,
                 depth,
                 low32(started),
                 high32(started),
                 stage};
  size_t at = 10;
  for (const Ib& ib : ibs) {
    words[at++] = low32(ib.base);
    words[at++] = high32(ib.base);
    words[at++] = ib.size;
    words[at++] = ib.next;
  }
  return words;
}

bool SavedPlace::unpack(const Words& words) {
  if (words[0] != kMagic || words[6] > kMaxIbs) return false;
  SavedPlace place;
  place.ring_next = join(words[1], words[2]);
  place.progress = join(words[3], words[4]);
  place.skip = words[5];
  place.depth = words[6];
  place.started = join(words[7], words[8]);
  place.stage = words[9];
  size_t at = 10;
  for (Ib& ib : place.ibs) {
    ib = {.base = join(words[at], words[at + 1]), .size = words[at + 2], .next = words[at + 3]};
    if (ib.next > ib.size) return false;
    at += 4;
  }
  *this = place;
  return true;
}

}  // namespace gpu
