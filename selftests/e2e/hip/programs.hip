// SPDX-License-Identifier: GPL-2.0
// hip_programs: kernels that Debian's clang has compiled from HIP, launched through Debian's HIP
// runtime, each result compared with the CPU's. Step n draws numbers (Philox) with a key made of n,
// adds, sums, counts and multiplies them, passes them around in groups that wait for each other,
// paints by a texture and a surface if the chip has images, and gives the numbers to a persistent
// kernel, which runs from the start of the program to its end. It keeps numbers of its own in
// registers and LDS, so that every answer depends on all requests before: waves that are lost or
// started again give wrong ones.
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "hip/failure.h"
#include "hip/programs.h"
#include "hip/textures.h"

namespace e2e {
namespace {

constexpr uint32_t kNumbers = 2048, kGroup = 256, kSide = 32, kRounds = 200, kChurnGroups = 8,
                   kMeetings = 20, kNeighbors = 9, kNodes = 5;
constexpr uint32_t kChurned = kGroup * kChurnGroups, kSums = kNumbers / kGroup / 4;

// --- On the GPU

__global__ void vector_add(const float* a, const float* b, float* sum, uint32_t count) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}

__global__ void reduce(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t part[kGroup];
  uint32_t sum = 0;
  for (uint32_t k = 0; k < 4; ++k) sum += in[(blockIdx.x * 4 + k) * kGroup + threadIdx.x];
  for (int other = warpSize / 2; other > 0; other /= 2) sum += __shfl_xor(sum, other);
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (uint32_t wave = 0; wave < kGroup; wave += warpSize) sum += part[wave];
    out[blockIdx.x] = sum;
  }
}

__global__ void matrix_multiply(const float* a, const float* b, float* c) {
  __shared__ float ta[16][16], tb[16][16];
  const uint32_t x = threadIdx.x, y = threadIdx.y;
  const uint32_t column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
  float sum = 0;
  for (uint32_t t = 0; t < kSide; t += 16) {
    ta[y][x] = a[row * kSide + t + x];
    tb[y][x] = b[(t + y) * kSide + column];
    __syncthreads();
    for (uint32_t k = 0; k < 16; ++k) sum = fmaf(ta[y][k], tb[k][x], sum);
    __syncthreads();
  }
  c[row * kSide + column] = sum;
}

__global__ void histogram(const uint8_t* in, uint32_t* counts, uint32_t size) {
  __shared__ uint32_t bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (uint32_t i = blockIdx.x * kGroup + threadIdx.x; i < size; i += gridDim.x * kGroup)
    atomicAdd(&bins[in[i]], 1);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}

__host__ __device__ uint4 philox_block(uint32_t counter, uint32_t key0, uint32_t key1) {
  uint4 c = {counter, 0, 0, 0};
  for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9, key1 += 0xbb67ae85) {
    const uint64_t p0 = uint64_t{0xd2511f53} * c.x, p1 = uint64_t{0xcd9e8d57} * c.z;
    c = {static_cast<uint32_t>(p1 >> 32) ^ c.y ^ key0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c.w ^ key1, static_cast<uint32_t>(p0)};
  }
  return c;
}

__global__ void philox(uint4* out, uint32_t key0, uint32_t key1) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = philox_block(i, key0, key1);
}

// The compiler subtracts from an address in LDS, and adds the difference by the offset of the load.
__host__ __device__ uint32_t with_neighbors(const uint32_t* row, uint32_t lane, uint32_t count) {
  uint32_t sum = 0;
  for (uint32_t k = 0; k < count; ++k)
    if (lane > k) sum += row[lane - k - 1] * 3 + row[lane - k] * 5;
  return sum;
}

