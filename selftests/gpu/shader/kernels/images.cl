// SPDX-License-Identifier: GPL-2.0
// Accesses to images by image resources and samplers.
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()

// What an instruction says about the dimensions.
#ifdef __GFX11__
#define DIM_1D " dim:SQ_RSRC_IMG_1D"
#define DIM_2D " dim:SQ_RSRC_IMG_2D"
#define DIM_3D " dim:SQ_RSRC_IMG_3D"
#define DIM_1DA " dim:SQ_RSRC_IMG_1D_ARRAY"
#define DIM_2DA " dim:SQ_RSRC_IMG_2D_ARRAY"
#define INTEGERS(dim) dim " unorm"
#else
#define DIM_1D ""
#define DIM_2D ""
#define DIM_3D ""
#define DIM_1DA " da"
#define DIM_2DA " da"
#define INTEGERS(dim) " unorm" dim
#endif

#define X(v) v.x
#define XY(v) v.xy
#define XYZ(v) v.xyz
#define XYZW(v) v

#define LOAD(result, text) \
  __asm__ volatile(text "\n s_waitcnt vmcnt(0)" : "=&v"(result) : "v"(at), "s"(image) : "memory")
#define STORE(text, value) __asm__ volatile(text ::"v"(at), "s"(image), "v"(value) : "memory")
#define SAMPLE(result, text)              \
  __asm__ volatile(text "\n s_waitcnt vmcnt(0)" \
                   : "=&v"(result)        \
                   : "v"(at), "s"(image), "s"(sampler) \
                   : "memory")

#define KERNELS(name, number, part, dim)                                                           \
  kernel void load_##name(uint8 image, global const uint4* places, global uint4* out) {            \
    const uint##number at = part(places[LOCAL_ID]);                                                \
    uint4 texel;                                                                                   \
    LOAD(texel, "image_load %0, %1, %2 dmask:0xf" INTEGERS(dim));                                      \
    out[LOCAL_ID] = texel;                                                                         \
  }                                                                                                \
  kernel void store_##name(uint8 image, global const uint4* places, global const uint4* values) {  \
    const uint##number at = part(places[LOCAL_ID]);                                                \
    const uint4 texel = values[LOCAL_ID];                                                          \
    STORE("image_store %2, %0, %1 dmask:0xf" INTEGERS(dim), texel);                                    \
  }                                                                                                \
  kernel void sample_##name(uint8 image, uint4 sampler, global const float4* places,               \
                            global uint4* out) {                                                   \
    const float##number at = part(places[LOCAL_ID]);                                               \
    uint4 texel;                                                                                   \
    SAMPLE(texel, "image_sample %0, %1, %2, %3 dmask:0xf" dim);                                    \
    out[LOCAL_ID] = texel;                                                                         \
  }

KERNELS(1d, , X, DIM_1D)
KERNELS(2d, 2, XY, DIM_2D)
KERNELS(3d, 3, XYZ, DIM_3D)
KERNELS(1da, 2, XY, DIM_1DA)
KERNELS(2da, 3, XYZ, DIM_2DA)

// X and Z of texels; Y and W are stored.
kernel void masks(uint8 image, global const uint4* places, global uint4* out) {
  const uint2 at = places[LOCAL_ID].xy;
  const uint2 values = places[LOCAL_ID].zw;
  uint2 texel;
  LOAD(texel, "image_load %0, %1, %2 dmask:0x5" DIM_2D);
  out[LOCAL_ID] = (uint4)(texel, 0, 0);
  STORE("image_store %2, %0, %1 dmask:0xa" DIM_2D, values);
}

// The third operand is a mipmap.
kernel void mipmaps(uint8 image, global const uint4* places, global uint4* out) {
  const uint3 at = places[LOCAL_ID].xyz;
  const uint value = places[LOCAL_ID].w;
  uint texel;
  LOAD(texel, "image_load_mip %0, %1, %2 dmask:0x1" DIM_2D);
  out[LOCAL_ID] = (uint4)(texel, 0, 0, 0);
  STORE("image_store_mip %2, %0, %1 dmask:0x1" DIM_2D, value);
}

kernel void sizes(uint8 image, global const uint4* mipmaps, global uint4* out) {
  const uint at = mipmaps[LOCAL_ID].x;
  uint4 size;
  LOAD(size, "image_get_resinfo %0, %1, %2 dmask:0xf" DIM_3D);
  out[LOCAL_ID] = size;
}

#define ATOMIC(result, text)        \
  __asm__ volatile(text "\n s_waitcnt vmcnt(0)" \
                   : "+v"(result)   \
                   : "v"(at), "s"(image) \
                   : "memory")

