// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <new>

#include "pipeline/io_queue.h"
#include "tests/refused_call.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::pipeline {
namespace {

using testing::HasSubstr;
using testing_support::TempDir;

constexpr size_t kPage = 4096;

// That this thread may still make; -1: any number.
thread_local int allocations_left = -1;

void* allocate(size_t size) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) allocations_left--;
  return malloc(size);
}

// Calls `body` with memory for that many allocations. False: they were not enough.
template <typename Body>
bool with_allocations(int number, const Body& body) {
  allocations_left = number;
  bool enough = true;
  try {
    body();
  } catch (const std::bad_alloc&) {
    enough = false;
  }
  allocations_left = -1;
  return enough;
}

// A whole page for direct I/O, wherever the stack is.
struct Pages {
  explicit Pages(size_t count)
      : memory(std::move(
            *Mapping::map(count * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS))) {}
  iovec part(size_t first, size_t count) const {
    return {memory.data() + first * kPage, count * kPage};
  }
  void fill(unsigned seed) const {
    for (size_t i = 0; i < memory.size(); i++)
      memory.data()[i] = static_cast<std::byte>(i * 7 + i / kPage * 3 + seed);
  }
  Mapping memory;
};

class IoQueues : public testing::TestWithParam<IoKind> {
 protected:
  void SetUp() override {
    // Not make_io_queue(), which may create another kind than the requested one.
    if (GetParam() == IoKind::kInline) {
      queue_ = make_inline_queue();
      return;
    }
    auto made = GetParam() == IoKind::kUring ? make_uring_queue(4) : make_thread_queue(3);
    if (!made.ok() && GetParam() == IoKind::kUring)
      GTEST_SKIP() << "this machine allows " << made.error().message();
    ASSERT_TRUE(made.ok()) << made.error().message();
    queue_ = std::move(*made);
  }
  void TearDown() override { queue_.reset(); }

  Fd open(const char* name, bool direct) {
    auto file = std::move(*Fd::open(dir_.file(name).c_str(), O_RDWR | O_CREAT, 0600));
    if (direct) (void)set_direct(file.get(), true);
    return file;
  }

  TempDir dir_;
  std::string name_ = "amdgpu-contents-0-1.img";
  std::unique_ptr<IoQueue> queue_;
};

TEST_P(IoQueues, ReadsBackWhatItWroteInAnyNumberOfParts) {
  for (const bool direct : {false, true}) {
    const Fd file = open("file", direct);
    const Pages written(64), read(64);
    written.fill(direct);
    // More requests than the queue holds, in alternating groups.
    for (size_t i = 0; i < 16; i++) {
      IoRequest request{file.get(), true, i * 4 * kPage, {}, &name_};
      request.parts = {written.part(4 * i, 1), written.part(4 * i + 1, 3)};
      queue_->submit(i % 3, std::move(request));
    }
    for (unsigned group = 0; group < 3; group++) ASSERT_TRUE(queue_->finish(group).ok());
    for (size_t i = 0; i < 4; i++)
      queue_->submit(7, {file.get(), false, i * 16 * kPage, {read.part(16 * i, 16)}, &name_});
    const Status status = queue_->finish(7);
    ASSERT_TRUE(status.ok()) << status.error().message();
    EXPECT_EQ(memcmp(written.memory.data(), read.memory.data(), 64 * kPage), 0);
  }
}

TEST_P(IoQueues, TransfersMorePartsThanASystemCallTakes) {
  const Fd file = open("file", false);
  const Pages pages(1);
  pages.fill(0);
  IoRequest request{file.get(), true, 0, {}, &name_};
  for (size_t i = 0; i < 3000; i++) request.parts.push_back({pages.memory.data() + i, 3});
  queue_->submit(0, std::move(request));
  ASSERT_TRUE(queue_->finish(0).ok());
  const std::string bytes = dir_.read("file");
  ASSERT_EQ(bytes.size(), 9000u);
  EXPECT_EQ(memcmp(&bytes[3 * 2999], pages.memory.data() + 2999, 3), 0);
}