__global__ void neighbors(const uint32_t* in, uint32_t* out, uint32_t count) {
  __shared__ uint32_t row[kGroup];
  row[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = with_neighbors(row, threadIdx.x, count);
}

struct Node {
  Node* next;
  uint32_t value;
};

// Memory that a kernel allocates and frees. The host hands it out when the GPU asks.
__global__ void lists(const uint32_t* in, uint32_t* out) {
  Node* first = nullptr;
  for (uint32_t k = 0; k < kNodes; ++k) {
    auto* const node = static_cast<Node*>(malloc(sizeof(Node)));
    if (!node) return;
    *node = {first, in[threadIdx.x] + k};
    first = node;
  }
  uint32_t sum = 0;
  while (first) {
    sum = sum * 3 + first->value;
    Node* const next = first->next;
    free(first);
    first = next;
  }
  out[threadIdx.x] = sum;
}

// In each round a group works on what its neighbor wrote in the round before. Two rows of numbers.
__global__ void meet(uint32_t* rows, uint32_t rounds) {
  const uint32_t count = gridDim.x * kGroup, i = blockIdx.x * kGroup + threadIdx.x;
  for (uint32_t round = 0; round < rounds; ++round) {
    const uint32_t* const from = rows + (round & 1) * count;
    uint32_t* const to = rows + (~round & 1) * count;
    to[i] = from[(i + kGroup) % count] * 1664525u + 1013904223u + round;
    cooperative_groups::this_grid().sync();
  }
}

// Requests to the persistent kernel and its answers, in memory that CPU and GPU see at once.
struct Mailbox {
  uint32_t request;  // its number; the last one ends the kernel
  uint32_t answered[kChurnGroups];
  uint32_t input[kChurned], output[kChurned];
};
constexpr uint32_t kEnd = ~0u;

__global__ void persistent(Mailbox* mail) {
  __shared__ uint32_t row[kGroup], request;
  const uint32_t lane = threadIdx.x, i = blockIdx.x * kGroup + lane;
  uint32_t value = i;
  for (uint32_t seen = 0;; seen = request) {
    if (lane == 0) {
      while ((request = __hip_atomic_load(&mail->request, __ATOMIC_ACQUIRE,
                                          __HIP_MEMORY_SCOPE_SYSTEM)) == seen)
        __builtin_amdgcn_s_sleep(100);
    }
    __syncthreads();
    if (request == kEnd) return;
    value ^= __hip_atomic_load(&mail->input[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    for (uint32_t round = 0; round < kRounds; ++round) {
      row[lane] = value;
      __syncthreads();
      value = row[(lane + 1) % kGroup] * 1664525u + 1013904223u + round;
      __syncthreads();
    }
    __hip_atomic_store(&mail->output[i], value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __threadfence_system();
    __syncthreads();
    if (lane == 0)
      __hip_atomic_store(&mail->answered[blockIdx.x], request, __ATOMIC_RELEASE,
                         __HIP_MEMORY_SCOPE_SYSTEM);
    __syncthreads();
  }
}

// --- On the CPU

void churn(std::array<uint32_t, kChurned>& values) {
  for (uint32_t group = 0; group < kChurned; group += kGroup) {
    uint32_t* const part = values.data() + group;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint32_t first = part[0];
      for (uint32_t i = 0; i < kGroup; ++i)
        part[i] = (i + 1 < kGroup ? part[i + 1] : first) * 1664525u + 1013904223u + round;
    }
  }
}

class Gpu : public Programs {
 public:
  std::string start();
  std::string step(uint64_t number, uint64_t key) override;
  std::string finish() override;
  bool has_images() const override { return textures_ != nullptr; }

 private:
  std::string launch(uint32_t key0, uint32_t key1);
  std::string launch_together();
  std::string launch_neighbors();
  std::string launch_lists();
  std::string ask(uint32_t number);
  std::string compare() const;

  hipStream_t stream_ = nullptr, own_ = nullptr;
  Mailbox* mail_ = nullptr;
  uint32_t *numbers_ = nullptr, *sums_ = nullptr, *counts_ = nullptr, *rows_ = nullptr;
  float *a_ = nullptr, *b_ = nullptr, *sum_ = nullptr, *product_ = nullptr;
  std::unique_ptr<Textures> textures_;
  std::array<uint32_t, kChurned> churned_ = {};
  // What the CPU has computed, and what has come from the GPU.
  std::vector<uint32_t> numbers, sums, counts;
  std::vector<float> floats, sum, product;
};

std::string Gpu::start() {
  HIP(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&own_, hipStreamNonBlocking));
  HIP(hipMalloc(&numbers_, kNumbers * 4));
  HIP(hipMalloc(&sums_, kSums * 4));
  HIP(hipMalloc(&rows_, 2 * kNumbers * 4));
  HIP(hipMalloc(&counts_, 256 * 4));
  for (float** place : {&a_, &b_, &sum_, &product_}) HIP(hipMalloc(place, kSide * kSide * 4));
  HIP(hipHostMalloc(&mail_, sizeof(Mailbox), hipHostMallocCoherent | hipHostMallocMapped));
  *mail_ = {};
  for (uint32_t i = 0; i < kChurned; ++i) churned_[i] = i;
  persistent<<<kChurnGroups, kGroup, 0, own_>>>(mail_);
  HIP(hipGetLastError());
  std::string problem;
  textures_ = Textures::create(problem);
  return problem;
}

std::string Gpu::launch(uint32_t key0, uint32_t key1) {
  philox<<<kNumbers / 4 / kGroup, kGroup, 0, stream_>>>(reinterpret_cast<uint4*>(numbers_), key0,
                                                        key1);
  HIP(hipGetLastError());
  numbers.resize(kNumbers);
  HIP(hipMemcpyAsync(numbers.data(), numbers_, kNumbers * 4, hipMemcpyDeviceToHost, stream_));
  HIP(hipStreamSynchronize(stream_));
  floats.resize(kNumbers);
  std::ranges::transform(numbers, floats.begin(),
                         [](uint32_t n) { return static_cast<float>(n >> 8) * 0x1p-24f; });
  constexpr uint32_t kElements = kSide * kSide;
  HIP(hipMemcpyAsync(a_, floats.data(), kElements * 4, hipMemcpyHostToDevice, stream_));
  HIP(hipMemcpyAsync(b_, floats.data() + kNumbers - kElements, kElements * 4, hipMemcpyHostToDevice,
                     stream_));
  HIP(hipMemsetAsync(counts_, 0, 256 * 4, stream_));
  vector_add<<<kElements / kGroup, kGroup, 0, stream_>>>(a_, b_, sum_, kElements - 5);
  reduce<<<kSums, kGroup, 0, stream_>>>(numbers_, sums_);
  histogram<<<4, kGroup, 0, stream_>>>(reinterpret_cast<uint8_t*>(numbers_), counts_, kNumbers * 4);
  matrix_multiply<<<dim3(kSide / 16, kSide / 16), dim3(16, 16), 0, stream_>>>(a_, b_, product_);
  HIP(hipGetLastError());
  sums.resize(kSums), counts.resize(256), sum.resize(kElements), product.resize(kElements);
  HIP(hipMemcpyAsync(sums.data(), sums_, kSums * 4, hipMemcpyDeviceToHost, stream_));
  HIP(hipMemcpyAsync(counts.data(), counts_, 256 * 4, hipMemcpyDeviceToHost, stream_));
  HIP(hipMemcpyAsync(sum.data(), sum_, kElements * 4, hipMemcpyDeviceToHost, stream_));
  HIP(hipMemcpyAsync(product.data(), product_, kElements * 4, hipMemcpyDeviceToHost, stream_));
  HIP(hipStreamSynchronize(stream_));
  for (uint32_t i = 0; i < kNumbers / 4; ++i) {
    const uint4 wanted = philox_block(i, key0, key1);
    if (numbers[4 * i] != wanted.x || numbers[4 * i + 1] != wanted.y ||
        numbers[4 * i + 2] != wanted.z || numbers[4 * i + 3] != wanted.w)
      return "a number of Philox is wrong";
  }
  return compare();
}

// The groups wait for each other, by the GPU's global wave sync.
std::string Gpu::launch_together() {
  uint32_t rounds = kMeetings;
  void* arguments[] = {&rows_, &rounds};
  std::vector<uint32_t> from = numbers, to(kNumbers);
  HIP(hipMemcpyAsync(rows_, from.data(), kNumbers * 4, hipMemcpyHostToDevice, stream_));
  HIP(hipLaunchCooperativeKernel(reinterpret_cast<void*>(meet), dim3(kNumbers / kGroup),
                                 dim3(kGroup), arguments, 0, stream_));
  std::vector<uint32_t> met(kNumbers);
  HIP(hipMemcpyAsync(met.data(), rows_ + rounds % 2 * kNumbers, kNumbers * 4,
                     hipMemcpyDeviceToHost, stream_));
  HIP(hipStreamSynchronize(stream_));
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < kNumbers; ++i)
      to[i] = from[(i + kGroup) % kNumbers] * 1664525u + 1013904223u + round;
    from.swap(to);
  }
  return met == from ? "" : "groups have waited for each other in too few rounds";
}

