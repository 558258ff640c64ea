// SPDX-License-Identifier: GPL-2.0
// Instructions that few kernels have.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

typedef short short2_t __attribute__((ext_vector_type(2)));
typedef ushort ushort2_t __attribute__((ext_vector_type(2)));

#define CLAMPED(NAME, OUT, X, Y) __asm__(NAME " %0, %1, %2 clamp" : "=v"(OUT) : "v"(X), "v"(Y))

#define ASM3(NAME, OUT, X, Y, Z) __asm__(NAME " %0, %1, %2, %3" : "=v"(OUT) : "v"(X), "v"(Y), "v"(Z))

// Sums and differences that stop at the limits of their type.
kernel void saturating(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i];
  global uint* to = out + 8 * i;
  const short2_t xs = __builtin_astype(x, short2_t), ys = __builtin_astype(y, short2_t);
  const ushort2_t xu = __builtin_astype(x, ushort2_t), yu = __builtin_astype(y, ushort2_t);
  to[0] = __builtin_elementwise_add_sat(x, y);
  to[1] = __builtin_elementwise_sub_sat(x, y);
  to[2] = (uint)__builtin_elementwise_add_sat((int)x, (int)y);
  to[3] = (uint)__builtin_elementwise_sub_sat((int)x, (int)y);
  to[4] = __builtin_astype(__builtin_elementwise_add_sat(xu, yu), uint);
  to[5] = __builtin_astype(__builtin_elementwise_sub_sat(xs, ys), uint);
  uint low, high;
  CLAMPED("v_sub_u16_e64", low, x, y);
  CLAMPED("v_add_u16_e64", high, x >> 16, y);
  to[6] = low | high << 16;
  CLAMPED("v_add_i16", low, x, y);
  CLAMPED("v_sub_i16", high, x >> 16, y);
  to[7] = low | high << 16;
}

// Floats of 16 bits, and sums of both widths, that stop at 0 and 1. A NaN becomes 0, and stays one without
// bit 8 of MODE.
kernel void clamped(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i];
  uint sum, product, fused, kept, wide, low = x, high = x;
  __asm__ volatile("v_pk_add_f16 %0, %1, %2 clamp" : "=v"(sum) : "v"(x), "v"(y));
  __asm__ volatile("v_pk_mul_f16 %0, %1, %2 neg_lo:[1,0] clamp" : "=v"(product) : "v"(x), "v"(y));
  __asm__ volatile("v_pk_fma_f16 %0, %1, %2, %1 clamp" : "=v"(fused) : "v"(x), "v"(y));
  __asm__ volatile("v_fma_mix_f32 %0, %1, %2, %1 op_sel_hi:[1,1,1] clamp" : "=v"(wide) : "v"(x), "v"(y));
  __asm__ volatile("v_fma_mixlo_f16 %0, %1, %2, %1 op_sel_hi:[1,1,1] clamp" : "+v"(low) : "v"(x), "v"(y));
  __asm__ volatile("v_fma_mixhi_f16 %0, %1, %2, %1 op_sel_hi:[1,1,1] clamp" : "+v"(high) : "v"(x), "v"(y));
  __asm__ volatile(
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 1), 0\n"
      "v_pk_add_f16 %0, %1, %2 clamp\n"
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 1), 1"
      : "=v"(kept)
      : "v"(x), "v"(y));
  global uint* to = out + 8 * i;
  to[0] = sum, to[1] = product, to[2] = fused, to[3] = kept, to[4] = wide, to[5] = low, to[6] = high;
}

