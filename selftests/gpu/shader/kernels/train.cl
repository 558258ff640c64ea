// SPDX-License-Identifier: GPL-2.0
// The kernels of a training run: a transformer's forward and backward passes, and Adam. All numbers
// are in one memory; a, b, c and so on are where its parts begin. No sum depends on the order in
// which waves run: every element has one work-item that computes it. Two members of a run, on two
// GPUs, exchange gradients through `shared`.
#include "group_barrier.h"

#define GROUP 128
#define ID (__builtin_amdgcn_workgroup_id_x() * GROUP + __builtin_amdgcn_workitem_id_x())
#define ROW __builtin_amdgcn_workgroup_id_x()
#define COLUMN __builtin_amdgcn_workitem_id_x()
#define ARGUMENTS                                                                                  \
  global float *m, global float *losses, uint a, uint b, uint c, uint d, uint e, uint n0, uint n1, \
      uint n2

static float exponential(float x) { return __builtin_exp2f(x * 1.44269504f); }
static float logarithm(float x) { return __builtin_log2f(x) * 0.693147181f; }
static float root(float x) { return __builtin_sqrtf(x); }

static uint hash(uint x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// The sum over the work-group; part has GROUP numbers.
static float group_sum(local float* part, float value) {
  part[COLUMN] = value;
  group_barrier();
  for (uint half_size = GROUP / 2; half_size; half_size /= 2) {
    if (COLUMN < half_size) part[COLUMN] += part[COLUMN + half_size];
    group_barrier();
  }
  const float sum = part[0];
  group_barrier();
  return sum;
}

static float group_maximum(local float* part, float value) {
  part[COLUMN] = value;
  group_barrier();
  for (uint half_size = GROUP / 2; half_size; half_size /= 2) {
    if (COLUMN < half_size) part[COLUMN] = __builtin_fmaxf(part[COLUMN], part[COLUMN + half_size]);
    group_barrier();
  }
  const float largest = part[0];
  group_barrier();
  return largest;
}

// a: n0 numbers around c / 1000, d / 1000 wide, of seed e.
kernel void initialize(ARGUMENTS) {
  const float u = (float)(hash(hash(e) + ID) >> 8) * 0x1p-24f - 0.5f;
  if (ID < n0) m[a + ID] = (float)c * 0.001f + (float)d * 0.001f * u;
}

// Tokens of step n1 to d, each a function of the previous one: n0 of them, below n2, and one more
// to predict. a = embedding b of the token + embedding c of its place. A row has GROUP numbers.
kernel void embed(ARGUMENTS) {
  uint token = hash(n1) % n2;
  for (uint i = 0; i < ROW; ++i) token = (token * 5 + 3) % n2;
  if (COLUMN == 0) m[d + ROW] = __builtin_astype(token, float);
  if (ROW < n0)
    m[a + ROW * GROUP + COLUMN] = m[b + token * GROUP + COLUMN] + m[c + ROW * GROUP + COLUMN];
}

// c = a * b, n0 rows, n1 columns, sums of n2 products. e: 1 a is transposed, 2 b is, 4 add to d.
kernel void multiply(ARGUMENTS) {
  const uint row = ID / n1, column = ID % n1;
  if (row >= n0) return;
  float sum = e & 4 ? m[d + ID] : 0;
  for (uint k = 0; k < n2; ++k) {
    const float x = m[a + (e & 1 ? k * n0 + row : row * n2 + k)];
    const float y = m[b + (e & 2 ? column * n2 + k : k * n1 + column)];
    sum = __builtin_fmaf(x, y, sum);
  }
  m[c + ID] = sum;
}

// a = normalized b * gain c + bias, which is behind the gain. d: the deviation's inverse, and
// behind the n0 of these the normalized rows.
kernel void normalize(ARGUMENTS) {
  local float part[GROUP];
  const uint at = ROW * GROUP + COLUMN;
  const float x = m[b + at];
  const float distance = x - group_sum(part, x) / GROUP;
  const float inverse = 1 / root(group_sum(part, distance * distance) / GROUP + 1e-5f);
  if (COLUMN == 0) m[d + ROW] = inverse;
  m[d + n0 + at] = distance * inverse;
  m[a + at] = distance * inverse * m[c + COLUMN] + m[c + GROUP + COLUMN];
}

// a = e + the gradient through normalize; b: its gradient; c, d: as above.
kernel void normalize_back(ARGUMENTS) {
  local float part[GROUP];
  const uint at = ROW * GROUP + COLUMN;
  const float inner = m[b + at] * m[c + COLUMN], unit = m[d + n0 + at];
  const float mean = group_sum(part, inner) / GROUP;
  const float along = group_sum(part, inner * unit) / GROUP;
  m[a + at] = m[e + at] + m[d + ROW] * (inner - mean - unit * along);
}

// The gradients of gain and bias to a; b and d: as above.
kernel void normalize_weights_back(ARGUMENTS) {
  float gain = 0, bias = 0;
  for (uint row = 0; row < n0; ++row) {
    const float gradient = m[b + row * GROUP + COLUMN];
    gain = __builtin_fmaf(gradient, m[d + n0 + row * GROUP + COLUMN], gain);
    bias += gradient;
  }
  m[a + COLUMN] = gain;
  m[a + GROUP + COLUMN] = bias;
}

// Each row of a, n1 long: the probabilities of what is not behind the row's own place.
kernel void softmax(ARGUMENTS) {
  local float part[GROUP];
  const bool seen = COLUMN < n1 && COLUMN <= ROW;
  const float x = seen ? m[a + ROW * n1 + COLUMN] * (1 / root(GROUP)) : -1e30f;
  const float largest = group_maximum(part, x);
  const float power = seen ? exponential(x - largest) : 0;
  const float sum = group_sum(part, power);
  if (COLUMN < n1) m[a + ROW * n1 + COLUMN] = seen ? power / sum : 0;
}

// b: the gradient of the probabilities a, becomes that of the products.
kernel void softmax_back(ARGUMENTS) {
  local float part[GROUP];
  const uint at = ROW * n1 + COLUMN;
  const float p = COLUMN < n1 ? m[a + at] : 0, gradient = COLUMN < n1 ? m[b + at] : 0;
  const float along = group_sum(part, p * gradient);
  if (COLUMN < n1) m[b + at] = p * (gradient - along) * (1 / root(GROUP));
}

static float hyperbolic(float x) {
  return x > 20 ? 1 : x < -20 ? -1 : 1 - 2 / (exponential(2 * x) + 1);
}

// b = GELU of a.
kernel void gelu(ARGUMENTS) {
  const float x = m[a + ID];
  m[b + ID] = 0.5f * x * (1 + hyperbolic(0.797884561f * (x + 0.044715f * x * x * x)));
}

// b: its gradient becomes that of a.
kernel void gelu_back(ARGUMENTS) {
  const float x = m[a + ID];
  const float t = hyperbolic(0.797884561f * (x + 0.044715f * x * x * x));
  const float inner = 0.797884561f * (1 + 3 * 0.044715f * x * x);
  m[b + ID] *= 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * inner;
}

// a: n0 rows of n1, each becomes its gradient for the token that follows; its loss to b.
kernel void cross_entropy(ARGUMENTS) {
  local float part[GROUP];
  const uint at = a + ROW * n1 + COLUMN, wanted = __builtin_astype(m[d + ROW + 1], uint);
  const float x = COLUMN < n1 ? m[at] : -1e30f;
  const float largest = group_maximum(part, x);
  const float power = COLUMN < n1 ? exponential(x - largest) : 0;
  const float sum = group_sum(part, power);
  if (COLUMN == wanted) m[b + ROW] = logarithm(sum) - (x - largest);
  if (COLUMN < n1) m[at] = (power / sum - (COLUMN == wanted ? 1 : 0)) / n0;
}

// The loss of step n1.
kernel void mean_loss(ARGUMENTS) {
  float sum = 0;
  for (uint row = 0; row < n0; ++row) sum += m[b + row];
  if (COLUMN == 0) losses[n1] = sum / n0;
}

// a: the gradient of the embedding of token ROW; b: that of the rows.
kernel void embed_back(ARGUMENTS) {
  float sum = 0;
  for (uint row = 0; row < n0; ++row)
    if (__builtin_astype(m[d + row], uint) == ROW) sum += m[b + row * GROUP + COLUMN];
  m[a + ROW * GROUP + COLUMN] = sum;
}

#define SHARED                                                                                      \
  global float *m, global float *shared, uint a, uint b, uint c, uint d, uint e, uint n0, uint n1, \
      uint n2

// Gradients b, to a of what is shared.
kernel void share(SHARED) {
  if (ID < n0) shared[a + ID] = m[b + ID];
}

// Member a has written the gradients of n0 steps; waits until member b has, too.
kernel void meet(SHARED) {
  global volatile atomic_uint* steps = (global volatile atomic_uint*)shared;
  if (COLUMN != 0) return;
  __opencl_atomic_store(&steps[a], n0, __ATOMIC_RELEASE, __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES);
  while (__opencl_atomic_load(&steps[b], __ATOMIC_ACQUIRE,
                              __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES) < n0)
    __builtin_amdgcn_s_sleep(100);
}

// Gradients a: the mean of b and c of what is shared.
kernel void average(SHARED) {
  if (ID < n0) m[a + ID] = 0.5f * (shared[b + ID] + shared[c + ID]);
}

// Adam: weights a, gradients b, their means c and their squares' means d; c0 and c1 correct them,
// c0 has the rate as well.
kernel void adam(ARGUMENTS, float c0, float c1) {
  if (ID >= n0) return;
  const float gradient = m[b + ID];
  const float mean = 0.9f * m[c + ID] + 0.1f * gradient;
  const float square = 0.99f * m[d + ID] + 0.01f * gradient * gradient;
  m[c + ID] = mean;
  m[d + ID] = square;
  m[a + ID] -= mean * c0 / (root(square * c1) + 1e-8f);
}
