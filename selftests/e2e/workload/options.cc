// SPDX-License-Identifier: GPL-2.0
#include "workload/options.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>

#include "workload/control.h"

namespace e2e {
namespace {

struct Setting {
  std::string_view name;
  const char* help;
  uint64_t min, max;
  void (*set)(Options&, uint64_t);
};

constexpr uint64_t kManyMib = 1 << 20;

constexpr Setting kSettings[] = {
    {"--gpus", "GPUs to use; 2 or more share memory", 1, 8,
     [](Options& o, uint64_t v) { o.gpus = static_cast<unsigned>(v); }},
    {"--processes", "that share the work; 2: each uses one GPU", 1, 2,
     [](Options& o, uint64_t v) { o.processes = static_cast<unsigned>(v); }},
    {"--vram", "MiB of VRAM that the CPU sees, per GPU", 0, kManyMib,
     [](Options& o, uint64_t v) { o.vram_mib = v; }},
    {"--hidden", "MiB of VRAM that the CPU does not see, per GPU", 0, kManyMib,
     [](Options& o, uint64_t v) { o.hidden_mib = v; }},
    {"--gtt", "MiB of GTT, per GPU", 0, kManyMib, [](Options& o, uint64_t v) { o.gtt_mib = v; }},
    {"--userptr", "MiB of userptr memory, per GPU", 0, kManyMib,
     [](Options& o, uint64_t v) { o.userptr_mib = v; }},
    {"--small", "BOs of one page, per GPU", 0, 100000,
     [](Options& o, uint64_t v) { o.small = static_cast<unsigned>(v); }},
    {"--many", "more BOs of one page", 0, 100000,
     [](Options& o, uint64_t v) { o.many = static_cast<unsigned>(v); }},
    {"--peer-vram", "1: shared memory of GPUs is in VRAM", 0, 1,
     [](Options& o, uint64_t v) { o.peer_vram = v != 0; }},
    {"--vmid", "1: reserve a VMID, which one file of a GPU can do", 0, 1,
     [](Options& o, uint64_t v) { o.vmid = v != 0; }},
    {"--own-pages", "1: map doorbells, event page and MMIO page of /dev/kfd without BOs", 0, 1,
     [](Options& o, uint64_t v) { o.own_pages = v != 0; }},
    {"--split", "1: split every mapping of GPU memory, doorbells and event page", 0, 1,
     [](Options& o, uint64_t v) { o.split = v != 0; }},
    {"--count", "BOs of one size, per GPU", 1, 100000,
     [](Options& o, uint64_t v) { o.count = static_cast<unsigned>(v); }},
    {"--kib", "KiB of each of them, a multiple of 4", 4, kManyMib << 10,
     [](Options& o, uint64_t v) { o.kib = v / 4 * 4; }},
    {"--heap", "MiB of ordinary memory", 0, kManyMib,
     [](Options& o, uint64_t v) { o.heap_mib = v; }},
    {"--seed", "of the random numbers", 0, UINT32_MAX, [](Options& o, uint64_t v) { o.seed = v; }},
    {"--queues", "SDMA queues at most, which all processes of a GPU share", 0, 64,
     [](Options& o, uint64_t v) { o.queues = static_cast<unsigned>(v); }},
    {"--keep-render", "1: render nodes stay open", 0, 1,
     [](Options& o, uint64_t v) { o.keep_render = v != 0; }},
    {"--operations", "what is done at random", 0, 100000,
     [](Options& o, uint64_t v) { o.operations = v; }},
    {"--plain",
     "1: the GPU works on ordinary memory, whose pages the driver maps when they are missed", 0, 1,
     [](Options& o, uint64_t v) { o.plain = v != 0; }},
    {"--held",
     "work-groups of a kernel that ends each step, and runs until a verdict is requested; 0: none",
     0, kHeldMax, [](Options& o, uint64_t v) { o.held = static_cast<unsigned>(v); }},
    {"--full", "1: as many work-groups as the GPU holds, and no second queue", 0, 1,
     [](Options& o, uint64_t v) { o.full = v != 0; }},
    {"--steps", "steps to do; 0: until SIGTERM", 0, UINT32_MAX,
     [](Options& o, uint64_t v) { o.steps = v; }},
    {"--interval", "milliseconds between steps", 0, 60000,
     [](Options& o, uint64_t v) { o.interval_ms = static_cast<unsigned>(v); }},
    {"--timeout", "seconds that a step or a copy may take", 1, 86400,
     [](Options& o, uint64_t v) { o.timeout_s = static_cast<unsigned>(v); }},
};

bool has(const Program& program, const Setting& setting) {
  return program.settings.find(setting.name) != std::string_view::npos;
}

void print_help(const Program& program) {
  printf(
      "usage: %s [OPTION VALUE]...\n%s\n"
      "Prints each step. SIGUSR1: compare all memory and print a verdict. SIGTERM: the same, and\n"
      "end. Exit code: 0 all was right, 1 damage or a stalled step, 2 usage, 3 setup failed,\n"
      "4 no GPU or no driver.\n",
      program.name, program.description);
  for (const Setting& setting : kSettings)
    if (has(program, setting))
      printf("  %-12.*s %s\n", static_cast<int>(setting.name.size()), setting.name.data(),
             setting.help);
}

const Setting* find(const Program& program, std::string_view name) {
  for (const Setting& setting : kSettings)
    if (setting.name == name && has(program, setting)) return &setting;
  return nullptr;
}

std::optional<uint64_t> number(std::string_view text, const Setting& setting) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < setting.min || value > setting.max) return std::nullopt;
  return value;
}

}  // namespace

ParsedOptions parse_options(const Program& program, int argc, char** argv) {
  ParsedOptions parsed;
  const std::span<char*> args(argv + 1, static_cast<size_t>(argc > 0 ? argc - 1 : 0));
  for (size_t i = 0; i < args.size(); i += 2) {
    if (std::string_view(args[i]) == "--help") {
      print_help(program);
      return {parsed.options, 0};
    }
    const Setting* setting = find(program, args[i]);
    const auto value =
        setting && i + 1 < args.size() ? number(args[i + 1], *setting) : std::nullopt;
    if (!value) {
      fprintf(stderr, "%s: %s: unknown option, or a number out of range; see --help\n",
              program.name, args[i]);
      return {parsed.options, kUsageError};
    }
    setting->set(parsed.options, *value);
  }
  return parsed;
}

}  // namespace e2e
