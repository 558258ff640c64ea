// SPDX-License-Identifier: GPL-2.0
#include "host/criu_needs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/result.h"
#include "host/host.h"
#include "host/tcp.h"

namespace amdgpu_criu::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDeleted = " (deleted)";

std::string name_of_process(pid_t pid) { return formatted("process {} ({})", pid, comm_of(pid)); }

// A regular file that was deleted under the name by which the process has it.
struct DeletedFile {
  std::string path;
  uint64_t size;
  bool has_other_name;
};

// link: of /proc, which leads to the file. Memory files and System V segments have no name to CRIU.
void add_deleted(const std::string& link, std::map<ino_t, DeletedFile>& to) {
  std::error_code error;
  std::string path = fs::read_symlink(link, error);
  struct stat status;
  if (!path.ends_with(kDeleted) || !examine(link, status) || !S_ISREG(status.st_mode)) return;
  path.resize(path.size() - kDeleted.size());
  if (path.starts_with("/memfd:") || path.starts_with("/SYSV") || path.starts_with("/dev/zero"))
    return;
  to.emplace(status.st_ino,
             DeletedFile{path, static_cast<uint64_t>(status.st_size), status.st_nlink > 0});
}

std::map<ino_t, DeletedFile> deleted_files_of(pid_t pid) {
  std::map<ino_t, DeletedFile> result;
  std::error_code error;
  for (const char* directory : {"map_files", "fd"})
    for (const auto& entry :
         fs::directory_iterator(formatted("/proc/{}/{}", pid, directory), error))
      add_deleted(entry.path(), result);
  return result;
}

void add_deleted_needs(pid_t pid, std::vector<CriuNeed>& to) {
  const DeletedFile* largest = nullptr;
  const DeletedFile* named = nullptr;
  size_t others = 0;
  const auto files = deleted_files_of(pid);
  for (const auto& [inode, file] : files) {
    if (file.has_other_name) named = &file;
    if (file.has_other_name || file.size <= kGhostLimit) continue;
    if (largest) others++;
    if (!largest || largest->size < file.size) largest = &file;
  }
  if (largest)
    to.push_back(
        {"--ghost-limit", formatted("{}", largest->size),
         formatted("{} has the deleted file {} of {} bytes, and {} others: CRIU dumps "
                   "such files only up to its --ghost-limit, {} bytes by default",
                   name_of_process(pid), largest->path, largest->size, others, kGhostLimit)});
  if (named)
    to.push_back({"--link-remap", "",
                  formatted("{} has the file {}, which was deleted and has another name",
                            name_of_process(pid), named->path)});
}

void add_lock_need(pid_t pid, std::vector<CriuNeed>& to) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(formatted("/proc/{}/fdinfo", pid), error)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("lock:")) continue;
      to.push_back({"--file-locks", "",
                    formatted("{} holds a lock on its descriptor {}", name_of_process(pid),
                              entry.path().filename().string())});
      return;
    }
  }
}

void add_tcp_need(pid_t pid, std::vector<CriuNeed>& to) {
  const auto sockets = tcp_sockets_of({&pid, 1});
  const auto connections = std::ranges::count(sockets, false, &TcpSocket::listening);
  if (connections > 0)
    to.push_back({"--tcp-established", "",
                  formatted("{} has {} TCP connections", name_of_process(pid), connections)});
}

}  // namespace

std::string CriuNeed::describe() const {
  return formatted("{}; use criu dump {}{}{}", reason, option, value.empty() ? "" : " ", value);
}

std::vector<CriuNeed> criu_needs_of(pid_t pid) {
  std::vector<CriuNeed> needs;
  add_deleted_needs(pid, needs);
  add_tcp_need(pid, needs);
  add_lock_need(pid, needs);
  return needs;
}

std::vector<CriuNeed> criu_needs_of_tree(std::span<const pid_t> pids) {
  std::vector<CriuNeed> result;
  if (getsid(pids[0]) != pids[0])
    result.push_back(
        {"--shell-job", "", formatted("{} leads no session", name_of_process(pids[0]))});
  for (const pid_t pid : pids)
    for (CriuNeed& need : criu_needs_of(pid)) {
      const auto known = std::ranges::find(result, need.option, &CriuNeed::option);
      if (known == result.end())
        result.push_back(std::move(need));
      else if (known->value.size() < need.value.size() ||
               (known->value.size() == need.value.size() && known->value < need.value))
        *known = std::move(need);
    }
  return result;
}

std::string note_on_ports(std::span<const pid_t> pids) {
  const auto ports = ports_of_closed_connections(pids);
  if (ports.empty()) return {};
  return formatted(
      "{} or a descendant listens at port {}{} without SO_REUSEADDR, and connections that were "
      "closed less than 60 s ago still have it: until then, a restore in this network namespace "
      "fails with \"Address already in use\"; wait, or use ss -K state time-wait",
      name_of_process(pids[0]), *ports.begin(),
      ports.size() == 1 ? "" : formatted(" and {} others", ports.size() - 1));
}

namespace {

// As CRIU reads it: "4096", "1M". 0: it is no number.
uint64_t number_of_bytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr std::string_view kUnits = "KMG";
  const size_t unit = end == text.data() + text.size() ? kUnits.npos : kUnits.find(*end);
  return unit == kUnits.npos ? number : number << (10 * (unit + 1));
}

}  // namespace

bool has_no_options(std::string_view command_line) {
  std::istringstream words{std::string(command_line)};
  std::string program, command;
  std::getline(words, program, '\0');
  std::getline(words, command, '\0');
  return command == "swrk" || command == "service";
}

bool is_met(const CriuNeed& need, std::string_view command_line) {
  constexpr std::pair<std::string_view, std::string_view> kOtherOptions[] = {
      {"--tcp-established", "--tcp-close"}, {"--shell-job", "-j"}, {"--file-locks", "-l"}};
  std::istringstream words{std::string(command_line)};
  for (std::string word; std::getline(words, word, '\0');) {
    if (!need.value.empty()) {
      if (word.starts_with(need.option + "="))
        word.erase(0, need.option.size() + 1);
      else if (word != need.option || !std::getline(words, word, '\0'))
        continue;
      if (number_of_bytes(word) >= number_of_bytes(need.value)) return true;
      continue;
    }
    if (word == need.option) return true;
    for (const auto& [option, other] : kOtherOptions)
      if (option == need.option && other == word) return true;
  }
  return false;
}

}  // namespace amdgpu_criu::host
