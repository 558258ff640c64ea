// SPDX-License-Identifier: GPL-2.0
#include "tool/gpu_check.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "tests/contents_test.h"

namespace amdgpu_criu::tool {
namespace {

using testing::HasSubstr;
using testing_support::kChunk;
using testing_support::TempDir;

Result<Fd> allocate_memory(const Fd&, uint64_t bytes) {
  Fd memory(memfd_create("vram", MFD_CLOEXEC));
  if (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) return Error::system("ftruncate");
  return memory;
}

class CheckByGpu : public testing_support::ContentsTest {
 protected:
  void SetUp() override {
    ContentsTest::SetUp();
    testing_support::hashes_of_gpu = -1;
    add(1, kBytes, 1);
  }
  void TearDown() override {
    testing_support::hashes_of_gpu = 0;
    ContentsTest::TearDown();
  }

  void save_to(const TempDir& dir) {
    ASSERT_TRUE(save(dir.fd(), {.chunk_bytes = kChunk, .hashes = true}).ok());
  }
  void damage(const TempDir& dir) const {
    std::string bytes = dir.read(name_);
    bytes[image::kDataStart] ^= 1;
    dir.write(name_, bytes);
  }
  Result<uint64_t> compare(const TempDir& dir) {
    const auto loaded = TRY(image::load_contents(dir.fd()));
    const auto files = TRY(image::ChunkFiles::open(dir.fd(), loaded.at(0)));
    return check_.compare(files, loaded.at(0).contents, [](uint64_t) {});
  }

  static constexpr uint64_t kBytes = 3 * kChunk;
  GpuCheck check_{std::move(*Fd::open("/dev/null", O_RDWR)),
                  "GPU 0x22",
                  {testing_support::make_fake_engine, allocate_memory}};
};

TEST_F(CheckByGpu, NamesTheDamagedFileAndNotTheNextOne) {
  const TempDir first, second;
  save_to(first);
  write(1, 0, std::string(kBytes, 'x'));
  save_to(second);
  EXPECT_EQ(*compare(first), kBytes);
  damage(first);
  const auto damaged = compare(first);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code(), EBADMSG);
  EXPECT_THAT(damaged.error().message(), HasSubstr("contents of object 1 are damaged"));
  const auto next = compare(second);
  ASSERT_TRUE(next.ok()) << next.error().message();
  EXPECT_EQ(*next, kBytes);
}

}  // namespace
}  // namespace amdgpu_criu::tool
