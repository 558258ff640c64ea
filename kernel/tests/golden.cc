// SPDX-License-Identifier: GPL-2.0
// Writes the sample blob: the fixture of a new format. Usage: criu_blob_golden FILE
#include <cstdio>
#include <fstream>

#include "sample.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  const sample::Bytes bytes = sample::MakeSample();
  std::ofstream file(argv[1], std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    fprintf(stderr, "%s: cannot be written\n", argv[1]);
    return 1;
  }
  return 0;
}
