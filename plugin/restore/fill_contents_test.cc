// SPDX-License-Identifier: GPL-2.0
// Files in memory, which workers read and write.
#include "restore/fill_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/memory_file.h"
#include "restore/file_pages.h"
#include "tests/contents_test.h"
#include "tests/meeting.h"

namespace amdgpu_criu::restore {
namespace {

using testing::HasSubstr;
using testing_support::ContentsTest;
using testing_support::gpu_22;
using testing_support::kChunk;
using testing_support::kStaging;
using testing_support::Meeting;
using testing_support::TempDir;

constexpr char kMemory[] = "/dev/shm";
constexpr unsigned kThreads = 8;
static_assert(kThreads >= pipeline::MemoryFile::kFewestMappingThreads);

ssize_t refuse(const pipeline::IoRequest&, const iovec*, size_t) { return -EIO; }

class FilesInMemory : public ContentsTest {
 protected:
  void SetUp() override {
    ContentsTest::SetUp();
    add(1, 4096, 1);
    add(2, 3 * kStaging.total() + 12288, 2);
    write(2, 5 * kChunk, std::string(2 * kChunk, 0));
    for (uint64_t id = 10; id < 40; id++) add(id, 4096 + 4096 * (id % 3), id % 5);
  }
  // A queue that can transfer nothing.
  static std::unique_ptr<pipeline::IoQueue> no_queue() {
    return pipeline::make_inline_queue(refuse);
  }

  Status save_by_workers(const image::Directory& directory, dump::SaveOptions options) {
    options.workers = &many_;
    auto engine = this->engine();
    auto writer = TRY(image::ContentsWriter::create(directory, name_));
    auto saved =
        TRY(dump::save_contents(*engine, *no_queue(), bos_, import_with(*engine), options, writer));
    return writer.finish(image::encode(
        image::Contents{id_, 0, gpu_22(), std::move(saved.objects), std::move(saved.sources)}));
  }
  Result<FillCounts> fill_by_workers(const image::Directory& directory,
                                     const pipeline::Transfer& read = pipeline::transfer) {
    auto loaded = TRY(image::load_contents(directory));
    auto files = TRY(image::ChunkFiles::open(directory, loaded.at(0)));
    files.use_direct();
    auto engine = this->engine(staging_for(loaded.at(0).contents, kStaging));
    return fill_contents(*engine, *no_queue(), files, all_of(loaded.at(0).contents),
                         import_with(*engine), {{}, &many_, read});
  }

  TempDir memory_{kMemory};
  pipeline::Workers many_{kThreads};
};

TEST_F(FilesInMemory, AreReadByAllWorkersAtTheSameTime) {
  ASSERT_TRUE(save(memory_.fd(), {kChunk}).ok());
  const auto before = all_contents();
  spoil();
  Meeting meeting(kThreads);
  const auto filled = fill_by_workers(memory_.fd(), [&](const auto&... transfer) {
    meeting.join();
    return pipeline::transfer(transfer...);
  });
  ASSERT_TRUE(filled.ok()) << filled.error().message();
  EXPECT_TRUE(meeting.held()) << "fewer than " << kThreads << " threads read";
  EXPECT_EQ(all_contents(), before);
}

TEST_F(FilesInMemory, AreReadByACallerWithoutWorkers) {
  ASSERT_TRUE(save(memory_.fd(), {kChunk}).ok());
  expect_round_trip(memory_.fd(), pipeline::IoKind::kInline);
}

// The files are the same as on a disk.
TEST_F(FilesInMemory, AreWrittenByWorkers) {
  TempDir disk;
  for (const auto encoding : {pipeline::Encoding::kPlain, pipeline::Encoding::kLz4}) {
    const dump::SaveOptions options{kChunk, {encoding, 0}};
    const Status saved = save_by_workers(memory_.fd(), options);
    ASSERT_TRUE(saved.ok()) << saved.error().message();
    ASSERT_TRUE(save(disk.fd(), options).ok());
    EXPECT_EQ(memory_.read(name_), disk.read(name_));
    EXPECT_EQ(problem(memory_.fd()), "");
    const auto before = all_contents();
    spoil();
    ASSERT_TRUE(fill_by_workers(memory_.fd()).ok());
    EXPECT_EQ(all_contents(), before);
  }
}

// It was written past the page cache, and then read.
TEST_F(FilesInMemory, AreAlsoThoseOfADiskThatAreCached) {
  TempDir disk;
  ASSERT_TRUE(save(disk.fd(), {kChunk}).ok());
  EXPECT_EQ(disk.read(name_).size(), size_of(disk));
  const Fd file = std::move(*Fd::open(disk.file(name_).c_str(), O_RDONLY));
  const bool cached = pipeline::is_cached(file.get(), size_of(disk));
  const auto before = all_contents();
  spoil();
  EXPECT_EQ(fill_by_workers(disk.fd()).ok(), cached);
  if (cached) EXPECT_EQ(all_contents(), before);
}

// The slots of a restore have chunks of both files.
TEST_F(FilesInMemory, MayNeedAnEarlierFileOnADisk) {
  TempDir disk;
  ASSERT_TRUE(save(disk.fd(), {kChunk, {}, true}).ok());
  ASSERT_EQ(symlink(disk.path().c_str(), memory_.file("parent").c_str()), 0);
  for (uint64_t chunk = 0; chunk < 40; chunk += 2) write(2, chunk * kChunk + 5, "changed");
  const auto earlier = dump::Earlier::load(memory_.fd());
  ASSERT_TRUE(earlier.ok());
  const auto counts =
      save(memory_.fd(), {.chunk_bytes = kChunk, .hashes = true, .earlier = &*earlier});
  ASSERT_TRUE(counts.ok()) << counts.error().message();
  EXPECT_EQ(counts->stored_bytes, 20 * kChunk);
  expect_round_trip(memory_.fd());
}

// The GPU copies from pages, and compares the result.
class FilePagesOfMemory : public FilesInMemory {
 protected:
  void SetUp() override {
    FilesInMemory::SetUp();
    testing_support::hashes_of_gpu = -1;
    add(3, 2 * FilePages::kWindow + 12288, 3);
    ASSERT_TRUE(save(memory_.fd(), {.chunk_bytes = kChunk, .hashes = true}).ok());
    before_ = all_contents();
    spoil();
  }
  void TearDown() override {
    testing_support::hashes_of_gpu = 0;
    testing_support::pages_of_files = -1;
    FilesInMemory::TearDown();
  }
  // read: of workers. Returns what was filled rightly.
  FillReport filled(const pipeline::Transfer& read) {
    auto filled = fill_all(read);
    if (!filled.ok()) {
      ADD_FAILURE() << filled.error().message();
      return {};
    }
    EXPECT_EQ(all_contents(), before_);
    return std::move(*filled);
  }
  Result<FillReport> fill_all(const pipeline::Transfer& read) {
    const auto queue = no_queue();
    const auto loaded = TRY(image::load_contents(memory_.fd()));
    const FillTools tools{
        *api_, testing_support::make_fake_engine, kStaging, *queue, true, true, {{}, &many_, read}};
    return fill_objects(tools, Fd(), TRY(Fd::open("/dev/null", O_RDWR)), memory_.fd(), loaded.at(0),
                        all_of(loaded.at(0).contents));
  }

