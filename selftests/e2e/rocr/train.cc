// SPDX-License-Identifier: GPL-2.0
// rocr_train: trains a small transformer (attention, layer norm, GELU, cross entropy, Adam) through
// stock ROCr, and prints the loss of each step and at its end a sum of all weights, to the bit. Its
// queue always has the next steps, so that a dump meets waves. --steps decides how long it is.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "rocr/code_object.h"  // built from selftests/gpu/shader/kernels/train.cl
#include "rocr/hsa.h"
#include "rocr/program.h"
#include "workload/control.h"
#include "workload/options.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

// Tokens of a sequence, different ones, numbers of each (as many as a work-group has work-items),
// and of the layer that is between.
constexpr uint32_t kTokens = 32, kWords = 64, kWidth = 128, kInner = 256;
constexpr uint32_t kMaxSteps = 4096;
// Steps in the queue: after CRIU has stopped the process, the GPU continues with these for a while.
constexpr uint32_t kAhead = 4;

// The offsets of the parts of the memory, in numbers.
struct Layout {
  uint32_t end = 0;
  constexpr uint32_t take(uint32_t count) {
    const uint32_t at = end;
    end += count;
    return at;
  }
  static constexpr uint32_t kSquare = kWidth * kWidth, kRows = kTokens * kWidth;

  // Gain and bias of a normalization are adjacent.
  uint32_t words = take(kWords * kWidth), places = take(kRows), norm1 = take(2 * kWidth),
           query = take(kSquare), key = take(kSquare), value = take(kSquare), merge = take(kSquare),
           norm2 = take(2 * kWidth), widen = take(kWidth * kInner), narrow = take(kInner * kWidth),
           output = take(kWidth * kWords);
  uint32_t weights = end;
  // Each as large as the weights: gradients, and the state of Adam.
  uint32_t gradients = take(weights), means = take(weights), squares = take(weights);

  uint32_t tokens = take(kTokens + 1), losses = take(kTokens);
  uint32_t x0 = take(kRows), x1 = take(kRows), x2 = take(kRows), n1 = take(kRows), n2 = take(kRows),
           q = take(kRows), k = take(kRows), v = take(kRows), o = take(kRows),
           p = take(kTokens * kTokens), h = take(kTokens * kInner), g = take(kTokens * kInner),
           logits = take(kTokens * kWords), kept1 = take(kTokens + kRows),
           kept2 = take(kTokens + kRows);
  // The gradient of the places is that of the first rows.
  uint32_t d_x0 = places + gradients;
  uint32_t d_x2 = take(kRows), d_x1 = take(kRows), d_n = take(kRows), d_o = take(kRows),
           d_q = take(kRows), d_k = take(kRows), d_v = take(kRows), d_p = take(kTokens * kTokens),
           d_g = take(kTokens * kInner);
};
constexpr Layout kAt;

// Options of multiply: transpose a factor, and add to the result.
constexpr uint32_t kPlain = 0, kFirst = 1, kSecond = 2, kAdd = 4;

struct Arguments {
  float* memory = nullptr;
  float* losses = nullptr;
  uint32_t a = 0, b = 0, c = 0, d = 0, e = 0, n0 = 0, n1 = 0, n2 = 0;
  float c0 = 0, c1 = 0;
};

struct Kernels {
  Kernel initialize, embed, multiply, normalize, normalize_back, normalize_weights_back, softmax,
      softmax_back, gelu, gelu_back, cross_entropy, mean_loss, embed_back, adam;
};

// The CPU's half: the loss of each step, and the arguments of the kernels in the queue.
struct Shared {
  static constexpr size_t kSlots = 256;
  std::array<float, kMaxSteps> losses;
  alignas(64) std::array<Arguments, kSlots> arguments;
};

struct Workload {
  std::unique_ptr<Runtime> runtime;
  Buffer memory, staging, shared;
  Executable executable;
  Kernels kernels;
  AqlUserQueue queue;
  std::array<Signal, kAhead> ended;  // of steps in turn
  unsigned timeout_ms;
  size_t launched = 0;
  uint64_t done = 0;

