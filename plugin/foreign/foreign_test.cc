// SPDX-License-Identifier: GPL-2.0
// Restores images of CRIU's own amdgpu plugin through the hooks: complete, truncated and damaged
// ones.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <deque>
#include <thread>

#include "criu_amdgpu.pb-c.h"
#include "foreign/images.h"
#include "tests/criu_program.h"
#include "tests/fake_stock.h"
#include "tests/patience.h"

namespace amdgpu_criu::foreign {
namespace {

using testing::HasSubstr;
using testing_support::fake_stock;
using testing_support::kGpu;
using testing_support::program;

constexpr int kKfdId = 33;
constexpr int kRenderId = 34;
constexpr uint64_t kOffset = 0x10000;
constexpr uint64_t kVa = 0x7f0000000000;
constexpr char kKfdName[] = "amdgpu-kfd-33.img";
constexpr char kRenderName[] = "amdgpu-renderD-34.img";
constexpr char kPagesName[] = "amdgpu-pages-33-0011.img";

std::string framed(const std::string& bytes) {
  const uint64_t size = bytes.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + bytes;
}

// One message, with room for its arrays.
struct Message {
  Message() {
    gpu.has_node_id = gpu.has_gpu_id = gpu.has_simd_count = gpu.has_render_minor = 1;
    gpu.node_id = 1;
    gpu.gpu_id = kGpu;
    gpu.simd_count = 32;
    gpu.render_minor = 128;
    cpu.has_node_id = cpu.has_gpu_id = 1;
    kfd.has_pid = kfd.has_num_gpus = kfd.has_num_cpus = kfd.has_num_bos = kfd.has_num_objects = 1;
    kfd.pid = getpid();
    kfd.num_gpus = kfd.num_cpus = 1;
    nodes = {&cpu, &gpu};
    kfd.n_node = 2;
    kfd.node = nodes.data();
    kfd.num_objects = 2;
  }
  void add_bo(uint64_t va, uint64_t size, uint64_t offset, uint32_t flags) {
    auto& bo = bos.emplace_back() = CRIU_AMDGPU__PB__BO__INIT;
    bo.has_va = bo.has_size = bo.has_mmap_offset = bo.has_alloc_flags = bo.has_gpu_id = 1;
    bo.va = va;
    bo.size = size;
    bo.mmap_offset = offset;
    bo.alloc_flags = flags;
    bo.gpu_id = kGpu;
    bo_pointers.push_back(&bo);
    kfd.n_bo = kfd.num_bos = bo_pointers.size();
    kfd.bo = bo_pointers.data();
  }
  std::string packed() {
    kfd.has_private_data = 1;
    kfd.private_data = {data.size(), reinterpret_cast<uint8_t*>(data.data())};
    std::string bytes(criu_amdgpu__pb__kfd__get_packed_size(&kfd), 0);
    criu_amdgpu__pb__kfd__pack(&kfd, reinterpret_cast<uint8_t*>(bytes.data()));
    return framed(bytes);
  }

  CriuAmdgpu__Pb__Node cpu = CRIU_AMDGPU__PB__NODE__INIT;
  CriuAmdgpu__Pb__Node gpu = CRIU_AMDGPU__PB__NODE__INIT;
  std::vector<CriuAmdgpu__Pb__Node*> nodes;
  std::deque<CriuAmdgpu__Pb__Bo> bos;
  std::vector<CriuAmdgpu__Pb__Bo*> bo_pointers;
  std::vector<std::byte> data = testing_support::make_private_data(1, 3, {{.type = 1}}, 1, 0);
  CriuAmdgpu__Pb__Kfd kfd = CRIU_AMDGPU__PB__KFD__INIT;
};

class Foreign : public testing_support::HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    make_stock_ = testing_support::make_fake_stock;
    program.in_inventory = false;
    program.foreign_in_inventory = true;
    fake_stock = {};
    fake_stock.add_bo(kVa, 0x5000, 0, kGpu, stock::kVram);
    fake_stock.add_bo(kVa + 0x200000, 0x3000, 0, kGpu, stock::kGtt);
    message_.add_bo(kVa, 0x5000, kOffset, stock::kVram);
    message_.add_bo(kVa + 0x100000, 0x2000, 0x345000, stock::kUserptr);
    message_.add_bo(kVa + 0x200000, 0x3000, 0x200000, stock::kGtt | 0x80000000);
    contents_ = fake_stock.contents(kVa) + fake_stock.contents(kVa + 0x200000);
    write();
  }
  void write() {
    images_.write(kKfdName, message_.packed());
    images_.write(kPagesName, framed(contents_));
    images_.write(kRenderName, framed(std::string("\x08\x11", 2)));
    fake_stock.clear_memory();
  }
  // The error of reading the images; "": none.
  std::string problem() {
    const auto images = read(images_.fd());
    if (!images.ok()) return images.error().message();
    const auto set = make_set(*images);
    return set.ok() ? "" : set.error().message();
  }
  std::string problem_of_message() {
    write();
    return problem();
  }
  std::string memory() { return fake_stock.contents(kVa) + fake_stock.contents(kVa + 0x200000); }

