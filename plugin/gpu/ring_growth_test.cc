// SPDX-License-Identifier: GPL-2.0
#include "gpu/ring_growth.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <climits>
#include <functional>
#include <thread>

#include "tests/contents_test.h"

namespace amdgpu_criu::gpu {
namespace {

using Clock = RingGrowth::Clock;
using testing_support::TempDir;

constexpr uint64_t kSlot = 8u << 20;
constexpr uint64_t kMuch = uint64_t{1} << 40;

// An engine that may have at most `limit` slots.
class Slots : public Engine {
 public:
  explicit Slots(unsigned limit) : limit_(limit) {}
  int file() const override { return -1; }
  unsigned slots() const override { return slots_; }
  Status add_slots(unsigned count) override {
    if (slots_ + count > limit_) return Error(ENOMEM, "no memory");
    slots_ += count;
    return {};
  }
  std::span<std::byte> staging(unsigned) override {
    return {static_cast<std::byte*>(nullptr), kSlot};
  }
  Result<std::unique_ptr<Imported>> import(const Fd&, uint64_t) override {
    return Error(ENOTSUP, "no memory is copied");
  }
  Status start_read(unsigned, std::span<const Piece>) override { return {}; }
  Status start_write(unsigned, std::span<const Piece>) override { return {}; }
  Status wait(unsigned) override { return {}; }

 private:
  const unsigned limit_;
  unsigned slots_ = 4;
};

// A ring whose turns take as long as `seconds` says for a number of slots.
class Ring {
 public:
  using Seconds = std::function<double(unsigned slots)>;

  Ring(unsigned most, Seconds seconds, unsigned limit = UINT_MAX)
      : engine_(limit), growth_(engine_, most, now_), seconds_(std::move(seconds)) {}
  // Returns the number of slots after so many turns.
  unsigned turn(unsigned times, uint64_t left = kMuch, uint64_t used_of_slot = kSlot) {
    for (unsigned i = 0; i < times; i++) {
      for (unsigned slot = 0; slot < slots_; slot++) growth_.add(used_of_slot);
      now_ += std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(seconds_(slots_)));
      slots_ = growth_.end_turn(left, now_);
    }
    return slots_;
  }

 private:
  Clock::time_point now_{};
  Slots engine_;
  RingGrowth growth_;
  Seconds seconds_;
  unsigned slots_ = 4;
};

// Of a file system that takes long for each transfer.
double same_time(unsigned) { return 0.01; }
// Of a disk, whose speed is the limit.
double same_speed(unsigned slots) { return 0.01 * slots; }

TEST(RingGrowth, GrowsToItsLimitWhileThatIsFaster) {
  Ring ring(24, same_time);
  EXPECT_EQ(ring.turn(1), 4u);  // the first turn is not measured
  EXPECT_EQ(ring.turn(1), 8u);
  EXPECT_EQ(ring.turn(1), 8u);
  EXPECT_EQ(ring.turn(1), 16u);
  EXPECT_EQ(ring.turn(2), 24u);
  EXPECT_EQ(ring.turn(10), 24u);
}

TEST(RingGrowth, TriesOnceWhatIsNotFaster) {
  Ring ring(64, same_speed);
  EXPECT_EQ(ring.turn(2), 8u);
  EXPECT_EQ(ring.turn(2), 4u);
  EXPECT_EQ(ring.turn(10), 4u);
}

TEST(RingGrowth, GivesUpOnlyTheLastOnes) {
  Ring ring(64, [](unsigned slots) { return slots > 8 ? 1.0 * slots : 0.01; });
  EXPECT_EQ(ring.turn(4), 16u);
  EXPECT_EQ(ring.turn(2), 8u);
  EXPECT_EQ(ring.turn(10), 8u);
}

TEST(RingGrowth, DoesNotGrowForLessThanTwoSeconds) {
  // 64 slots in a second
  Ring ring(64, [](unsigned slots) { return slots / 64.0; });
  EXPECT_EQ(ring.turn(4, 127 * kSlot), 4u);
  EXPECT_EQ(ring.turn(1, 129 * kSlot), 8u);
}

TEST(RingGrowth, TurnsThatAreMostlyEmptyAreNotMeasured) {
  Ring ring(64, same_time);
  EXPECT_EQ(ring.turn(5, kMuch, kSlot / 2 - 1), 4u);
  EXPECT_EQ(ring.turn(1, kMuch, kSlot / 2), 8u);
}

TEST(RingGrowth, StaysAsItIsIfTheEngineCannotHaveMore) {
  Ring ring(64, same_time, 15);
  EXPECT_EQ(ring.turn(10), 8u);
}

TEST(RingGrowth, StaysAtAChosenNumber) {
  Ring ring(4, same_time);
  EXPECT_EQ(ring.turn(10), 4u);
}

// Files whose transfers take long, any number of which may be under way.
class FarFiles : public testing_support::ContentsTest {
 protected:
  static constexpr StagingSize kGrowing{4, 64u << 10, 16};

  void SetUp() override {
    ContentsTest::SetUp();
    add(1, 32u << 20, 1);
  }
  static std::unique_ptr<pipeline::IoQueue> far_queue() {
    return std::move(*pipeline::make_thread_queue(
        kGrowing.most_slots,
        [](const pipeline::IoRequest& request, const iovec* parts, size_t count) {
          const auto end = Clock::now() + std::chrono::milliseconds(20);
          const ssize_t result = pipeline::transfer(request, parts, count);
          std::this_thread::sleep_until(end);
          return result;
        }));
  }
  // Returns the number of slots at the end.
  Result<unsigned> save_far(const TempDir& dir) {
    auto engine = this->engine(kGrowing);
    dump::SaveOptions options{kGrowing.bytes};
    options.workers = &workers_;
    options.most_slots = kGrowing.most_slots;
    auto writer = TRY(image::ContentsWriter::create(dir.fd(), name_));
    auto saved = TRY(
        dump::save_contents(*engine, *far_queue(), bos_, import_with(*engine), options, writer));
    TRY(writer.finish(image::encode(
        image::Contents{id_, 0, testing_support::gpu_22(), std::move(saved.objects), {}})));
    return engine->slots();
  }
  Result<unsigned> fill_far(const TempDir& dir) {
    auto loaded = TRY(image::load_contents(dir.fd()));
    auto files = TRY(image::ChunkFiles::open(dir.fd(), loaded.at(0)));
    auto engine = this->engine(kGrowing);
    restore::FillOptions options{{}, &workers_};
    options.most_slots = kGrowing.most_slots;
    TRY(restore::fill_contents(*engine, *far_queue(), files, restore::all_of(loaded.at(0).contents),
                               import_with(*engine), options));
    return engine->slots();
  }
  // So that the queue reads it, and no worker.
  static void forget(const std::string& path) {
    const Fd file = std::move(*Fd::open(path.c_str(), O_RDONLY));
    ASSERT_EQ(fdatasync(file.get()), 0);
    ASSERT_EQ(posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
};

TEST_F(FarFiles, GetMoreSlots) {
  const TempDir dir;
  const auto saved = save_far(dir);
  ASSERT_TRUE(saved.ok()) << saved.error().message();
  EXPECT_GT(*saved, kGrowing.slots);
  forget(dir.file(name_));
  const auto before = all_contents();
  spoil();
  const auto filled = fill_far(dir);
  ASSERT_TRUE(filled.ok()) << filled.error().message();
  EXPECT_GT(*filled, kGrowing.slots);
  EXPECT_EQ(all_contents(), before);
}

}  // namespace
}  // namespace amdgpu_criu::gpu
