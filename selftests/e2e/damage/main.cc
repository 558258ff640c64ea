// SPDX-License-Identifier: GPL-2.0
// image_damage DIR FLIPS TRUNCATIONS: changes single bytes of the GPU images of a dump, and
// truncates them, at the given number of places of each file, and checks the result of verification
// and of restore's own reader. The reader writes to a fake GPU that has the contents of the intact
// images: a wrong byte must not reach it. The images are unchanged afterwards.
//
// Places are the file's first and last bytes, and others spread over it. Prints a line for each
// file. Exit code: 0 every damage was harmless or refused with the file's name; 1 not; 2 failure.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <random>

#include "image/chunk_files.h"
#include "restore/fill_contents.h"

namespace amdgpu_criu {
namespace {

// The contents of each object in the intact images.
using Memory = std::map<uint64_t, std::vector<std::byte>>;

struct Object : gpu::Imported {
  uint64_t id = 0;
};

// Created once, because the images are read thousands of times.
using Staging = std::vector<std::vector<std::byte>>;
constexpr std::byte kPoison{0x5a};

Staging make_staging() { return Staging(4, std::vector<std::byte>(8u << 20, kPoison)); }

// Copies nothing, and compares the bytes to be written with the expected contents. Staging memory
// does not keep bytes: a reader can pass on only bytes that it has just read.
class Witness : public gpu::Engine {
 public:
  Witness(const Memory& memory, Staging& staging) : memory_(memory), staging_(staging) {}

  int file() const override { return -1; }
  unsigned slots() const override { return static_cast<unsigned>(staging_.size()); }
  std::span<std::byte> staging(unsigned slot) override { return staging_[slot]; }
  Result<std::unique_ptr<gpu::Imported>> import(const Fd&, uint64_t) override {
    return Error(ENOTSUP, "by number");
  }
  Status start_read(unsigned, std::span<const gpu::Piece>) override {
    return Error(ENOTSUP, "nothing to read");
  }
  Status start_write(unsigned slot, std::span<const gpu::Piece> pieces) override {
    for (const gpu::Piece& piece : pieces) {
      const auto& wanted = memory_.at(static_cast<Object*>(piece.bo)->id);
      if (piece.offset > wanted.size() || piece.size > wanted.size() - piece.offset)
        return wrong_ = true, Error(EPROTO, "a write past the end of a BO");
      const auto place = std::span(wanted).subspan(piece.offset, piece.size);
      const bool right = piece.zero
                             ? pipeline::is_zero(place)
                             : memcmp(place.data(), &staging_[slot][piece.at], place.size()) == 0;
      if (!right) wrong_ = true;
      if (!piece.zero)
        std::ranges::fill(std::span(staging_[slot]).subspan(piece.at, piece.size), kPoison);
    }
    return {};
  }
  Status wait(unsigned) override { return {}; }

  bool wrong() const { return wrong_; }

 private:
  const Memory& memory_;
  Staging& staging_;
  bool wrong_ = false;
};

// Reads the contents once, while the images are intact.
class Reader : public Witness {
 public:
  Reader(Memory& memory, Staging& staging) : Witness(memory, staging), memory_(memory) {}
  Status start_write(unsigned slot, std::span<const gpu::Piece> pieces) override {
    for (const gpu::Piece& piece : pieces)
      if (!piece.zero)
        memcpy(&memory_.at(static_cast<Object*>(piece.bo)->id)[piece.offset],
               &staging(slot)[piece.at], piece.size);
    return {};
  }

 private:
  Memory& memory_;
};

// Reads as restore does.
Status fill_all(int directory, const image::Set& set, gpu::Engine& engine, bool all_at_once) {
  const auto queue = pipeline::make_io_queue(
      all_at_once ? pipeline::IoKind::kUring : pipeline::IoKind::kInline, engine.slots());
  auto import = [](uint64_t id, uint64_t) -> Result<std::shared_ptr<gpu::Imported>> {
    auto object = std::make_shared<Object>();
    object->id = id;
    return std::shared_ptr<gpu::Imported>(object);
  };
  for (const auto& file : set.contents()) {
    if (restore::staging_for(file.contents, {}).bytes > engine.staging(0).size())
      return Error(EPROTO, "chunks are larger than any that were written");
    const auto files = TRY(image::ChunkFiles::open(directory, file));
    TRY(restore::fill_contents(engine, *queue, files, restore::all_of(file.contents), import));
  }
  return {};
}

Status verify_all(int directory, const image::Set& set) {
  for (const auto& file : set.contents()) {
    const auto files = TRY(image::ChunkFiles::open(directory, file));
    for (const image::Object& object : file.contents.objects) TRY(files.verify(object));
  }
  return {};
}

struct Tally {
  unsigned refused = 0;
  unsigned harmless = 0;
  unsigned bad = 0;
};

class Campaign {
 public:
  static Result<Campaign> create(const std::string& directory) {
    Campaign campaign(TRY(Fd::open(directory.c_str(), O_RDONLY | O_DIRECTORY)));
    const image::Set set = TRY(image::Set::load(campaign.directory_.get()));
    uint64_t bytes = 0;
    for (const auto& file : set.contents())
      for (const image::Object& object : file.contents.objects) {
        campaign.memory_[object.object_id].resize(object.size);
        bytes += object.size;
      }
    Reader reader(campaign.memory_, campaign.staging_);
    TRY(fill_all(campaign.directory_.get(), set, reader, true));
    printf("%llu bytes in %zu objects\n", static_cast<unsigned long long>(bytes),
           campaign.memory_.size());
    return campaign;
  }

