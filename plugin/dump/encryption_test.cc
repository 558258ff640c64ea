// SPDX-License-Identifier: GPL-2.0
// Contents files that are encrypted.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "dump/earlier.h"
#include "image/flatten.h"
#include "tests/contents_test.h"

namespace amdgpu_criu::dump {
namespace {

using pipeline::Encoding;
using testing::HasSubstr;
using testing::Not;
using testing_support::kChunk;
using testing_support::TempDir;

constexpr char kSecret[] = "a sentence that nobody else may read";

class Encrypted : public testing_support::ContentsTest {
 protected:
  void SetUp() override {
    ContentsTest::SetUp();
    key_ = std::move(*Key::read(testing_support::write_key(keys_, "key", 'k')));
    other_key_ = std::move(*Key::read(testing_support::write_key(keys_, "other", 'o')));
    add(1, 4 * kChunk, 1);
    add(2, 4096, 2);
    add(3, 2 * kChunk, 0);
    write(1, kChunk + 5, kSecret);
  }
  image::Directory in(const TempDir& dir) const { return {dir.fd(), key_}; }
  void save_in(const TempDir& dir, SaveOptions options = {.chunk_bytes = kChunk, .hashes = true}) {
    const auto saved = save(in(dir), options);
    ASSERT_TRUE(saved.ok()) << saved.error().message();
  }
  // Of the contents that save() has written.
  image::Chunk chunk(const TempDir& dir, size_t number) const {
    return image::load_contents(in(dir))->at(0).contents.objects.at(0).chunks.at(number);
  }
  std::string stored(const TempDir& dir, size_t number) const {
    return dir.read(name_).substr(chunk(dir, number).offset, kChunk);
  }
  void store(const TempDir& dir, size_t number, const std::string& bytes) {
    std::string whole = dir.read(name_);
    whole.replace(chunk(dir, number).offset, bytes.size(), bytes);
    dir.write(name_, whole);
  }

  TempDir keys_, dir_;
  Key key_, other_key_;
};

class EncryptedEncodings : public Encrypted, public testing::WithParamInterface<Encoding> {};

TEST_P(EncryptedEncodings, AreReadAgainAndSayNothing) {
  write(1, 2 * kChunk, std::string(kChunk, 'x'));  // can be compressed
  save_in(dir_, {.chunk_bytes = kChunk, .compression = {GetParam()}});
  EXPECT_EQ(chunk(dir_, 2).encoding, GetParam());
  EXPECT_THAT(dir_.read(name_), Not(HasSubstr(kSecret)));
  EXPECT_THAT(dir_.read(name_), Not(HasSubstr(std::string(16, 'x'))));
  EXPECT_EQ(problem(in(dir_)), "");
  expect_round_trip(in(dir_), pipeline::IoKind::kThreads);
  expect_round_trip(in(dir_), pipeline::IoKind::kInline);
}
INSTANTIATE_TEST_SUITE_P(All, EncryptedEncodings,
                         testing::Values(Encoding::kPlain, Encoding::kZstd, Encoding::kLz4),
                         [](const auto& way) { return std::string(name_of(way.param)); });

TEST_F(Encrypted, TwoFilesOfTheSameBytesDiffer) {
  TempDir again;
  save_in(dir_);
  save_in(again);
  EXPECT_NE(stored(dir_, 0), stored(again, 0));
  EXPECT_NE(chunk(dir_, 0).sum, chunk(again, 0).sum);
}

TEST_F(Encrypted, OtherKeysAreRefused) {
  save_in(dir_);
  EXPECT_THAT(problem({dir_.fd(), other_key_}), HasSubstr("the key is not the one"));
  EXPECT_EQ(image::load_contents({dir_.fd(), other_key_}).error().code(), EKEYREJECTED);
  EXPECT_THAT(problem(dir_.fd()), HasSubstr("is encrypted: name the key by option key-file"));
  EXPECT_EQ(image::load_contents(dir_.fd()).error().code(), ENOKEY);
}

// Without the key one can be written, too.
TEST_F(Encrypted, AFileThatIsNotEncryptedIsRefusedIfThereIsAKey) {
  ASSERT_TRUE(save(dir_.fd(), {kChunk}).ok());
  EXPECT_THAT(problem(in(dir_)), HasSubstr("is not encrypted, but there is a key"));
}

TEST_F(Encrypted, ChunksOfOtherPlacesAreRefused) {
  save_in(dir_);
  const std::string first = stored(dir_, 0), second = stored(dir_, 1);
  store(dir_, 0, second);
  store(dir_, 1, first);
  EXPECT_THAT(problem(in(dir_)), HasSubstr("contents of object 1 are damaged"));
  store(dir_, 0, first);
  EXPECT_THAT(problem(in(dir_)), HasSubstr("contents of object 1 are damaged"));
  store(dir_, 1, second);
  EXPECT_EQ(problem(in(dir_)), "");
}

TEST_F(Encrypted, ChunksOfAnotherDumpAreRefused) {
  TempDir before;
  save_in(before);
  write(1, 0, "later");
  save_in(dir_);
  store(dir_, 0, stored(before, 0));
  EXPECT_THAT(problem(in(dir_)), HasSubstr("contents of object 1 are damaged"));
}

TEST_F(Encrypted, ChangedBitsAreRefused) {
  bos_.resize(0);
  add(9, 4096, 3);
  save_in(dir_, {.chunk_bytes = 4096});
  const std::string whole = dir_.read(name_);
  for (size_t at = 0; at < whole.size(); at += 61) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    dir_.write(name_, changed);
    ASSERT_THAT(problem(in(dir_)), HasSubstr("image " + name_)) << at << " of " << whole.size();
  }
}

// The checksums of header and metadata have no key, and can be corrected after a change.
TEST_F(Encrypted, AForgedHeaderIsRefused) {
  save_in(dir_);
  std::string whole = dir_.read(name_);
  image::Header header;
  memcpy(&header, whole.data(), sizeof(header));
  whole.insert(header.metadata_offset, 4096, '\0');
  header.metadata_offset += 4096;
  header.sum = image::short_checksum(
      std::as_bytes(std::span(&header, 1)).first(offsetof(image::Header, sum)));
  memcpy(whole.data(), &header, sizeof(header));
  dir_.write(name_, whole);
  EXPECT_THAT(problem(in(dir_)), HasSubstr("the key is not the one"));
}

class EncryptedChain : public Encrypted {
 protected:
  void SetUp() override {
    Encrypted::SetUp();
    ASSERT_EQ(symlink(dir_.path().c_str(), next_.file("parent").c_str()), 0);
  }
  // What is wrong with the dump before next_.
  std::string problem_of_earlier() const {
    const auto earlier = Earlier::load(in(next_));
    return earlier.ok() ? "" : earlier.error().message();
  }
  void save_next() {
    const auto earlier = Earlier::load(in(next_));
    ASSERT_TRUE(earlier.ok()) << earlier.error().message();
    write(1, 3, "later");
    const auto saved = save(in(next_), {kChunk, {}, true, &*earlier});
    ASSERT_TRUE(saved.ok()) << saved.error().message();
    EXPECT_EQ(saved->stored_bytes, kChunk);
  }

