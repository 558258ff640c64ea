// SPDX-License-Identifier: GPL-2.0
#include "restore/reservation.h"

#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace amdgpu_criu::restore {
namespace {

constexpr char kTurn[] = "/turn";
constexpr char kPrefix[] = "restore-";

// A lock of one process: unlike those of flock(2), it is not inherited by fork().
struct flock whole_file() {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool is_alive(const std::string& path) {
  const auto file = Fd::open(path.c_str(), O_RDWR);
  struct flock lock = whole_file();
  return file.ok() && fcntl(file->get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace

Result<Reservation> Reservation::begin(const std::string& directory) {
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
    return Error::system("cannot make {}", directory);
  Fd turn = TRY(Fd::open((directory + kTurn).c_str(), O_RDWR | O_CREAT, 0644));
  int result;
  do {
    result = flock(turn.get(), LOCK_EX);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return Error::system("cannot lock {}{}", directory, kTurn);
  return Reservation(directory, std::move(turn));
}

Reservation::Reservation(Reservation&& other) noexcept
    : directory_(std::move(other.directory_)),
      turn_(std::move(other.turn_)),
      file_(std::move(other.file_)),
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
    std::ifstream file(path);
    uint32_t gpu_id;
    uint64_t bytes;
    while (file >> gpu_id >> bytes) result[gpu_id] += bytes;
  }
  return result;
}

Status Reservation::take(const Bytes& bytes) {
  std::string path = directory_ + "/" + kPrefix + "XXXXXX";
  file_ = Fd(mkostemp(path.data(), O_CLOEXEC));
  if (!file_.valid()) return Error::system("cannot make {}", path);
  path_ = path;
  owner_ = getpid();
  std::string text;
  for (const auto& [gpu_id, size] : bytes) text += formatted("{} {}\n", gpu_id, size);
  // Closing another descriptor of the file would release the lock.
  if (write(file_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return Error::system("cannot write {}", path);
  struct flock lock = whole_file();
  if (fcntl(file_.get(), F_SETLK, &lock) != 0) return Error::system("cannot lock {}", path);
  turn_.reset();
  return {};
}

}  // namespace amdgpu_criu::restore
