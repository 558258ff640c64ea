// SPDX-License-Identifier: GPL-2.0
// The doublewords that the lanes of a wave load into rows, and store from rows: many lanes at once
// where they can.
#pragma once

#include <algorithm>

#include "shader/access.h"

namespace gpu::shader {

// The words of blocks of so many lanes often are in a row, or the same one.
constexpr size_t kWordBlock = 16;
using Words [[gnu::vector_size(4 * kWordBlock)]] = uint32_t;

struct Layout {
  bool in_rows, same;

  Layout(unsigned lanes, const Row& places) {
    constexpr Words kRow = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60};
    Words from_row = {}, from_same = {};
    for (size_t block = 0; block < lanes; block += kWordBlock) {
      Words at;
      std::memcpy(&at, &places.lane[block], sizeof(at));
      at -= places.lane[block];
      from_row |= at ^ kRow;
      from_same |= at;
    }
    in_rows = !has_any(from_row);
    same = !in_rows && !has_any(from_same);
  }
  static bool has_any(const Words& words) {
    uint32_t any = 0;
    for (size_t i = 0; i < kWordBlock; ++i) any |= words[i];
    return any;
  }
  bool is_within(size_t size, unsigned lanes, const Row& places) const {
    if (!in_rows && !same) return last_of(places, lanes) + size_t{4} <= size;
    bool within = true;
    for (size_t block = 0; block < lanes; block += kWordBlock)
      within &= places.lane[block] + (in_rows ? sizeof(Words) : 4) <= size;
    return within;
  }
};

struct WordToRow {
  uint32_t* to;

  void operator()(unsigned lane, const std::byte* from) const { std::memcpy(&to[lane], from, 4); }
  bool all(unsigned lanes, const std::byte* from, size_t size, const Row& places) const {
    const Layout layout(lanes, places);
    if (!layout.is_within(size, lanes, places)) return false;
    if (!layout.in_rows && !layout.same) {
      for (unsigned lane = 0; lane < lanes; ++lane) (*this)(lane, from + places.lane[lane]);
      return true;
    }
    for (size_t block = 0; block < lanes; block += kWordBlock) {
      const std::byte* const first = from + places.lane[block];
      Words words = {};
      if (layout.in_rows) {
        std::memcpy(&words, first, sizeof(words));
      } else {
        uint32_t word;
        std::memcpy(&word, first, sizeof(word));
        words += word;
      }
      std::memcpy(&to[block], &words, sizeof(words));
    }
    return true;
  }
};

struct WordFromRow {
  const uint32_t* from;

  void operator()(unsigned lane, std::byte* to) const { std::memcpy(to, &from[lane], 4); }
  bool all(unsigned lanes, std::byte* to, size_t size, const Row& places) const {
    const Layout layout(lanes, places);
    if (!layout.is_within(size, lanes, places)) return false;
    if (layout.in_rows) {
      for (size_t block = 0; block < lanes; block += kWordBlock)
        std::memcpy(to + places.lane[block], &from[block], sizeof(Words));
    } else {
      for (unsigned lane = 0; lane < lanes; ++lane) (*this)(lane, to + places.lane[lane]);
    }
    return true;
  }
};

// Doublewords of four lanes, by lane or by row.
using Four [[gnu::vector_size(16)]] = uint32_t;
inline void transpose(Four (&words)[4]) {
  const Four low01 = __builtin_shufflevector(words[0], words[1], 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(words[0], words[1], 2, 6, 3, 7);
  const Four low23 = __builtin_shufflevector(words[2], words[3], 0, 4, 1, 5);
  const Four high23 = __builtin_shufflevector(words[2], words[3], 2, 6, 3, 7);
  words[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  words[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  words[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  words[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

// A lane's operand is in as many rows as it has doublewords.
template <unsigned kDwords>
struct ToRows {
  Row* rows;

  void operator()(unsigned lane, const std::byte* from) const {
    uint32_t values[kDwords];
    std::memcpy(values, from, sizeof(values));
    for (unsigned i = 0; i < kDwords; ++i) rows[i].lane[lane] = values[i];
  }
  bool all(unsigned lanes, const std::byte* from, size_t size, const Row& places) const
    requires(kDwords == 4)
  {
    if (last_of(places, lanes) + sizeof(Four) > size) return false;
    for (unsigned lane = 0; lane < lanes; lane += 4) {
      Four words[4];
      for (unsigned i = 0; i < 4; ++i)
        std::memcpy(&words[i], from + places.lane[lane + i], sizeof(Four));
      transpose(words);
      for (unsigned i = 0; i < 4; ++i) std::memcpy(&rows[i].lane[lane], &words[i], sizeof(Four));
    }
    return true;
  }
};

template <unsigned kDwords>
struct FromRows {
  const Row* rows;

  void operator()(unsigned lane, std::byte* to) const {
    uint32_t values[kDwords];
    for (unsigned i = 0; i < kDwords; ++i) values[i] = rows[i].lane[lane];
    std::memcpy(to, values, sizeof(values));
  }
  bool all(unsigned lanes, std::byte* to, size_t size, const Row& places) const
    requires(kDwords == 4)
  {
    if (last_of(places, lanes) + sizeof(Four) > size) return false;
    for (unsigned lane = 0; lane < lanes; lane += 4) {
      Four words[4];
      for (unsigned i = 0; i < 4; ++i) std::memcpy(&words[i], &rows[i].lane[lane], sizeof(Four));
      transpose(words);
      for (unsigned i = 0; i < 4; ++i)
        std::memcpy(to + places.lane[lane + i], &words[i], sizeof(Four));
    }
    return true;
  }
};

template <unsigned kDwords>
auto to_rows(Row* rows) {
  if constexpr (kDwords == 1)
    return WordToRow{rows->lane};
  else
    return ToRows<kDwords>{rows};
}
template <unsigned kDwords>
auto from_rows(const Row* rows) {
  if constexpr (kDwords == 1)
    return WordFromRow{rows->lane};
  else
    return FromRows<kDwords>{rows};
}

}  // namespace gpu::shader
