// SPDX-License-Identifier: GPL-2.0
// Comparisons: v_cmp and v_cmpx of every type. Names are made of the relation and the type.
#include <deque>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

// The names that the rows point to.
class Rows {
 public:
  template <typename A, typename B, typename F>
  void add(std::string_view relation, std::string_view type, F f) {
    for (const bool writes_exec : {false, true}) {
      const std::string_view prefix = writes_exec ? "v_cmpx_" : "v_cmp_";
      names_.push_back(amdgpu_criu::formatted("{}{}_{}", prefix, relation, type));
      rows_.push_back(comparison<A, B>(names_.back(), f, writes_exec));
      rows_.back().keeps_denormals = relation == "class";
    }
  }
  template <typename T>
  void add_integer(std::string_view type);
  template <typename T>
  void add_float(std::string_view type);

  std::span<const VectorOp> rows() const { return rows_; }

 private:
  std::deque<std::string> names_;
  std::vector<VectorOp> rows_;
};

template <typename T>
void Rows::add_integer(std::string_view type) {
  add<T, T>("f", type, [](T, T) { return false; });
  add<T, T>("lt", type, [](T a, T b) { return a < b; });
  add<T, T>("eq", type, [](T a, T b) { return a == b; });
  add<T, T>("le", type, [](T a, T b) { return a <= b; });
  add<T, T>("gt", type, [](T a, T b) { return a > b; });
  add<T, T>("ne", type, [](T a, T b) { return a != b; });
  add<T, T>("ge", type, [](T a, T b) { return a >= b; });
  add<T, T>("t", type, [](T, T) { return true; });
}

// The bits of the mask of v_cmp_class, from the lowest.
enum Class : uint32_t {
  kSignalingNan,
  kQuietNan,
  kNegativeInfinity,
  kNegativeNormal,
  kNegativeDenormal,
  kNegativeZero,
  kPositiveZero,
  kPositiveDenormal,
  kPositiveNormal,
  kPositiveInfinity,
};

Class with_sign(bool negative, Class of_negative, Class of_positive) {
  return negative ? of_negative : of_positive;
}

// smallest: the smallest normal number of the type, which for 16 bits is not the host's.
template <typename T>
bool is_of_class(T value, uint32_t mask, double smallest, bool quiet) {
  const bool negative = std::signbit(value);
  Class found = with_sign(negative, kNegativeNormal, kPositiveNormal);
  if (value != value) {
    found = quiet ? kQuietNan : kSignalingNan;
  } else if (std::isinf(value)) {
    found = with_sign(negative, kNegativeInfinity, kPositiveInfinity);
  } else if (value == 0) {
    found = with_sign(negative, kNegativeZero, kPositiveZero);
  } else if (std::fabs(double{value}) < smallest) {
    found = with_sign(negative, kNegativeDenormal, kPositiveDenormal);
  }
  return mask >> found & 1;
}

template <typename T>
void Rows::add_float(std::string_view type) {
  using V = std::conditional_t<std::is_same_v<T, double>, double, float>;
  add<T, T>("f", type, [](V, V) { return false; });
  add<T, T>("lt", type, [](V a, V b) { return a < b; });
  add<T, T>("eq", type, [](V a, V b) { return a == b; });
  add<T, T>("le", type, [](V a, V b) { return a <= b; });
  add<T, T>("gt", type, [](V a, V b) { return a > b; });
  add<T, T>("lg", type, [](V a, V b) { return a < b || a > b; });
  add<T, T>("ge", type, [](V a, V b) { return a >= b; });
  add<T, T>("o", type, [](V a, V b) { return a == a && b == b; });
  add<T, T>("u", type, [](V a, V b) { return a != a || b != b; });
  add<T, T>("nge", type, [](V a, V b) { return !(a >= b); });
  add<T, T>("nlg", type, [](V a, V b) { return !(a < b || a > b); });
  add<T, T>("ngt", type, [](V a, V b) { return !(a > b); });
  add<T, T>("nle", type, [](V a, V b) { return !(a <= b); });
  add<T, T>("neq", type, [](V a, V b) { return !(a == b); });
  add<T, T>("nlt", type, [](V a, V b) { return !(a < b); });
  add<T, T>("tru", type, [](V, V) { return true; });
  // The mask of a 16-bit float may be one half of a register.
  using Mask = std::conditional_t<std::is_same_v<T, Half>, uint16_t, uint32_t>;
  add<T, Mask>("class", type, [](V a, Mask mask) {
    constexpr double kSmallest = std::is_same_v<T, Half>    ? 0x1p-14
                                 : std::is_same_v<T, float> ? 0x1p-126
                                                            : 0x1p-1022;
    return is_of_class(a, mask, kSmallest, !is_signaling(a));
  });
}

Rows make_rows() {
  Rows rows;
  rows.add_integer<int16_t>("i16");
  rows.add_integer<uint16_t>("u16");
  rows.add_integer<int32_t>("i32");
  rows.add_integer<uint32_t>("u32");
  rows.add_integer<int64_t>("i64");
  rows.add_integer<uint64_t>("u64");
  rows.add_float<Half>("f16");
  rows.add_float<float>("f32");
  rows.add_float<double>("f64");
  return rows;
}

}  // namespace

std::span<const VectorOp> compare_ops() {
  static const Rows rows = make_rows();
  return rows.rows();
}

}  // namespace gpu::shader
