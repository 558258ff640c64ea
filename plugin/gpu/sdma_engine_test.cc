// SPDX-License-Identifier: GPL-2.0
// Runs on the first render node of the machine, real or software; skipped if there is none.
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "gpu/engine.h"
#include "pipeline/memory_file.h"

namespace amdgpu_criu::gpu {
namespace {

constexpr uint64_t kSize = 5 << 20;

class SdmaEngine : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    auto node = Fd::open("/dev/dri/renderD128", O_RDWR);
    if (!node.ok()) GTEST_SKIP() << "needs an AMD GPU: " << node.error().message();
    node_ = std::move(*node);
    uint32_t major, minor;
    ASSERT_EQ(amdgpu_device_initialize(node_.get(), &major, &minor, &device_), 0);
    amdgpu_bo_alloc_request request{};
    request.alloc_size = kSize;
    request.phys_alignment = 4096;
    request.preferred_heap = GetParam();
    ASSERT_EQ(amdgpu_bo_alloc(device_, &request, &bo_), 0);
    uint32_t fd;
    ASSERT_EQ(amdgpu_bo_export(bo_, amdgpu_bo_handle_type_dma_buf_fd, &fd), 0);
    dmabuf_ = Fd(static_cast<int>(fd));
  }
  void TearDown() override {
    if (bo_) amdgpu_bo_free(bo_);
    if (device_) amdgpu_device_deinitialize(device_);
  }

  Fd node_;
  Fd dmabuf_;
  amdgpu_device_handle device_ = nullptr;
  amdgpu_bo_handle bo_ = nullptr;
};

std::byte pattern(uint64_t at) { return static_cast<std::byte>(at * 13 + at / 4096 * 5); }

TEST_P(SdmaEngine, ReadsBackWhatItWroteThroughAllSlots) {
  constexpr StagingSize kStaging{3, 1 << 20};
  auto engine = make_sdma_engine(*node_.duplicate(), kStaging);
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  auto bo = (*engine)->import(dmabuf_, kSize);
  ASSERT_TRUE(bo.ok()) << bo.error().message();
  for (unsigned i = 0; i < kSize / kStaging.bytes; i++) {
    const unsigned slot = i % kStaging.slots;
    ASSERT_TRUE((*engine)->wait(slot).ok());
    const auto bytes = (*engine)->staging(slot);
    for (size_t at = 0; at < bytes.size(); at++) bytes[at] = pattern(i * kStaging.bytes + at);
    const Piece piece{bo->get(), i * kStaging.bytes, kStaging.bytes};
    ASSERT_TRUE((*engine)->start_write(slot, {&piece, 1}).ok());
  }
  for (unsigned slot = 0; slot < kStaging.slots; slot++) ASSERT_TRUE((*engine)->wait(slot).ok());
  for (unsigned i = 0; i < kSize / kStaging.bytes; i++) {
    const unsigned slot = i % kStaging.slots;
    const auto bytes = (*engine)->staging(slot);
    std::ranges::fill(bytes, std::byte{0});
    const Piece piece{bo->get(), i * kStaging.bytes, kStaging.bytes};
    ASSERT_TRUE((*engine)->start_read(slot, {&piece, 1}).ok());
    ASSERT_TRUE((*engine)->wait(slot).ok());
    for (size_t at = 0; at < bytes.size(); at++)
      ASSERT_EQ(bytes[at], pattern(i * kStaging.bytes + at)) << i << " " << at;
  }
}

// A mapped file with a pattern.
struct PatternFile {
  std::string name;
  Fd file;
  Mapping mapping;
  explicit PatternFile(const std::string& directory) : name(directory + "/sdma-pages-XXXXXX") {
    file = Fd(mkstemp(name.data()));
    std::vector<std::byte> bytes(kSize);
    for (size_t at = 0; at < bytes.size(); at++) bytes[at] = pattern(at);
    EXPECT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(kSize));
    mapping = std::move(*Mapping::map(kSize, PROT_READ, MAP_SHARED, file.get()));
  }
  PatternFile(const PatternFile&) = delete;
  PatternFile& operator=(const PatternFile&) = delete;
  ~PatternFile() { unlink(name.c_str()); }
};