  Shared& data() const { return *reinterpret_cast<Shared*>(shared.data()); }
};

// The kernels of a step are queued in order; the first failure is kept.
class Launcher {
 public:
  explicit Launcher(Workload& workload) : w_(workload) {}

  void run(const Kernel& kernel, uint32_t groups, Arguments arguments,
           const Signal* ended = nullptr) {
    if (!status_.ok()) return;
    Arguments& slot = w_.data().arguments[w_.launched++ % Shared::kSlots];
    arguments.memory = reinterpret_cast<float*>(w_.memory.data());
    arguments.losses = w_.data().losses.data();
    slot = arguments;
    status_ = w_.queue.dispatch(kernel, {{groups * kWidth, 1}, {kWidth, 1}}, &slot, ended);
  }
  // c = a * b, rows x columns.
  void multiply(uint32_t a, uint32_t b, uint32_t c, uint32_t rows, uint32_t columns, uint32_t inner,
                uint32_t how = kPlain, uint32_t add = 0) {
    run(w_.kernels.multiply, (rows * columns + kWidth - 1) / kWidth,
        {.a = a,
         .b = b,
         .c = c,
         .d = add,
         .e = how | (add ? kAdd : 0),
         .n0 = rows,
         .n1 = columns,
         .n2 = inner});
  }
  // The gradients of weights, and of a (to d_a), from that of c, where c = a * weights.
  void multiply_back(uint32_t a, uint32_t weights, uint32_t d_c, uint32_t d_a, uint32_t columns,
                     uint32_t inner, uint32_t add = 0) {
    multiply(a, d_c, weights + kAt.gradients, inner, columns, kTokens, kFirst);
    multiply(d_c, weights, d_a, kTokens, inner, columns, kSecond, add);
  }
  Status take() { return std::move(status_); }

 private:
  Workload& w_;
  Status status_;
};

void initialize(Launcher& l, const Workload& w) {
  struct Part {
    uint32_t at, count, middle, width;  // in thousandths
  };
  const uint32_t all = kAt.output + kWidth * kWords;
  const Part parts[] = {{0, all, 0, 200},
                        {kAt.norm1, kWidth, 1000, 0},
                        {kAt.norm1 + kWidth, kWidth, 0, 0},
                        {kAt.norm2, kWidth, 1000, 0},
                        {kAt.norm2 + kWidth, kWidth, 0, 0},
                        {kAt.means, 2 * kAt.weights, 0, 0}};
  for (const Part& part : parts) {
    l.run(w.kernels.initialize, (part.count + kWidth - 1) / kWidth,
          {.a = part.at, .c = part.middle, .d = part.width, .e = 1, .n0 = part.count});
  }
}

void forward(Launcher& l, const Kernels& k, uint32_t step) {
  l.run(k.embed, kTokens + 1,
        {.a = kAt.x0,
         .b = kAt.words,
         .c = kAt.places,
         .d = kAt.tokens,
         .n0 = kTokens,
         .n1 = step,
         .n2 = kWords});
  l.run(k.normalize, kTokens,
        {.a = kAt.n1, .b = kAt.x0, .c = kAt.norm1, .d = kAt.kept1, .n0 = kTokens});
  l.multiply(kAt.n1, kAt.query, kAt.q, kTokens, kWidth, kWidth);
  l.multiply(kAt.n1, kAt.key, kAt.k, kTokens, kWidth, kWidth);
  l.multiply(kAt.n1, kAt.value, kAt.v, kTokens, kWidth, kWidth);
  l.multiply(kAt.q, kAt.k, kAt.p, kTokens, kTokens, kWidth, kSecond);
  l.run(k.softmax, kTokens, {.a = kAt.p, .n1 = kTokens});
  l.multiply(kAt.p, kAt.v, kAt.o, kTokens, kWidth, kTokens);
  l.multiply(kAt.o, kAt.merge, kAt.x1, kTokens, kWidth, kWidth, kPlain, kAt.x0);
  l.run(k.normalize, kTokens,
        {.a = kAt.n2, .b = kAt.x1, .c = kAt.norm2, .d = kAt.kept2, .n0 = kTokens});
  l.multiply(kAt.n2, kAt.widen, kAt.h, kTokens, kInner, kWidth);
  l.run(k.gelu, kTokens * kInner / kWidth, {.a = kAt.h, .b = kAt.g});
  l.multiply(kAt.g, kAt.narrow, kAt.x2, kTokens, kWidth, kInner, kPlain, kAt.x1);
  l.multiply(kAt.x2, kAt.output, kAt.logits, kTokens, kWords, kWidth);
  l.run(k.cross_entropy, kTokens,
        {.a = kAt.logits, .b = kAt.losses, .d = kAt.tokens, .n0 = kTokens, .n1 = kWords});
  l.run(k.mean_loss, 1, {.b = kAt.losses, .n0 = kTokens, .n1 = step});
}

