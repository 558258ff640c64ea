// SPDX-License-Identifier: GPL-2.0
#include "hip/textures.h"

#include <algorithm>

#include "hip/failure.h"

namespace e2e {
namespace {

constexpr uint32_t kSide = 16, kWidth = 3 * kSide, kHeight = 2 * kSide;

__host__ __device__ uint32_t mixed(uint32_t painted, uint32_t sampled, uint32_t number) {
  return painted * 1664525u + sampled + number;
}

// The sample between four texels is a quarter of their sum, which is exact.
__global__ void paint([[maybe_unused]] hipTextureObject_t texture,
                      [[maybe_unused]] hipSurfaceObject_t surface,
                      [[maybe_unused]] uint32_t number) {
#if !__HIP_NO_IMAGE_SUPPORT
  const uint32_t x = blockIdx.x * kSide + threadIdx.x, y = blockIdx.y * kSide + threadIdx.y;
  const float sampled =
      4 * tex2D<float>(texture, static_cast<float>(x + 1), static_cast<float>(y + 1));
  uint32_t painted = 0;
  surf2Dread(&painted, surface, static_cast<int>(x * 4), static_cast<int>(y));
  painted = mixed(painted, static_cast<uint32_t>(sampled), number);
  surf2Dwrite(painted, surface, static_cast<int>(x * 4), static_cast<int>(y));
#endif
}

float texel(uint32_t x, uint32_t y) {
  return static_cast<float>((std::min(x, kWidth - 1) * 7 + std::min(y, kHeight - 1) * 13) % 251);
}

uint32_t sample(uint32_t x, uint32_t y) {
  return static_cast<uint32_t>(texel(x, y) + texel(x + 1, y) + texel(x, y + 1) +
                               texel(x + 1, y + 1));
}

}  // namespace

std::unique_ptr<Textures> Textures::create(std::string& problem) {
  int has_images = 0;
  if (const hipError_t error =
          hipDeviceGetAttribute(&has_images, hipDeviceAttributeImageSupport, 0);
      error != hipSuccess)
    problem = failure("hipDeviceGetAttribute", error);
  if (!has_images) return nullptr;
  auto textures = std::make_unique<Textures>();
  problem = textures->start();
  return textures;
}

std::string Textures::start() {
  const hipChannelFormatDesc floats = hipCreateChannelDesc<float>(),
                             words = hipCreateChannelDesc<uint32_t>();
  HIP(hipMallocArray(&picture_, &floats, kWidth, kHeight, hipArrayDefault));
  HIP(hipMallocArray(&canvas_, &words, kWidth, kHeight, hipArraySurfaceLoadStore));
  std::vector<float> texels(kWidth * kHeight);
  for (uint32_t i = 0; i < texels.size(); ++i) texels[i] = texel(i % kWidth, i / kWidth);
  wanted_.assign(kWidth * kHeight, 0);
  HIP(hipMemcpy2DToArray(picture_, 0, 0, texels.data(), kWidth * 4, kWidth * 4, kHeight,
                         hipMemcpyHostToDevice));
  HIP(hipMemcpy2DToArray(canvas_, 0, 0, wanted_.data(), kWidth * 4, kWidth * 4, kHeight,
                         hipMemcpyHostToDevice));
  hipResourceDesc resource = {};
  resource.resType = hipResourceTypeArray;
  resource.res.array.array = picture_;
  hipTextureDesc sampler = {};
  sampler.addressMode[0] = sampler.addressMode[1] = hipAddressModeClamp;
  sampler.filterMode = hipFilterModeLinear;
  sampler.readMode = hipReadModeElementType;
  HIP(hipCreateTextureObject(&texture_, &resource, &sampler, nullptr));
  resource.res.array.array = canvas_;
  HIP(hipCreateSurfaceObject(&surface_, &resource));
  return {};
}

Textures::~Textures() {
  if (surface_) (void)hipDestroySurfaceObject(surface_);
  if (texture_) (void)hipDestroyTextureObject(texture_);
  if (canvas_) (void)hipFreeArray(canvas_);
  if (picture_) (void)hipFreeArray(picture_);
}

std::string Textures::step(uint32_t number, hipStream_t stream) {
  paint<<<dim3(kWidth / kSide, kHeight / kSide), dim3(kSide, kSide), 0, stream>>>(texture_,
                                                                                  surface_, number);
  HIP(hipGetLastError());
  std::vector<uint32_t> painted(wanted_.size());
  HIP(hipMemcpy2DFromArrayAsync(painted.data(), kWidth * 4, canvas_, 0, 0, kWidth * 4, kHeight,
                                hipMemcpyDeviceToHost, stream));
  HIP(hipStreamSynchronize(stream));
  for (uint32_t i = 0; i < wanted_.size(); ++i)
    wanted_[i] = mixed(wanted_[i], sample(i % kWidth, i / kWidth), number);
  return painted == wanted_ ? "" : "the canvas that a kernel paints from a texture is wrong";
}

}  // namespace e2e