// From an odd place, and mixed with bytes of the slot and with zeros.
TEST_P(SdmaEngine, LossesOfMemoryAreCounted) {
  const auto before = count_losses(node_), after = count_losses(node_);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(*before, *after) << "nothing was reset";
}

TEST_P(SdmaEngine, CopiesPagesOfFiles) {
  for (const char* directory : {"/dev/shm", "."}) {
    auto engine = make_sdma_engine(*node_.duplicate(), {1, 1 << 20});
    ASSERT_TRUE(engine.ok()) << engine.error().message();
    auto bo = (*engine)->import(dmabuf_, kSize);
    ASSERT_TRUE(bo.ok()) << bo.error().message();
    const PatternFile file(directory);
    const auto pages = (*engine)->import_pages(file.mapping.bytes(), PageUse::kRead);
    ASSERT_TRUE(pages.ok()) << directory << ": " << pages.error().message();
    const auto bytes = (*engine)->staging(0);
    std::ranges::fill(bytes, std::byte{0x5a});
    const Piece pieces[] = {{bo->get(), 0, 4096, 8},
                            {bo->get(), 4096, 8192, 0, true},
                            {bo->get(), 12288, 1 << 19, 4711, false, pages->get()}};
    ASSERT_TRUE((*engine)->start_write(0, pieces).ok());
    ASSERT_TRUE((*engine)->wait(0).ok());
    const Piece all{bo->get(), 0, 12288 + (1 << 19)};
    ASSERT_TRUE((*engine)->start_read(0, {&all, 1}).ok());
    ASSERT_TRUE((*engine)->wait(0).ok());
    for (size_t at = 0; at < all.size; at++) {
      const std::byte expected = at < 4096    ? std::byte{0x5a}
                                 : at < 12288 ? std::byte{0}
                                              : pattern(at - 12288 + 4711);
      ASSERT_EQ(bytes[at], expected) << directory << " " << at;
    }
  }
}

