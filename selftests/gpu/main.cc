// SPDX-License-Identifier: GPL-2.0
// softgpu: a software GPU for the real amdgpu driver in a virtual machine.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <random>

#include "core/log.h"
#include "device.h"
#include "engines/engines.h"
#include "firmware/ucode.h"
#include "stop_signals.h"
#include "transport/server.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr char kVersion[] = "softgpu 1.0 (vfio-user 0.0)";

struct Options {
  std::string socket;
  std::string asic{gpu::mi210().name};
  uint64_t vram_mib = 1024;
  uint64_t bar_mib = 0;
  std::string shared_dir;
  unsigned node = 0;
  unsigned nodes = 1;
  bool no_xgmi = false;
  std::string trace;
  std::string report;
  std::string firmware_dir;
  std::string delays;
  bool hold_cpu_writes = false;
};

std::vector<std::string> asic_names() {
  std::vector<std::string> names;
  for (const gpu::Asic* asic : gpu::all_asics()) names.emplace_back(asic->name);
  return names;
}

void describe(CLI::App& app, Options& options) {
  app.set_version_flag("--version", kVersion);
  app.add_option("--socket", options.socket, "UNIX socket where the virtual machine connects")
      ->type_name("PATH");
  app.add_option("--asic", options.asic, "Which chip this is")
      ->type_name("NAME")
      ->check(CLI::IsMember(asic_names()))
      ->capture_default_str();
  app.add_option("--vram", options.vram_mib, "Video memory, a power of two from 256 to 65536")
      ->type_name("MiB")
      ->capture_default_str();
  app.add_option("--bar", options.bar_mib,
                 "How much of it the CPU sees, a power of two from 256; without it all")
      ->type_name("MiB")
      ->envname("SOFTGPU_BAR");
  app.add_option("--shared-dir", options.shared_dir,
                 "Directory of all GPUs of one guest; holds their video memory")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  app.add_option("--node", options.node, "Which GPU of the guest this is, from 0")
      ->type_name("I")
      ->capture_default_str();
  app.add_option("--nodes", options.nodes, "How many GPUs the guest has, at most 8")
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--no-xgmi", options.no_xgmi,
               "The GPUs of the guest are no XGMI hive; they reach each other by PCI");
  app.add_option("--trace", options.trace, "Write one line for every register access")
      ->type_name("FILE");
  app.add_option("--report", options.report, "Write at exit the registers that no block models")
      ->type_name("FILE");
  app.add_option("--delays", options.delays,
                 "Make queues pause and interrupts late at random, by this seed; \"random\" logs "
                 "its seed")
      ->type_name("SEED")
      ->envname("SOFTGPU_DELAYS")
      ->check(CLI::PositiveNumber | CLI::IsMember({"random"}));
  app.add_flag("--hold-cpu-writes", options.hold_cpu_writes,
               "Hold what the CPU writes to video memory until it flushes the HDP; this is slow");
  app.add_option("--write-firmware", options.firmware_dir,
                 "Write the firmware files for the guest's /lib/firmware/amdgpu and exit")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  app.footer(
      "Serves one client and exits when it closes, or on SIGTERM or SIGINT.\n"
      "Exit status: 0 served, 1 could not serve, 2 wrong usage.");
}

amdgpu_criu::Status write_report(const std::string& path, const gpu::Device& device) {
  if (path.empty()) return {};
  std::ofstream file(path);
  file << device.report();
  file.close();
  if (!file) return amdgpu_criu::Error::system("cannot write the report {}", path);
  return {};
}

std::optional<uint32_t> seed_of(const std::string& delays) {
  if (delays.empty()) return std::nullopt;
  const uint32_t seed = delays == "random"
                            ? std::random_device()()
                            : static_cast<uint32_t>(std::strtoul(delays.c_str(), nullptr, 10));
  gpu::log_info("queues pause at random; repeat with --delays {}", seed);
  return seed;
}

amdgpu_criu::Status serve(const Options& options) {
  const auto signals = TRY(gpu::StopSignals::create());
  const auto delays = seed_of(options.delays);
  const auto device =
      TRY(gpu::Device::create({.asic = *gpu::find_asic(options.asic),
                               .vram_size = options.vram_mib << 20,
                               .bar_size = options.bar_mib << 20,
                               .shared_dir = options.shared_dir,
                               .node = options.node,
                               .nodes = options.nodes,
                               .xgmi = !options.no_xgmi,
                               .trace = options.trace,
                               .delays = delays,
                               .hold_cpu_writes = options.hold_cpu_writes},
                              delays ? gpu::engines_with_delays(*delays) : gpu::create_engines));
  const auto server = TRY(gpu::vfio::Server::create(options.socket));
  signals->on_signal([&server] { server->stop(); });
  const auto status = server->serve(*device);
  TRY(write_report(options.report, *device));
  return status;
}

amdgpu_criu::Status run(const Options& options) {
  if (!options.firmware_dir.empty()) return gpu::write_firmware(options.firmware_dir);
  return serve(options);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A software GPU (vfio-user server) for the real amdgpu driver in a virtual machine");
  Options options;
  describe(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (options.socket.empty() == options.firmware_dir.empty()) {
    std::cerr << "softgpu: give either --socket or --write-firmware; see --help\n";
    return kUsage;
  }
  if (options.vram_mib > gpu::Device::kMaxVram >> 20) {
    std::cerr << "softgpu: --vram is at most " << (gpu::Device::kMaxVram >> 20) << " MiB\n";
    return kUsage;
  }
  if (options.nodes > 1) gpu::set_log_prefix("softgpu" + std::to_string(options.node));
  const auto status = run(options);
  if (status.ok()) return 0;
  gpu::log_info("{}", status.error().message());
  return kFailed;
}
