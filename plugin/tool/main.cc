// SPDX-License-Identifier: GPL-2.0
// amdgpu-criu: examines this machine and images, and makes snapshots of servers.
#include <CLI/CLI.hpp>
#include <regex>

#include "snapshot/command_line.h"
#include "tool/commands.h"
#include "tool/output.h"

namespace {

int run(int argc, char** argv) try {
  CLI::App app(
      "Checkpoint and restore of processes that use AMD GPUs: examines this machine and "
      "images, and makes snapshots of servers.");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.set_version_flag("--version", "amdgpu-criu " AMDGPU_CRIU_VERSION);
  bool json = false, blobs = false;
  std::string directory, libdir;
  CLI::App* check = app.add_subcommand(
      "check", "Report what will work on this machine, what will not, why, and the remedy");
  check->add_option("--libdir", libdir, "Where CRIU finds its plugins (its own option)")
      ->type_name("DIR")
      ->envname("CRIU_LIBS_DIR");
  check->add_option("--directory", directory, "Also check this directory for images")
      ->type_name("DIR");
  const auto add_pid = [](CLI::App* command, const char* name, pid_t& to, const char* text) {
    return command->add_option(name, to, text)
        ->type_name("PID")
        ->check(CLI::PositiveNumber.description(""));
  };
  pid_t pid = 0;
  add_pid(check, "--pid", pid, "Report whether this process, with its descendants, can be dumped");
  CLI::App* freeze = app.add_subcommand(
      "freeze", "Pause the GPU work of a process and its descendants, until thaw");
  CLI::App* thaw = app.add_subcommand("thaw", "End the pause of freeze");
  CLI::App* suspend = app.add_subcommand(
      "suspend",
      "Pause the GPU work of a process and its descendants, and move their VRAM to host memory, "
      "until resume");
  CLI::App* resume = app.add_subcommand("resume", "Move the VRAM back, and end suspend");
  CLI::App* state =
      app.add_subcommand("state", "Print whether a process is running, frozen or suspended");
  for (CLI::App* command : {freeze, thaw, suspend, resume, state})
    add_pid(command, "--pid", pid, "The process")->required();
  CLI::App* pre_dump = app.add_subcommand(
      "pre-dump",
      "Save the GPU memory of a process and its descendants while they run, for a later criu dump");
  amdgpu_criu::tool::PreDumpOptions saved;
  add_pid(pre_dump, "--pid,-t", saved.pid, "The process")->required();
  pre_dump->add_option("--images-dir,-D", saved.directory, "Where images are written")
      ->type_name("DIR")
      ->required();
  pre_dump
      ->add_option("--prev-images-dir", saved.earlier,
                   "Images of the previous round; a path relative to DIR, as with criu")
      ->type_name("DIR");
  CLI::App* show = app.add_subcommand("show", "Print what the GPU images in a directory hold");
  show->add_flag("--blob", blobs, "Also list the records of the kernel's state");
  CLI::App* verify =
      app.add_subcommand("verify", "Read all GPU images in a directory and check every checksum");
  std::string verifier;
  verify
      ->add_option(
          "--gpu", verifier,
          "Copy the contents to free memory of this GPU, too, and compare their hashes there")
      ->type_name("GPU");
  std::string flattened;
  CLI::App* flatten = app.add_subcommand(
      "flatten",
      "Write the images of an incremental dump to a directory that needs no earlier one");
  CLI::App* requirements = app.add_subcommand(
      "requirements", "Print what a restore of the images in a directory needs: GPUs, files");
  CLI::App* stack_id = app.add_subcommand(
      "stack-id",
      "Print an identifier that is equal on machines that can restore each other's images");
  CLI::App* cdi = app.add_subcommand(
      "cdi", "Print the GPUs as devices for container engines (Container Device Interface)");
  std::string kind = "amd.com/gpu";
  cdi->add_option("--kind", kind, "The kind of the devices")
      ->type_name("VENDOR/CLASS")
      ->check(CLI::Validator(
          [](std::string& text) {
            const std::regex form(
                "[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?");
            return std::regex_match(text, form) ? "" : "not VENDOR/CLASS: " + text;
          },
          ""))
      ->capture_default_str();
  CLI::App* options =
      app.add_subcommand("options", "Print all options of the plugin as a configuration file");
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure how fast GPU memory is copied, summed, written and read here");
  amdgpu_criu::tool::BenchOptions benched;
  bench->add_option("--gpu", benched.gpus, "This GPU only: index, 0xGPU_ID or PCI address")
      ->type_name("GPU");
  bench->add_option("--directory", benched.directory, "Where images would be written")
      ->type_name("DIR")
      ->capture_default_str();
  bench->add_option("--size", benched.mebibytes, "MiB of VRAM and of files")
      ->type_name("MIB")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  bench->add_option("--rounds", benched.rounds, "Number of measurements")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  amdgpu_criu::snapshot::CommandLine snapshot(app);
  for (CLI::App* command : {check, state, show, verify, requirements, stack_id, options, bench})
    command->add_flag("--json", json, "Print JSON");
  for (CLI::App* command : {show, verify, flatten, requirements})
    command->add_option("DIR", directory, "CRIU's image directory")->required();
  // Such as of a variable that is not set: images would not be encrypted.
  const CLI::Validator not_empty(
      [](std::string& path) { return path.empty() ? "an empty path" : ""; }, "");
  for (CLI::App* command : {pre_dump, show, verify, flatten, requirements})
    command
        ->add_option_function<std::string>(
            "--key-file",
            [](const std::string& path) { setenv("AMDGPU_CRIU_KEY_FILE", path.c_str(), 1); },
            "The key of encrypted images, as the plugin's option key-file")
        ->type_name("FILE")
        ->check(not_empty);
  flatten->add_option("NEW", flattened, "The new directory")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto format = json ? amdgpu_criu::tool::Format::kJson : amdgpu_criu::tool::Format::kText;
  if (snapshot.is_chosen()) return snapshot.run();
  if (*freeze) return amdgpu_criu::tool::freeze(pid);
  if (*thaw) return amdgpu_criu::tool::thaw(pid);
  if (*suspend) return amdgpu_criu::tool::suspend(pid);
  if (*resume) return amdgpu_criu::tool::resume(pid);
  if (*state) return amdgpu_criu::tool::state(pid, format);
  if (*pre_dump) return amdgpu_criu::tool::pre_dump(saved);
  if (*check && pid > 0) return amdgpu_criu::tool::check_process(pid, format);
  if (*show) return amdgpu_criu::tool::show(directory, blobs, format);
  if (*verify) return amdgpu_criu::tool::verify(directory, verifier, format);
  if (*flatten) return amdgpu_criu::tool::flatten(directory, flattened);
  if (*requirements) return amdgpu_criu::tool::requirements(directory, format);
  if (*stack_id) return amdgpu_criu::tool::stack_id(format);
  if (*cdi) return amdgpu_criu::tool::cdi(kind);
  if (*options) return amdgpu_criu::tool::list_options(format);
  if (*bench) return amdgpu_criu::tool::bench(benched, format);
  return amdgpu_criu::tool::check(libdir, directory, format);
} catch (const std::exception& exception) {
  return amdgpu_criu::tool::complain(2, exception.what());
}

}  // namespace

int main(int argc, char** argv) {
  amdgpu_criu::tool::prepare_output();
  return amdgpu_criu::tool::finish_output(run(argc, argv));
}
