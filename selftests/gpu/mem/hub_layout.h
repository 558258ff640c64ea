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
  uint32_t words;  // that are the hub's
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
                                      .fb_base = 0x13c,
                                      .fb_top = 0x13d,
                                      .words = 0x144};

// GC 11.0.
inline constexpr HubLayout kHubGc11 = {.fault_control = 0x08,
                                       .fault_status = 0x0c,
                                       .context_control = 0xcc,
                                       .invalidate_semaphore = 0xdd,
                                       .invalidate_request = 0xef,
                                       .invalidate_ack = 0x101,
                                       .page_table_base = 0x137,
                                       .page_table_start = 0x157,
                                       .page_table_end = 0x177,
                                       .xgmi_control = {},
                                       .fb_base = 0xbc,
                                       .fb_top = 0xbd,
                                       .words = 0x197};

// MMHUB 3.0.
inline constexpr HubLayout kHubMm30 = {.fault_control = 0x08,
                                       .fault_status = 0x0c,
                                       .context_control = 0x40,
                                       .invalidate_semaphore = 0x51,
                                       .invalidate_request = 0x63,
                                       .invalidate_ack = 0x75,
                                       .page_table_base = 0xab,
                                       .page_table_start = 0xcb,
                                       .page_table_end = 0xeb,
                                       .xgmi_control = {},
                                       .fb_base = 0x1ec,
                                       .fb_top = 0x1ed,
                                       .words = 0x1f8};

}  // namespace gpu
