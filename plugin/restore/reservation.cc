// SPDX-License-Identifier: GPL-2.0
#include "restore/reservation.h"

#include <stdlib.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <span>
#include <thread>

#include "host/run_directory.h"

namespace amdgpu_criu::restore {
namespace {

constexpr char kPrefix[] = "restore-";

// A lock of one process: unlike those of flock(2), it is not inherited by fork().
struct flock whole_file() {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// True also if it is not known.
bool is_alive(const std::string& path) {
  const auto file = Fd::open(path.c_str(), O_RDWR);
  if (!file.ok()) return file.error().code() != ENOENT;
  struct flock lock = whole_file();
  return fcntl(file->get(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace

// A record of the file. Its restore changes it while others read it.
struct Reservation::Entry {
  uint32_t gpu_id;
  uint32_t zero;
  uint64_t bytes;
};

Result<Reservation> Reservation::begin(const std::string& directory,
                                       std::chrono::milliseconds patience) {
  const Fd opened = TRY(host::open_run_directory(directory));
  Fd turn = TRY(host::lock_in(opened, host::kTurnOfRestores, patience,
                              "another restore does not let this one choose"));
  return Reservation(directory, std::move(turn));
}

Reservation::Reservation(Reservation&& other) noexcept
    : directory_(std::move(other.directory_)),
      turn_(std::move(other.turn_)),
      file_(std::move(other.file_)),
      entries_(std::move(other.entries_)),
      path_(std::exchange(other.path_, {})),
      owner_(other.owner_) {}

Reservation::~Reservation() {
  if (!path_.empty() && owner_ == getpid()) (void)unlink(path_.c_str());
}

Reservation::Bytes Reservation::of_others() const {
  Bytes result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string path = entry.path();
    if (!entry.path().filename().string().starts_with(kPrefix) || path == path_) continue;
    if (!is_alive(path)) {
      (void)unlink(path.c_str());
      continue;
    }
    const auto file = Fd::open(path.c_str(), O_RDONLY);
    Entry one;
    for (off_t at = 0;
         file.ok() && pread(file->get(), &one, sizeof(one), at) == ssize_t{sizeof(one)};
         at += sizeof(one))
      result[one.gpu_id] += one.bytes;
  }
  return result;
}

Status Reservation::take(const Bytes& bytes) {
  Status status = write(bytes);
  turn_.reset();
  return status;
}

Status Reservation::write(const Bytes& bytes) {
  std::string path = directory_ + "/" + kPrefix + "XXXXXX";
  file_ = Fd(mkostemp(path.data(), O_CLOEXEC));
  if (!file_.valid()) return Error::system("cannot make {}", path);
  path_ = path;
  owner_ = getpid();
  // A write beyond the end of a full file system would end the process.
  const size_t size = bytes.size() * sizeof(Entry);
  if (const int error = posix_fallocate(file_.get(), 0, static_cast<off_t>(size)))
    return Error::of(error, "cannot write {}: {}", path, strerror(error));
  entries_ = TRY(Mapping::map(size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get()));
  auto* entry = reinterpret_cast<Entry*>(entries_.data());
  for (const auto& [gpu_id, amount] : bytes) *entry++ = {gpu_id, 0, amount};
  // Closing another descriptor of the file would release the lock.
  struct flock lock = whole_file();
  if (fcntl(file_.get(), F_SETLK, &lock) != 0) return Error::system("cannot lock {}", path);
  return {};
}

void Reservation::allocated(uint32_t gpu_id, uint64_t bytes) const {
  const std::span entries(reinterpret_cast<Entry*>(entries_.data()),
                          entries_.size() / sizeof(Entry));
  for (Entry& entry : entries)
    if (entry.gpu_id == gpu_id) std::atomic_ref(entry.bytes) -= std::min(bytes, entry.bytes);
}

}  // namespace amdgpu_criu::restore
