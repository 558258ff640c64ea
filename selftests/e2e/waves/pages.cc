// SPDX-License-Identifier: GPL-2.0
#include "waves/pages.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

namespace amdgpu_criu {
namespace {

constexpr uint64_t kImagePage = 4096;
constexpr size_t kMagics = 8;

// pagemap_head and pagemap_entry (CRIU, images/pagemap.proto): all fields are numbers.
constexpr unsigned kPagesId = 1;
constexpr unsigned kAddress = 1, kCount32 = 2, kInParent = 3, kFlags = 4, kCount64 = 5;
constexpr uint64_t kPresent = 1 << 2;
using Message = std::map<unsigned, uint64_t>;

Result<uint64_t> take_number(std::span<const std::byte>& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint64_t>(bytes[0]);
    bytes = bytes.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  return Error(EBADMSG, "a pagemap is damaged");
}

Result<Message> take_message(std::span<const std::byte>& bytes) {
  uint32_t size = 0;
  if (bytes.size() < sizeof(size)) return Error(EBADMSG, "a pagemap is too short");
  memcpy(&size, bytes.data(), sizeof(size));
  bytes = bytes.subspan(sizeof(size));
  if (size > bytes.size()) return Error(EBADMSG, "a pagemap is too short");
  auto body = bytes.first(size);
  bytes = bytes.subspan(size);
  Message out;
  while (!body.empty()) {
    const uint64_t key = TRY(take_number(body));
    if (key & 7) return Error(EBADMSG, "a pagemap has a field that is no number");
    out[static_cast<unsigned>(key >> 3)] = TRY(take_number(body));
  }
  return out;
}

Result<std::vector<std::byte>> read_file(int directory, const std::string& name) {
  const Fd file = TRY(Fd::openat(directory, name.c_str(), O_RDONLY));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return Error::system("cannot stat {}", name);
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
  if (pread(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Error::system("cannot read {}", name);
  return bytes;
}

}  // namespace

Result<Pages> Pages::open(int directory, uint32_t pid) {
  const auto file = TRY(read_file(directory, formatted("pagemap-{}.img", pid)));
  if (file.size() < kMagics) return Error(EBADMSG, "a pagemap is too short");
  auto bytes = std::span(file).subspan(kMagics);
  const uint64_t id = TRY(take_message(bytes))[kPagesId];
  std::vector<Run> runs;
  uint64_t offset = 0;
  while (!bytes.empty()) {
    Message entry = TRY(take_message(bytes));
    const uint64_t size = std::max(entry[kCount32], entry[kCount64]) * kImagePage;
    const bool present = entry.contains(kFlags) ? entry[kFlags] & kPresent : !entry[kInParent];
    if (!present) continue;
    runs.push_back({.address = entry[kAddress], .bytes = size, .offset = offset});
    offset += size;
  }
  return Pages(TRY(Fd::openat(directory, formatted("pages-{}.img", id).c_str(), O_RDWR)),
               std::move(runs));
}

Status Pages::for_each(
    uint64_t address, uint64_t bytes,
    const std::function<bool(size_t from, size_t size, off_t at)>& transfer) const {
  uint64_t found = 0;
  for (const Run& run : runs_) {
    const uint64_t first = std::max(run.address, address);
    const uint64_t last = std::min(run.address + run.bytes, address + bytes);
    if (first >= last) continue;
    if (!transfer(first - address, last - first,
                  static_cast<off_t>(run.offset + first - run.address)))
      return Error::system("cannot transfer pages");
    found += last - first;
  }
  if (found != bytes)
    return Error::of(EFAULT, "the image has {} of the {} bytes at {:#x}", found, bytes, address);
  return {};
}

Status Pages::read(uint64_t address, std::span<std::byte> to) const {
  return for_each(address, to.size(), [&](size_t from, size_t size, off_t at) {
    return pread(file_.get(), &to[from], size, at) == static_cast<ssize_t>(size);
  });
}

Status Pages::write(uint64_t address, std::span<const std::byte> from) const {
  return for_each(address, from.size(), [&](size_t first, size_t size, off_t at) {
    return pwrite(file_.get(), &from[first], size, at) == static_cast<ssize_t>(size);
  });
}

}  // namespace amdgpu_criu
