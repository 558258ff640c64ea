// SPDX-License-Identifier: GPL-2.0
#include "restore/verify_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contents_test.h"
#include "tests/engine_proxy.h"

namespace amdgpu_criu::restore {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::ContentsTest;
using testing_support::EngineProxy;
using testing_support::kChunk;
using testing_support::kStaging;
using testing_support::TempDir;

// Hashes only the first BO of each call, and then fails.
int error_of_hashes = 0;
class FailingHashes : public EngineProxy {
 public:
  using EngineProxy::EngineProxy;
  static Result<std::unique_ptr<gpu::Engine>> create(Fd render, gpu::StagingSize staging) {
    return std::unique_ptr<gpu::Engine>(
        new FailingHashes(TRY(testing_support::make_fake_engine(std::move(render), staging))));
  }
  Status hash(std::span<const gpu::Hashed> bos, uint32_t chunk_bytes,
              const gpu::TakeHashes& take) override {
    if (bos.empty()) return EngineProxy::hash(bos, chunk_bytes, take);
    TRY(EngineProxy::hash(bos.first(1), chunk_bytes, take));
    return Error(error_of_hashes, "the hashes cannot be had");
  }
};

class VerifyContents : public ContentsTest {
 protected:
  void SetUp() override {
    ContentsTest::SetUp();
    testing_support::hashes_of_gpu = -1;
    add(1, 5 * kChunk + 8192, 1);
    write(1, 2 * kChunk, std::string(kChunk, 0));
    for (uint64_t id = 2; id < 500; id++) add(id, 4096, id % 3);
    ASSERT_TRUE(save(dir_.fd(), {.chunk_bytes = kChunk, .hashes = true}).ok());
  }
  void TearDown() override {
    testing_support::hashes_of_gpu = 0;
    ContentsTest::TearDown();
  }
  Result<uint64_t> verify() {
    const auto loaded = TRY(image::load_contents(dir_.fd()));
    auto engine = this->engine();
    return verify_contents(*engine, all_of(loaded.at(0).contents), import_with(*engine));
  }
  Result<FillReport> fill_with(gpu::EngineFactory make_engine, const image::Directory& directory) {
    const auto queue = pipeline::make_inline_queue();
    const auto loaded = TRY(image::load_contents(directory));
    return fill_objects({*api_, make_engine, kStaging, *queue}, Fd(),
                        TRY(Fd::open("/dev/null", O_RDWR)), directory, loaded.at(0),
                        all_of(loaded.at(0).contents));
  }
  uint64_t all_bytes() const { return 5 * kChunk + 8192 + 498 * 4096; }

  TempDir dir_;
};

TEST_F(VerifyContents, WhatWasFilledIsRight) {
  spoil();
  ASSERT_TRUE(fill(dir_.fd()).ok());
  const auto verified = verify();
  ASSERT_TRUE(verified.ok()) << verified.error().message();
  EXPECT_EQ(*verified, all_bytes());
}

TEST_F(VerifyContents, AChangedByteIsNamed) {
  const struct {
    uint64_t id, at;
    const char* text;
  } places[] = {
      {1, kChunk + 17, "object 1: 65536 bytes at 0x10000 "},
      {1, 3 * kChunk - 1, "object 1: 65536 bytes at 0x20000 "},  // of zeros
      {1, 5 * kChunk + 8191, "object 1: 8192 bytes at 0x50000 "},
      {2, 0, "object 2: 4096 bytes at 0x0 "},
      {499, 4095, "object 499: 4096 bytes at 0x0 "},
  };
  for (const auto& [id, at, text] : places) {
    const char was = testing_support::contents_of(state_, id).at(at);
    write(id, at, std::string(1, static_cast<char>(was ^ 1)));
    const auto verified = verify();
    ASSERT_FALSE(verified.ok()) << text;
    EXPECT_EQ(verified.error().code(), EIO);
    EXPECT_THAT(verified.error().message(), HasSubstr(text));
    write(id, at, std::string(1, was));
  }
  EXPECT_TRUE(verify().ok());
}

// The GPU damages the first object while it fills the others.
TEST_F(VerifyContents, TheErrorOfARestoreNamesTheImage) {
  testing_support::during_copies = [&] { write(1, 0, "?"); };
  const auto report = fill_with(testing_support::make_fake_engine, dir_.fd());
  testing_support::during_copies = nullptr;
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(),
              AllOf(HasSubstr("restoring " + name_), HasSubstr("object 1: 65536 bytes at 0x0 ")));
}

TEST_F(VerifyContents, NothingIsComparedIfTheGpuFailsOrThereAreNoHashes) {
  testing_support::hashes_of_gpu = 3;
  EXPECT_EQ(*verify(), 0u);
  testing_support::hashes_of_gpu = -1;
  ASSERT_TRUE(save(dir_.fd(), {.chunk_bytes = kChunk}).ok());
  spoil();
  EXPECT_EQ(*verify(), 0u);
}

// The GPU reads the pages of a file in memory.
TEST_F(VerifyContents, AGpuThatIsResetMeanwhileIsAnError) {
  const TempDir memory("/dev/shm");
  for (const int directory : {dir_.fd(), memory.fd()}) {
    ASSERT_TRUE(save(directory, {.chunk_bytes = kChunk, .hashes = true}).ok());
    for (const int code : {ENODATA, ECANCELED, ETIME, ENODEV, EHWPOISON}) {
      error_of_hashes = code;
      const auto report = fill_with(FailingHashes::create, directory);
      ASSERT_FALSE(report.ok()) << strerror(code);
      EXPECT_EQ(report.error().code(), code);
      EXPECT_THAT(report.error().message(), HasSubstr("the hashes cannot be had"));
    }
  }
}

TEST_F(VerifyContents, AGpuThatCannotHashIsNone) {
  for (const int code : {ENOTSUP, E2BIG, EIO, ENOMEM}) {
    error_of_hashes = code;
    const auto report = fill_with(FailingHashes::create, dir_.fd());
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->compared_bytes, 0u);
  }
}

}  // namespace
}  // namespace amdgpu_criu::restore
