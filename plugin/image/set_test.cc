// SPDX-License-Identifier: GPL-2.0
#include "image/chunk_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temp_dir.h"

namespace amdgpu_criu::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::TempDir;

constexpr uint64_t kObject = 7;

topology::Gpu gpu_22() {
  topology::Gpu gpu;
  gpu.gpu_id = 0x22;
  gpu.render_minor = 128;
  gpu.pci_address = "0000:03:00.0";
  gpu.properties = {{"simd_count", 32}};
  gpu.links = {{0x99, 11}};
  return gpu;
}

kernel::Bo bo_of(uint32_t gpu_id) {
  kernel::Bo bo{};
  bo.object_id = kObject;
  bo.size = 4096;
  bo.va = 0x7f0000000000;
  bo.mmap_offset = 0x100000000;
  bo.gpu_id = gpu_id;
  bo.handle = 3;
  bo.domain = AMDGPU_CRIU_DOMAIN_VRAM;
  bo.flags = AMDGPU_CRIU_BO_CONTENTS;
  return bo;
}

Process sample_process(const DumpId& id) {
  Process process;
  process.dump_id = id;
  process.pid = 41;
  process.comm = "job";
  process.blob = {{std::byte{1}, std::byte{2}, std::byte{3}}};
  process.devices = {{0x11, 0x22, true, gpu_22()}};
  process.bos = {bo_of(0x11)};
  process.vmas = {{0x1000, 0x2000, 0x100000000, false, 0x22}};
  process.num_queues = 2;
  process.opened = 7;
  return process;
}

// The file that the process's VM belongs to.
Render sample_render(const DumpId& id) {
  Render render;
  render.dump_id = id;
  render.pid = 41;
  render.comm = "job";
  render.holders = {41, 42};
  render.gpu = gpu_22();
  render.bos = {bo_of(0x22)};
  render.blob = {std::byte{9}};
  render.imports = {{{bo_of(0x22), {std::byte{4}}}, gpu_22()}};
  render.vm = VmId{0, 0x11};
  return render;
}

class ImageSet : public testing::Test {
 protected:
  void SetUp() override {
    write_process(sample_process(id_));
    write_render(sample_render(id_));
    write_file({id_, 0xa, 0, KfdFile{0}});
    write_file({id_, 0xb, O_NONBLOCK, RenderFile{0}});
    write_file({id_, 0xc, 0, Exported{{bo_of(0x22), {std::byte{4}}}, gpu_22()}});
    write_contents(id_);
  }
  void write_render(const Render& render) {
    ASSERT_TRUE(write_metadata_file(dir_.fd(), render_file_name(render.index), Kind::kRender,
                                    encode(render))
                    .ok());
  }
  void write_process(const Process& process) {
    ASSERT_TRUE(write_metadata_file(dir_.fd(), process_file_name(process.index), Kind::kProcess,
                                    encode(process))
                    .ok());
  }
  void write_file(const File& file) {
    ASSERT_TRUE(
        write_metadata_file(dir_.fd(), file_file_name(file.id), Kind::kFile, encode(file)).ok());
  }
  void write_contents(const DumpId& id) {
    auto writer = std::move(*ContentsWriter::create(dir_.fd(), contents_file_name(0, 0x22)));
    Object object{kObject, 4096, {}, {}};
    for (int i = 0; i < 2; i++) {
      const std::vector<std::byte> bytes(2048, static_cast<std::byte>(i + 1));
      object.chunks.push_back(
          Chunk{.offset = *writer.append(bytes), .size = 2048, .sum = checksum(bytes)});
    }
    ASSERT_TRUE(writer.finish(encode(Contents{id, 0, gpu_22(), {object}, {}})).ok());
  }
  // Makes all checks of a restore and of `verify`; returns the error's text, or "".
  std::string problem() {
    auto set = Set::load(dir_.fd());
    if (!set.ok()) return set.error().message();
    for (const auto& file : set->contents()) {
      const auto files = ChunkFiles::open(dir_.fd(), file);
      if (!files.ok()) return files.error().message();
      for (const Object& object : file.contents.objects)
        if (const Status status = files->verify(object); !status.ok())
          return status.error().message();
    }
    return "";
  }

  // Of all files.
  void set_format(uint32_t format) {
    for (const std::string& name : dir_.names()) {
      std::string bytes = dir_.read(name);
      Header header;
      memcpy(&header, bytes.data(), sizeof(header));
      header.format = format;
      header.sum =
          short_checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, sum)));
      memcpy(bytes.data(), &header, sizeof(header));
      dir_.write(name, bytes);
    }
  }

  TempDir dir_;
  DumpId id_ = new_dump_id();
};