// Writes an odd size from an odd address.
TEST_P(IoQueues, ContinuesWithoutDirectIoWhereItIsUnsupported) {
  const Fd file = open("file", true);
  const Pages pages(1);
  pages.fill(5);
  queue_->submit(0, {file.get(), true, 3, {{pages.memory.data() + 1, 100}}, &name_});
  queue_->submit(0, {file.get(), true, 103, {{pages.memory.data() + 101, 100}}, &name_});
  const Status status = queue_->finish(0);
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(memcmp(dir_.read("file").data() + 3, pages.memory.data() + 1, 200), 0);
}

TEST_P(IoQueues, ADiskThatIsFullIsAnErrorOfItsGroup) {
  const Fd full = std::move(*Fd::open("/dev/full", O_RDWR));
  const Fd file = open("file", false);
  const Pages pages(1);
  queue_->submit(0, {full.get(), true, 0, {pages.part(0, 1)}, &name_});
  queue_->submit(1, {file.get(), true, 0, {pages.part(0, 1)}, &name_});
  EXPECT_TRUE(queue_->finish(1).ok());
  const Status status = queue_->finish(0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ENOSPC);
  EXPECT_THAT(status.error().message(), HasSubstr("cannot write image " + name_));
  EXPECT_TRUE(queue_->finish(0).ok()) << "reported once";
}

TEST_P(IoQueues, TheEndOfAFileIsAnError) {
  const Fd file = open("file", false);
  const Pages pages(2);
  queue_->submit(0, {file.get(), true, 0, {pages.part(0, 1)}, &name_});
  ASSERT_TRUE(queue_->finish(0).ok());
  queue_->submit(0, {file.get(), false, 0, {pages.part(0, 2)}, &name_});
  EXPECT_THAT(queue_->finish(0).error().message(), HasSubstr(name_ + " is truncated"));
}

TEST_P(IoQueues, MayBeDestroyedWithWorkUnderWay) {
  const Fd file = open("file", false);
  const Pages pages(8);
  for (size_t i = 0; i < 8; i++)
    queue_->submit(0, {file.get(), true, i * kPage, {pages.part(i, 1)}, &name_});
  queue_.reset();
  EXPECT_EQ(dir_.read("file").size(), 8 * kPage);
}

// finish() waits for no request that submit() has not started.
TEST_P(IoQueues, ARequestForWhichThereIsNoMemoryIsNotStarted) {
  const Fd file = open("file", false);
  const Pages pages(1);
  pages.fill(2);
  bool submitted = false;
  for (int number = 0; !submitted; number++) {
    IoRequest request{file.get(), true, 0, {pages.part(0, 1)}, &name_};
    submitted = with_allocations(number, [&] { queue_->submit(number, std::move(request)); });
    EXPECT_TRUE(queue_->finish(number).ok());
    EXPECT_EQ(dir_.read("file").size(), submitted ? kPage : 0) << number;
  }
}

// Only the description of an error needs memory.
TEST_P(IoQueues, AnErrorForWhichThereIsNoMemoryEndsItsRequest) {
  const Fd full = std::move(*Fd::open("/dev/full", O_RDWR));
  const Pages pages(1);
  queue_->submit(0, {full.get(), true, 0, {pages.part(0, 1)}, &name_});
  Status status;
  EXPECT_TRUE(with_allocations(0, [&] { status = queue_->finish(0); }));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ENOMEM);
}

INSTANTIATE_TEST_SUITE_P(Kinds, IoQueues,
                         testing::Values(IoKind::kUring, IoKind::kThreads, IoKind::kInline));

TEST(IoQueue, UsesUringIfItIsAvailable) {
  EXPECT_STREQ(make_io_queue(IoKind::kThreads, 2)->name(), "threads");
  EXPECT_STREQ(make_io_queue(IoKind::kInline, 2)->name(), "system calls");
  const std::string name = make_io_queue(IoKind::kUring, 2)->name();
  EXPECT_EQ(name, make_uring_queue(2).ok() ? "io_uring" : "threads");
}