// One texel after the other, of 32 bits.
kernel void atomics(uint8 image, global const uint4* places, global uint4* out) {
  const uint2 at = places[LOCAL_ID].xy;
  uint sum = places[LOCAL_ID].z, least = sum;
  uint2 swapped = places[LOCAL_ID].wz;
  ATOMIC(sum, "image_atomic_add %0, %1, %2 dmask:0x1" INTEGERS(DIM_2D) " glc");
  ATOMIC(least, "image_atomic_smin %0, %1, %2 dmask:0x1" INTEGERS(DIM_2D) " glc");
  ATOMIC(swapped, "image_atomic_cmpswap %0, %1, %2 dmask:0x3" INTEGERS(DIM_2D) " glc");
  out[LOCAL_ID] = (uint4)(sum, least, swapped);
}

// Of 64 bits.
kernel void wide_atomics(uint8 image, global const uint4* places, global uint4* out) {
  const uint2 at = places[LOCAL_ID].xy;
  uint2 most = places[LOCAL_ID].zw, sum = most;
  ATOMIC(most, "image_atomic_umax %0, %1, %2 dmask:0x3" INTEGERS(DIM_2D) " glc");
  ATOMIC(sum, "image_atomic_add %0, %1, %2 dmask:0x3" INTEGERS(DIM_2D));
  out[LOCAL_ID] = (uint4)(most, sum);
}

kernel void halves(uint8 image, global const uint4* places, global uint4* out) {
  const uint2 at = places[LOCAL_ID].xy;
  uint2 texel;
  LOAD(texel, "image_load %0, %1, %2 dmask:0xf" DIM_2D " d16");
  out[LOCAL_ID] = (uint4)(texel, 0, 0);
}

kernel void short_coordinates(uint8 image, global const uint4* places, global uint4* out) {
  const uint at = places[LOCAL_ID].x;
  uint4 texel;
  LOAD(texel, "image_load %0, %1, %2 dmask:0xf" DIM_2D " a16");
  out[LOCAL_ID] = texel;
}

kernel void status(uint8 image, global const uint4* places, global uint4* out) {
  const uint2 at = places[LOCAL_ID].xy;
  uint4 texel;
  LOAD(texel, "image_load %0, %1, %2 dmask:0xf" DIM_2D " lwe");
  out[LOCAL_ID] = texel;
}

#ifdef __GFX11__
// Operands that follow one another, and that do not: derivatives in front of the coordinates, the
// mipmap behind them.
kernel void sample_variants(uint8 image, uint4 sampler, global const float4* places,
                            global uint4* out) {
  const float2 at = places[LOCAL_ID].xy;
  uint4 texel;
  SAMPLE(texel, "image_sample_lz %0, %1, %2, %3 dmask:0xf" DIM_2D);
  out[3 * LOCAL_ID] = texel;
  __asm__ volatile("v_mov_b32 v99, 0x42000000\n"
                   "image_sample_l %0, [%1, %2, v99], %3, %4 dmask:0xf" DIM_2D
                   "\n s_waitcnt vmcnt(0)"
                   : "=&v"(texel)
                   : "v"(at.x), "v"(at.y), "s"(image), "s"(sampler)
                   : "memory", "v99");
  out[3 * LOCAL_ID + 1] = texel;
  __asm__ volatile("v_mov_b32 v90, 1.0\n v_mov_b32 v92, 2.0\n v_mov_b32 v94, 4.0\n"
                   "v_mov_b32 v96, -1.0\n v_mov_b32 v98, %1\n v_mov_b32 v99, %2\n"
                   "image_sample_d %0, [v90, v92, v94, v96, v[98:99]], %3, %4 dmask:0xf" DIM_2D
                   "\n s_waitcnt vmcnt(0)"
                   : "=&v"(texel)
                   : "v"(at.x), "v"(at.y), "s"(image), "s"(sampler)
                   : "memory", "v90", "v92", "v94", "v96", "v98", "v99");
  out[3 * LOCAL_ID + 2] = texel;
}

kernel void gather(uint8 image, uint4 sampler, global const float4* places, global uint4* out) {
  const float2 at = places[LOCAL_ID].xy;
  uint4 texels;
  SAMPLE(texels, "image_gather4_lz %0, %1, %2, %3 dmask:0x2" DIM_2D);
  out[LOCAL_ID] = texels;
}

kernel void load_apart(uint8 image, global const uint4* places, global uint4* out) {
  const uint4 at = places[LOCAL_ID];
  uint4 texel;
  __asm__ volatile("image_load %0, [%3, %1, %2], %4 dmask:0xf" INTEGERS(DIM_3D) "\n s_waitcnt vmcnt(0)"
                   : "=&v"(texel)
                   : "v"(at.y), "v"(at.z), "v"(at.x), "s"(image)
                   : "memory");
  out[LOCAL_ID] = texel;
}
#endif
