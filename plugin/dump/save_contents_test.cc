// SPDX-License-Identifier: GPL-2.0
// Saves contents of a fake GPU to files and fills them again.
#include "dump/save_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "image/flatten.h"
#include "tests/contents_test.h"
#include "tests/patience.h"

namespace amdgpu_criu::dump {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing_support::ContentsTest;
using testing_support::FakeState;
using testing_support::gpu_22;
using testing_support::kChunk;
using testing_support::kStaging;
using testing_support::patient;
using testing_support::TempDir;

struct Way {
  pipeline::Encoding encoding;
  pipeline::IoKind io;
};

class ContentsRoundTrip : public ContentsTest, public testing::WithParamInterface<Way> {};

TEST_P(ContentsRoundTrip, LargeSmallAndZero) {
  TempDir dir;
  add(1, 4096, 1);
  add(2, 3 * kStaging.total() + 12288, 2);
  add(3, 8 * kStaging.total(), 0);
  for (uint64_t id = 10; id < 400; id++) add(id, 4096 + 4096 * (id % 3), id % 5);
  write(2, 5 * kChunk, std::string(2 * kChunk, 0));
  write(3, 7 * kChunk + 17, "not zero");
  const auto counts = save(dir.fd(), {kChunk, {GetParam().encoding, 0}}, GetParam().io);
  ASSERT_TRUE(counts.ok()) << counts.error().message();
  EXPECT_EQ(counts->zero_bytes >= 8 * kStaging.total() + kChunk, true) << counts->zero_bytes;
  if (GetParam().encoding == pipeline::Encoding::kPlain)
    EXPECT_EQ(counts->stored_bytes + counts->zero_bytes, counts->bytes);
  else
    EXPECT_LT(counts->stored_bytes, (counts->bytes - counts->zero_bytes) / 2);
  EXPECT_EQ(problem(dir.fd()), "");
  expect_round_trip(dir.fd(), GetParam().io);
}

INSTANTIATE_TEST_SUITE_P(Ways, ContentsRoundTrip,
                         testing::Values(Way{pipeline::Encoding::kPlain, pipeline::IoKind::kUring},
                                         Way{pipeline::Encoding::kPlain,
                                             pipeline::IoKind::kThreads},
                                         Way{pipeline::Encoding::kPlain, pipeline::IoKind::kInline},
                                         Way{pipeline::Encoding::kZstd, pipeline::IoKind::kUring},
                                         Way{pipeline::Encoding::kLz4, pipeline::IoKind::kInline}));

TEST_F(ContentsTest, SmallObjectsShareSubmissions) {
  TempDir dir;
  for (uint64_t id = 1; id <= 200; id++) add(id, 4096, id);
  const auto counts = save(dir.fd(), {kChunk});
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(counts->submissions, (200 * 4096 + kStaging.bytes - 1) / kStaging.bytes);
  const auto filled = fill(dir.fd());
  ASSERT_TRUE(filled.ok());
  EXPECT_EQ(filled->submissions, counts->submissions);
}

TEST_F(ContentsTest, ZerosTakeNoRoom) {
  TempDir dir;
  add(1, 1 << 20, 0);
  ASSERT_TRUE(save(dir.fd(), {kChunk}).ok());
  EXPECT_LT(size_of(dir), image::kDataStart + 4096);
  expect_round_trip(dir.fd());
}

TEST_F(ContentsTest, OneSlotIsEnough) {
  TempDir dir;
  add(1, 1 << 20, 3);
  auto engine = this->engine({1, 8192});
  const auto queue = pipeline::make_io_queue(pipeline::IoKind::kInline, 1);
  auto writer = std::move(*image::ContentsWriter::create(dir.fd(), name_));
  auto saved = save_contents(*engine, *queue, bos_, import_with(*engine), {kChunk}, writer);
  ASSERT_TRUE(saved.ok()) << saved.error().message();
  EXPECT_EQ(saved->counts.submissions, (1u << 20) / 8192);
  ASSERT_TRUE(
      writer.finish(image::encode(image::Contents{id_, 0, gpu_22(), saved->objects, {}})).ok());
  expect_round_trip(dir.fd());
}

TEST(Staging, IsBoundedForAllChunkSizes) {
  const auto staging_for = [](const image::Chunk& chunk) {
    image::Contents contents;
    contents.objects = {{1, 1 << 20, {chunk}, {}}};
    return restore::staging_for(contents, {4, 8u << 20}).total();
  };
  image::Chunk chunk{.offset = 4096, .size = 4096};
  EXPECT_EQ(staging_for(chunk), 32u << 20);
  chunk.size = image::kMaxChunk;
  EXPECT_EQ(staging_for(chunk), gpu::kMaxStaging);
  chunk.encoding = pipeline::Encoding::kZeros;
  EXPECT_EQ(staging_for(chunk), 32u << 20);
  chunk.size = 16u << 20;
  chunk.compressed = 4096;
  chunk.encoding = pipeline::Encoding::kZstd;
  EXPECT_EQ(staging_for(chunk), gpu::kMaxStaging / 2);
}

// Failures

TEST_F(ContentsTest, ACopyThatFailsAnywhereLeavesNoFile) {
  TempDir dir;
  for (uint64_t id = 1; id <= 30; id++) add(id, 3 * kChunk, id);
  for (const int copies : {0, 1, 7, 29}) {
    testing_support::fail_copies_after = copies;
    const auto counts = save(dir.fd(), {kChunk});
    ASSERT_FALSE(counts.ok()) << copies;
    EXPECT_EQ(counts.error().code(), EIO);
    EXPECT_TRUE(dir.names().empty());
  }
  testing_support::fail_copies_after = -1;
  ASSERT_TRUE(save(dir.fd(), {kChunk}).ok());
  for (const int copies : {0, 1, 7, 29}) {
    testing_support::fail_copies_after = copies;
    EXPECT_EQ(fill(dir.fd()).error().code(), EIO) << copies;
  }
}

TEST_F(ContentsTest, AFileSizeLimitLeavesNoFile) {
  TempDir dir;
  add(1, 4 << 20, 1);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (const auto io : {pipeline::IoKind::kUring, pipeline::IoKind::kThreads}) {
    const auto counts = save(dir.fd(), {kChunk}, io);
    EXPECT_EQ(counts.error().code(), EFBIG);
    EXPECT_THAT(counts.error().message(), HasSubstr("cannot write image " + name_));
    EXPECT_TRUE(dir.names().empty());
  }
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
}

TEST_F(ContentsTest, AnObjectThatIsGoneFailsTheDump) {
  TempDir dir;
  add(1, 4 << 20, 1);
  add(2, 4096, 1);
  auto engine = this->engine();
  const auto queue = pipeline::make_io_queue(pipeline::IoKind::kInline, 1);
  auto writer = std::move(*image::ContentsWriter::create(dir.fd(), name_));
  auto import = [&](uint64_t id, uint64_t size) -> Result<std::shared_ptr<gpu::Imported>> {
    if (id == 2) return Error(ENODEV, "the GPU is gone");
    return std::shared_ptr<gpu::Imported>(TRY(engine->import(state_.objects.at(id), size)));
  };
  EXPECT_EQ(save_contents(*engine, *queue, bos_, import, {kChunk}, writer).error().code(), ENODEV);
}

// Damages each stored page: the error names the file, and no byte of that slot, which has one
// object, reaches the GPU.
TEST_F(ContentsTest, DamagedChunksDoNotReachTheGpu) {
  TempDir dir;
  add(1, kStaging.bytes, 1);
  add(2, kStaging.bytes, 2);
  const auto before = all_contents();
  for (const auto encoding : {pipeline::Encoding::kPlain, pipeline::Encoding::kZstd}) {
    ASSERT_TRUE(save(dir.fd(), {kChunk, {encoding, 0}}).ok());
    std::string bytes = dir.read(name_);
    const uint64_t end = image::load_contents(dir.fd())->at(0).data_end;
    for (uint64_t at = image::kDataStart + 100; at < end; at += 4096) {
      clear_objects(state_);
      for (const auto& [id, contents] : before) write(id, 0, std::string(contents.size(), 0));
      std::string damaged = bytes;
      damaged[at] ^= 0x10;
      dir.write(name_, damaged);
      const auto filled = fill(dir.fd());
      const auto after = all_contents();
      if (filled.ok()) {
        // Padding of compressed chunks may be any bytes that decompression does not read.
        ASSERT_NE(encoding, pipeline::Encoding::kPlain) << at;
        ASSERT_EQ(after, before) << at;
        continue;
      }
      ASSERT_THAT(filled.error().message(), HasSubstr("image " + name_ + ": contents of object"));
      size_t untouched = 0;
      for (const auto& [id, contents] : after) {
        const bool is_zero = contents == std::string(contents.size(), 0);
        ASSERT_TRUE(is_zero || contents == before.at(id)) << at << " object " << id;
        untouched += is_zero;
      }
      ASSERT_GE(untouched, 1u) << at;
    }
    dir.write(name_, bytes);
  }
}

// Incremental dumps

class IncrementalTest : public ContentsTest {
 protected:
  void SetUp() override {
    ContentsTest::SetUp();
    for (const TempDir* child : {&second_, &third_}) {
      const TempDir& parent = child == &second_ ? first_ : second_;
      ASSERT_EQ(symlink(parent.path().c_str(), child->file("parent").c_str()), 0);
    }
    add(1, 16 * kChunk, 1);
    add(2, 2 * kChunk, 0);
    ASSERT_TRUE(save(first_.fd(), {kChunk, {}, true}).ok());
    write(1, 3 * kChunk + 5, "first change");
    second_counts_ = save_after(second_);
    write(1, 9 * kChunk, "second change");
    third_counts_ = save_after(third_);
  }
  SaveCounts save_after(const TempDir& dir) {
    const auto earlier = Earlier::load(dir.fd());
    EXPECT_TRUE(earlier.ok() && earlier->has_contents() && earlier->has_hashes());
    return *save(dir.fd(),
                 {.chunk_bytes = kChunk, .hashes = true, .earlier = &*earlier, .gpu_hashes = true});
  }

