// SPDX-License-Identifier: GPL-2.0
// Dumps into files in memory, whose pages a fake GPU writes.
#include "dump/page_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "pipeline/memory_file.h"
#include "tests/contents_test.h"
#include "tests/meeting.h"

namespace amdgpu_criu::dump {
namespace {

using namespace std::chrono_literals;
using testing_support::ContentsTest;
using testing_support::kChunk;
using testing_support::Meeting;
using testing_support::pages_of_files;
using testing_support::patient;
using testing_support::TempDir;

class DumpIntoPages : public ContentsTest {
 protected:
  void SetUp() override {
    ContentsTest::SetUp();
    add(1, 4096, 1);
    add(2, PageWindows::kWindow + 12288, 2);
    write(2, uint64_t{5} * kChunk, std::string(size_t{2} * kChunk, 0));
    for (uint64_t id = 10; id < 40; id++) add(id, 4096 + 4096 * (id % 3), id % 5);
    add(50, PageWindows::kWindow / 4, 3);
    TempDir disk;
    ASSERT_TRUE(save(disk.fd(), {.chunk_bytes = kChunk, .hashes = true}).ok());
    by_cpu_ = disk.read(name_);
    testing_support::hashes_of_gpu = -1;
  }
  void TearDown() override {
    testing_support::hashes_of_gpu = 0;
    testing_support::during_copies = nullptr;
    testing_support::before_pages = nullptr;
    pages_of_files = -1;
    ContentsTest::TearDown();
  }
  SaveCounts save_with(SaveOptions options) {
    options.chunk_bytes = kChunk;
    options.hashes = options.gpu_hashes = true;
    const auto counts = save(memory_.fd(), options);
    if (counts.ok()) return *counts;
    ADD_FAILURE() << counts.error().message();
    return {};
  }
  // The image is that of a dump in which the CPU has done everything.
  SaveCounts save_right(SaveOptions options) {
    const SaveCounts counts = save_with(std::move(options));
    EXPECT_EQ(memory_.read(name_) == by_cpu_, true);
    return counts;
  }

  TempDir memory_{"/dev/shm"};
  std::string by_cpu_;
};

ssize_t refuse(const pipeline::IoRequest&, const iovec*, size_t) { return -EIO; }

TEST_F(DumpIntoPages, NoCpuWritesTheFile) {
  for (const bool paused : {false, true}) {
    const SaveCounts counts = save_right({.paused = paused, .write = refuse});
    EXPECT_EQ(counts.page_bytes, counts.stored_bytes);
    EXPECT_EQ(counts.page_bytes, counts.bytes - counts.zero_bytes);
  }
  EXPECT_EQ(problem(memory_.fd()), "");
  expect_round_trip(memory_.fd());
}

TEST_F(DumpIntoPages, ThreadsWriteWhatFollowsIfTheGpuCannotHaveThePages) {
  for (const int windows : {0, 1}) {
    pages_of_files = windows;
    const SaveCounts counts = save_right({});
    EXPECT_LT(counts.page_bytes, counts.stored_bytes);
    EXPECT_LE(counts.page_bytes, windows * PageWindows::kWindow);
    EXPECT_EQ(counts.page_bytes > 0, windows > 0);
  }
}

TEST_F(DumpIntoPages, ThreadsWriteWhatFollowsIfTheGpuFailsToHash) {
  for (const int hashed : {0, 20}) {
    testing_support::hashes_of_gpu = hashed;
    const SaveCounts counts = save_right({});
    EXPECT_LE(counts.page_bytes, static_cast<uint64_t>(hashed) * kChunk);
    EXPECT_EQ(counts.page_bytes > 0, hashed > 0);
  }
}

TEST_F(DumpIntoPages, CompressedChunksAreWrittenByThreads) {
  EXPECT_EQ(save_with({.compression = {pipeline::Encoding::kLz4, 0}}).page_bytes, 0u);
  EXPECT_EQ(problem(memory_.fd()), "");
}

TEST_F(DumpIntoPages, OnlyWhatHasChangedIsCopied) {
  TempDir first;
  ASSERT_TRUE(save(first.fd(), {.chunk_bytes = kChunk, .hashes = true}).ok());
  ASSERT_EQ(symlink(first.path().c_str(), memory_.file("parent").c_str()), 0);
  for (uint64_t chunk = 0; chunk < 60; chunk += 3) write(2, chunk * kChunk + 5, "changed");
  const auto earlier = Earlier::load(memory_.fd());
  ASSERT_TRUE(earlier.ok()) << earlier.error().message();
  testing_support::bytes_read = 0;
  const SaveCounts counts = save_with({.earlier = &*earlier, .paused = true, .write = refuse});
  EXPECT_EQ(counts.page_bytes, 20 * kChunk);
  EXPECT_EQ(testing_support::bytes_read, 20 * kChunk);
  expect_round_trip(memory_.fd());
}

// A process that runs writes between the hash and the copy.
TEST_F(DumpIntoPages, TheHashesOfAPreDumpAreThoseOfTheCopies) {
  testing_support::during_copies = [&] { write(50, 0, "changed"); };
  save_with({});
  const auto file = std::move(image::load_contents(memory_.fd())->at(0));
  const image::Object& object = file.contents.objects.back();
  const std::string bytes = contents_of(state_, 50).substr(0, kChunk);
  EXPECT_EQ(object.hashes.front(), image::strong_hash(std::as_bytes(std::span(bytes))));
}

// The kernel allocates and clears the pages, which takes longer than a copy.
TEST_F(DumpIntoPages, WindowsArePreparedBySeveralWorkersAtTheSameTime) {
  Meeting meeting(2);
  testing_support::before_pages = [&] { meeting.join(); };
  save_right({});
  EXPECT_TRUE(meeting.held());
}

TEST_F(DumpIntoPages, WindowsArePreparedAheadOfTheCopies) {
  const auto deadline = std::chrono::steady_clock::now() + patient(20s);
  std::atomic<unsigned> prepared = 0;
  testing_support::before_pages = [&] { prepared++; };
  testing_support::during_copies = [&] {
    while (prepared < 2 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(prepared, 2u);
  };
  save_right({});
}

}  // namespace
}  // namespace amdgpu_criu::dump