  Message message_;
  std::string contents_;
};

TEST_F(Foreign, RestoresEveryByte) {
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  EXPECT_THAT(log(), HasSubstr("damage may not be detected"));
  const Fd render(restore_file(kRenderId));
  ASSERT_TRUE(render.valid()) << log();
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid()) << log();
  EXPECT_EQ(memory(), contents_);
  ASSERT_EQ(fake_stock.restored_devices.size(), 1u);
  EXPECT_EQ(fake_stock.restored_devices[0].gpu_id, kGpu);
  EXPECT_EQ(fake_stock.restored_data, message_.data);
  const Mapped mapped = update_vma(reinterpret_cast<void*>(kVa));
  EXPECT_EQ(mapped.result, 1);
  EXPECT_EQ(mapped.offset, kOffset + 0x500000000);
  EXPECT_TRUE(*host::same_file(mapped.file.get(), render.get()));
  EXPECT_EQ(resume(getpid()), 0) << log();
  EXPECT_EQ(fake_stock.resumed, getpid());
  EXPECT_EQ(state_.calls, (std::vector<std::string>{"QUERY"}));
  end(criu::kStageRestore, 0);
}

TEST_F(Foreign, IsLeftToOthersUnlessTheInventoryAsks) {
  program.foreign_in_inventory = false;
  ASSERT_EQ(start(criu::kStageRestore), 0);
  EXPECT_EQ(restore_file(kKfdId), -ENOTSUP);
  end(criu::kStageRestore, 0);
}

TEST_F(Foreign, MissingImagesAreNamed) {
  for (const std::string& name : images_.names()) std::filesystem::remove(images_.file(name));
  EXPECT_EQ(start(criu::kStageRestore), -ENOENT);
  EXPECT_THAT(log(), HasSubstr("the image directory has none of its images (amdgpu-*.img)"));
}

// An open() of a FIFO waits for its other end.
TEST_F(Foreign, OtherKindsOfFilesAreRefusedAtOnce) {
  for (const char* name : {kKfdName, kPagesName}) {
    const std::string path = images_.file(name), bytes = images_.read(name);
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const std::jthread other_end([path](const std::stop_token& stop) {
      for (int i = 0; i < 3000 && !stop.stop_requested(); i++) usleep(10'000);
      (void)Fd::open(path.c_str(), O_RDWR | O_NONBLOCK);
    });
    const auto before = std::chrono::steady_clock::now();
    EXPECT_THAT(problem(), HasSubstr(std::string(name) +
                                     " of CRIU's own amdgpu plugin: is not a regular file"));
    EXPECT_LT(std::chrono::steady_clock::now() - before,
              testing_support::patient(std::chrono::seconds(3)));
    std::filesystem::remove(path);
    images_.write(name, bytes);
  }
}

TEST_F(Foreign, MovesToAnotherGpu) {
  write_topology(0x77, 32);
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid()) << log();
  EXPECT_EQ(fake_stock.restored_devices[0].actual_gpu_id, 0x77u);
  EXPECT_EQ(memory(), contents_);
  end(criu::kStageRestore, 0);
}

TEST_F(Foreign, AGpuThatDoesNotFitIsRefused) {
  write_topology(0x77, 64);
  EXPECT_EQ(start(criu::kStageRestore), -ENODEV);
  EXPECT_THAT(log(), HasSubstr("simd_count was 0x20, is 0x40"));
}

TEST_F(Foreign, AFailedCopyFailsTheRestore) {
  ASSERT_EQ(start(criu::kStageRestore), 0) << log();
  testing_support::fail_copies_after = 1;
  EXPECT_EQ(restore_file(kKfdId), -EIO);
  end(criu::kStageRestore, -1);
}

TEST_F(Foreign, EveryTruncationIsRefusedWithTheFilesName) {
  for (const char* name : {kKfdName, kRenderName, kPagesName}) {
    const std::string whole = images_.read(name);
    const size_t step = whole.size() > 10000 ? 997 : 1;
    for (size_t length = 0; length < whole.size(); length += step) {
      images_.write(name, whole.substr(0, length));
      ASSERT_THAT(problem(), HasSubstr(name)) << length;
      // Also if the length at the beginning of the file is correct.
      if (length < 8) continue;
      images_.write(name, framed(whole.substr(8, length - 8)));
      ASSERT_THAT(problem(), HasSubstr(name)) << length;
    }
    images_.write(name, whole);
  }
  EXPECT_EQ(problem(), "");
}

