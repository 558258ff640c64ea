// SPDX-License-Identifier: GPL-2.0
#include "rocr/transformer.h"

#include <cmath>
#include <cstring>

#include "rocr/code_object.h"  // built from selftests/gpu/shader/kernels/train.cl

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

// Tokens of a sequence, words of the vocabulary, and the widths of a token and of the inner layer.
// A work-group has kWidth work-items.
constexpr uint32_t kTokens = 32, kWords = 32, kWidth = 128, kInner = 256;
// The offsets of the parts of the memory, in floats.
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

// The shared memory holds for each member the number of steps whose gradients it has written, and
// the gradients of two steps: a member may write the next ones while the other still reads these.
constexpr uint32_t kFlags = 128;
constexpr uint32_t shared_gradients(uint32_t member, uint32_t step) {
  return kFlags + (step % 2 * Transformer::kMembers + member) * kAt.weights;
}
constexpr size_t kExchangeBytes =
    (kFlags + size_t{2} * Transformer::kMembers * kAt.weights) * sizeof(float);

// The learning rate of Adam.
constexpr double kRate = 0.002;

}  // namespace

// The kernels of a step are queued in order; the first failure is kept.
class Launcher {
 public:
  using Arguments = Transformer::Arguments;
  explicit Launcher(Transformer& model) : kernels(model.kernels_), model_(model) {}