std::string Gpu::launch_neighbors() {
  std::vector<uint32_t> out(kGroup);
  neighbors<<<1, kGroup, 0, stream_>>>(numbers_, rows_, kNeighbors);
  HIP(hipGetLastError());
  HIP(hipMemcpyAsync(out.data(), rows_, kGroup * 4, hipMemcpyDeviceToHost, stream_));
  HIP(hipStreamSynchronize(stream_));
  for (uint32_t i = 0; i < kGroup; ++i)
    if (out[i] != with_neighbors(numbers.data(), i, kNeighbors))
      return "a sum of neighbors is wrong";
  return {};
}

std::string Gpu::launch_lists() {
  std::vector<uint32_t> out(kGroup);
  HIP(hipMemsetAsync(rows_, 0, kGroup * 4, stream_));
  lists<<<1, kGroup, 0, stream_>>>(numbers_, rows_);
  HIP(hipGetLastError());
  HIP(hipMemcpyAsync(out.data(), rows_, kGroup * 4, hipMemcpyDeviceToHost, stream_));
  HIP(hipStreamSynchronize(stream_));
  for (uint32_t i = 0; i < kGroup; ++i) {
    uint32_t sum = 0;
    for (uint32_t k = kNodes; k-- > 0;) sum = sum * 3 + numbers[i] + k;
    if (out[i] != sum) return "a list in memory that a kernel has allocated is wrong";
  }
  return {};
}

