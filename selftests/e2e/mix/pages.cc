// SPDX-License-Identifier: GPL-2.0
#include "mix/pages.h"

#include <sys/mman.h>

#include <atomic>
#include <set>

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Status;

namespace {

constexpr uint64_t kWords = kPageSize / sizeof(uint64_t);
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

uint64_t word_of(uint64_t source, uint64_t page, uint64_t index) {
  uint64_t word = (source << 40 ^ page << 20 ^ index) + 0x9e3779b97f4a7c15;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
  return word ^ word >> 31;
}

std::atomic_ref<uint64_t> at(uint64_t address, uint64_t index) {
  return std::atomic_ref(reinterpret_cast<uint64_t*>(address)[index]);
}

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Status fill(const Source& source) {
  const amdgpu_criu::Mapping mapping =
      TRY(amdgpu_criu::Mapping::map(source.pages * kPageSize, kReadWrite, MAP_SHARED, source.fd,
                                    static_cast<off_t>(source.offset)));
  const auto start = reinterpret_cast<uint64_t>(mapping.data());
  for (uint64_t page = 0; page < source.pages; ++page)
    for (uint64_t i = 0; i < kWords; ++i)
      at(start + page * kPageSize, i) = word_of(source.id, page, i);
  return {};
}

// The process has one thread, so nothing else maps the range meanwhile. Leaves a free page on both
// sides.
uint64_t Pages::free_range(uint64_t pages) {
  const auto mapping = amdgpu_criu::Mapping::map((pages + 2) * kPageSize, PROT_NONE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  return mapping.ok() ? reinterpret_cast<uint64_t>(mapping->data()) + kPageSize : 0;
}

Status Pages::map(Random& random, const Source& source) {
  constexpr int kProtections[] = {PROT_NONE, PROT_READ, kReadWrite, kReadWrite};
  const int protection = kProtections[below(random, std::size(kProtections))];
  const uint64_t pages = source.has_contents ? 1 + below(random, source.pages) : source.pages;
  const uint64_t start = free_range(pages);
  if (mmap(pointer(start), pages * kPageSize, protection, MAP_SHARED | MAP_FIXED, source.fd,
           static_cast<off_t>(source.offset)) == MAP_FAILED)
    return Error::system("cannot map {} pages of memory {}", pages, source.id);
  for (uint64_t i = 0; i < pages; ++i)
    pages_[start + i * kPageSize] = {source.id, i, protection, source.has_contents,
                                     source.has_contents};
  return {};
}

Pages::Run Pages::choose(Random& random) const {
  auto first = std::next(pages_.begin(), static_cast<ptrdiff_t>(below(random, pages_.size())));
  Run run{first->first, 1};
  for (auto next = std::next(first); next != pages_.end() && below(random, 3) != 0; ++next) {
    if (next->first != run.start + run.pages * kPageSize) break;
    run.pages++;
  }
  return run;
}

Status Pages::unmap(const Run& run) {
  if (munmap(pointer(run.start), run.pages * kPageSize) != 0)
    return Error::system("cannot unmap {} pages", run.pages);
  for (uint64_t i = 0; i < run.pages; ++i) pages_.erase(run.start + i * kPageSize);
  return {};
}

Status Pages::protect(Random& random, const Run& run) {
  constexpr int kProtections[] = {PROT_NONE, PROT_READ, kReadWrite};
  const int protection = kProtections[below(random, std::size(kProtections))];
  if (mprotect(pointer(run.start), run.pages * kPageSize, protection) != 0)
    return Error::system("cannot protect {} pages", run.pages);
  for (uint64_t i = 0; i < run.pages; ++i)
    pages_[run.start + i * kPageSize].protection = protection;
  return {};
}

// Page by page, because older kernels move only one mapping at a time.
Status Pages::move(const Run& run) {
  const uint64_t target = free_range(run.pages);
  for (uint64_t i = 0; i < run.pages; ++i) {
    const uint64_t from = run.start + i * kPageSize, to = target + i * kPageSize;
    if (mremap(pointer(from), kPageSize, kPageSize, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(to)) ==
        MAP_FAILED)
      return Error::system("cannot move a page");
    pages_[to] = pages_[from];
    pages_.erase(from);
  }
  return {};
}

Status Pages::advise(Random& random, const Run& run) {
  constexpr int kAdvice[] = {MADV_DONTFORK, MADV_RANDOM, MADV_SEQUENTIAL, MADV_NORMAL};
  const int advice = kAdvice[below(random, std::size(kAdvice))];
  if (madvise(pointer(run.start), run.pages * kPageSize, advice) != 0)
    return Error::system("cannot advise {} pages", run.pages);
  if (advice == MADV_DONTFORK)
    for (uint64_t i = 0; i < run.pages; ++i)
      pages_[run.start + i * kPageSize].goes_with_fork = false;
  return {};
}

Status Pages::change(Random& random, const std::vector<Source>& sources) {
  constexpr uint64_t kMost = 200;
  if (pages_.empty() || (below(random, 8) < 3 && pages_.size() < kMost))
    return map(random, sources[below(random, sources.size())]);
  return change_mapped(random);
}

Status Pages::change_mapped(Random& random) {
  const Run run = choose(random);
  switch (below(random, 5)) {
    case 0:
      return unmap(run);
    case 1:
    case 2:
      return protect(random, run);
    case 3:
      return move(run);
    default:
      return advise(random, run);
  }
}

void Pages::forked() {
  std::erase_if(pages_, [](const auto& entry) { return !entry.second.goes_with_fork; });
}

void Pages::check(std::vector<std::string>& problems) {
  auto readable = [](const Page& page) { return page.has_contents && page.protection & PROT_READ; };
  for (const auto& [address, page] : pages_) {
    if (!readable(page)) continue;
    for (uint64_t i = 0; i < kWords; ++i) {
      if (at(address, i) == word_of(page.source, page.number, i)) continue;
      problems.push_back(
          amdgpu_criu::formatted("page {:#x} is not page {} of memory {}: word {} is {:#x}",
                                 address, page.number, page.source, i, at(address, i).load()));
      break;
    }
  }
  for (const auto& [address, page] : pages_) {
    if (!readable(page) || !(page.protection & PROT_WRITE)) continue;
    at(address, 0) = address;
    for (const auto& [other, seen] : pages_) {
      if (!readable(seen) || seen.source != page.source || seen.number != page.number) continue;
      if (at(other, 0) != address)
        problems.push_back(amdgpu_criu::formatted("what is written at {:#x} is not seen at {:#x}",
                                                  address, other));
    }
    at(address, 0) = word_of(page.source, page.number, 0);
  }
}

}  // namespace e2e
