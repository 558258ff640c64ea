// SPDX-License-Identifier: GPL-2.0
#include "snapshot/refusals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "host/host.h"
#include "host/tcp.h"
#include "tool/check.h"

namespace amdgpu_criu::snapshot {
namespace {

namespace fs = std::filesystem;

// Larger files are read only by --verify: pages of memory, and contents, which the plugin checks.
constexpr uint64_t kSmall = 1 << 20;

tool::Machine machine_of(const CriuOptions& options) {
  tool::Machine machine;
  machine.criu = options.program;
  if (!options.libdir.empty()) machine.plugin_directory = options.libdir;
  return machine;
}

std::string name_of_chips(const std::vector<MachineGpu>& gpus) {
  std::set<std::string> names;
  for (const MachineGpu& gpu : gpus) names.insert(chip_name(gpu.target));
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result.empty() ? "no GPU" : result;
}

Status refuse_gpus(const Manifest& manifest, unsigned replicas, const Place& place) {
  uint64_t vram = 0;
  for (const Gpu& gpu : manifest.gpus) {
    const auto needed = std::ranges::count(manifest.gpus, gpu.target, &Gpu::target);
    if (std::ranges::count(place.gpus, gpu.target, &MachineGpu::target) < needed)
      return Error::of(ENODEV, "the snapshot needs {} GPUs like {}, and this machine has {}",
                       needed, gpu.chip, name_of_chips(place.gpus));
  }
  for (const MachineGpu& gpu : place.gpus)
    if (std::ranges::count(manifest.gpus, gpu.target, &Gpu::target) > 0) vram += gpu.vram;
  if (replicas * manifest.vram > vram)
    return Error::of(ENOMEM,
                     "{} replicas need {} MiB of VRAM, and all GPUs of this kind together have {}",
                     replicas, replicas * manifest.vram >> 20, vram >> 20);
  return {};
}

Status refuse_sharing(const Manifest& manifest, const RestoreOptions& options) {
  if (options.replicas == 1) return {};
  if (!manifest.server.own_pid_namespace)
    return Error(
        EOPNOTSUPP,
        "the server was not in a pid namespace of its own, so it can be restored only once "
        "at a time: let `snapshot create -- COMMAND` start it");
  if (options.network == Network::kHost && !manifest.server.listeners.empty())
    return Error::of(EADDRINUSE,
                     "replicas cannot all listen on port {} of this machine: use --network veth or "
                     "none",
                     manifest.server.listeners[0].port);
  return {};
}

Status refuse_tcp(const Manifest& manifest, const RestoreOptions& options) {
  if ((options.tcp.empty() ? manifest.tcp : options.tcp) != "established") return {};
  if (manifest.tcp != "established")
    return Error(EOPNOTSUPP, "the snapshot has no connections: it was made with --tcp close");
  if (manifest.server.connections > 0 &&
      (options.replicas > 1 || options.network != Network::kHost))
    return Error::of(
        EOPNOTSUPP,
        "{} TCP connections can continue in one replica only, with --network host: use "
        "--tcp close",
        manifest.server.connections);
  return {};
}

}  // namespace

Status refuse_criu(const CriuOptions& options) {
  const tool::Machine machine = machine_of(options);
  for (const tool::Item& item : {tool::check_capability(machine), tool::check_criu_version(machine),
                                 tool::check_plugin(machine)})
    if (item.grade == tool::Grade::kBad)
      return Error::of(ENOTSUP, "{}: {}: {}", item.what, item.found, item.remedy);
  return {};
}

std::string version_of(const CriuOptions& options) {
  const std::string found = tool::check_criu_version(machine_of(options)).found;
  constexpr std::string_view kVersion = "version ";
  return found.starts_with(kVersion) ? found.substr(kVersion.size()) : "";
}

std::string last_error(const std::string& log) {
  std::ifstream file(log);
  std::string result = "see " + log;
  for (std::string line; std::getline(file, line);)
    if (const size_t at = line.find("Error"); at != line.npos && !line.ends_with("FAILED."))
      result = line.substr(at);
  return result;
}

Result<Place> examine_place(const Manifest& manifest) {
  Place place;
  if (!manifest.gpus.empty())
    for (const topology::Gpu& gpu : TRY(host::Host::create().gpus()))
      place.gpus.push_back({gpu.property("gfx_target_version"), gpu.property("vram_size")});
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream file(formatted("/proc/self/net/{}", table));
    for (const auto& socket : host::parse_tcp({std::istreambuf_iterator<char>(file), {}}))
      if (socket.listening) place.ports.insert(socket.port);
  }
  for (const pid_t pid : manifest.server.pids)
    if (kill(pid, 0) == 0 || errno == EPERM) place.pids.insert(pid);
  return place;
}

Status refuse_restore(const Manifest& manifest, const RestoreOptions& options, const Place& place) {
  TRY(refuse_sharing(manifest, options));
  TRY(refuse_tcp(manifest, options));
  TRY(refuse_gpus(manifest, options.replicas, place));
  if (!manifest.server.own_pid_namespace && !place.pids.empty())
    return Error::of(EEXIST, "process {} exists, and the server had this number: is it running?",
                     *place.pids.begin());
  if (options.network == Network::kHost)
    for (const Listener& listener : manifest.server.listeners)
      if (place.ports.contains(listener.port))
        return Error::of(EADDRINUSE,
                         "port {} of this machine is in use: end its server, or use --network",
                         listener.port);
  return {};
}

Result<std::vector<std::string>> damage_of(const std::string& directory, const Manifest& manifest,
                                           Check check) {
  std::vector<std::string> result;
  for (const File& file : manifest.files) {
    const std::string path = directory + "/" + file.name;
    std::error_code error;
    const uint64_t size = fs::file_size(path, error);
    if (error == std::errc::no_such_file_or_directory) {
      result.push_back(formatted("{}: {}", file.name, error.message()));
    } else if (error) {
      return Error::of(error.value(), "cannot examine {}: {}", path, error.message());
    } else if (size != file.size) {
      result.push_back(formatted("{} has {} bytes instead of {}", file.name, size, file.size));
    } else if (check == Check::kAll || size <= kSmall) {
      if (TRY(digest_of(path)) != file.digest)
        result.push_back(formatted("{} has another BLAKE3 digest", file.name));
    }
  }
  return result;
}

}  // namespace amdgpu_criu::snapshot