// The face of a cube and the place on it, and numbers from -1 to 1 as integers.
kernel void cubes(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i], z = a[i ^ 1];
  global uint* to = out + 8 * i;
  uint r[8], low, high;
  ASM3("v_cubeid_f32", r[0], x, y, z);
  ASM3("v_cubesc_f32", r[1], x, y, z);
  ASM3("v_cubetc_f32", r[2], x, y, z);
  ASM3("v_cubema_f32", r[3], x, y, z);
  __asm__("v_cvt_pknorm_i16_f32 %0, %1, %2" : "=v"(r[4]) : "v"(x), "v"(y));
  __asm__("v_cvt_pknorm_u16_f32 %0, %1, %2" : "=v"(r[5]) : "v"(x), "v"(y));
  __asm__("v_cvt_pknorm_i16_f16 %0, %1, %2" : "=v"(r[6]) : "v"(x), "v"(y));
  __asm__("v_cvt_norm_i16_f16 %0, %1" : "=v"(low) : "v"(x));
  __asm__("v_cvt_norm_u16_f16 %0, %1" : "=v"(high) : "v"(x));
  r[7] = low | high << 16;
  for (uint k = 0; k < 8; ++k) to[k] = r[k];
}

// Lane 5 of each row has the first operand of all of its lanes; rows 0 and 2 are written.
kernel void doubles_of_a_lane(global const double* a, global const double* b, global double* out) {
  const uint i = ID;
  const double x = a[i], y = b[i];
  double moved = 77, sum = 1;
  __asm__ volatile(
      "v_ceil_f64_dpp %0, %2 row_newbcast:5 row_mask:0x5 bank_mask:0xf\n"
      "v_fmac_f64_dpp %1, -%2, %3 row_newbcast:12 row_mask:0xf bank_mask:0xf"
      : "+&v"(moved), "+&v"(sum)
      : "v"(x), "v"(y));
  out[2 * i] = moved;
  out[2 * i + 1] = sum;
}

// The upper halves are garbage that must not be read.
kernel void halves(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i], z = x >> 16;
  global uint* to = out + 8 * i;
  ASM3("v_min3_f16", to[0], x, y, z);
  ASM3("v_max3_f16", to[1], x, y, z);
  ASM3("v_med3_f16", to[2], x, y, z);
  __asm__("v_sin_f16 %0, %1" : "=v"(to[3]) : "v"(x));
  __asm__("v_cos_f16 %0, %1" : "=v"(to[4]) : "v"(x));
  uint sum = 0x3fc00000;  // 1.5
  __asm__("v_dot2c_f32_f16 %0, %1, %2" : "+v"(sum) : "v"(x), "v"(y));
  to[5] = sum;
}

// Sums of differences of bytes and halves, and sums of halves in memory.
kernel void sums(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i];
  global uint* to = out + 8 * i;
  to[0] = __builtin_amdgcn_sad_hi_u8(x, y, y);
  to[1] = __builtin_amdgcn_sad_u16(x, y, y);
  to[2] = __builtin_amdgcn_msad_u8(x, y, y);
  to[3] = __builtin_amdgcn_lerp(x, y, x >> 1);
  to[4] = 0x3c004000;  // 1 and 2
  to[5] = 0x3c004000;
  uint old;
  __asm__ volatile(
      "global_atomic_pk_add_f16 %1, %2, off\n"
      "global_atomic_pk_add_f16 %0, %1, %3, off glc\n"
      "s_waitcnt vmcnt(0)"
      : "=&v"(old)
      : "v"(to + 4), "v"(x), "v"(y)
      : "memory");
  to[6] = old;
}

// Parts of registers, and other lanes, of operations with carries and masks.
kernel void parts(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i];
  global uint* to = out + 8 * i;
  uint selected = x, sum = y, carry, row;
  __asm__("v_cmp_gt_u32 vcc, %1, %2\n"
          "v_cndmask_b32_sdwa %0, %1, %2, vcc dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE "
          "src0_sel:WORD_1 src1_sel:BYTE_3"
          : "+v"(selected)
          : "v"(x), "v"(y)
          : "vcc");
  to[0] = selected;
  __asm__("v_add_co_u32_sdwa %0, vcc, %2, %3 dst_sel:WORD_1 dst_unused:UNUSED_PAD "
          "src0_sel:DWORD src1_sel:WORD_0\n"
          "v_addc_co_u32 %1, vcc, 0, 0, vcc"
          : "=&v"(sum), "=v"(carry)
          : "v"(x), "v"(y)
          : "vcc");
  to[1] = sum;
  to[2] = carry;
  __asm__("s_nop 4\n"
          "v_add_co_u32_dpp %0, vcc, %2, %3 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0\n"
          "v_addc_co_u32 %1, vcc, 0, 0, vcc"
          : "=&v"(row), "=v"(carry)
          : "v"(x), "v"(y)
          : "vcc");
  to[3] = row;
  to[4] = carry;
  row = 77;
  __asm__("v_cmp_gt_u32 vcc, %1, %2\n"
          "s_nop 4\n"
          "v_cndmask_b32_dpp %0, %1, %2, vcc row_shl:2 row_mask:0x5 bank_mask:0xf"
          : "+v"(row)
          : "v"(x), "v"(y)
          : "vcc");
  to[5] = row;
}

