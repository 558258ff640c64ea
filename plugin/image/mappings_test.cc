// SPDX-License-Identifier: GPL-2.0
#include "image/mappings.h"

#include <gmock/gmock.h>

#include "kernel/kernel_api.h"

namespace amdgpu_criu::image {
namespace {

using testing::HasSubstr;

constexpr uint64_t kDoorbells = 3ull << 62;
constexpr uint64_t kEvents = 2ull << 62;
constexpr uint64_t kMmio = 0;
constexpr uint64_t kSlice = kernel::kDoorbellSlice;

uint64_t at(uint64_t type, uint64_t gpu_id, uint64_t inside = 0) {
  return type | gpu_id << 46 | inside;
}

// GPU 0x11 of the process is the machine's 0x22, and its 0x22 is the machine's 0x11.
Process swapped_process() {
  Process process;
  process.pid = 41;
  process.comm = "job";
  process.blob.emplace();
  topology::Gpu gpu;
  gpu.properties["gfx_target_version"] = 90010;
  process.devices = {{0x11, 0x22, true, gpu}, {0x22, 0x11, true, gpu}};
  kernel::Bo bo{};
  bo.object_id = 1;
  bo.size = 0x4000;
  bo.mmap_offset = 0x100000000;
  bo.gpu_id = 0x11;
  process.bos = {bo};
  return process;
}

class Mappings : public testing::Test {
 protected:
  Mappings() { index_.add(process_); }
  Vma kfd(uint64_t offset, uint64_t size, bool by_machine = false) const {
    return {kStart, kStart + size, offset, true, gpu_of_kfd_offset(process_, offset, by_machine)};
  }
  static Vma render(uint64_t inside, uint64_t size) {
    return {kStart, kStart + size, 0x100000000 + inside, false, 0x22};
  }
  std::string problem(const Vma& vma, bool parts) const {
    const Status status = check_mapping(index_, process_, vma, parts);
    return status.ok() ? "" : status.error().message();
  }

  static constexpr uint64_t kStart = 0x7f0000000000;
  Process process_ = swapped_process();
  MappingIndex index_;
};

TEST_F(Mappings, AnOffsetContainsTheGpuNumberOfItsKernel) {
  EXPECT_EQ(gpu_of_kfd_offset(process_, at(kDoorbells, 0x11), false), 0x11u);
  EXPECT_EQ(gpu_of_kfd_offset(process_, at(kDoorbells, 0x11), true), 0x22u);
  EXPECT_EQ(gpu_of_kfd_offset(process_, at(kDoorbells, 0x33), false), 0u);
  EXPECT_EQ(gpu_of_kfd_offset(process_, kEvents, false), 0u);
}

TEST_F(Mappings, OffsetsStayTheSameIfTheKernelUsesTheProcesssNumbers) {
  for (const uint64_t type : {kDoorbells, kMmio}) {
    const Vma vma = kfd(at(type, 0x11), type == kMmio ? 4096 : kSlice);
    EXPECT_EQ(problem(vma, true), "");
    EXPECT_EQ(*restored_kfd_offset(process_, vma, nullptr), at(type, 0x11));
  }
}

TEST_F(Mappings, OffsetsNameTheTargetGpuIfTheKernelUsesTheMachinesNumbers) {
  const topology::Assignment targets = {{0x11, 0x55}, {0x22, 0x66}};
  const Vma vma = kfd(at(kDoorbells, 0x11), kSlice);
  EXPECT_EQ(*restored_kfd_offset(process_, vma, &targets), at(kDoorbells, 0x66));
  // The offset comes from such a kernel too.
  const Vma stock = kfd(at(kDoorbells, 0x11), kSlice, true);
  EXPECT_EQ(*restored_kfd_offset(process_, stock, &targets), at(kDoorbells, 0x55));
  EXPECT_EQ(*restored_kfd_offset(process_, stock, nullptr), at(kDoorbells, 0x22));
}

TEST_F(Mappings, TheEventPageIsOfNoGpu) {
  const topology::Assignment targets;
  const Vma vma = kfd(kEvents, 0x8000);
  EXPECT_EQ(problem(vma, false), "");
  EXPECT_EQ(*restored_kfd_offset(process_, vma, &targets), kEvents);
}

TEST_F(Mappings, AGpuThatTheProcessDoesNotUseIsRefused) {
  const Vma vma = kfd(at(kDoorbells, 0x33), kSlice);
  EXPECT_THAT(problem(vma, true), HasSubstr("not memory of a BO"));
  EXPECT_EQ(restored_kfd_offset(process_, vma, nullptr).error().code(), ENODEV);
}

TEST_F(Mappings, APartIsRefusedByNameIfTheKernelCannotMapIt) {
  const Vma parts[] = {render(0x1000, 0x1000), kfd(at(kDoorbells, 0x11), kSlice / 2),
                       kfd(at(kDoorbells, 0x11, kSlice / 2), kSlice / 2),
                       kfd(kEvents | 0x1000, 0x1000)};
  for (const Vma& vma : parts) {
    EXPECT_EQ(problem(vma, true), "");
    EXPECT_THAT(problem(vma, false), HasSubstr("it was split by munmap()")) << vma.offset;
  }
}

TEST_F(Mappings, TheBeginningOfABoIsNoPart) {
  EXPECT_EQ(problem(render(0, 0x1000), false), "");
  EXPECT_EQ(problem(render(0, 0x4000), false), "");
}

TEST_F(Mappings, AMappingBeyondABoIsRefused) {
  EXPECT_THAT(problem(render(0x3000, 0x2000), true), HasSubstr("not memory of a BO"));
}

TEST_F(Mappings, MemoryOfNoBoIsFreedIfTheProcessCannotAccessIt) {
  Render file;
  file.gpu.gpu_id = 0x22;
  index_.add(file);
  Vma vma = render(0x100000, 0x1000);
  EXPECT_FALSE(is_freed(index_, process_, vma));
  EXPECT_THAT(problem(vma, true), HasSubstr("not memory of a BO"));
  vma.inaccessible = true;
  EXPECT_TRUE(is_freed(index_, process_, vma));
  EXPECT_EQ(problem(vma, true), "");
  Vma of_bo = render(0, 0x1000);
  of_bo.inaccessible = true;
  EXPECT_FALSE(is_freed(index_, process_, of_bo));
}

// A file that was closed has the memory, or had it.
TEST_F(Mappings, MemoryOfNoFileIsNotFreed) {
  Render file_of_another_gpu;
  file_of_another_gpu.gpu.gpu_id = 0x11;
  index_.add(file_of_another_gpu);
  Vma vma = render(0x100000, 0x1000);
  vma.inaccessible = true;
  EXPECT_FALSE(is_freed(index_, process_, vma));
  EXPECT_THAT(problem(vma, true), HasSubstr("not memory of a BO"));
}

TEST_F(Mappings, NoMappingOfKfdIsFreed) {
  Vma vma = kfd(at(kDoorbells, 0x33), kSlice);
  vma.inaccessible = true;
  EXPECT_THAT(problem(vma, true), HasSubstr("not memory of a BO"));
}

}  // namespace
}  // namespace amdgpu_criu::image
