// SPDX-License-Identifier: GPL-2.0
// Checks CRIU and the plugin.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/shell_word.h"
#include "tool/check.h"

namespace amdgpu_criu::tool {
namespace {

namespace fs = std::filesystem;

constexpr char kPluginName[] = "amdgpu_criu_plugin.so";
constexpr char kForeignPlugin[] = "amdgpu_plugin.so";
constexpr int kShellCannotRun = 127;

struct Run {
  int status = kShellCannotRun;
  std::string output;  // of stdout and stderr
};

Run run(const std::string& program, const char* arguments) {
  const std::string command = quoted_for_shell(program) + " " + arguments + " 2>&1 </dev/null";
  Run result;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return result;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof(buffer), pipe))
    result.output.append(buffer, got);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : kShellCannotRun;
  return result;
}

// The first line that contains "Error", or else the last line.
std::string complaint(const std::string& output) {
  std::string last, line;
  for (size_t start = 0; start < output.size(); start += line.size() + 1) {
    line = output.substr(start, output.find('\n', start) - start);
    if (line.find("Error") != std::string::npos) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

Item check_criu_version(const Machine& machine) {
  constexpr char kWhat[] = "CRIU";
  const Run version = run(machine.criu, "--version");
  int major = 0, minor = 0;
  if (version.status != 0 || sscanf(version.output.c_str(), "Version: %d.%d", &major, &minor) != 2)
    return {kWhat, Grade::kBad, formatted("no command {} that prints its version", machine.criu),
            "there is nothing that loads the plugin", "install criu, or add its directory to PATH"};
  const std::string found = formatted("version {}.{}", major, minor);
  if (major < 4 || (major == 4 && minor < 1))
    return {kWhat, Grade::kBad, found, "it lacks the hook at which GPUs are paused",
            "install CRIU 4.1 or later"};
  return Item::good(kWhat, found);
}

Item check_criu_kernel(const Machine& machine) {
  constexpr char kWhat[] = "CRIU with this kernel";
  if (geteuid() != 0)
    return {kWhat, Grade::kLimited, "not examined: criu check needs root", "", "run this as root"};
  const Run check = run(machine.criu, "check");
  if (check.status == kShellCannotRun)
    return {kWhat, Grade::kBad, "not examined: there is no CRIU", "", "see above"};
  if (check.status != 0)
    return {kWhat, Grade::kBad, "criu check: " + complaint(check.output),
            "processes cannot be dumped or restored here, with GPUs or without",
            "see the output of criu check"};
  return Item::good(kWhat, "criu check finds all that it needs");
}

Item check_plugin(const Machine& machine) {
  constexpr char kWhat[] = "plugin";
  const fs::path directory = machine.plugin_directory;
  const fs::path plugin = directory / kPluginName;
  std::error_code error;
  if (fs::exists(directory / kForeignPlugin, error))
    return {kWhat, Grade::kBad,
            formatted("{}, CRIU's own, is in {} as well", kForeignPlugin, directory.string()),
            "two plugins claim the same files",
            "remove it, or choose another directory with criu --libdir"};
  if (!fs::exists(plugin, error))
    return {kWhat, Grade::kBad, formatted("no {} in {}", kPluginName, directory.string()),
            "CRIU does not find it by itself",
            "install it there, or use criu --libdir DIR; check --libdir DIR looks there"};
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(plugin.c_str(), RTLD_LAZY), dlclose);
  if (!library || !dlsym(library.get(), "CR_PLUGIN_DESC"))
    return {kWhat, Grade::kBad, dlerror(), "every run of CRIU ends with an error",
            "install its dependencies, or reinstall the plugin"};
  return Item::good(kWhat, plugin.string());
}

}  // namespace amdgpu_criu::tool