// 16 bytes each, of buffers that end within them.
kernel void buffer_ends(global const uint* a, global const uint* unused, global uint* out) {
  const uint i = ID;
  const uint4 from = {(uint)(ulong)a, (ulong)a >> 32, 16 * 62 + 10, 0x27000};
  const uint4 to = {(uint)(ulong)out, (ulong)out >> 32, 32 * 61 + 16 + 8, 0x27000};
  uint4 value;
  __asm__ volatile("buffer_load_dwordx4 %0, %1, %2, 0 offen\n"
                   "s_waitcnt vmcnt(0)"
                   : "=v"(value)
                   : "v"(16 * i), "s"(from)
                   : "memory");
  for (uint k = 0; k < 4; ++k) out[8 * i + k] = value[k];
  value = i + 1;
  __asm__ volatile("buffer_store_dwordx4 %0, %1, %2, 0 offen offset:16"
                   :
                   : "v"(value), "v"(32 * i), "s"(to)
                   : "memory");
}

// Addresses below 0, to which the offset of the instruction is added.
kernel void wrapped_addresses(global const uint* a, global const uint* unused, global uint* out) {
  local uint row[64];
  const uint i = ID;
  const uint at = (uint)(row + i) - 64;
  row[i] = a[i];
  uint old, sum;
  __asm__ volatile("ds_read_b32 %0, %2 offset:64\n"
                   "ds_add_u32 %2, %3 offset:64\n"
                   "ds_read_b32 %1, %2 offset:64\n"
                   "s_waitcnt lgkmcnt(0)"
                   : "=&v"(old), "=&v"(sum)
                   : "v"(at), "v"(i)
                   : "memory");
  out[8 * i] = old;
  out[8 * i + 1] = sum;
}

// The parts of 2 / pi that count for a value.
kernel void parts_of_two_over_pi(global const double* a, global const double* unused, global double* out) {
  const uint i = ID;
  for (uint part = 0; part < 3; ++part) out[4 * i + part] = __builtin_amdgcn_trig_preop(a[i], part);
}

// Sums of differences of bytes, four at once. The third has four registers.
kernel void four_sums(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const ulong bytes = (ulong)a[i ^ 1] << 32 | a[i], start = (ulong)a[i] << 32 | b[i];
  const uint reference = b[i];
  global ulong* to = (global ulong*)(out + 8 * i);
  to[0] = __builtin_amdgcn_qsad_pk_u16_u8(bytes, reference, start);
  to[1] = __builtin_amdgcn_mqsad_pk_u16_u8(bytes, reference, start);
  *(global uint4*)(to + 2) = __builtin_amdgcn_mqsad_u32_u8(bytes, reference, (uint4)(0, 1, 2, 3));
}

kernel void packed_bytes(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i];
  out[8 * i] = __builtin_amdgcn_cvt_pk_u8_f32(__builtin_astype(x, float), b[i], 0x11223344);
  __asm__("v_sat_pk_u8_i16 %0, %1" : "=v"(out[8 * i + 1]) : "v"(x));
}

// A texel of a buffer whose resource is an argument, except its address.
kernel void texels(global const uint* a, global const uint* at, global uint* out, uint stride, uint records,
                   uint format) {
  const uint i = ID;
  const uint4 from = {(uint)(ulong)a, (ulong)a >> 32 | stride << 16, records, format};
  uint4 all = 77;
  uint first = 77;
  __asm__ volatile("buffer_load_format_xyzw %0, %2, %3, 0 idxen\n"
                   "buffer_load_format_x %1, %2, %3, 0 idxen\n"
                   "s_waitcnt vmcnt(0)"
                   : "=&v"(all), "=&v"(first)
                   : "v"(at[i]), "s"(from)
                   : "memory");
  for (uint k = 0; k < 4; ++k) out[8 * i + k] = all[k];
  out[8 * i + 4] = first;
}