// To an odd place of a file without pages. The bytes around it stay zeros.
TEST_P(SdmaEngine, CopiesToPagesOfFiles) {
  constexpr uint64_t kAt = 4711, kBytes = 3 << 20;
  auto engine = make_sdma_engine(*node_.duplicate(), {1, 4 << 20});
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  auto bo = (*engine)->import(dmabuf_, kSize);
  ASSERT_TRUE(bo.ok()) << bo.error().message();
  const auto bytes = (*engine)->staging(0);
  for (size_t at = 0; at < bytes.size(); at++) bytes[at] = pattern(at);
  const Piece all{bo->get(), 0, bytes.size()};
  ASSERT_TRUE((*engine)->start_write(0, {&all, 1}).ok());
  ASSERT_TRUE((*engine)->wait(0).ok());
  for (const char* directory : {"/dev/shm", "."}) {
    const Fd file(open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(file.valid()) << directory;
    // The suite plugin-gpu-dax sets it.
    EXPECT_TRUE(!getenv("DAX") || pipeline::is_memory(file.get())) << directory;
    ASSERT_EQ(ftruncate(file.get(), kSize), 0);
    {
      const auto mapping = Mapping::map(kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
      ASSERT_TRUE(mapping.ok());
      const auto pages = (*engine)->import_pages(mapping->bytes(), PageUse::kWrite);
      ASSERT_TRUE(pages.ok()) << directory << ": " << pages.error().message();
      const Piece piece{bo->get(), 4096, kBytes, kAt, false, pages->get()};
      ASSERT_TRUE((*engine)->start_read(0, {&piece, 1}).ok());
      ASSERT_TRUE((*engine)->wait(0).ok());
    }
    std::vector<std::byte> found(kSize);
    ASSERT_EQ(pread(file.get(), found.data(), kSize, 0), static_cast<ssize_t>(kSize));
    for (size_t at = 0; at < kSize; at++)
      ASSERT_EQ(found[at], at < kAt || at >= kAt + kBytes ? std::byte{0} : pattern(at - kAt + 4096))
          << directory << " " << at;
  }
}

// As those of a full file system.
TEST_P(SdmaEngine, PagesThatCannotBeAllocatedAreAnError) {
  auto engine = make_sdma_engine(*node_.duplicate(), {1, 1 << 20});
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  const Fd file(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  const auto mapping = Mapping::map(kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
  ASSERT_TRUE(mapping.ok());
  EXPECT_EQ((*engine)->import_pages(mapping->bytes(), PageUse::kWrite).error().code(), EFAULT);
  EXPECT_TRUE((*engine)->import_pages(mapping->bytes().first(4096), PageUse::kWrite).ok());
}

TEST_P(SdmaEngine, PagesThatAreGoneAreAnError) {
  auto engine = make_sdma_engine(*node_.duplicate(), {1, 1 << 20});
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  auto bo = (*engine)->import(dmabuf_, kSize);
  ASSERT_TRUE(bo.ok()) << bo.error().message();
  const PatternFile file("/dev/shm");
  const auto pages = (*engine)->import_pages(file.mapping.bytes(), PageUse::kRead);
  ASSERT_TRUE(pages.ok()) << pages.error().message();
  ASSERT_EQ(ftruncate(file.file.get(), 4096), 0);
  const Piece piece{bo->get(), 0, 1 << 20, 0, false, pages->get()};
  const Status started = (*engine)->start_write(0, {&piece, 1});
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code(), EFAULT);
  const Piece other{bo->get(), 0, 1 << 20};
  EXPECT_TRUE((*engine)->start_write(0, {&other, 1}).ok());
  EXPECT_TRUE((*engine)->wait(0).ok());
  EXPECT_FALSE((*engine)->start_read(0, {&piece, 1}).ok());
}

// Pieces out of order, some of zeros, in one submission. The bytes between them stay unchanged.
TEST_P(SdmaEngine, ManyPiecesAreOneSubmission) {
  auto engine = make_sdma_engine(*node_.duplicate(), {1, 1 << 20});
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  auto bo = (*engine)->import(dmabuf_, kSize);
  ASSERT_TRUE(bo.ok()) << bo.error().message();
  const auto bytes = (*engine)->staging(0);
  std::ranges::fill(bytes, std::byte{0x5a});
  std::vector<Piece> pieces;
  for (uint64_t at = 0; at < kSize; at += 1 << 20) pieces.push_back({bo->get(), at, 1 << 20});
  ASSERT_TRUE((*engine)->start_write(0, pieces).ok());
  ASSERT_TRUE((*engine)->wait(0).ok());
  constexpr size_t kPieces = 100;
  for (size_t at = 0; at < bytes.size(); at++) bytes[at] = pattern(at);
  pieces.clear();
  for (size_t i = 0; i < kPieces; i++) {
    const size_t place = (kPieces - 1 - i) * 4096;
    pieces.push_back({bo->get(), 2 * i * 4096, 4096, place, i % 3 == 0});
  }
  ASSERT_TRUE((*engine)->start_write(0, pieces).ok());
  ASSERT_TRUE((*engine)->wait(0).ok());
  const Piece all{bo->get(), 0, 2 * kPieces * 4096};
  ASSERT_TRUE((*engine)->start_read(0, {&all, 1}).ok());
  ASSERT_TRUE((*engine)->wait(0).ok());
  for (size_t at = 0; at < all.size; at++) {
    const size_t page = at / 4096, i = page / 2;
    std::byte expected = pattern((kPieces - 1 - i) * 4096 + at % 4096);
    if (i % 3 == 0) expected = std::byte{0};
    if (page % 2 == 1) expected = std::byte{0x5a};
    ASSERT_EQ(bytes[at], expected) << at;
  }
}

TEST_P(SdmaEngine, RefusesCopiesThatDoNotFit) {
  auto engine = make_sdma_engine(*node_.duplicate(), {1, 1 << 20});
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  auto bo = (*engine)->import(dmabuf_, kSize);
  ASSERT_TRUE(bo.ok()) << bo.error().message();
  for (const Piece& piece :
       {Piece{bo->get(), 0, 0}, Piece{bo->get(), 0, 2 << 20}, Piece{bo->get(), kSize, 4096},
        Piece{bo->get(), 0, 4096, 1 << 20}, Piece{bo->get(), 4096, kSize, 0, true}})
    EXPECT_FALSE((*engine)->start_write(0, {&piece, 1}).ok());
  const std::vector<Piece> many(kMaxPackets + 1, Piece{bo->get(), 0, 4096});
  EXPECT_FALSE((*engine)->start_read(0, many).ok());
  EXPECT_FALSE((*engine)->start_read(0, {}).ok());
}

TEST_P(SdmaEngine, RefusesADmabufThatIsTooSmall) {
  auto engine = make_sdma_engine(*node_.duplicate(), {1, 4096});
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  EXPECT_FALSE((*engine)->import(dmabuf_, kSize * 2).ok());
}

class SdmaEngineWait : public SdmaEngine {
 protected:
  static constexpr size_t kBytes = 4 << 20;

  // Returns how often a wait for a long copy sleeps; -1: an error, or it ends before the last piece
  // is copied.
  long sleeps() const {
    auto engine = make_sdma_engine(*node_.duplicate(), {1, 2 * kBytes});
    if (!engine.ok()) return -1;
    auto bo = (*engine)->import(dmabuf_, kSize);
    if (!bo.ok() || !fill(**engine, **bo)) return -1;
    std::vector<Piece> pieces(256, Piece{bo->get(), 0, kBytes});
    pieces.back().at = kBytes;
    if (!(*engine)->start_read(0, pieces).ok()) return -1;
    rusage before{}, after{};
    getrusage(RUSAGE_THREAD, &before);
    if (!(*engine)->wait(0).ok()) return -1;
    getrusage(RUSAGE_THREAD, &after);
    const auto last = (*engine)->staging(0).last(kBytes);
    for (size_t at = 0; at < kBytes; at++)
      if (last[at] != pattern(at)) return -1;
    return after.ru_nvcsw - before.ru_nvcsw;
  }

 private:
  // Fills the BO, and clears the staging memory.
  static bool fill(Engine& engine, Imported& bo) {
    const auto bytes = engine.staging(0);
    for (size_t at = 0; at < kBytes; at++) bytes[at] = pattern(at);
    const Piece piece{&bo, 0, kBytes};
    if (!engine.start_write(0, {&piece, 1}).ok() || !engine.wait(0).ok()) return false;
    std::ranges::fill(bytes, std::byte{0});
    return true;
  }
};

TEST_P(SdmaEngineWait, SleepsInTheKernelUntilTheFenceSignals) {
  const long count = sleeps();
  EXPECT_GE(count, 0);
  EXPECT_LE(count, 8);
}

// A wait in the kernel would end too early: the clock of the process is a day ahead of the
// kernel's.
TEST_P(SdmaEngineWait, PollsInATimeNamespace) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWTIME) != 0) _exit(2);
    std::ofstream("/proc/self/timens_offsets") << "monotonic 86400 0\n";
    const pid_t inside = fork();
    if (inside == 0) _exit(sleeps() >= 0 ? 0 : 1);
    int status = 0;
    _exit(waitpid(inside, &status, 0) == inside && status == 0 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Vram, SdmaEngineWait, testing::Values(AMDGPU_GEM_DOMAIN_VRAM));
INSTANTIATE_TEST_SUITE_P(Heaps, SdmaEngine,
                         testing::Values(AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT));

}  // namespace
}  // namespace amdgpu_criu::gpu