  TempDir next_;
};

TEST_F(EncryptedChain, RefersToEarlierChunks) {
  save_in(dir_);
  save_next();
  EXPECT_EQ(problem(in(next_)), "");
  expect_round_trip(in(next_));
  const std::string first = stored(dir_, 2);
  store(dir_, 2, stored(dir_, 3));
  EXPECT_THAT(problem(in(next_)), HasSubstr("parent/" + name_ + ": contents of object 1"));
}

TEST_F(EncryptedChain, IsFlattenedWithTheKey) {
  save_in(dir_);
  save_next();
  TempDir flat;
  const auto file = std::move(image::load_contents(in(next_))->at(0));
  ASSERT_TRUE(image::flatten(in(next_), file, in(flat)).ok());
  std::filesystem::remove(dir_.file(name_));
  EXPECT_EQ(problem(in(flat)), "");
  EXPECT_THAT(flat.read(name_), Not(HasSubstr(kSecret)));
  expect_round_trip(in(flat));
}

TEST_F(EncryptedChain, DoesNotBeginWithAPlainDumpOrThatOfAnotherKey) {
  ASSERT_TRUE(save(dir_.fd(), {.chunk_bytes = kChunk, .hashes = true}).ok());
  EXPECT_THAT(problem_of_earlier(), HasSubstr("is not encrypted"));
  ASSERT_TRUE(save({dir_.fd(), other_key_}, {.chunk_bytes = kChunk, .hashes = true}).ok());
  EXPECT_THAT(problem_of_earlier(), HasSubstr("the key is not the one"));
}

TEST(KeyFile, MistakesAreNamed) {
  const TempDir dir;
  const std::string path = testing_support::write_key(dir, "key", 'k');
  EXPECT_TRUE(Key::read(path).ok());
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  EXPECT_THAT(Key::read(path).error().message(), HasSubstr("can be read by others: chmod 600"));
  dir.write("short", "12345");
  std::filesystem::permissions(dir.file("short"), std::filesystem::perms(0600));
  EXPECT_THAT(Key::read(dir.file("short")).error().message(),
              HasSubstr("has 5 bytes; a key has 32"));
  ASSERT_EQ(mkfifo(dir.file("fifo").c_str(), 0600), 0);
  EXPECT_THAT(Key::read(dir.file("fifo")).error().message(), HasSubstr("not a regular file"));
  EXPECT_EQ(Key::read(dir.file("none")).error().code(), ENOENT);
}

}  // namespace
}  // namespace amdgpu_criu::dump
