// SPDX-License-Identifier: GPL-2.0
// Where the registers of a translation hub are: words from VM_L2_CNTL on.
#pragma once

#include <cstdint>

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
  uint32_t xgmi_control;
  uint32_t xgmi_size;
  uint32_t fb_base;  // in 16 MiB
  uint32_t fb_top;
  uint32_t words;  // up to MC_VM_MX_L1_TLB_CNTL
};

// GC 9.4.2 and MMHUB 1.7.
inline constexpr HubLayout kHub942 = {.fault_control = 0x07,
                                      .fault_status = 0x0b,
                                      .context_control = 0x40,
                                      .invalidate_semaphore = 0x51,
                                      .invalidate_request = 0x63,
                                      .invalidate_ack = 0x75,
                                      .page_table_base = 0xab,
                                      .page_table_start = 0xcb,
                                      .page_table_end = 0xeb,
                                      .xgmi_control = 0x138,
                                      .xgmi_size = 0x139,
                                      .fb_base = 0x140,
                                      .fb_top = 0x141,
                                      .words = 0x148};

// GC 9.4.3 and MMHUB 1.8.
inline constexpr HubLayout kHub943 = {.fault_control = 0x07,
                                      .fault_status = 0x0b,
                                      .context_control = 0x40,
                                      .invalidate_semaphore = 0x51,
                                      .invalidate_request = 0x63,
                                      .invalidate_ack = 0x75,
                                      .page_table_base = 0xab,
                                      .page_table_start = 0xcb,
                                      .page_table_end = 0xeb,
                                      .xgmi_control = 0x137,
                                      .xgmi_size = 0x138,
                                      .fb_base = 0x13c,
                                      .fb_top = 0x13d,
                                      .words = 0x144};

}  // namespace gpu
