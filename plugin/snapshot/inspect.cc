// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu snapshot inspect`, `verify` and `list`
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "snapshot/program.h"
#include "snapshot/refusals.h"
#include "snapshot/snapshot.h"
#include "tool/output.h"

namespace amdgpu_criu::snapshot {
namespace {

namespace fs = std::filesystem;

unsigned long long in_mib(uint64_t bytes) { return bytes >> 20; }

int complain(const Error& error) { return tool::complain(2, error.message()); }

void print_manifest(const Manifest& manifest) {
  const Server& server = manifest.server;
  printf("server      %s\n", tool::printable(Program{server.command, {}}.text()).c_str());
  printf("created     %s by %s, CRIU %s, Linux %s\n", manifest.created.c_str(),
         manifest.tool.c_str(), manifest.criu.c_str(), manifest.kernel.c_str());
  printf("size        %zu files, %llu MiB\n", manifest.files.size(), in_mib(manifest.bytes()));
  for (const Gpu& gpu : manifest.gpus)
    printf("GPU         %s, %llu MiB of contents\n", gpu.chip.c_str(), in_mib(gpu.memory));
  printf("needs       %llu MiB of VRAM\n", in_mib(manifest.vram));
  printf("stack       %s\n", manifest.stack_id.c_str());
  printf("replicas    %s\n",
         server.own_pid_namespace ? "any number" : "one at a time: no pid namespace of its own");
  for (const Listener& listener : server.listeners)
    printf("listens     %s port %u\n", listener.address.c_str(), listener.port);
  printf("connections %u, --tcp %s\n", server.connections, manifest.tcp.c_str());
  if (manifest.ready_seconds > 0) printf("cold start  %.2f s\n", manifest.ready_seconds);
  printf("dump        %.2f s\n", manifest.dump_seconds);
}

tool::Json summary_of(const std::string& name, const Manifest& manifest) {
  return {{"name", name},
          {"created", manifest.created},
          {"command", Program{manifest.server.command, {}}.text()},
          {"bytes", manifest.bytes()},
          {"chip", manifest.gpus.empty() ? "" : manifest.gpus[0].chip},
          {"vram", manifest.vram}};
}

}  // namespace

int inspect(const std::string& directory, tool::Format format) {
  const auto manifest = read_manifest(directory);
  if (!manifest.ok()) return complain(manifest.error());
  if (format == tool::Format::kJson)
    print_as_json(*manifest);
  else
    print_manifest(*manifest);
  return 0;
}

int verify(const std::string& directory, tool::Format format) {
  const auto manifest = read_manifest(directory);
  if (!manifest.ok()) return complain(manifest.error());
  const auto damage = damage_of(directory, *manifest, Check::kAll);
  if (!damage.ok()) return complain(damage.error());
  if (format == tool::Format::kJson) {
    tool::print_json({{"ok", damage->empty()}, {"damage", *damage}});
  } else if (damage->empty()) {
    printf("%zu files, %llu MiB: every digest is right\n", manifest->files.size(),
           in_mib(manifest->bytes()));
  } else {
    for (const std::string& one : *damage) printf("%s\n", one.c_str());
    printf("amdgpu-criu verify %s names the buffers of damaged GPU memory\n",
           (fs::path(directory) / kImages).c_str());
  }
  return damage->empty() ? 0 : 1;
}

int list(const std::string& directory, tool::Format format) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    std::error_code unreadable;
    if (fs::exists(at->path() / kManifest, unreadable)) names.push_back(at->path().filename());
    if (unreadable)
      tool::complain(
          0, formatted("cannot look into {}: {}", at->path().string(), unreadable.message()));
  }
  if (error) return complain(Error(error.value(), directory + ": " + error.message()));
  std::ranges::sort(names);
  tool::Json array = tool::Json::array();
  for (const std::string& name : names) {
    const auto manifest = read_manifest((fs::path(directory) / name).string());
    if (!manifest.ok()) {
      complain(manifest.error());
      continue;
    }
    array.push_back(summary_of(name, *manifest));
    if (format == tool::Format::kText)
      printf("%-20s %s  %6llu MiB  %s, %llu MiB of VRAM  %s\n", name.c_str(),
             manifest->created.c_str(), in_mib(manifest->bytes()),
             manifest->gpus.empty() ? "no GPU" : manifest->gpus[0].chip.c_str(),
             in_mib(manifest->vram),
             tool::printable(Program{manifest->server.command, {}}.text()).c_str());
  }
  if (format == tool::Format::kJson) tool::print_json({{"snapshots", std::move(array)}});
  return 0;
}

}  // namespace amdgpu_criu::snapshot
