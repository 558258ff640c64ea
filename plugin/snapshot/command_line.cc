// SPDX-License-Identifier: GPL-2.0
#include "snapshot/command_line.h"

#include <filesystem>
#include <map>

namespace amdgpu_criu::snapshot {
namespace {

// criu changes its directory to that of its logs before it opens such a path.
CLI::Validator absolute_path() {
  return {[](std::string& path) -> std::string {
            if (!path.empty()) path = std::filesystem::absolute(path);
            return {};
          },
          ""};
}

}  // namespace

CommandLine::CommandLine(CLI::App& app)
    : snapshot_(app.add_subcommand(
          "snapshot", "Save a server to a directory, and start replicas of it from there")) {
  snapshot_->require_subcommand(1);
  add_create();
  add_restore();
  add_readers();
  for (CLI::App* command : {create_, restore_, inspect_, verify_, list_})
    command->add_flag("--json", json_, "Print JSON");
}

void CommandLine::add_create() {
  create_ =
      snapshot_->add_subcommand("create", "Start a server, or take one that runs, and save it");
  create_->add_option("DIR", created_.directory, "The snapshot, a new directory")->required();
  auto* pid = create_->add_option("--pid", created_.pid, "A server that runs")
                  ->type_name("PID")
                  ->check(CLI::PositiveNumber.description(""));
  auto* command =
      create_->add_option("COMMAND", created_.command, "The server, after --")->excludes(pid);
  const auto* timeout = add_readiness(*create_, created_.readiness);
  create_->add_option("--before", created_.before, "Run this before the dump: it quiesces")
      ->type_name("COMMAND");
  create_->add_option("--after", created_.after, "Run this after the dump")->type_name("COMMAND");
  create_->add_option("--tcp", created_.tcp, "What becomes of connections: close or established")
      ->check(CLI::IsMember({"close", "established"}))
      ->capture_default_str();
  create_->add_flag("--leave-running", created_.leave_running, "The server goes on");
  create_
      ->add_flag("--dry-run", created_.dry_run,
                 "Print criu's command, and whether GPU state would be refused")
      ->needs(pid);
  add_criu(*create_, created_.criu);
  create_->get_option("--ready-line")->excludes(pid);  // its output is not known
  create_->callback([this, pid, command, timeout] {
    if (pid->empty() && command->empty()) throw CLI::RequiredError("--pid PID, or -- COMMAND");
    if (created_.readiness.is_empty() && !(command->empty() && timeout->empty()))
      throw CLI::RequiredError(
          "To know when the server can be saved, one of --ready-command, --ready-port and "
          "--ready-line");
  });
}

void CommandLine::add_restore() {
  restore_ = snapshot_->add_subcommand("restore", "Start replicas of a saved server");
  restore_->add_option("DIR", restored_.directory, "The snapshot")->required();
  restore_->add_option("--replicas,-n", restored_.replicas, "How many")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  const std::map<std::string, Network> networks{
      {"host", Network::kHost}, {"none", Network::kNone}, {"veth", Network::kVeth}};
  restore_
      ->add_option("--network", restored_.network,
                   "That of the machine (host), or one of its own for each replica: without (none) "
                   "or with (veth) a way in")
      ->type_name("NETWORK")
      ->transform(CLI::CheckedTransformer(networks).description(""))
      ->default_str("host");
  restore_->add_option("--subnet", restored_.subnet, "Addresses for --network veth, a /16")
      ->type_name("ADDRESS")
      ->check(CLI::ValidIPV4.description(""))
      ->capture_default_str();
  restore_->add_option("--tcp", restored_.tcp, "Instead of that at create: close or established")
      ->check(CLI::IsMember({"close", "established"}));
  const auto* timeout = add_readiness(*restore_, restored_.readiness);
  restore_->callback([this, timeout] { restored_.has_timeout = !timeout->empty(); });
  restore_->add_option("--restored", restored_.restored, "Run this for each replica that is ready")
      ->type_name("COMMAND");
  restore_->add_option("--state-dir", restored_.state_directory, "For logs and pids of replicas")
      ->type_name("DIR");
  restore_->add_flag("--verify", restored_.verify, "Check every digest first");
  restore_->add_flag("--dry-run", restored_.dry_run, "Print criu's command, or why it is refused");
  add_criu(*restore_, restored_.criu);
}

void CommandLine::add_readers() {
  inspect_ = snapshot_->add_subcommand("inspect", "Print what a snapshot is and needs");
  verify_ = snapshot_->add_subcommand("verify", "Read all files and check every digest");
  for (CLI::App* command : {inspect_, verify_})
    command->add_option("DIR", directory_, "The snapshot")->required();
  list_ = snapshot_->add_subcommand("list", "List the snapshots in a directory");
  list_->add_option("DIR", directory_, "The directory")->capture_default_str();
}

void CommandLine::add_criu(CLI::App& command, CriuOptions& options) {
  command.add_option("--criu", options.program, "The criu program")
      ->type_name("PROGRAM")
      ->capture_default_str();
  command.add_option("--libdir", options.libdir, "Where CRIU finds its plugins (its own option)")
      ->type_name("DIR")
      ->transform(absolute_path())
      ->envname("CRIU_LIBS_DIR");
  command
      .add_option("--criu-option", options.words,
                  "Add this to criu's options, as NAME=VALUE; it replaces one of that name")
      ->type_name("OPTION")
      ->expected(1)
      ->take_all();
  command.add_option("--without", options.leave_outs, "Do not add this option of criu")
      ->type_name("OPTION")
      ->expected(1)
      ->take_all();
}

CLI::Option* CommandLine::add_readiness(CLI::App& command, Readiness& readiness) {
  command.add_option("--ready-command", readiness.command, "Ready when this command succeeds")
      ->type_name("COMMAND");
  command.add_option("--ready-port", readiness.port, "Ready when this TCP port accepts")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65535));
  command.add_option("--ready-line", readiness.line, "Ready when a line of the log has this text")
      ->type_name("TEXT");
  return command.add_option("--ready-timeout", readiness.timeout, "How long to wait for that")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

int CommandLine::run() {
  const auto format = json_ ? tool::Format::kJson : tool::Format::kText;
  if (*create_) return create(created_, format);
  if (*restore_) return restore(restored_, format);
  if (*inspect_) return inspect(directory_, format);
  if (*verify_) return snapshot::verify(directory_, format);
  return list(directory_, format);
}

}  // namespace amdgpu_criu::snapshot
