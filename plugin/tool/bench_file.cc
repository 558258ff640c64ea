// SPDX-License-Identifier: GPL-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/result.h"
#include "image/checksum.h"
#include "tool/bench.h"

namespace amdgpu_criu::tool {

double Series::median() const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::ranges::sort(sorted);
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

double Series::least() const { return values_.empty() ? 0 : std::ranges::min(values_); }
double Series::most() const { return values_.empty() ? 0 : std::ranges::max(values_); }

std::string Series::text(const char* unit) const {
  const int digits = median() < 10 ? 2 : 0;
  return formatted("{:.{}f} {} ({:.{}f} to {:.{}f})", median(), digits, unit, least(), digits,
                   most(), digits);
}

Json Series::json() const { return {{"median", median()}, {"least", least()}, {"most", most()}}; }

namespace {

constexpr uint64_t kBlock = 8 << 20;
constexpr unsigned kInFlight = 4;
constexpr uint64_t kPage = 4096;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

void fill_random(std::span<std::byte> bytes, uint64_t seed) {
  uint64_t state = seed * 2 + 1;
  for (size_t at = 0; at + sizeof(state) <= bytes.size(); at += sizeof(state)) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    memcpy(&bytes[at], &state, sizeof(state));
  }
}

Result<BenchFile> BenchFile::create(const std::string& directory, uint64_t bytes) {
  auto file = Fd::open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT, 0600);
  const bool direct = file.ok();
  if (!direct) file = Fd::open(directory.c_str(), O_TMPFILE | O_RDWR, 0600);
  if (!file.ok()) return std::move(file).error();
  Mapping buffers = TRY(Mapping::map(kBlock * kInFlight, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE));
  fill_random(buffers.bytes(), bytes);
  return BenchFile(std::move(*file), std::move(buffers), round_up(bytes, kPage), direct);
}

Result<Seconds> BenchFile::pass(bool write) {
  std::vector<Status> results(kInFlight);
  auto work = [&](unsigned lane) {
    std::byte* const buffer = buffers_.data() + lane * kBlock;
    for (uint64_t at = lane * kBlock; at < bytes_; at += kInFlight * kBlock) {
      const size_t size = std::min(kBlock, bytes_ - at);
      const auto offset = static_cast<off_t>(at);
      const ssize_t done = write ? pwrite(file_.get(), buffer, size, offset)
                                 : pread(file_.get(), buffer, size, offset);
      if (done == static_cast<ssize_t>(size)) continue;
      results[lane] = done < 0 ? Error::system("{} a file", write ? "writing" : "reading")
                               : Error::of(EIO, "{} of {} bytes at {}", done, size, at);
      return;
    }
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::jthread> threads;
  for (unsigned lane = 0; lane < kInFlight; lane++) threads.emplace_back(work, lane);
  threads.clear();  // waits
  if (write && !direct_ && fdatasync(file_.get()) != 0) return Error::system("fdatasync");
  const Seconds result = since(start);
  for (Status& status : results) TRY(std::move(status));
  return result;
}

Result<Seconds> BenchFile::write() { return pass(true); }

Result<Seconds> BenchFile::read() {
  if (!direct_) posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
  return pass(false);
}

Seconds checksum_pass(uint64_t bytes) {
  std::vector<std::byte> buffer(std::min(bytes, kBlock));
  fill_random(buffer, bytes);
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t done = 0; done < bytes; done += buffer.size()) {
    const image::Sum sum = image::checksum(buffer);
    buffer[0] = sum[0];  // every pass depends on the previous one
  }
  return since(start);
}

}  // namespace amdgpu_criu::tool
