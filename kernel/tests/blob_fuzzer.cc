// SPDX-License-Identifier: GPL-2.0
// Feeds arbitrary bytes to the reader, unchanged and with a corrected frame, so that inputs pass
// the checksum. sample::ReadAll() checks the promises of the codec.
#include "sample.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sample::ReadAll({data, size});
  sample::Bytes repaired(data, data + size);
  sample::RepairFrame(&repaired);
  sample::ReadAll(repaired);
  return 0;
}