  TempDir first_, second_, third_;
  SaveCounts second_counts_, third_counts_;
};

TEST_F(IncrementalTest, OnlyChangedChunksAreWritten) {
  EXPECT_EQ(second_counts_.stored_bytes, kChunk);
  EXPECT_EQ(second_counts_.earlier_bytes, 15 * kChunk);
  EXPECT_EQ(third_counts_.stored_bytes, kChunk);
  const auto third = std::move(image::load_contents(third_.fd())->at(0));
  ASSERT_EQ(third.contents.sources.size(), 2u);
  EXPECT_EQ(image::path_of(third.contents.sources[0]), "parent/parent/" + name_);
  EXPECT_EQ(image::path_of(third.contents.sources[1]), "parent/" + name_);
  EXPECT_EQ(problem(third_.fd()), "");
  expect_round_trip(third_.fd());
}

// A BO that was moved, and one that has become the same as another.
TEST_F(IncrementalTest, ChunksOfOtherObjectsAreFound) {
  TempDir dir;
  ASSERT_EQ(symlink(third_.path().c_str(), dir.file("parent").c_str()), 0);
  const std::string bytes = contents_of(state_, 1);
  add(5, bytes.size(), 9);
  write(5, 0, bytes);
  const SaveCounts counts = save_after(dir);
  EXPECT_EQ(counts.stored_bytes, 0u);
  expect_round_trip(dir.fd());
}

// All chunks of two equal objects are in earlier dumps.
TEST_F(IncrementalTest, AFlattenedDumpNeedsNoEarlierOne) {
  TempDir dir, flat;
  ASSERT_EQ(symlink(third_.path().c_str(), dir.file("parent").c_str()), 0);
  const std::string bytes = contents_of(state_, 1);
  add(5, bytes.size(), 9);
  write(5, 0, bytes);
  save_after(dir);
  const auto file = std::move(image::load_contents(dir.fd())->at(0));
  EXPECT_EQ(*image::flatten(dir.fd(), file, flat.fd()), 32 * kChunk);
  for (const TempDir* earlier : {&first_, &second_, &third_})
    std::filesystem::remove(earlier->file(name_));
  EXPECT_NE(problem(dir.fd()), "");
  EXPECT_EQ(problem(flat.fd()), "");
  expect_round_trip(flat.fd());
  const auto written = std::move(image::load_contents(flat.fd())->at(0));
  EXPECT_TRUE(written.contents.sources.empty());
  EXPECT_EQ(written.bytes(), 32 * kChunk);
  EXPECT_EQ(written.contents.objects[0].hashes, file.contents.objects[0].hashes);
}

TEST_F(IncrementalTest, DamageIsNotFlattened) {
  const Fd file = std::move(*Fd::open(first_.file(name_).c_str(), O_RDWR));
  ASSERT_EQ(pwrite(file.get(), "x", 1, image::kDataStart + 100), 1);
  TempDir flat;
  const auto third = std::move(image::load_contents(third_.fd())->at(0));
  const auto written = image::flatten(third_.fd(), third, flat.fd());
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message(), HasSubstr("parent/parent/" + name_));
  EXPECT_TRUE(flat.names().empty());
}