  Result<Tally> damage(const std::string& name, unsigned flips, unsigned truncations) {
    Tally tally;
    const Fd file = TRY(Fd::openat(directory_.get(), name.c_str(), O_RDWR));
    const off_t end = lseek(file.get(), 0, SEEK_END);
    if (end <= 0) return Error::of(EINVAL, "{} is empty", name);
    const auto size = static_cast<uint64_t>(end);
    for (const uint64_t at : places(size, flips, name)) {
      std::byte whole;
      if (pread(file.get(), &whole, 1, at) != 1) return Error::system("cannot read {}", name);
      const std::byte changed = whole ^ static_cast<std::byte>(at % 2 ? 0x01 : 0xff);
      if (pwrite(file.get(), &changed, 1, at) != 1) return Error::system("cannot write {}", name);
      look(name, amdgpu_criu::formatted("byte {} of {}", at, size), tally);
      if (pwrite(file.get(), &whole, 1, at) != 1) return Error::system("cannot repair {}", name);
    }
    TRY(cut(file, name, size, truncations, tally));
    return tally;
  }

  const Fd& directory() const { return directory_; }

 private:
  explicit Campaign(Fd directory) : directory_(std::move(directory)) {}

  static std::vector<uint64_t> places(uint64_t size, unsigned count, const std::string& name) {
    std::vector<uint64_t> result;
    // Places with structure.
    for (uint64_t i = 0; i < std::min<uint64_t>({size, count / 4, 64}); i++) {
      result.push_back(i);
      result.push_back(size - 1 - i);
    }
    std::seed_seq seed(name.begin(), name.end());
    std::mt19937_64 random(seed);
    while (result.size() < count) result.push_back(random() % size);
    return result;
  }

  // From the longest to the shortest, then intact again.
  Status cut(const Fd& file, const std::string& name, uint64_t size, unsigned count, Tally& tally) {
    std::vector<std::byte> whole(size);
    if (pread(file.get(), whole.data(), size, 0) != static_cast<ssize_t>(size))
      return Error::system("cannot read {}", name);
    auto lengths = places(size, count, name);
    std::ranges::sort(lengths, std::greater());
    for (const uint64_t length : lengths) {
      if (ftruncate(file.get(), static_cast<off_t>(length)) != 0)
        return Error::system("cannot cut {}", name);
      look(name, amdgpu_criu::formatted("the first {} bytes of {}", length, size), tally);
    }
    if (pwrite(file.get(), whole.data(), size, 0) != static_cast<ssize_t>(size))
      return Error::system("cannot repair {}", name);
    return {};
  }

  void look(const std::string& name, const std::string& what, Tally& tally) {
    Witness witness(memory_, staging_);
    std::string verified, restored;
    auto set = image::Set::load(directory_.get());
    if (!set.ok()) {
      verified = restored = set.error().message();
    } else {
      if (const Status status = verify_all(directory_.get(), *set); !status.ok())
        verified = status.error().message();
      if (const Status status = fill_all(directory_.get(), *set, witness, looks_++ % 2);
          !status.ok())
        restored = status.error().message();
    }
    const bool named = restored.find(name) != std::string::npos;
    if (witness.wrong())
      complain(tally, name, what, "a wrong byte reached the GPU");
    else if (verified.empty() != restored.empty())
      complain(tally, name, what, "verify says '" + verified + "', restore '" + restored + "'");
    else if (!restored.empty() && !named)
      complain(tally, name, what, "refused, but without its name: " + restored);
    else if (restored.empty())
      tally.harmless++;
    else
      tally.refused++;
  }

  static void complain(Tally& tally, const std::string& name, const std::string& what,
                       const std::string& why) {
    tally.bad++;
    printf("BAD %s, %s: %s\n", name.c_str(), what.c_str(), why.c_str());
  }

  Fd directory_;
  Memory memory_;
  Staging staging_ = make_staging();
  unsigned looks_ = 0;
};

Result<bool> run(const std::string& directory, unsigned flips, unsigned truncations) {
  Campaign campaign = TRY(Campaign::create(directory));
  unsigned refused = 0, harmless = 0, bad = 0;
  for (const std::string& name : TRY(image::list_files(campaign.directory().get()))) {
    const Tally tally = TRY(campaign.damage(name, flips, truncations));
    printf("%s: %u refused by name, %u harmless, %u bad\n", name.c_str(), tally.refused,
           tally.harmless, tally.bad);
    fflush(stdout);
    refused += tally.refused;
    harmless += tally.harmless;
    bad += tally.bad;
  }
  printf("damage: %u refused by name, %u harmless, %u bad\n", refused, harmless, bad);
  return bad == 0 && refused > 0;
}

}  // namespace
}  // namespace amdgpu_criu

int main(int argc, char** argv) {
  const auto number = [&](int at, unsigned& value) {
    const char* end = argv[at] + strlen(argv[at]);
    const auto parsed = std::from_chars(argv[at], end, value);
    return parsed.ec == std::errc() && parsed.ptr == end;
  };
  unsigned flips = 0, truncations = 0;
  if (argc != 4 || !number(2, flips) || !number(3, truncations))
    return fprintf(stderr, "usage: image_damage DIR FLIPS TRUNCATIONS\n"), 2;
  const auto result = amdgpu_criu::run(argv[1], flips, truncations);
  if (!result.ok())
    return fprintf(stderr, "image_damage: %s\n", result.error().message().c_str()), 2;
  return *result ? 0 : 1;
}
