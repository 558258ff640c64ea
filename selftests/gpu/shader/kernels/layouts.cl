// SPDX-License-Identifier: GPL-2.0
// Each work-item of a group of 64 reads and writes an item of LDS and one of memory; if not all, two of three do. The
// words of an item differ.
#include "group_barrier.h"

#define READ_AND_WRITE(name, type, parts)                                                         \
  kernel void name(global const uint* places, global type* data, global type* out, uint all) {    \
    local volatile type row[256];                                                                 \
    const uint lid = __builtin_amdgcn_workitem_id_x(), at = places[lid];                          \
    const bool active = all || lid % 3;                                                           \
    for (uint i = lid; i < 256; i += 64) row[i] = (type)(i * 7 + 1) + (parts);                    \
    group_barrier();                                                                              \
    type from_row = 0, from_data = 0;                                                             \
    if (active) {                                                                                 \
      from_row = row[at];                                                                         \
      from_data = data[at];                                                                       \
    }                                                                                             \
    out[lid] = from_row;                                                                          \
    out[64 + lid] = from_data;                                                                    \
    group_barrier();                                                                              \
    if (active) {                                                                                 \
      row[at] = (type)(lid + 1000) + (parts);                                                     \
      data[at] = (type)(lid + 2000) + (parts);                                                    \
    }                                                                                             \
    group_barrier();                                                                              \
    for (uint i = lid; i < 256; i += 64) out[128 + i] = row[i];                                   \
  }

READ_AND_WRITE(words, uint, 0u)
READ_AND_WRITE(fours, uint4, ((uint4)(0, 100000, 200000, 300000)))