TEST_F(IncrementalTest, AMissingEarlierFileIsNamed) {
  std::filesystem::remove(first_.file(name_));
  EXPECT_THAT(problem(third_.fd()), HasSubstr("parent/parent/" + name_));
  EXPECT_THAT(problem(second_.fd()), HasSubstr("parent/" + name_));
}

TEST_F(IncrementalTest, AnEarlierFileThatWasReplacedIsNamed) {
  write(1, 0, "another time");
  ASSERT_TRUE(save(first_.fd(), {kChunk, {}, true}).ok());
  EXPECT_THAT(problem(third_.fd()), HasSubstr("parent/parent/" + name_ + ": is not the file"));
}

TEST_F(IncrementalTest, DamageInAnEarlierFileIsNamed) {
  const uint64_t at = image::kDataStart + 100;
  const Fd file = std::move(*Fd::open(first_.file(name_).c_str(), O_RDWR));
  ASSERT_EQ(pwrite(file.get(), "x", 1, at), 1);
  EXPECT_THAT(problem(third_.fd()), HasSubstr("parent/parent/" + name_ + ": contents of object 1"));
  std::filesystem::resize_file(first_.file(name_), 100);
  EXPECT_THAT(problem(third_.fd()), HasSubstr("parent/parent/" + name_ + ": is truncated"));
}