// A kernel that returns the results that the test gives.
class Scripted : public IoQueue {
 public:
  explicit Scripted(std::deque<ssize_t> answers) : answers_(std::move(answers)) {}
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;
  ~Scripted() override { drain(); }
  const char* name() const override { return "scripted"; }

  std::vector<std::pair<uint64_t, size_t>> seen;  // offsets and lengths of the started transfers

 private:
  void start(Work& work) noexcept override {
    size_t length = 0;
    for (size_t i = 0; i < work.parts(); i++) length += work.next()[i].iov_len;
    seen.emplace_back(work.request.offset, length);
    started_.push_back(&work);
  }
  Completion wait_for_any() noexcept override {
    Work* const work = started_.front();
    started_.pop_front();
    const ssize_t answer = answers_.empty() ? -EIO : answers_.front();
    if (!answers_.empty()) answers_.pop_front();
    return {work, answer};
  }
  size_t depth() const override { return 8; }

  std::deque<ssize_t> answers_;
  std::deque<Work*> started_;
};

TEST(IoQueue, ContinuesAfterShortAndInterruptedTransfers) {
  const std::string name = "image";
  char bytes[64];
  Scripted queue({-EINTR, 10, -EAGAIN, 25, 29});
  queue.submit(0, {-1, true, 100, {{bytes, 16}, {bytes + 16, 48}}, &name});
  EXPECT_TRUE(queue.finish(0).ok());
  EXPECT_EQ(queue.seen, (std::vector<std::pair<uint64_t, size_t>>{
                            {100, 64}, {100, 64}, {110, 54}, {110, 54}, {135, 29}}));
}

TEST(IoQueue, ErrorsOfTheDeviceEndARequest) {
  const std::string name = "image";
  char bytes[64];
  Scripted queue({32, -EIO, 64});
  queue.submit(0, {-1, false, 0, {{bytes, 64}}, &name});
  const Status status = queue.finish(0);
  EXPECT_EQ(status.error().code(), EIO);
  EXPECT_THAT(status.error().message(), HasSubstr("cannot read image image: Input/output error"));
  queue.submit(0, {-1, false, 0, {{bytes, 64}}, &name});
  EXPECT_TRUE(queue.finish(0).ok());
  queue.submit(0, {-1, true, 0, {{bytes, 64}}, &name});
  EXPECT_FALSE(queue.finish(0).ok());
}

TEST(IoQueue, AWriteOfNothingIsAnError) {
  const std::string name = "image";
  char bytes[64];
  Scripted queue({0});
  queue.submit(0, {-1, true, 0, {{bytes, 64}}, &name});
  EXPECT_THAT(queue.finish(0).error().message(), HasSubstr("nothing was written"));
}

// A transfer that the kernel does not take never completes.
TEST(IoUring, TransfersWhatTheKernelDoesNotTake) {
  const TempDir directory;
  const Fd file = std::move(*Fd::open(directory.file("file").c_str(), O_RDWR | O_CREAT, 0600));
  auto queue = make_uring_queue(4);
  if (!queue.ok()) GTEST_SKIP() << "this machine allows " << queue.error().message();
  const Pages written(2);
  written.fill(1);
  const std::string name = "image";
  const testing_support::Refused submission{SYS_io_uring_enter, 0, ENOMEM, 1};
  const bool tried = testing_support::without(submission, [&] {
    for (size_t i = 0; i < 2; i++) {
      (*queue)->submit(0, {file.get(), true, i * kPage, {written.part(i, 1)}, &name});
      EXPECT_TRUE((*queue)->finish(0).ok());
    }
  });
  if (!tried) GTEST_SKIP() << "this machine allows no filter of system calls";
  const std::string bytes = directory.read("file");
  ASSERT_EQ(bytes.size(), 2 * kPage);
  EXPECT_EQ(memcmp(bytes.data(), written.memory.data(), bytes.size()), 0);
}

}  // namespace
}  // namespace amdgpu_criu::pipeline

void* operator new(size_t size) {
  if (void* memory = amdgpu_criu::pipeline::allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return amdgpu_criu::pipeline::allocate(size);
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
