// SPDX-License-Identifier: GPL-2.0
// Accesses by buffer resources of gfx11.
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()

#define LOAD(result, text) \
  __asm__ volatile(text "\n s_waitcnt vmcnt(0)" : "=&v"(result) : "v"(at), "s"(buffer) : "memory")
#define STORE(text, ...) __asm__ volatile(text ::"v"(at), "s"(buffer), __VA_ARGS__ : "memory")

// Of a buffer of bytes.
kernel void loads(uint4 buffer, global const uint* offsets, global uint* out) {
  const uint at = offsets[LOCAL_ID];
  global uint* to = out + 16 * LOCAL_ID;
  uint word, halves = 0xabcd1234;
  uint3 three;
  uint4 four;
  LOAD(word, "buffer_load_b32 %0, %1, %2, 0 offen");
  to[0] = word;
  LOAD(four, "buffer_load_b128 %0, %1, %2, 0 offen offset:8");
  to[1] = four.x, to[2] = four.y, to[3] = four.z, to[4] = four.w;
  LOAD(word, "buffer_load_u16 %0, %1, %2, 0 offen");
  to[5] = word;
  LOAD(word, "buffer_load_i8 %0, %1, %2, 0 offen");
  to[6] = word;
  __asm__ volatile("buffer_load_d16_hi_b16 %0, %1, %2, 0 offen\n s_waitcnt vmcnt(0)"
                   : "+&v"(halves)
                   : "v"(at), "s"(buffer)
                   : "memory");
  to[7] = halves;
  LOAD(word, "s_mov_b32 s90, 16\n buffer_load_b32 %0, %1, %2, s90 offen");
  to[8] = word;
  LOAD(three, "buffer_load_b96 %0, off, %2, 0 offset:4");
  to[9] = three.x, to[10] = three.y, to[11] = three.z;
}

// Of a buffer of records.
kernel void records(uint4 buffer, global const uint* indices, global uint* out) {
  const uint at = indices[LOCAL_ID];
  global uint* to = out + 16 * LOCAL_ID;
  uint word;
  uint2 two;
  LOAD(two, "buffer_load_b64 %0, %1, %2, 0 idxen offset:4");
  to[0] = two.x, to[1] = two.y;
  LOAD(word, "v_mov_b32 v60, %1\n v_mov_b32 v61, 8\n"
             " buffer_load_b32 %0, v[60:61], %2, 0 idxen offen");
  to[2] = word;
}

// Texels: with the format of the resource, then of the instruction.
kernel void texels(uint4 buffer, global const uint* indices, global uint* out) {
  const uint at = indices[LOCAL_ID];
  global uint* to = out + 16 * LOCAL_ID;
  uint word;
  uint4 four;
  LOAD(four, "buffer_load_format_xyzw %0, %1, %2, 0 idxen");
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  LOAD(word, "tbuffer_load_format_x %0, %1, %2, 0 format:[BUF_FMT_16_FLOAT] idxen offset:2");
  to[4] = word;
  LOAD(four, "tbuffer_load_format_xyzw %0, %1, %2, 0 format:[BUF_FMT_8_8_8_8_SNORM] idxen");
  to[5] = four.x, to[6] = four.y, to[7] = four.z, to[8] = four.w;
  LOAD(four, "tbuffer_load_format_xyzw %0, %1, %2, 0 format:[BUF_FMT_2_10_10_10_UNORM] idxen");
  to[9] = four.x, to[10] = four.y, to[11] = four.z, to[12] = four.w;
  LOAD(word, "tbuffer_load_format_x %0, %1, %2, 0 format:[BUF_FMT_8_SSCALED] idxen offset:3");
  to[13] = word;
}

kernel void store_texels(uint4 buffer, global const uint* indices, global const uint* from) {
  const uint at = indices[LOCAL_ID], x = from[LOCAL_ID];
  const uint3 three = {x, ~x, 0};
  STORE("buffer_store_format_xyz %2, %0, %1, 0 idxen", "v"(three));
}

kernel void stores(uint4 buffer, global const uint* offsets, global const uint* from,
                   global uint* out) {
  const uint at = offsets[LOCAL_ID], x = from[LOCAL_ID];
  const uint3 three = {x, x + 1, x + 2};
  uint sum = x;
  STORE("buffer_store_b96 %2, %0, %1, 0 offen", "v"(three));
  STORE("buffer_store_b8 %2, %0, %1, 0 offen offset:13", "v"(x));
  STORE("buffer_store_d16_hi_b16 %2, %0, %1, 0 offen offset:14", "v"(x));
  __asm__ volatile("buffer_atomic_add_u32 %0, %1, %2, 0 offen offset:4 glc\n s_waitcnt vmcnt(0)"
                   : "+&v"(sum)
                   : "v"(at), "s"(buffer)
                   : "memory");
  out[LOCAL_ID] = sum;
}

// One address for all lanes.
kernel void scalars(uint4 buffer, uint offset, global uint* out) {
  uint word;
  uint4 four;
  __asm__ volatile("s_buffer_load_b32 %0, %1, %2 offset:8\n s_waitcnt lgkmcnt(0)"
                   : "=&s"(word)
                   : "s"(buffer), "s"(offset));
  __asm__ volatile("s_buffer_load_b128 %0, %1, %2\n s_waitcnt lgkmcnt(0)"
                   : "=&s"(four)
                   : "s"(buffer), "s"(offset));
  out[0] = word;
  out[1] = four.x, out[2] = four.y, out[3] = four.z, out[4] = four.w;
}

// Numbers in the program itself, as RADV has constant arrays: the PC is the base of their buffer.
kernel void constants(global uint* out) {
  const uint at = 4 * LOCAL_ID;
  uint word;
  __asm__ volatile(
      "s_getpc_b64 s[20:21]\n"
      "s_add_u32 s20, s20, 32\n"
      "s_mov_b32 s22, 32\n"
      "s_mov_b32 s23, 0x30016fac\n"
      "buffer_load_b32 %0, %1, s[20:23], 0 offen\n"
      "s_waitcnt vmcnt(0)\n"
      "s_branch 8\n"
      ".long 7, 11, 13, 17, 19, 23, 29, 31"
      : "=&v"(word)
      : "v"(at)
      : "s20", "s21", "s22", "s23", "scc");
  out[LOCAL_ID] = word;
}