std::string Gpu::compare() const {
  std::array<uint32_t, 256> wanted_counts = {};
  std::array<uint32_t, kSums> wanted_sums = {};
  for (uint32_t i = 0; i < kNumbers; ++i) {
    wanted_sums[i / (4 * kGroup)] += numbers[i];
    for (unsigned shift = 0; shift < 32; shift += 8) ++wanted_counts[numbers[i] >> shift & 0xff];
  }
  if (!std::ranges::equal(sums, wanted_sums)) return "a sum is wrong";
  if (!std::ranges::equal(counts, wanted_counts)) return "a count is wrong";
  const float* const a = floats.data();
  const float* const b = floats.data() + kNumbers - kSide * kSide;
  for (uint32_t i = 0; i < kSide * kSide - 5; ++i)
    if (sum[i] != a[i] + b[i]) return "an element of the sum of vectors is wrong";
  for (uint32_t row = 0; row < kSide; ++row) {
    for (uint32_t column = 0; column < kSide; ++column) {
      float wanted = 0;
      for (uint32_t k = 0; k < kSide; ++k)
        wanted = std::fma(a[row * kSide + k], b[k * kSide + column], wanted);
      if (product[row * kSide + column] != wanted) return "an element of the product is wrong";
    }
  }
  return {};
}

std::string Gpu::ask(uint32_t number) {
  for (uint32_t i = 0; i < kChurned; ++i) mail_->input[i] = numbers[i];
  __atomic_store_n(&mail_->request, number, __ATOMIC_RELEASE);
  for (uint32_t i = 0; i < kChurned; ++i) churned_[i] ^= numbers[i];
  churn(churned_);
  for (const uint32_t& answered : mail_->answered)
    while (__atomic_load_n(&answered, __ATOMIC_ACQUIRE) != number) usleep(1000);
  return std::ranges::equal(mail_->output, churned_) ? "" : "the persistent kernel has another state";
}

std::string Gpu::step(uint64_t number, uint64_t key) {
  std::string problem = launch(static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
  if (problem.empty()) problem = launch_neighbors();
  if (problem.empty()) problem = launch_lists();
  if (problem.empty()) problem = launch_together();
  if (problem.empty() && textures_) problem = textures_->step(static_cast<uint32_t>(key), stream_);
  return problem.empty() ? ask(static_cast<uint32_t>(number)) : problem;
}

std::string Gpu::finish() {
  __atomic_store_n(&mail_->request, kEnd, __ATOMIC_RELEASE);
  HIP(hipStreamSynchronize(own_));
  return {};
}

}  // namespace

std::unique_ptr<Programs> Programs::create(std::string& problem) {
  auto gpu = std::make_unique<Gpu>();
  problem = gpu->start();
  return gpu;
}

}  // namespace e2e