void normalize_back(Launcher& l, const Kernels& k, uint32_t to, uint32_t weights, uint32_t kept,
                    uint32_t add) {
  l.run(k.normalize_weights_back, 1,
        {.a = weights + kAt.gradients, .b = kAt.d_n, .d = kept, .n0 = kTokens});
  l.run(k.normalize_back, kTokens,
        {.a = to, .b = kAt.d_n, .c = weights, .d = kept, .e = add, .n0 = kTokens});
}

void attention_back(Launcher& l, const Kernels& k) {
  l.multiply_back(kAt.o, kAt.merge, kAt.d_x1, kAt.d_o, kWidth, kWidth);
  l.multiply(kAt.d_o, kAt.v, kAt.d_p, kTokens, kTokens, kWidth, kSecond);
  l.multiply(kAt.p, kAt.d_o, kAt.d_v, kTokens, kWidth, kTokens, kFirst);
  l.run(k.softmax_back, kTokens, {.a = kAt.p, .b = kAt.d_p, .n1 = kTokens});
  l.multiply(kAt.d_p, kAt.k, kAt.d_q, kTokens, kWidth, kTokens);
  l.multiply(kAt.d_p, kAt.q, kAt.d_k, kTokens, kWidth, kTokens, kFirst);
  l.multiply_back(kAt.n1, kAt.query, kAt.d_q, kAt.d_n, kWidth, kWidth);
  l.multiply_back(kAt.n1, kAt.key, kAt.d_k, kAt.d_n, kWidth, kWidth, kAt.d_n);
  l.multiply_back(kAt.n1, kAt.value, kAt.d_v, kAt.d_n, kWidth, kWidth, kAt.d_n);
  normalize_back(l, k, kAt.d_x0, kAt.norm1, kAt.kept1, kAt.d_x1);
}

void backward(Launcher& l, const Kernels& k) {
  l.multiply_back(kAt.x2, kAt.output, kAt.logits, kAt.d_x2, kWords, kWidth);
  l.multiply_back(kAt.g, kAt.narrow, kAt.d_x2, kAt.d_g, kWidth, kInner);
  l.run(k.gelu_back, kTokens * kInner / kWidth, {.a = kAt.h, .b = kAt.d_g});
  l.multiply_back(kAt.n2, kAt.widen, kAt.d_g, kAt.d_n, kInner, kWidth);
  normalize_back(l, k, kAt.d_x1, kAt.norm2, kAt.kept2, kAt.d_x2);
  attention_back(l, k);
  l.run(k.embed_back, kWords,
        {.a = kAt.words + kAt.gradients, .b = kAt.d_x0, .d = kAt.tokens, .n0 = kTokens});
}

// ended: counts down when the weights were changed.
Status queue_step(Workload& w, uint32_t step) {
  Launcher l(w);
  forward(l, w.kernels, step);
  backward(l, w.kernels);
  const Signal& ended = w.ended[step % kAhead];
  ended.store(1);
  const auto correction = [&](double decay) {
    return static_cast<float>(1 / (1 - std::pow(decay, step + 1)));
  };
  l.run(w.kernels.adam, (kAt.weights + kWidth - 1) / kWidth,
        {.b = kAt.gradients,
         .c = kAt.means,
         .d = kAt.squares,
         .n0 = kAt.weights,
         .c0 = correction(0.9),
         .c1 = correction(0.99)},
        &ended);
  return l.take();
}

