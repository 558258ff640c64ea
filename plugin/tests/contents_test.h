// SPDX-License-Identifier: GPL-2.0
// Objects of a fake GPU that a test saves to files and fills again.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include "dump/save_contents.h"
#include "restore/fill_contents.h"
#include "tests/fakes.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::testing_support {

inline constexpr uint32_t kChunk = 64u << 10;
inline constexpr gpu::StagingSize kStaging{4, 256u << 10};

inline topology::Gpu gpu_22() {
  topology::Gpu gpu;
  gpu.gpu_id = 0x22;
  return gpu;
}

class ContentsTest : public testing::Test {
 protected:
  void SetUp() override { api_ = make_fake_api(state_); }
  void TearDown() override { fail_copies_after = -1; }

  // pattern: 0 zeros, else another seed
  void add(uint64_t id, uint64_t size, unsigned pattern) {
    kernel::Bo bo{};
    bo.object_id = id;
    bo.size = size;
    bo.flags = AMDGPU_CRIU_BO_CONTENTS;
    bos_.push_back(bo);
    add_object(state_, bo, pattern);
    if (pattern == 0) write(id, 0, std::string(size, 0));
  }
  void write(uint64_t id, uint64_t offset, const std::string& bytes) {
    ASSERT_EQ(pwrite(state_.objects.at(id).get(), bytes.data(), bytes.size(), offset),
              static_cast<ssize_t>(bytes.size()));
  }

  static std::unique_ptr<gpu::Engine> engine(gpu::StagingSize staging = kStaging) {
    return std::move(*make_fake_engine(*Fd::open("/dev/null", O_RDWR), staging));
  }
  gpu::ImportObject import_with(gpu::Engine& engine) {
    return [&](uint64_t id, uint64_t size) -> Result<std::shared_ptr<gpu::Imported>> {
      imports_++;
      return std::shared_ptr<gpu::Imported>(TRY(engine.import(state_.objects.at(id), size)));
    };
  }

  Result<dump::SaveCounts> save(const image::Directory& directory, dump::SaveOptions options,
                                pipeline::IoKind io = pipeline::IoKind::kThreads) {
    if (io != pipeline::IoKind::kInline) options.workers = &workers_;
    auto engine = this->engine();
    const auto queue = pipeline::make_io_queue(io, engine->slots());
    auto writer = TRY(image::ContentsWriter::create(directory, name_));
    (void)pipeline::set_direct(writer.fd(), true);
    auto saved =
        TRY(dump::save_contents(*engine, *queue, bos_, import_with(*engine), options, writer));
    const dump::SaveCounts counts = saved.counts;
    TRY(writer.finish(image::encode(
        image::Contents{id_, 0, gpu_22(), std::move(saved.objects), std::move(saved.sources)})));
    return counts;
  }

  Result<restore::FillCounts> fill(const image::Directory& directory,
                                   pipeline::IoKind io = pipeline::IoKind::kThreads) {
    auto loaded = TRY(image::load_contents(directory));
    auto files = TRY(image::ChunkFiles::open(directory, loaded.at(0)));
    files.use_direct();
    auto engine = this->engine(restore::staging_for(loaded.at(0).contents, kStaging));
    const auto queue = pipeline::make_io_queue(io, engine->slots());
    return restore::fill_contents(*engine, *queue, files, restore::all_of(loaded.at(0).contents),
                                  import_with(*engine),
                                  {{}, io != pipeline::IoKind::kInline ? &workers_ : nullptr});
  }

  std::map<uint64_t, std::string> all_contents() const {
    std::map<uint64_t, std::string> result;
    for (const kernel::Bo& bo : bos_) result[bo.object_id] = contents_of(state_, bo.object_id);
    return result;
  }
  // Fresh BOs are not zero.
  void spoil() {
    for (const kernel::Bo& bo : bos_) write(bo.object_id, 0, std::string(bo.size, '\x77'));
  }
  void expect_round_trip(const image::Directory& directory,
                         pipeline::IoKind io = pipeline::IoKind::kThreads) {
    const auto before = all_contents();
    spoil();
    const auto filled = fill(directory, io);
    ASSERT_TRUE(filled.ok()) << filled.error().message();
    EXPECT_EQ(all_contents(), before);
  }
  // The error of loading, verifying and filling, which must be the same.
  std::string problem(const image::Directory& directory) {
    auto verify = [&]() -> Status {
      const auto loaded = TRY(image::load_contents(directory));
      for (const auto& file : loaded) {
        const auto files = TRY(image::ChunkFiles::open(directory, file));
        for (const image::Object& object : file.contents.objects) TRY(files.verify(object));
      }
      return {};
    };
    const Status verified = verify();
    const auto filled = fill(directory);
    EXPECT_EQ(verified.ok(), filled.ok()) << (filled.ok() ? "" : filled.error().message());
    return verified.ok() ? "" : verified.error().message();
  }
  uint64_t size_of(const TempDir& dir) const { return std::filesystem::file_size(dir.file(name_)); }

  FakeState state_;
  std::unique_ptr<kernel::Api> api_;
  image::DumpId id_ = image::new_dump_id();
  std::string name_ = image::contents_file_name(0, 0x22);
  std::vector<kernel::Bo> bos_;
  size_t imports_ = 0;
  pipeline::Workers workers_{3};
};

}  // namespace amdgpu_criu::testing_support