TEST_F(IncrementalTest, AnIndexThatIsKeptIsTheSame) {
  const auto read = std::move(*Earlier::load(third_.fd()));
  auto moved = std::move(*Earlier::load(third_.fd()));
  const Fd file(memfd_create("index", MFD_CLOEXEC));
  // Without memory, nothing is moved.
  EXPECT_FALSE(moved.keep_in(*Fd::open("/dev/full", O_RDWR)).ok());
  ASSERT_TRUE(moved.keep_in(file).ok());
  const auto taken = Earlier::kept_in(file);
  ASSERT_TRUE(taken.ok()) << taken.error().message();
  const auto second = std::move(image::load_contents(second_.fd())->at(0));
  for (const Earlier* one : {&std::as_const(moved), &*taken}) {
    EXPECT_TRUE(one->has_contents() && one->has_hashes());
    EXPECT_EQ(one->size(), read.size());
    EXPECT_EQ(one->sources(), read.sources());
    for (const image::Object& object : second.contents.objects)
      for (size_t i = 0; i < object.hashes.size(); i++) {
        const auto* expected = read.find(object.hashes[i], kChunk);
        const auto* found = one->find(object.hashes[i], kChunk);
        ASSERT_EQ(found != nullptr, expected != nullptr);
        EXPECT_TRUE(!found || (found->offset == expected->offset &&
                               found->source == expected->source && found->sum == expected->sum));
      }
  }
}

TEST_F(IncrementalTest, ADamagedEarlierDumpIsNotReferredTo) {
  std::filesystem::resize_file(second_.file(name_), 100);
  EXPECT_FALSE(Earlier::load(third_.fd()).ok());
}

TEST_F(IncrementalTest, AnEarlierDumpThatLacksItsOwnEarlierOneIsNotReferredTo) {
  TempDir fourth;
  ASSERT_EQ(symlink(third_.path().c_str(), fourth.file("parent").c_str()), 0);
  EXPECT_TRUE(Earlier::load(fourth.fd()).ok());
  write(1, 0, "another time");
  ASSERT_TRUE(save(first_.fd(), {kChunk, {}, true}).ok());
  const auto replaced = Earlier::load(fourth.fd());
  ASSERT_FALSE(replaced.ok());
  EXPECT_THAT(replaced.error().message(), HasSubstr("the earlier dump: image parent/parent/"));
  std::filesystem::remove(first_.file(name_));
  EXPECT_FALSE(Earlier::load(third_.fd()).ok());
}

// The GPU hashes chunks where they are.

class GpuHashes : public IncrementalTest {
 protected:
  void SetUp() override {
    IncrementalTest::SetUp();
    ASSERT_EQ(symlink(third_.path().c_str(), by_cpu_.file("parent").c_str()), 0);
    ASSERT_EQ(symlink(third_.path().c_str(), by_gpu_.file("parent").c_str()), 0);
    // A tail, and zeros that the earlier dumps do not have.
    add(6, 3 * kChunk + 8192, 4);
    write(6, kChunk, std::string(kChunk, 0));
    add(7, 2 * kStaging.total(), 0);
    write(1, 5 * kChunk, "third change");
  }
  void TearDown() override {
    testing_support::hashes_of_gpu = 0;
    testing_support::before_hash = nullptr;
  }
  // Saves by GPU if it can hash that many chunks.
  SaveCounts save_with(int hashes, const TempDir& dir) {
    testing_support::hashes_of_gpu = hashes;
    testing_support::bytes_read = 0;
    return save_after(dir);
  }

