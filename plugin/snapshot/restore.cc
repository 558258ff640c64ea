// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu snapshot restore`
#include <sys/prctl.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/host.h"
#include "host/run_directory.h"
#include "snapshot/refusals.h"
#include "snapshot/replica.h"
#include "snapshot/server.h"
#include "tool/output.h"

namespace amdgpu_criu::snapshot {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kOpenFiles = 16;  // of this command, without replicas

// Below the plugin's run directory, unless the user has chosen another one.
std::string state_directory_of(const RestoreOptions& options) {
  if (!options.state_directory.empty()) return fs::absolute(options.state_directory);
  return host::Config().run_directory + "/snapshots/" +
         fs::canonical(options.directory).filename().string();
}

Status make_state_directory(const RestoreOptions& options, const std::string& directory) {
  if (options.state_directory.empty()) TRY(host::open_run_directory(host::Config().run_directory));
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return Error::of(error.value(), "cannot make {}: {}", directory, error.message());
  return {};
}

Status check_files(const RestoreOptions& options, const Manifest& manifest) {
  const auto damage =
      TRY(damage_of(options.directory, manifest, options.verify ? Check::kAll : Check::kSizes));
  if (damage.empty()) return {};
  return Error::of(EBADMSG, "the snapshot is damaged: {}{}", damage[0],
                   damage.size() > 1 ? formatted(", and {} more", damage.size() - 1) : "");
}

void print_command(const CriuCommand& criu, Report& report) {
  report.say("{}", criu.program().text());
  for (const std::string& reason : criu.reasons()) report.detail(reason);
}

// All at the same time. A failure of one ends all.
Status restore_all(std::vector<Replica>& replicas, Report& report) {
  const Status status =
      run_all(replicas.size(), [&](size_t i) { return replicas[i].restore(report); });
  if (!status.ok())
    for (Replica& replica : replicas) replica.end();
  return status;
}

tool::Json json_of_replicas(const std::vector<Replica>& replicas, const Manifest& manifest) {
  tool::Json array = tool::Json::array();
  for (const Replica& replica : replicas)
    array.push_back(tool::Json{{"replica", replica.number()},
                               {"pid", replica.pid()},
                               {"address", replica.address()},
                               {"gpus", replica.gpus()},
                               {"directory", replica.directory()},
                               {"seconds", replica.seconds()}});
  return {{"replicas", std::move(array)}, {"cold_start_seconds", manifest.ready_seconds}};
}

void print_replicas(const std::vector<Replica>& replicas, const Manifest& manifest) {
  for (const Replica& replica : replicas)
    printf("replica %u: process %d, %s, ready after %.2f s, %s, on %s\n", replica.number(),
           replica.pid(), replica.address().c_str(), replica.seconds(), replica.directory().c_str(),
           replica.gpus().c_str());
  if (manifest.ready_seconds > 0)
    printf("a cold start of the server took %.2f s\n", manifest.ready_seconds);
}

Status run_restore(const RestoreOptions& options, const Manifest& manifest,
                   std::vector<Replica>& replicas) {
  Report report;
  TRY(refuse_criu(options.criu));
  TRY(need_pidfds());
  TRY(check_files(options, manifest));
  TRY(refuse_restore(manifest, options, TRY(examine_place(manifest))));
  const std::string state = state_directory_of(options);
  if (options.dry_run) {
    print_command(TRY(TRY(Replica::preview(manifest, options, state)).command()), report);
    return {};
  }
  TRY(allow_open_files(kOpenFiles + uint64_t{options.replicas} * Replica::descriptors(manifest)));
  TRY(make_state_directory(options, state));
  // Replicas are children of this command when criu has ended. Their numbers are theirs until then.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return Error::system("cannot adopt replicas");
  unsigned next_network = 0;
  for (unsigned i = 0; i < options.replicas; i++)
    replicas.push_back(TRY(Replica::prepare(manifest, options, state, next_network)));
  print_command(TRY(replicas[0].command()), report);
  return restore_all(replicas, report);
}

}  // namespace

int restore(const RestoreOptions& options, tool::Format format) {
  watch_for_signals();
  const auto manifest = read_manifest(options.directory);
  if (!manifest.ok()) return tool::complain(2, manifest.error().message());
  std::vector<Replica> replicas;
  if (const Status status = run_restore(options, *manifest, replicas); !status.ok())
    return tool::complain(1, status.error().message());
  if (options.dry_run) return 0;
  if (format == tool::Format::kJson)
    tool::print_json(json_of_replicas(replicas, *manifest));
  else
    print_replicas(replicas, *manifest);
  return 0;
}

}  // namespace amdgpu_criu::snapshot
