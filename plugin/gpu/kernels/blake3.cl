// SPDX-License-Identifier: GPL-2.0
// BLAKE3 of the chunks of a BO, as image::strong_hash() computes it. A work-group hashes a chunk, a
// work-item leaves of 1 KiB of it. Needs no device library.
#define GROUP 256
#define LEAF_VECTORS 64  // of 16 bytes
#define BLOCK_BYTES 64
#define BLOCKS 16  // of a leaf

enum { START = 1, END = 2, PARENT = 4, ROOT = 8 };

constant uint kIv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// The words of the message, in the order of each round.
constant uchar kOrder[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

#define ROTATE(x, bits) ((x) >> (bits) | (x) << (32 - (bits)))
#define MIX(a, b, c, d, x, y)       \
  v[a] += v[b] + (x);               \
  v[d] = ROTATE(v[d] ^ v[a], 16);   \
  v[c] += v[d];                     \
  v[b] = ROTATE(v[b] ^ v[c], 12);   \
  v[a] += v[b] + (y);               \
  v[d] = ROTATE(v[d] ^ v[a], 8);    \
  v[c] += v[d];                     \
  v[b] = ROTATE(v[b] ^ v[c], 7);

static void compress(private uint cv[8], private const uint m[16], uint counter, uint flags) {
  uint v[16] = {cv[0],  cv[1],  cv[2],  cv[3],  cv[4],   cv[5], cv[6],       cv[7],
                kIv[0], kIv[1], kIv[2], kIv[3], counter, 0,     BLOCK_BYTES, flags};
#pragma unroll
  for (uint round = 0; round < 7; ++round) {
#define WORD(i) m[kOrder[round][i]]
    MIX(0, 4, 8, 12, WORD(0), WORD(1))
    MIX(1, 5, 9, 13, WORD(2), WORD(3))
    MIX(2, 6, 10, 14, WORD(4), WORD(5))
    MIX(3, 7, 11, 15, WORD(6), WORD(7))
    MIX(0, 5, 10, 15, WORD(8), WORD(9))
    MIX(1, 6, 11, 12, WORD(10), WORD(11))
    MIX(2, 7, 8, 13, WORD(12), WORD(13))
    MIX(3, 4, 9, 14, WORD(14), WORD(15))
  }
#pragma unroll
  for (uint i = 0; i < 8; ++i) cv[i] = v[i] ^ v[i + 8];
}

static void start(private uint cv[8]) {
#pragma unroll
  for (uint i = 0; i < 8; ++i) cv[i] = kIv[i];
}

static void hash_leaf(global const uint4* leaf, uint number, uint root, private uint cv[8]) {
  start(cv);
  for (uint block = 0; block < BLOCKS; ++block, leaf += 4) {
    uint m[16];
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      const uint4 words = leaf[i];
      m[4 * i] = words.x, m[4 * i + 1] = words.y, m[4 * i + 2] = words.z, m[4 * i + 3] = words.w;
    }
    const uint flags = (block == 0 ? START : 0) | (block == BLOCKS - 1 ? END | root : 0);
    compress(cv, m, number, flags);
  }
}

static void group_barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// Reduces `count` results, at most GROUP, to the first one. Neighbours are joined, and one without a
// neighbour is joined at a later level: this is the tree of BLAKE3.
static void join(local uint (*results)[8], uint count, uint root) {
  const uint item = __builtin_amdgcn_workitem_id_x();
  for (; count > 1; count = (count + 1) / 2) {
    uint cv[8], m[16];
    group_barrier();
    const bool joins = item < count / 2, moves = count % 2 == 1 && item == count / 2;
    if (joins || moves)
#pragma unroll
      for (uint i = 0; i < 8; ++i) m[i] = cv[i] = results[2 * item][i];
    if (joins) {
#pragma unroll
      for (uint i = 0; i < 8; ++i) m[i + 8] = results[2 * item + 1][i];
      start(cv);
      compress(cv, m, 0, PARENT | (count == 2 ? root : 0));
    }
    group_barrier();
    if (joins || moves)
#pragma unroll
      for (uint i = 0; i < 8; ++i) results[item][i] = cv[i];
  }
  group_barrier();
}

// memory: of the BO, whole KiB. hashes: 8 words for each chunk. chunk_kib: at most GROUP * GROUP.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) kernel void hash_chunks(
    global const uint4* memory, global uint* hashes, uint memory_kib, uint chunk_kib) {
  local uint leaves[GROUP][8], parts[GROUP][8];
  const uint item = __builtin_amdgcn_workitem_id_x(), chunk = __builtin_amdgcn_workgroup_id_x();
  const uint first = chunk * chunk_kib;
  const uint rest = memory_kib - first, count = rest < chunk_kib ? rest : chunk_kib;
  const uint num_parts = (count + GROUP - 1) / GROUP;
  for (uint part = 0; part < num_parts; ++part) {
    const uint left = count - part * GROUP, size = left < GROUP ? left : GROUP;
    if (item < size) {
      uint cv[8];
      const uint number = part * GROUP + item;
      hash_leaf(memory + (ulong)(first + number) * LEAF_VECTORS, number, count == 1 ? ROOT : 0, cv);
#pragma unroll
      for (uint i = 0; i < 8; ++i) leaves[item][i] = cv[i];
    }
    join(leaves, size, num_parts == 1 ? ROOT : 0);
    if (item < 8) parts[part][item] = leaves[0][item];
    group_barrier();
  }
  join(parts, num_parts, ROOT);
  if (item < 8) hashes[chunk * 8 + item] = parts[0][item];
}