  TempDir by_cpu_, by_gpu_;
};

TEST_F(GpuHashes, OnlyChunksThatAreNotKnownAreCopied) {
  const SaveCounts cpu = save_with(0, by_cpu_);
  EXPECT_EQ(testing_support::bytes_read, cpu.bytes);
  EXPECT_EQ(cpu.hashed_bytes, 0u);
  const SaveCounts gpu = save_with(-1, by_gpu_);
  EXPECT_EQ(testing_support::bytes_read, gpu.stored_bytes);
  EXPECT_EQ(gpu.hashed_bytes, gpu.bytes);
  // One of object 1, and three of object 6, of which the last is a tail.
  EXPECT_EQ(gpu.stored_bytes, 3 * kChunk + 8192);
  EXPECT_EQ(gpu.zero_bytes, cpu.zero_bytes);
  EXPECT_EQ(gpu.earlier_bytes, cpu.earlier_bytes);
}

TEST_F(GpuHashes, TheImageIsThatOfTheCpu) {
  save_with(0, by_cpu_);
  save_with(-1, by_gpu_);
  EXPECT_EQ(by_gpu_.read(name_), by_cpu_.read(name_));
  expect_round_trip(by_gpu_.fd());
}

// As after a hang of the kernel.
TEST_F(GpuHashes, TheCpuGoesOnIfTheGpuFails) {
  save_with(0, by_cpu_);
  const SaveCounts counts = save_with(20, by_gpu_);
  EXPECT_EQ(counts.hashed_bytes, 20 * kChunk);
  EXPECT_EQ(by_gpu_.read(name_), by_cpu_.read(name_));
}

TEST_F(GpuHashes, ChunksAreCopiedWhileOthersAreHashed) {
  add(8, 4 * kStaging.total(), 8);  // it needs each slot several times
  const auto deadline = std::chrono::steady_clock::now() + patient(20s);
  const uint64_t chunks = save_with(0, by_cpu_).bytes / kChunk;
  uint64_t hashed = 0;
  testing_support::before_hash = [&] {
    if (++hashed < chunks) return;
    while (testing_support::bytes_read == 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    EXPECT_GT(testing_support::bytes_read, 0u);
  };
  save_with(-1, by_gpu_);
  EXPECT_GE(hashed, chunks);
}

TEST_F(GpuHashes, TheFirstDumpCopiesNoZeros) {
  TempDir dir;
  testing_support::hashes_of_gpu = -1;
  testing_support::bytes_read = 0;
  const auto counts = save(dir.fd(), {.chunk_bytes = kChunk, .hashes = true, .gpu_hashes = true});
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(testing_support::bytes_read, counts->stored_bytes);
  expect_round_trip(dir.fd());
}

TEST_F(ContentsTest, WithoutAParentThereIsNothingEarlier) {
  TempDir dir;
  const auto earlier = Earlier::load(dir.fd());
  ASSERT_TRUE(earlier.ok());
  EXPECT_FALSE(earlier->has_contents());
  ASSERT_EQ(symlink("nowhere", dir.file("parent").c_str()), 0);
  EXPECT_FALSE(Earlier::load(dir.fd())->has_contents());
  // As criu pre-dump leaves it.
  TempDir parent, child;
  ASSERT_EQ(symlink(parent.path().c_str(), child.file("parent").c_str()), 0);
  const auto of_pre_dump = Earlier::load(child.fd());
  ASSERT_TRUE(of_pre_dump.ok());
  EXPECT_FALSE(of_pre_dump->has_contents() || of_pre_dump->has_hashes());
}

TEST_F(ContentsTest, AnEarlierDumpMayHaveNoHashes) {
  TempDir first, second;
  add(1, kChunk, 1);
  ASSERT_TRUE(save(first.fd(), {kChunk}).ok());
  ASSERT_EQ(symlink(first.path().c_str(), second.file("parent").c_str()), 0);
  const auto earlier = Earlier::load(second.fd());
  EXPECT_TRUE(earlier->has_contents());
  EXPECT_FALSE(earlier->has_hashes());
}

}  // namespace
}  // namespace amdgpu_criu::dump