// Values that b3sum(1) prints, too.
TEST(StrongHash, IsBlake3) {
  auto hex = [](const std::string& text) {
    std::string result;
    for (const std::byte byte : strong_hash(std::as_bytes(std::span(text))))
      result += formatted("{:02x}", static_cast<unsigned>(byte));
    return result;
  };
  EXPECT_EQ(hex(""), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  EXPECT_EQ(hex("abc"), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}

// What an image with this index is refused for; "": it is read.
std::string problem_of(const Object& object, size_t left_out = 0) {
  TempDir dir;
  const std::string name = contents_file_name(0, 0x22);
  auto writer = std::move(*ContentsWriter::create(dir.fd(), name));
  EXPECT_TRUE(writer.append(std::vector<std::byte>(4096)).ok());
  auto metadata = encode(Contents{new_dump_id(), 0, gpu_22(), {object}, {{1, name, {}}}});
  metadata.resize(metadata.size() - left_out);
  EXPECT_TRUE(writer.finish(metadata).ok());
  const auto files = load_contents(dir.fd());
  return files.ok() ? "" : files.error().message();
}

TEST(Contents, EachMistakeInTheIndexIsRefused) {
  using pipeline::Encoding;
  const Chunk good{.offset = kDataStart, .size = 4096};
  const auto with = [&](const auto& change) {
    Chunk chunk = good;
    change(chunk);
    return problem_of({kObject, 4096, {chunk}, {}});
  };
  EXPECT_EQ(problem_of({kObject, 4096, {good}, {}}), "");
  EXPECT_EQ(problem_of({kObject, 4096, {good}, {Hash{}}}), "");
  EXPECT_THAT(with([](Chunk& it) { it.encoding = static_cast<Encoding>(9); }),
              HasSubstr("encoding 9, which is newer"));
  EXPECT_THAT(with([](Chunk& it) { it.size = 0; }), HasSubstr("bad size"));
  EXPECT_THAT(with([](Chunk& it) { it.size = kMaxChunk + 1; }), HasSubstr("bad size"));
  EXPECT_THAT(with([](Chunk& it) { it.encoding = Encoding::kZeros; }),
              HasSubstr("a chunk of zeros has a place"));
  EXPECT_THAT(with([](Chunk& it) { it.encoding = Encoding::kLz4; }), HasSubstr("stored size"));
  EXPECT_THAT(with([](Chunk& it) { it.source = 2; }), HasSubstr("a file that is not named"));
  EXPECT_THAT(with([](Chunk& it) { it.offset = kDataStart + 1; }), HasSubstr("wrong offset"));
  EXPECT_THAT(with([](Chunk& it) { it.size = 8192; }), HasSubstr("wrong offset"));
  EXPECT_THAT(with([](Chunk& it) { it.source = 1; }), HasSubstr("data that its index lacks"));
  EXPECT_THAT(problem_of({kObject, 8192, {good}, {}}), HasSubstr("do not cover it"));
  EXPECT_THAT(problem_of({kObject, 4096, {good}, {}}, 1), HasSubstr("index is incomplete"));
  EXPECT_THAT(problem_of({kObject, 4096, {good}, {Hash{}, Hash{}}}),
              HasSubstr("chunks of no object"));
}

TEST_F(ImageSet, ReadsBackWhatWasWritten) {
  auto set = Set::load(dir_.fd());
  ASSERT_TRUE(set.ok()) << set.error().message();
  const Process& process = set->processes().at(0);
  const Process expected = sample_process(id_);
  EXPECT_EQ(process.pid, 41u);
  EXPECT_EQ(process.comm, "job");
  EXPECT_EQ(process.blob, expected.blob);
  EXPECT_EQ(process.num_queues, 2u);
  EXPECT_EQ(process.opened, 7u);
  ASSERT_EQ(process.devices.size(), 1u);
  EXPECT_EQ(process.devices[0].actual_gpu_id, 0x22u);
  EXPECT_TRUE(process.devices[0].has_vm);
  EXPECT_EQ(process.devices[0].gpu.properties, expected.devices[0].gpu.properties);
  EXPECT_EQ(process.devices[0].gpu.links, expected.devices[0].gpu.links);
  EXPECT_EQ(process.devices[0].gpu.pci_address, "0000:03:00.0");
  ASSERT_EQ(process.bos.size(), 1u);
  EXPECT_EQ(memcmp(&process.bos[0], &expected.bos[0], sizeof(kernel::Bo)), 0);
  ASSERT_EQ(process.vmas.size(), 1u);
  EXPECT_EQ(process.vmas[0].end, 0x2000u);
  EXPECT_EQ(std::get<KfdFile>(set->files().at(0xa).what).process, 0u);
  EXPECT_EQ(std::get<RenderFile>(set->files().at(0xb).what).render, 0u);
  EXPECT_EQ(set->files().at(0xb).status_flags, static_cast<uint32_t>(O_NONBLOCK));
  const Render& render = set->renders().at(0);
  EXPECT_EQ(render.holders, (std::vector<uint32_t>{41, 42}));
  EXPECT_EQ(render.vm, (VmId{0, 0x11}));
  EXPECT_EQ(render.blob, sample_render(id_).blob);
  EXPECT_EQ(render.gpu.properties, gpu_22().properties);
  ASSERT_EQ(render.bos.size(), 1u);
  EXPECT_EQ(render.bos[0].object_id, kObject);
  ASSERT_EQ(render.imports.size(), 1u);
  const Exported& exported = std::get<Exported>(set->files().at(0xc).what);
  EXPECT_EQ(exported.state.blob, std::vector<std::byte>{std::byte{4}});
  const kernel::Bo bo = bo_of(0x22);
  EXPECT_EQ(memcmp(&exported.state.bo, &bo, sizeof(bo)), 0);
  EXPECT_EQ(problem(), "");
}

// KFD gives each process that opens it all GPUs.
TEST_F(ImageSet, AGpuThatNoProcessUsesIsNotNeeded) {
  topology::Gpu other = gpu_22();
  other.gpu_id = 0x33;
  Process process = sample_process(id_);
  process.devices.push_back({0x12, 0x33, false, other});
  const auto used = [&] {
    write_process(process);
    const auto set = std::move(*Set::load(dir_.fd()));
    EXPECT_EQ(set.gpus().size(), 2u);
    return set.used_gpus();
  };
  EXPECT_THAT(used(), ElementsAre(0x22));
  process.devices[1].has_vm = true;
  EXPECT_THAT(used(), ElementsAre(0x22, 0x33));
  process.devices[1].has_vm = false;
  process.vmas.push_back(
      {0x3000, 0x4000, kernel::with_kfd_mapping_gpu(3ull << 62, 0x12), true, 0x12});
  EXPECT_THAT(used(), ElementsAre(0x22, 0x33)) << "its registers are mapped";
  process.vmas.pop_back();
  process.bos.push_back(bo_of(0x12));
  EXPECT_THAT(used(), ElementsAre(0x22, 0x33)) << "it has a BO";
  process.bos.pop_back();
  Render render = sample_render(id_);
  render.index = 1;
  render.vm.reset();
  render.gpu = other;
  write_render(render);
  EXPECT_THAT(used(), ElementsAre(0x22, 0x33)) << "its render node is open";
}

TEST_F(ImageSet, EveryFlippedByteIsRefusedWithTheFilesName) {
  for (const std::string& name : dir_.names()) {
    const std::string whole = dir_.read(name);
    const Fd file = std::move(*Fd::open(dir_.file(name).c_str(), O_RDWR));
    for (size_t at = 0; at < whole.size(); at++) {
      const char flipped = whole[at] ^ (at % 2 ? 0x01 : 0xff);
      ASSERT_EQ(pwrite(file.get(), &flipped, 1, at), 1);
      ASSERT_THAT(problem(), StartsWith("image " + name))
          << "byte " << at << " of " << whole.size();
      ASSERT_EQ(pwrite(file.get(), &whole[at], 1, at), 1);
    }
  }
  EXPECT_EQ(problem(), "");
}

TEST_F(ImageSet, EveryTruncationIsRefusedWithTheFilesName) {
  for (const std::string& name : dir_.names()) {
    const std::string whole = dir_.read(name);
    dir_.write(name, whole + '\0');
    ASSERT_THAT(problem(), StartsWith("image " + name)) << "one byte too many";
    for (size_t length = whole.size(); length-- > 0;) {
      std::filesystem::resize_file(dir_.file(name), length);
      ASSERT_THAT(problem(), StartsWith("image " + name)) << length << " of " << whole.size();
    }
    dir_.write(name, whole);
  }
}

TEST_F(ImageSet, MissingFilesAreNamed) {
  for (const std::string& name :
       {process_file_name(0), render_file_name(0), contents_file_name(0, 0x22)}) {
    const std::string whole = dir_.read(name);
    std::filesystem::remove(dir_.file(name));
    EXPECT_THAT(problem(), HasSubstr(name + " is missing"));
    dir_.write(name, whole);
  }
}

TEST_F(ImageSet, AFileOfAnotherDumpIsRefused) {
  write_contents(new_dump_id());
  EXPECT_THAT(problem(), HasSubstr("another dump"));
}

TEST_F(ImageSet, AnUnknownFormatIsRefusedByNumber) {
  set_format(kEncryptedFormat + 1);
  EXPECT_THAT(problem(), HasSubstr("is of format 5, which a later version of the plugin wrote"));
}

TEST_F(ImageSet, AFormatWithAnotherIndexIsRefusedByNumber) {
  set_format(2);
  EXPECT_THAT(problem(), HasSubstr("is of format 2, which an earlier version of the plugin wrote; "
                                   "this one reads formats 3 and 4"));
}

TEST_F(ImageSet, AFileExchangedAfterItWasVerifiedIsRefused) {
  auto set = std::move(*Set::load(dir_.fd()));
  EXPECT_TRUE(set.contents()[0].open(dir_.fd()).ok());
  write_contents(new_dump_id());
  EXPECT_THAT(set.contents()[0].open(dir_.fd()).error().message(),
              HasSubstr("changed during the restore"));
}

TEST_F(ImageSet, ARenamedFileIsRefused) {
  std::filesystem::rename(dir_.file(file_file_name(0xa)), dir_.file(file_file_name(0xc)));
  EXPECT_THAT(problem(), HasSubstr("should be called"));
}

TEST_F(ImageSet, ABoOnAnUndescribedGpuIsRefused) {
  Process process = sample_process(id_);
  process.bos[0].gpu_id = 0x99;
  write_process(process);
  EXPECT_THAT(problem(), HasSubstr("GPU that is not described"));
}

TEST_F(ImageSet, ASizeThatDiffersFromTheContentsIsRefused) {
  Process process = sample_process(id_);
  process.bos[0].object_id = 8;
  write_process(process);
  EXPECT_THAT(problem(), HasSubstr("lacks the contents of object 8"));
  process.bos[0].object_id = kObject;
  process.bos[0].size = 8192;
  write_process(process);
  EXPECT_THAT(problem(), HasSubstr("size is not that of object 7 elsewhere"));
}

TEST_F(ImageSet, AMappingOfNoBoIsRefused) {
  Process process = sample_process(id_);
  process.vmas[0].offset += 0x1000;
  write_process(process);
  EXPECT_THAT(problem(), HasSubstr("not memory of a BO"));
}

TEST_F(ImageSet, AFileThatTwoFilesClaimIsRefused) {
  Render second = sample_render(id_);
  second.index = 1;
  write_render(second);
  EXPECT_THAT(problem(), HasSubstr("second file of one VM"));
}

TEST_F(ImageSet, AVmThatItsProcessLacksIsRefused) {
  Render render = sample_render(id_);
  render.vm = VmId{0, 0x99};
  write_render(render);
  EXPECT_THAT(problem(), HasSubstr("GPU that its process does not use"));
}

TEST_F(ImageSet, OtherFilesInTheDirectoryAreNotOurs) {
  dir_.write("amdgpu-kfd-1.img", "of CRIU's own plugin");
  dir_.write("core-41.img", "of CRIU");
  EXPECT_EQ(problem(), "");
}

TEST(ContentsWriter, LeavesNothingUnlessFinished) {
  TempDir dir;
  {
    auto writer = std::move(*ContentsWriter::create(dir.fd(), "amdgpu-contents-0-1.img"));
    ASSERT_TRUE(writer.append(std::vector<std::byte>(4096)).ok());
  }
  EXPECT_TRUE(dir.names().empty());
}

TEST(ImageWriter, RefusesMetadataLargerThanReadersAccept) {
  TempDir dir;
  const auto memory = std::move(
      *Mapping::map(kMaxMetadata + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE));
  const Status status = write_metadata_file(dir.fd(), process_file_name(0), Kind::kProcess,
                                            Bytes(memory.data(), memory.size()));
  EXPECT_EQ(status.error().code(), EFBIG);
  EXPECT_TRUE(dir.names().empty());
}

TEST(ContentsWriter, ErrorsNameTheFile) {
  EXPECT_THAT(ContentsWriter::create(-1, "amdgpu-contents-0-1.img").error().message(),
              HasSubstr("amdgpu-contents-0-1.img"));
}

}  // namespace
}  // namespace amdgpu_criu::image
