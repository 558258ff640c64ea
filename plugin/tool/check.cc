// SPDX-License-Identifier: GPL-2.0
#include "tool/check.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tool/commands.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {
namespace {

struct Name {
  const char* in_text;
  const char* in_json;
};
Name name_of(Grade grade) {
  if (grade == Grade::kGood) return {"ok", "ok"};
  return grade == Grade::kLimited ? Name{"note", "limited"} : Name{"BAD", "bad"};
}

void print(const Item& item) {
  printf("%-4s %s: %s\n", name_of(item.grade).in_text, item.what.c_str(), item.found.c_str());
  if (!item.consequence.empty()) printf("       consequence: %s\n", item.consequence.c_str());
  if (!item.remedy.empty()) printf("       remedy: %s\n", item.remedy.c_str());
}

void print_verdict(size_t bad, size_t limited) {
  if (bad)
    printf("%zu of these must be fixed before everything works", bad);
  else
    printf("all requirements are met");
  printf(limited ? ", %zu notes\n" : "\n", limited);
}

Json json_of(const Item& item) {
  return {{"what", item.what},
          {"ok", item.grade != Grade::kBad},
          {"status", name_of(item.grade).in_json},
          {"found", item.found},
          {"consequence", item.consequence},
          {"remedy", item.remedy}};
}

}  // namespace

std::vector<Item> check_all(const Machine& machine) {
  const host::Host host = host::Host::create(machine.host);
  Fd kfd;
  std::vector<Item> items{check_kernel(machine), check_driver(host, kfd)};
  items.push_back(check_interface(kfd));
  std::vector<Item> of_gpus = check_gpus(machine, host);
  const auto gpus = static_cast<unsigned>(of_gpus.size());
  std::ranges::move(of_gpus, std::back_inserter(items));
  items.push_back(check_capability(machine));
  items.push_back(check_criu_version(machine));
  items.push_back(check_criu_kernel(machine));
  items.push_back(check_plugin(machine));
  items.push_back(check_kcmp());
  items.push_back(check_io_uring(machine));
  items.push_back(check_open_files());
  items.push_back(check_locked_memory(machine, gpus));
  items.push_back(check_file_size());
  items.push_back(check_memory_cgroup(machine, gpus));
  if (!machine.image_directory.empty()) items.push_back(check_images(machine, host));
  return items;
}

int check(const std::string& plugin_directory, const std::string& image_directory, Format format) {
  Machine machine;
  if (!plugin_directory.empty()) machine.plugin_directory = plugin_directory;
  machine.image_directory = image_directory;
  const std::vector<Item> items = check_all(machine);
  const size_t bad = std::ranges::count(items, Grade::kBad, &Item::grade);
  if (format == Format::kText) {
    std::ranges::for_each(items, print);
    print_verdict(bad, std::ranges::count(items, Grade::kLimited, &Item::grade));
  } else {
    Json array = Json::array();
    for (const Item& item : items) array.push_back(json_of(item));
    print_json({{"ok", bad == 0}, {"checks", std::move(array)}});
  }
  return bad == 0 ? 0 : 1;
}

}  // namespace amdgpu_criu::tool
