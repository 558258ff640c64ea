// SPDX-License-Identifier: GPL-2.0
// Damage of every kind to a real blob, and random damage with a corrected frame, which reaches the
// checks after the checksum. Repeatable, because the seeds are fixed.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "sample.h"

namespace sample {
namespace {

constexpr int kMutations = 30000;

TEST(Mutation, EveryTruncationIsDamage) {
  const Bytes whole = MakeSample();
  for (size_t size = 0; size < whole.size(); size++) {
    const Bytes cut(whole.begin(), whole.begin() + size);
    ASSERT_EQ(ReadAll(cut), -EBADMSG) << size;
  }
}

TEST(Mutation, EveryTruncationWithARightTotalSizeIsDamage) {
  const Bytes whole = MakeSample();
  for (size_t size = 0; size < whole.size(); size++) {
    Bytes cut(whole.begin(), whole.begin() + size);
    RepairFrame(&cut);
    ASSERT_EQ(ReadAll(cut), -EBADMSG) << size;
  }
}

TEST(Mutation, EveryFlippedBitIsRefused) {
  const Bytes whole = MakeSample();
  for (size_t at = 0; at < whole.size(); at++)
    for (int bit = 0; bit < 8; bit++) {
      Bytes bytes = whole;
      bytes[at] ^= static_cast<uint8_t>(1 << bit);
      // A higher format number looks like a newer format.
      const bool format =
          at >= offsetof(criu_blob_header, format) && at < offsetof(criu_blob_header, header_size);
      const int ret = ReadAll(bytes);
      ASSERT_TRUE(ret == -EBADMSG || (format && ret == -EOPNOTSUPP)) << at << ": " << ret;
    }
}

TEST(Mutation, EveryByteSetToAnyValueIsRefused) {
  const Bytes whole = MakeSample();
  Bytes bytes = whole;
  for (size_t at = 0; at < whole.size(); at++) {
    for (int value = 0; value < 256; value++) {
      bytes[at] = static_cast<uint8_t>(value);
      ASSERT_EQ(ReadAll(bytes) == 0, bytes == whole) << at;
    }
    bytes[at] = whole[at];
  }
}

// One random edit, as by damage or by an attacker.
void Edit(Bytes* bytes, std::mt19937* random) {
  const auto below = [&](size_t limit) { return limit ? (*random)() % limit : 0; };
  static constexpr uint64_t kInteresting[] = {
      0, 1, 7, 8, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff, ~uint64_t{0}, uint64_t{1} << 63};
  const size_t word = below(bytes->size() / 4 + 1) * 4;
  switch (below(5)) {
    case 0:
      if (!bytes->empty()) (*bytes)[below(bytes->size())] ^= static_cast<uint8_t>(1 << below(8));
      break;
    case 1: {
      const uint64_t value = kInteresting[below(std::size(kInteresting))];
      const size_t size = below(2) ? 4 : 8;
      if (word + size <= bytes->size()) memcpy(bytes->data() + word, &value, size);
      break;
    }
    case 2:
      bytes->resize(below(bytes->size() + 1));
      break;
    case 3: {  // move a block: records change places
      const size_t from = below(bytes->size() / 8 + 1) * 8;
      const size_t size =
          std::min((1 + below(8)) * 8, bytes->size() - std::min(from, bytes->size()));
      if (from + size > bytes->size()) break;
      const Bytes block(bytes->begin() + from, bytes->begin() + from + size);
      bytes->erase(bytes->begin() + from, bytes->begin() + from + size);
      bytes->insert(bytes->begin() + below(bytes->size() / 8 + 1) * 8, block.begin(), block.end());
      break;
    }
    default: {  // repeat a block: duplicates
      const size_t from = below(bytes->size() / 8 + 1) * 8;
      const size_t size = std::min<size_t>(64, bytes->size() - std::min(from, bytes->size()));
      const Bytes block(bytes->begin() + std::min(from, bytes->size()),
                        bytes->begin() + std::min(from, bytes->size()) + size);
      bytes->insert(bytes->begin() + std::min(from, bytes->size()), block.begin(), block.end());
    }
  }
}

TEST(Mutation, RandomDamageIsNeverReadAsTheOriginal) {
  std::mt19937 random(1);
  const Bytes whole = MakeSample();
  for (int i = 0; i < kMutations; i++) {
    Bytes bytes = whole;
    for (unsigned edits = 1 + random() % 3; edits; edits--) Edit(&bytes, &random);
    ASSERT_EQ(ReadAll(bytes) == 0, bytes == whole) << "mutation " << i;
  }
}

TEST(Mutation, RandomForgeriesAreReadOrRefusedAndReachEveryCheck) {
  std::mt19937 random(2);
  const Bytes whole = MakeSample();
  int taken = 0, damaged = 0, unknown = 0;
  for (int i = 0; i < kMutations; i++) {
    Bytes bytes = whole;
    for (unsigned edits = 1 + random() % 3; edits; edits--) Edit(&bytes, &random);
    RepairFrame(&bytes);
    const int ret = ReadAll(bytes);
    taken += ret == 0;
    damaged += ret == -EBADMSG;
    unknown += ret == -EOPNOTSUPP;
  }
  EXPECT_EQ(taken + damaged + unknown, kMutations);
  EXPECT_GT(taken, kMutations / 100);
  EXPECT_GT(damaged, kMutations / 100);
  EXPECT_GT(unknown, kMutations / 100);
}

}  // namespace
}  // namespace sample
