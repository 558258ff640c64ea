// SPDX-License-Identifier: GPL-2.0
// saved_waves [OPTION] DIR|PID: prints the waves in the GPU images of a dump, or in a process that
// runs and whose queues are suspended meanwhile: a line for each queue that has waves, and a last
// line with their number. It decodes them independently of the software GPU. Exit code: 0 good, 1
// an image is damaged or a control stack does not describe its save area, 2 failure.
//
// --registers prints the registers of each wave. --core FILE does so and writes what dbgapi_waves
// needs, another decoder, to print the same. --withhold stack|mqd|area removes a part of the
// images, and --change REGISTER changes its lowest bit in one wave: a process that is restored from
// such images must not produce the right result.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

#include "waves/images.h"
#include "waves/live.h"

namespace {

using namespace amdgpu_criu;

int usage() {
  fprintf(stderr,
          "usage: saved_waves [--registers] DIR|PID\n"
          "       saved_waves --core FILE DIR|PID\n"
          "       saved_waves --withhold stack|mqd|area DIR\n"
          "       saved_waves --change REGISTER DIR\n");
  return 2;
}

Result<size_t> read(const std::string& place, const ImageOptions& options) {
  if (place.find_first_not_of("0123456789") == std::string::npos)
    return read_live(atoi(place.c_str()), options.registers, options.core);
  return read_images(place, options);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string_view, Part> parts = {
      {"stack", Part::kStack}, {"mqd", Part::kMqd}, {"area", Part::kArea}};
  const std::string_view option = argc > 2 ? argv[1] : "";
  ImageOptions options;
  if (option == "--registers" && argc == 3)
    options.registers = true;
  else if (option == "--core" && argc == 4)
    options = {.changed = {}, .registers = true, .core = argv[2]};
  else if (option == "--withhold" && argc == 4 && parts.contains(argv[2]))
    options.withheld = parts.at(argv[2]);
  else if (option == "--change" && argc == 4)
    options.changed = argv[2];
  else if (argc != 2)
    return usage();
  const auto waves = read(argv[argc - 1], options);
  if (!waves.ok()) {
    fprintf(stderr, "saved_waves: %s\n", waves.error().message().c_str());
    return waves.error().code() == EBADMSG ? 1 : 2;
  }
  printf("waves %zu\n", *waves);
  return 0;
}