  std::map<uint64_t, std::string> before_;
};

TEST_F(FilePagesOfMemory, AreReadByNoCpu) {
  const FillReport report = filled(refuse);
  EXPECT_EQ(report.page_bytes, report.bytes - report.zero_bytes);
  EXPECT_EQ(report.compared_bytes, report.bytes);
  EXPECT_EQ(report.not_pages, "");
}

TEST_F(FilePagesOfMemory, AreReadByWorkersIfTheGpuCannotHaveThem) {
  testing_support::pages_of_files = 0;
  const FillReport report = filled(pipeline::transfer);
  EXPECT_EQ(report.page_bytes, 0u);
  EXPECT_THAT(report.not_pages, HasSubstr("cannot be had"));
}

TEST_F(FilePagesOfMemory, AreNotUsedIfTheGpuComparesNothing) {
  testing_support::hashes_of_gpu = 0;
  const FillReport report = filled(pipeline::transfer);
  EXPECT_EQ(report.page_bytes, 0u);
  EXPECT_EQ(report.not_pages, "");
}

// The kernel hangs in the middle of the comparison.
TEST_F(FilePagesOfMemory, AreReadAgainByWorkersIfTheComparisonFails) {
  testing_support::hashes_of_gpu = 10;
  const FillReport report = filled(pipeline::transfer);
  EXPECT_EQ(report.page_bytes, 0u);
  EXPECT_EQ(report.compared_bytes, 0u);
  EXPECT_THAT(report.not_pages, HasSubstr("could not compare"));
}

TEST_F(FilePagesOfMemory, ThatAreDamagedAreNamed) {
  const Fd file = std::move(*Fd::open(memory_.file(name_).c_str(), O_RDWR));
  ASSERT_EQ(pwrite(file.get(), "?", 1, image::kDataStart + 4096 + 100), 1);  // of object 2
  const auto filled = fill_all(pipeline::transfer);
  ASSERT_FALSE(filled.ok());
  EXPECT_THAT(filled.error().message(), HasSubstr("image " + name_ + ": contents of object 2 are"));
}

TEST_F(FilePagesOfMemory, ThatAreTruncatedMeanwhileAreAnError) {
  testing_support::during_copies = [&] {
    std::filesystem::resize_file(memory_.file(name_), 10 * kChunk);
  };
  const auto filled = fill_all(pipeline::transfer);
  testing_support::during_copies = nullptr;
  ASSERT_FALSE(filled.ok());
  EXPECT_THAT(filled.error().message(), HasSubstr("image " + name_ + " is truncated"));
}

TEST_F(FilesInMemory, DamageDoesNotReachTheGpu) {
  ASSERT_TRUE(save(memory_.fd(), {kChunk}).ok());
  const Fd file = std::move(*Fd::open(memory_.file(name_).c_str(), O_RDWR));
  ASSERT_EQ(pwrite(file.get(), "?", 1, image::kDataStart + 4096 + 100), 1);  // of object 2
  for (const kernel::Bo& bo : bos_) write(bo.object_id, 0, std::string(bo.size, 0));
  const auto filled = fill_by_workers(memory_.fd());
  ASSERT_FALSE(filled.ok());
  EXPECT_THAT(filled.error().message(), HasSubstr("image " + name_ + ": contents of object 2 are"));
  EXPECT_EQ(contents_of(state_, 2).substr(0, kChunk), std::string(kChunk, 0));
}

TEST_F(FilesInMemory, AFileThatIsTruncatedMeanwhileIsAnError) {
  ASSERT_TRUE(save(memory_.fd(), {kChunk}).ok());
  std::atomic<int> reads = 0;
  const auto filled = fill_by_workers(memory_.fd(), [&](const auto&... transfer) {
    if (++reads == 20) std::filesystem::resize_file(memory_.file(name_), 10 * kChunk);
    return pipeline::transfer(transfer...);
  });
  ASSERT_FALSE(filled.ok());
  EXPECT_THAT(filled.error().message(), HasSubstr("image " + name_ + " is truncated"));
}

}  // namespace
}  // namespace amdgpu_criu::restore