// Bytes of a buffer whose resource counts records, without an index.
kernel void bytes_of_records(global const uint* a, global const uint* unused, global uint* out) {
  const uint i = ID;
  const uint4 from = {(uint)(ulong)a, (ulong)a >> 32 | 16 << 16, 100, 0x27000};
  uint value = 77;
  __asm__ volatile("buffer_load_dword %0, %1, %2, 0 offen\n"
                   "s_waitcnt vmcnt(0)"
                   : "=v"(value)
                   : "v"(4 * i), "s"(from)
                   : "memory");
  out[8 * i] = value;
}

// Typed, and stores. The format is in the instruction.
kernel void typed(global const uint* a, global const uint* unused, global uint* out) {
  const uint i = ID;
  const uint4 from = {(uint)(ulong)a, (ulong)a >> 32, 256, 0x27000};
  const uint4 to = {(uint)(ulong)out, (ulong)out >> 32, 64 * 32, 0x27000};
  uint2 value;
  __asm__ volatile("tbuffer_load_format_xy %0, %1, %2, 0 format:[BUF_DATA_FORMAT_16_16,BUF_NUM_FORMAT_UINT] offen\n"
                   "s_waitcnt vmcnt(0)\n"
                   "tbuffer_store_format_xy %0, %3, %4, 0 format:[BUF_DATA_FORMAT_32_32,BUF_NUM_FORMAT_UINT] offen "
                   "offset:8"
                   : "=&v"(value)
                   : "v"(4 * i), "s"(from), "v"(32 * i), "s"(to)
                   : "memory");
}

// The operands of the first work-items are in the buffers, those of the others are not, or do not
// count.
kernel void inside_buffers(global const uint* a, global uint* out, uint inside) {
  const uint i = ID;
  const uint4 large = {(uint)(ulong)a, (ulong)a >> 32, 1024, 0x27000};
  const uint4 small = {(uint)(ulong)a, (ulong)a >> 32, 4 * (inside + 5), 0x27000};
  const uint4 to = {(uint)(ulong)out, (ulong)out >> 32, 1024, 0x27000};
  uint value = 0;
  if (i < inside) {
    __asm__ volatile(
        "s_mov_b32 s90, 16\n"
        "buffer_load_dword %0, %1, %2, s90 offen offset:4\n"
        "s_waitcnt vmcnt(0)"
        : "=&v"(value)
        : "v"(4 * i), "s"(large)
        : "s90", "memory");
    __asm__ volatile("buffer_store_dword %0, %1, %2, 0 offen offset:512"
                     :
                     : "v"(i + 1), "v"(4 * i), "s"(to)
                     : "memory");
  }
  out[i] = value;
  __asm__ volatile(
      "buffer_load_dword %0, %1, %2, 0 offen offset:20\n"
      "s_waitcnt vmcnt(0)"
      : "=&v"(value)
      : "v"(4 * i), "s"(small)
      : "memory");
  out[64 + i] = value;
}

// The sum of a and b, and that of c and d, rounded in four modes.
#define ROUNDED(mode, at)                                                                          \
  __asm__ volatile("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), " #mode "\n"                      \
                   "v_add_f32 %0, %2, %3\n"                                                        \
                   "v_add_f64 %1, %4, %5\n"                                                        \
                   "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0"                                \
                   : "=&v"(sum), "=&v"(wide_sum)                                                   \
                   : "v"(a), "v"(b), "v"(c), "v"(d));                                              \
  sums[at] = sum;                                                                                  \
  wide_sums[at] = wide_sum
kernel void rounded_sums(global float* sums, global double* wide_sums, float a, float b, double c,
                         double d) {
  float sum;
  double wide_sum;
  ROUNDED(0, 0);
  ROUNDED(5, 1);
  ROUNDED(10, 2);
  ROUNDED(15, 3);
}
