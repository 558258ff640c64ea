// SPDX-License-Identifier: GPL-2.0
// What gfx942 adds, but matrices.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

typedef float float2_t __attribute__((ext_vector_type(2)));

// Floats of 8 bits. The compiler takes bytes and halves of a register by SDWA.
kernel void bytes(global const uint* a, global const float* b, global uint* out) {
  const uint i = ID;
  const int x = a[i];
  const float low = b[i], high = b[i ^ 1];
  global uint* to = out + 8 * i;
  const float2_t fp8 = __builtin_amdgcn_cvt_pk_f32_fp8(x, true), bf8 = __builtin_amdgcn_cvt_pk_f32_bf8(x, false);
  to[0] = __builtin_astype(__builtin_amdgcn_cvt_f32_fp8(x, 0), uint);
  to[1] = __builtin_astype(__builtin_amdgcn_cvt_f32_bf8(x, 3), uint);
  to[2] = __builtin_astype(fp8.x, uint);
  to[3] = __builtin_astype(fp8.y, uint);
  to[4] = __builtin_astype(bf8.x, uint);
  to[5] = __builtin_astype(bf8.y, uint);
  to[6] = __builtin_amdgcn_cvt_pk_fp8_f32(low, -high, x, false);
  to[7] = __builtin_amdgcn_cvt_pk_bf8_f32(low, high, x, true);
}

// Rounded by random numbers, and numbers that are too large become the largest one with bit 23 of MODE.
kernel void random_bytes(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const float x = __builtin_astype(a[i], float);
  const int seed = b[i], old = b[i ^ 1];
  uint fp8 = old, bf8 = old, fp8_pair = old, bf8_pair = old;
  global uint* to = out + 8 * i;
  to[0] = __builtin_amdgcn_cvt_sr_fp8_f32(x, seed, old, 0);
  to[1] = __builtin_amdgcn_cvt_sr_bf8_f32(-x, seed, old, 1);
  to[2] = __builtin_amdgcn_cvt_sr_fp8_f32(x, 0, old, 2);
  to[3] = __builtin_amdgcn_cvt_sr_bf8_f32(x, -1, old, 3);
  __asm__ volatile(
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n"
      "v_cvt_sr_fp8_f32 %0, %4, %5\n"
      "v_cvt_sr_bf8_f32 %1, %4, %5\n"
      "v_cvt_pk_fp8_f32 %2, %4, -%4\n"
      "v_cvt_pk_bf8_f32 %3, %4, -%4\n"
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 0"
      : "+&v"(fp8), "+&v"(bf8), "+&v"(fp8_pair), "+&v"(bf8_pair)
      : "v"(x), "v"(seed));
  to[4] = fp8, to[5] = bf8, to[6] = fp8_pair, to[7] = bf8_pair;
}

#define ATOMICS(TYPE)                                                                         \
  kernel void sums_##TYPE(global const uint* a, global const uint* b, global uint* out) {      \
    local uint row[64];                                                                       \
    const uint i = ID;                                                                        \
    const uint at = (uint)(row + i % 64);                                                     \
    global uint* to = out + 8 * i;                                                            \
    uint old, old_flat, old_local;                                                            \
    to[0] = row[i % 64] = a[i];                                                               \
    __asm__ volatile("global_atomic_pk_add_" #TYPE " %3, %4, off\n"                           \
                     "global_atomic_pk_add_" #TYPE " %0, %3, %4, off sc0\n"                   \
                     "flat_atomic_pk_add_" #TYPE " %1, %3, %4 sc0\n"                          \
                     "ds_pk_add_" #TYPE " %5, %4\n"                                           \
                     "ds_pk_add_rtn_" #TYPE " %2, %5, %4\n"                                   \
                     "s_waitcnt vmcnt(0) lgkmcnt(0)"                                          \
                     : "=&v"(old), "=&v"(old_flat), "=&v"(old_local)                          \
                     : "v"(to), "v"(b[i]), "v"(at)                                            \
                     : "memory");                                                             \
    to[1] = old, to[2] = old_flat, to[3] = old_local, to[4] = row[i % 64];                    \
  }
ATOMICS(f16)
ATOMICS(bf16)

// Each lane reads a doubleword of another one; they are behind each other in LDS.
kernel void loads_to_lds(global const uint* a, global const uint* unused, global uint* out) {
  local uint row[128];
  const uint lane = __builtin_amdgcn_workitem_id_x();
  row[lane] = row[lane + 64] = 0;
  __builtin_amdgcn_global_load_lds(a + (lane ^ 5), row + 16, 4, 32, 0);
  __builtin_amdgcn_s_waitcnt(0);
  out[8 * lane] = row[lane];
  out[8 * lane + 1] = row[lane + 64];
}

// The same of parts of doublewords, which are extended.
#define PARTS_TO_LDS(NAME, LOAD)                                                                  \
  kernel void NAME(global const uint* a, global const uint* unused, global uint* out) {           \
    local uint row[64];                                                                           \
    const uint lane = __builtin_amdgcn_workitem_id_x();                                           \
    row[lane] = 0x55555555;                                                                       \
    __builtin_amdgcn_s_waitcnt(0);                                                                \
    __asm__ volatile("s_mov_b32 m0, %1\n" LOAD "s_waitcnt vmcnt(0)"                               \
                     :                                                                            \
                     : "v"((global const char*)a + 2 * (lane ^ 5)), "s"((uint)row)                \
                     : "memory");                                                           \
    out[8 * lane] = row[lane];                                                                    \
  }
PARTS_TO_LDS(ubytes_to_lds, "global_load_lds_ubyte %0, off offset:12\n")
PARTS_TO_LDS(sbytes_to_lds, "global_load_lds_sbyte %0, off offset:12\n")
PARTS_TO_LDS(ushorts_to_lds, "global_load_lds_ushort %0, off offset:12\n")
PARTS_TO_LDS(sshorts_to_lds, "global_load_lds_sshort %0, off offset:12\n")

kernel void buffer_to_lds(global const uint* a, global const uint* unused, global uint* out) {
  local uint row[64];
  const uint lane = __builtin_amdgcn_workitem_id_x();
  typedef uint uint4_t __attribute__((ext_vector_type(4)));
  const uint4_t resource = {(uint)(ulong)a, (uint)((ulong)a >> 32), 100, 0x20000};
  row[lane] = 0x55555555;
  __builtin_amdgcn_s_waitcnt(0);
  __asm__ volatile("s_mov_b32 m0, %1\n"
                   "s_nop 0\n"
                   "buffer_load_sshort %0, %2, 0 offen lds\n"
                   "s_waitcnt vmcnt(0)"
                   :
                   : "v"(2 * (lane ^ 5)), "s"((uint)row), "s"(resource)
                   : "memory");
  out[8 * lane] = row[lane];
}
