// SPDX-License-Identifier: GPL-2.0
// Feeds arbitrary bytes to the reader, as they are and with the frame made right, so that the
// checksum does not keep the fuzzer out. What must hold is in sample::ReadAll().
#include "sample.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sample::ReadAll({data, size});
  sample::Bytes repaired(data, data + size);
  sample::RepairFrame(&repaired);
  sample::ReadAll(repaired);
  return 0;
}
