// SPDX-License-Identifier: GPL-2.0
#include "pipeline/memory_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <thread>
#include <vector>

#include "tests/temp_dir.h"

namespace amdgpu_criu::pipeline {
namespace {

using testing::HasSubstr;
using testing_support::TempDir;

constexpr size_t kPiece = 64u << 10;
constexpr unsigned kThreads = MemoryFile::kFewestMappingThreads;

Fd memfd(unsigned flags = 0) { return Fd(memfd_create("memory", MFD_CLOEXEC | flags)); }

TEST(FileSystemsInMemory, AreKnown) {
  EXPECT_TRUE(is_memory(memfd().get()));
  if (const Fd huge = memfd(MFD_HUGETLB); huge.valid()) EXPECT_TRUE(is_memory(huge.get()));
  EXPECT_FALSE(is_memory(Fd::open("/proc/self/stat", O_RDONLY)->get()));
  EXPECT_FALSE(is_memory(-1));
}

// The page cache has what was written. Every second MiB of the large file is examined.
TEST(FilesInThePageCache, AreThoseOfWhichItHasMost) {
  constexpr long kCachestat = 451;  // of Linux 6.5
  const bool known = syscall(kCachestat, -1, nullptr, nullptr, 0) != 0 && errno != ENOSYS;
  for (const size_t size : {size_t{4} << 20, size_t{132} << 20}) {
    const Fd file = memfd();
    const std::vector<std::byte> bytes(size / 4, std::byte{7});
    ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(size)), 0);
    for (size_t part = 0; part < 4; part++) {
      EXPECT_EQ(is_cached(file.get(), size), known && part == 3) << part << " quarters";
      ASSERT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), part * bytes.size()),
                static_cast<ssize_t>(bytes.size()));
    }
    EXPECT_EQ(is_cached(file.get(), size), known);
  }
  EXPECT_FALSE(is_cached(-1, 4096));
  EXPECT_FALSE(is_cached(memfd().get(), 0));
}

class MemoryFiles : public testing::Test {
 protected:
  static std::vector<std::byte> pattern(size_t size) {
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; i++) bytes[i] = static_cast<std::byte>(i * 7 + i / 4096 * 3);
    return bytes;
  }
  static std::vector<std::byte> read(const Fd& file, size_t size) {
    std::vector<std::byte> bytes(size);
    EXPECT_EQ(pread(file.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
    return bytes;
  }

  std::string name_ = "amdgpu-contents-0-1.img";
};

// The last bytes are outside of the mapping.
TEST_F(MemoryFiles, ManyThreadsWriteOneFile) {
  for (const unsigned threads : {1u, kThreads}) {
    const Fd file = memfd();
    constexpr size_t kPieces = 64;
    auto bytes = pattern(kPieces * kPiece + 100);
    const MemoryFile memory(file.get(), kPieces * kPiece, threads);
    EXPECT_EQ(memory.is_mapped(), threads == kThreads);
    std::vector<std::jthread> writers;
    for (unsigned first = 0; first < kThreads; first++)
      writers.emplace_back([&, first] {
        for (size_t i = first; i < kPieces; i += kThreads)
          EXPECT_TRUE(
              memory.write(i * kPiece, std::span(bytes).subspan(i * kPiece, kPiece), name_).ok());
      });
    writers.clear();
    EXPECT_TRUE(memory.write(kPieces * kPiece - 50, std::span(bytes).last(150), name_).ok());
    EXPECT_EQ(read(file, bytes.size()), bytes);
  }
}

// Not SIGBUS: the rest is written by a system call, which extends the file again.
TEST_F(MemoryFiles, AFileThatWasTruncatedKillsNobody) {
  const Fd file = memfd();
  auto bytes = pattern(4 * kPiece);
  const MemoryFile memory(file.get(), bytes.size(), kThreads);
  ASSERT_TRUE(memory.is_mapped());
  ASSERT_EQ(ftruncate(file.get(), kPiece + 4096), 0);
  const Status status = memory.write(0, bytes, name_);
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(read(file, bytes.size()), bytes);
}

TEST_F(MemoryFiles, SealedMemoryIsAnError) {
  const Fd file = memfd(MFD_ALLOW_SEALING);
  auto bytes = pattern(4 * kPiece);
  const MemoryFile memory(file.get(), bytes.size(), kThreads);
  ASSERT_TRUE(memory.is_mapped());
  ASSERT_EQ(ftruncate(file.get(), kPiece), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  const Status status = memory.write(0, bytes, name_);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), EPERM);
  EXPECT_THAT(status.error().message(), HasSubstr("cannot write image " + name_));
}

TEST_F(MemoryFiles, AFullFileSystemIsAnError) {
  TempDir dir;
  if (mount("none", dir.path().c_str(), "tmpfs", 0, "size=128k") != 0)
    GTEST_SKIP() << "needs to mount a file system: " << strerror(errno);
  {
    const Fd file = std::move(*Fd::open(dir.file("file").c_str(), O_RDWR | O_CREAT, 0600));
    auto bytes = pattern(4 * kPiece);
    const MemoryFile memory(file.get(), bytes.size(), kThreads);
    ASSERT_TRUE(memory.is_mapped());
    EXPECT_TRUE(memory.write(0, std::span(bytes).first(kPiece), name_).ok());
    const Status status = memory.write(kPiece, std::span(bytes).subspan(kPiece), name_);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ENOSPC);
  }
  umount(dir.path().c_str());
}

// As the limit demands of system calls: SIGXFSZ, and an error if it is ignored.
TEST_F(MemoryFiles, AFileSizeLimitIsAnError) {
  const Fd file = memfd();
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{kPiece, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto bytes = pattern(4 * kPiece);
  const MemoryFile memory(file.get(), bytes.size(), kThreads);
  EXPECT_FALSE(memory.is_mapped());
  EXPECT_TRUE(memory.write(0, std::span(bytes).first(kPiece), name_).ok());
  EXPECT_EQ(memory.write(kPiece, bytes, name_).error().code(), EFBIG);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace amdgpu_criu::pipeline