  void run(const Kernel& kernel, uint32_t groups, Arguments arguments,
           const Signal* ended = nullptr) {
    if (!status_.ok()) return;
    Transformer::Shared& shared = model_.shared();
    Arguments& slot = shared.arguments[model_.launched_++ % Transformer::Shared::kSlots];
    arguments.memory = reinterpret_cast<float*>(model_.memory_.data());
    if (!arguments.other) arguments.other = shared.losses.data();
    slot = arguments;
    status_ = model_.queue_.dispatch(kernel, {{groups * kWidth, 1}, {kWidth, 1}}, &slot, ended);
  }
  // c = a * b, rows x columns.
  void multiply(uint32_t a, uint32_t b, uint32_t c, uint32_t rows, uint32_t columns, uint32_t inner,
                uint32_t how = kPlain, uint32_t add = 0) {
    run(kernels.multiply, (rows * columns + kWidth - 1) / kWidth,
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

  const Transformer::Kernels& kernels;

 private:
  Transformer& model_;
  Status status_;
};

namespace {

void initialize(Launcher& l) {
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
    l.run(l.kernels.initialize, (part.count + kWidth - 1) / kWidth,
          {.a = part.at, .c = part.middle, .d = part.width, .e = 1, .n0 = part.count});
  }
}

void forward(Launcher& l, uint32_t step, uint32_t sequence) {
  const auto& k = l.kernels;
  l.run(k.embed, kTokens + 1,
        {.a = kAt.x0,
         .b = kAt.words,
         .c = kAt.places,
         .d = kAt.tokens,
         .n0 = kTokens,
         .n1 = sequence,
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

void normalize_back(Launcher& l, uint32_t to, uint32_t weights, uint32_t kept, uint32_t add) {
  const auto& k = l.kernels;
  l.run(k.normalize_weights_back, 1,
        {.a = weights + kAt.gradients, .b = kAt.d_n, .d = kept, .n0 = kTokens});
  l.run(k.normalize_back, kTokens,
        {.a = to, .b = kAt.d_n, .c = weights, .d = kept, .e = add, .n0 = kTokens});
}

void attention_back(Launcher& l) {
  const auto& k = l.kernels;
  l.multiply_back(kAt.o, kAt.merge, kAt.d_x1, kAt.d_o, kWidth, kWidth);
  l.multiply(kAt.d_o, kAt.v, kAt.d_p, kTokens, kTokens, kWidth, kSecond);
  l.multiply(kAt.p, kAt.d_o, kAt.d_v, kTokens, kWidth, kTokens, kFirst);
  l.run(k.softmax_back, kTokens, {.a = kAt.p, .b = kAt.d_p, .n1 = kTokens});
  l.multiply(kAt.d_p, kAt.k, kAt.d_q, kTokens, kWidth, kTokens);
  l.multiply(kAt.d_p, kAt.q, kAt.d_k, kTokens, kWidth, kTokens, kFirst);
  l.multiply_back(kAt.n1, kAt.query, kAt.d_q, kAt.d_n, kWidth, kWidth);
  l.multiply_back(kAt.n1, kAt.key, kAt.d_k, kAt.d_n, kWidth, kWidth, kAt.d_n);
  l.multiply_back(kAt.n1, kAt.value, kAt.d_v, kAt.d_n, kWidth, kWidth, kAt.d_n);
  normalize_back(l, kAt.d_x0, kAt.norm1, kAt.kept1, kAt.d_x1);
}

void backward(Launcher& l) {
  const auto& k = l.kernels;
  l.multiply_back(kAt.x2, kAt.output, kAt.logits, kAt.d_x2, kWords, kWidth);
  l.multiply_back(kAt.g, kAt.narrow, kAt.d_x2, kAt.d_g, kWidth, kInner);
  l.run(k.gelu_back, kTokens * kInner / kWidth, {.a = kAt.h, .b = kAt.d_g});
  l.multiply_back(kAt.n2, kAt.widen, kAt.d_g, kAt.d_n, kInner, kWidth);
  normalize_back(l, kAt.d_x1, kAt.norm2, kAt.kept2, kAt.d_x2);
  attention_back(l);
  l.run(k.embed_back, kWords,
        {.a = kAt.words + kAt.gradients, .b = kAt.d_x0, .d = kAt.tokens, .n0 = kTokens});
}

// own: the number of this member.
void exchange_gradients(Launcher& l, float* exchange, uint32_t own, uint32_t step) {
  const auto& k = l.kernels;
  const uint32_t groups = (kAt.weights + kWidth - 1) / kWidth;
  l.run(
      k.share, groups,
      {.other = exchange, .a = shared_gradients(own, step), .b = kAt.gradients, .n0 = kAt.weights});
  l.run(k.meet, 1, {.other = exchange, .a = own, .b = 1 - own, .n0 = step + 1});
  l.run(k.average, groups,
        {.other = exchange,
         .a = kAt.gradients,
         .b = shared_gradients(0, step),
         .c = shared_gradients(1, step),
         .n0 = kAt.weights});
}

void adam(Launcher& l, uint32_t step, const Signal& ended) {
  const auto correction = [&](double decay) { return 1 / (1 - std::pow(decay, step + 1)); };
  l.run(l.kernels.adam, (kAt.weights + kWidth - 1) / kWidth,
        {.b = kAt.gradients,
         .c = kAt.means,
         .d = kAt.squares,
         .n0 = kAt.weights,
         .c0 = static_cast<float>(kRate * correction(0.9)),
         .c1 = static_cast<float>(correction(0.99))},
        &ended);
}

Status copy(const Buffer& to, const Buffer& from, size_t bytes, unsigned timeout_ms) {
  const Signal copied = TRY(Signal::create(1));
  TRY(async_copy(to, 0, from, 0, bytes, nullptr, copied));
  if (!copied.wait_for(0, timeout_ms)) return Error::of(ETIMEDOUT, "a copy does not end");
  return {};
}

}  // namespace

Result<Buffer> Transformer::make_exchange(const Runtime& runtime, unsigned timeout_ms) {
  Buffer zeros = TRY(Buffer::create(runtime, Buffer::Place::kHost, kFlags * sizeof(float)));
  memset(zeros.data(), 0, zeros.size());
  Buffer exchange = TRY(Buffer::create(runtime, Buffer::Place::kSharedDevice, kExchangeBytes));
  TRY(copy(exchange, zeros, zeros.size(), timeout_ms));
  return exchange;
}

Transformer::Transformer(Buffer memory, Buffer staging, Buffer shared, Executable executable,
                         Kernels kernels, AqlUserQueue queue, std::array<Signal, kAhead> ended,
                         Member member)
    : memory_(std::move(memory)),
      staging_(std::move(staging)),
      shared_(std::move(shared)),
      executable_(std::move(executable)),
      kernels_(kernels),
      queue_(std::move(queue)),
      ended_(std::move(ended)),
      exchange_(member.exchange ? reinterpret_cast<float*>(member.exchange->data()) : nullptr),
      member_(member.number) {}

Result<Transformer::Kernels> Transformer::find_kernels(const Executable& executable) {
  const auto find = [&](const char* name) { return executable.kernel(name); };
  return Kernels{
      TRY(find("initialize")), TRY(find("embed")),          TRY(find("multiply")),
      TRY(find("normalize")),  TRY(find("normalize_back")), TRY(find("normalize_weights_back")),
      TRY(find("softmax")),    TRY(find("softmax_back")),   TRY(find("gelu")),
      TRY(find("gelu_back")),  TRY(find("cross_entropy")),  TRY(find("mean_loss")),
      TRY(find("embed_back")), TRY(find("adam")),           TRY(find("share")),
      TRY(find("meet")),       TRY(find("average"))};
}

Result<Transformer> Transformer::create(const Runtime& runtime, unsigned gpu, Member member) {
  using Place = Buffer::Place;
  Buffer memory = TRY(Buffer::create(runtime, Place::kDevice, kAt.end * sizeof(float), gpu));
  Buffer staging = TRY(Buffer::create(runtime, Place::kHost, kAt.weights * sizeof(float)));
  Buffer shared = TRY(Buffer::create(runtime, Place::kHost, sizeof(Shared)));
  Executable executable = TRY(Executable::load(runtime, code_objects(), gpu));
  const Kernels kernels = TRY(find_kernels(executable));
  AqlUserQueue queue = TRY(AqlUserQueue::create(runtime, gpu));
  std::array<Signal, kAhead> ended = {TRY(Signal::create(1)), TRY(Signal::create(1)),
                                      TRY(Signal::create(1)), TRY(Signal::create(1))};
  return Transformer(std::move(memory), std::move(staging), std::move(shared),
                     std::move(executable), kernels, std::move(queue), std::move(ended), member);
}

Status Transformer::initialize() {
  Launcher l(*this);
  e2e::initialize(l);
  return l.take();
}

Status Transformer::queue_step(uint32_t step) {
  Launcher l(*this);
  const Signal& ended = ended_[step % kAhead];
  ended.store(1);
  // Members have different sequences.
  forward(l, step, exchange_ ? step * kMembers + member_ : step);
  backward(l);
  if (exchange_) exchange_gradients(l, exchange_, member_, step);
  adam(l, step, ended);
  return l.take();
}

Status Transformer::finish_step(uint32_t step, unsigned timeout_ms) const {
  if (!ended_[step % kAhead].wait_for(0, timeout_ms))
    return Error::of(ETIMEDOUT, "step {} does not end", step + 1);
  if (!std::isfinite(loss(step)))
    return Error::of(EBADMSG, "the loss of step {} is no number", step + 1);
  return {};
}

size_t Transformer::weights() const { return kAt.weights; }

Result<uint64_t> Transformer::sum_of_weights(unsigned timeout_ms) const {
  TRY(copy(staging_, memory_, staging_.size(), timeout_ms));
  uint64_t sum = 0xcbf29ce484222325;
  for (const std::byte byte : staging_.bytes())
    sum = (sum ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  return sum;
}

}  // namespace e2e
