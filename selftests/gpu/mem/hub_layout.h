// SPDX-License-Identifier: GPL-2.0
// The places of the registers of a translation hub: words from VM_L2_CNTL on.
#pragma once

#include <cstdint>
#include <optional>

namespace gpu {

struct HubLayout {
  uint32_t fault_control;
  uint32_t fault_status;  // the address follows: lo, hi, in pages
  uint32_t context_control;
  uint32_t invalidate_semaphore;
  uint32_t invalidate_request;
  uint32_t invalidate_ack;
  uint32_t page_table_base;  // lo, hi a VMID
  uint32_t page_table_start;
  uint32_t page_table_end;
  std::optional<uint32_t> xgmi_control;  // none: the chip has no XGMI; the size follows
  uint32_t fb_base;                      // in 16 MiB
  uint32_t fb_top;
  uint32_t words;  // number of the hub's registers
};

}  // namespace gpu