// There are no checksums, so the test only requires no crash and no access beyond the end of a
// file. It needs a restore for each byte, so it changes a part of the bytes; the step reaches tags,
// lengths and values.
TEST_F(Foreign, FlippedBytesOfMetadataAreRefusedOrHarmless) {
  constexpr std::array<unsigned char, 3> kFlips = {0x01, 0x80, 0xff};
  const std::string whole = images_.read(kKfdName);
  for (size_t at = 0; at < whole.size(); at += 29) {
    std::string flipped = whole;
    flipped[at] ^= kFlips[at % kFlips.size()];
    images_.write(kKfdName, flipped);
    if (start(criu::kStageRestore) == 0) {
      const Fd kfd(restore_file(kKfdId));
      end(criu::kStageRestore, 0);
    }
    testing_support::make_fd_store();
    program.log.clear();
  }
}

TEST_F(Foreign, LeftoversOfAnOlderDumpAreIgnored) {
  images_.write(kKfdName, images_.read(kKfdName) + "leftover");
  images_.write(kPagesName, images_.read(kPagesName) + "leftover");
  EXPECT_EQ(problem(), "");
}

TEST_F(Foreign, ContentsOfAnotherSizeThanTheBosAreRefused) {
  contents_.resize(contents_.size() + 4096);
  EXPECT_THAT(problem_of_message(), HasSubstr("holds 36864 bytes, but the BOs"));
  contents_.resize(4096);
  EXPECT_THAT(problem_of_message(), HasSubstr(kPagesName));
}

TEST_F(Foreign, MissingContentsAreNamed) {
  std::filesystem::remove(images_.file(kPagesName));
  EXPECT_THAT(problem(), HasSubstr(kPagesName));
  EXPECT_THAT(problem(), HasSubstr(kKfdName));
}

TEST_F(Foreign, ImpossibleBosAreRefused) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{0xfff}, uint64_t{1} << 60}) {
    message_.bos[0].size = size;
    EXPECT_THAT(problem_of_message(), HasSubstr("no sensible size")) << size;
  }
  message_.bos[0].size = 0x5000;
  message_.bos[0].va = UINT64_MAX & ~0xfffull;
  EXPECT_THAT(problem_of_message(), HasSubstr("no sensible size or address"));
  message_.bos[0].va = kVa;
  message_.bos[0].gpu_id = 0x99;
  EXPECT_THAT(problem_of_message(), HasSubstr("GPU that is not described"));
}

TEST_F(Foreign, NumbersThatDoNotFitAreRefused) {
  message_.kfd.num_bos = 7;
  EXPECT_THAT(problem_of_message(), HasSubstr("other numbers"));
  message_.kfd.num_bos = 3;
  message_.kfd.num_gpus = 2;
  EXPECT_THAT(problem_of_message(), HasSubstr("other numbers"));
  message_.kfd.num_cpus = 0;
  EXPECT_THAT(problem_of_message(), HasSubstr("another number of GPUs"));
  message_.kfd.num_gpus = message_.kfd.num_cpus = 1;
  message_.kfd.num_objects = 3;
  EXPECT_THAT(problem_of_message(), HasSubstr("private data"));
}

TEST_F(Foreign, StateThatWasNotSavedIsNamed) {
  message_.data =
      testing_support::make_private_data(1, 3, {{.stack_size = 0x1000, .stack_used = 32}}, 1, 0);
  EXPECT_THAT(problem_of_message(), HasSubstr("stopped in the middle of its work"));
  EXPECT_THAT(problem_of_message(), HasSubstr(kKfdName));
}

TEST_F(Foreign, StateThatCannotBeRestoredIsRefusedByName) {
  images_.write("amdgpu-kfd-35.img", images_.read(kKfdName));
  images_.write("amdgpu-pages-35-0011.img", images_.read(kPagesName));
  EXPECT_THAT(problem(), HasSubstr("2 open files of /dev/kfd"));
  std::filesystem::remove(images_.file("amdgpu-kfd-35.img"));
  std::filesystem::remove(images_.file("amdgpu-pages-35-0011.img"));
  images_.write(kRenderName, framed(std::string("\x08\x11\x20\x02", 4)));
  EXPECT_THAT(problem(), HasSubstr("2 buffer objects of a render node"));
  images_.write(kRenderName, framed(std::string("\x08\x12", 2)));
  EXPECT_THAT(problem(), HasSubstr("GPU that amdgpu-kfd-33.img does not describe"));
  images_.write(kRenderName, framed(std::string("\x08\x11", 2)));
  images_.write("amdgpu-dmabuf_7.img", framed(std::string("\x08\x01", 2)));
  EXPECT_THAT(problem(), HasSubstr("amdgpu-dmabuf_7.img"));
  std::filesystem::remove(images_.file("amdgpu-dmabuf_7.img"));
  message_.kfd.has_shared_memory_size = 1;
  message_.kfd.shared_memory_size = 4096;
  EXPECT_THAT(problem_of_message(), HasSubstr("hsakmt_shared_mem"));
}

}  // namespace
}  // namespace amdgpu_criu::foreign