Status finish_step(Workload& w) {
  if (!w.ended[w.done % kAhead].wait_for(0, w.timeout_ms))
    return Error::of(ETIMEDOUT, "step {} does not end", w.done + 1);
  const float loss = w.data().losses[w.done++];
  say(amdgpu_criu::formatted("step {} loss {:.6f} {:#010x}", w.done, loss,
                             std::bit_cast<uint32_t>(loss)));
  if (!std::isfinite(loss)) return Error::of(EBADMSG, "the loss of step {} is no number", w.done);
  return {};
}

// FNV-1a of all weights.
Status say_weights(Workload& w) {
  const Signal copied = TRY(Signal::create(1));
  const size_t bytes = kAt.weights * sizeof(float);
  TRY(async_copy(w.staging, 0, w.memory, 0, bytes, nullptr, copied));
  if (!copied.wait_for(0, w.timeout_ms)) return Error::of(ETIMEDOUT, "the copy does not end");
  uint64_t sum = 0xcbf29ce484222325;
  for (const std::byte byte : w.staging.bytes().first(bytes))
    sum = (sum ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  say(amdgpu_criu::formatted("weights {:#018x} of {}", sum, kAt.weights));
  return {};
}

Result<Workload> set_up(std::unique_ptr<Runtime> runtime, const Options& options) {
  const Runtime& r = *runtime;
  using Place = Buffer::Place;
  Buffer memory = TRY(Buffer::create(r, Place::kDevice, kAt.end * sizeof(float)));
  Buffer staging = TRY(Buffer::create(r, Place::kHost, kAt.weights * sizeof(float)));
  Buffer shared = TRY(Buffer::create(r, Place::kHost, sizeof(Shared)));
  Executable executable = TRY(Executable::load(r, code_object()));
  const Kernels kernels = {
      TRY(executable.kernel("initialize")),     TRY(executable.kernel("embed")),
      TRY(executable.kernel("multiply")),       TRY(executable.kernel("normalize")),
      TRY(executable.kernel("normalize_back")), TRY(executable.kernel("normalize_weights_back")),
      TRY(executable.kernel("softmax")),        TRY(executable.kernel("softmax_back")),
      TRY(executable.kernel("gelu")),           TRY(executable.kernel("gelu_back")),
      TRY(executable.kernel("cross_entropy")),  TRY(executable.kernel("mean_loss")),
      TRY(executable.kernel("embed_back")),     TRY(executable.kernel("adam"))};
  AqlUserQueue queue = TRY(AqlUserQueue::create(r));
  std::array<Signal, kAhead> ended = {TRY(Signal::create(1)), TRY(Signal::create(1)),
                                      TRY(Signal::create(1)), TRY(Signal::create(1))};
  return Workload{std::move(runtime), std::move(memory),     std::move(staging),
                  std::move(shared),  std::move(executable), kernels,
                  std::move(queue),   std::move(ended),      options.timeout_s * 1000};
}

Status train(Workload& w, uint64_t steps) {
  Launcher l(w);
  initialize(l, w);
  TRY(l.take());
  uint32_t queued = 0;
  while (w.done < steps) {
    while (queued < steps && queued < w.done + kAhead) TRY(queue_step(w, queued++));
    TRY(finish_step(w));
    if (take_verify_request()) give_verdict("verify", w.done, {});
  }
  return say_weights(w);
}

int run(Workload& w, const Options& options) {
  const uint64_t steps = options.steps ? std::min<uint64_t>(options.steps, kMaxSteps) : kMaxSteps;
  const Status status = train(w, steps);
  if (!status.ok()) say("stopped: " + status.error().message());
  return give_verdict("final", w.done, {}) && status.ok() ? kGood : kDamaged;
}

int main_with(const Options& options) {
  return run_program(
      options, set_up, [](Workload&) { return Status(); },
      [](const Workload& w) { return w.memory.size(); }, run);
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"rocr_train",
       "Trains a small transformer through stock ROCr, and prints the loss of each step.",
       "--steps --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
