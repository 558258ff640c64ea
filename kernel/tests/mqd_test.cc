// SPDX-License-Identifier: GPL-2.0
// The words of an MQD that a blob may contain: every word of every layout, with hostile values, for
// one XCC and for several.
#include <linux/crc32.h>

#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "mqd_layouts.h"

namespace {

using Words = std::vector<u32>;

constexpr u32 kMaxXccs = 8;
// Follows the last MQD: no function may write there.
constexpr u32 kGuard = 0xdeadbeef;

struct Layout {
  const char* name;
  mqd_kind kind;
  // Of the driver: structs.h, the structure, and what sets its words.
  const char *header, *structure, *manager;
  u32 words, owned;
  // A checksum of the masks of all words.
  u32 sum;
};

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class Mqd : public ::testing::TestWithParam<Layout> {
 protected:
  const kfd_criu_mqd_layout* layout() const { return mqd_layout(GetParam().kind); }
  u32 words() const { return mqd_words(layout()); }
  u32 mask(u32 word) const { return mqd_mask(layout(), word); }
  Words random(u32 num) {
    Words result(static_cast<size_t>(words()) * num);
    for (u32& word : result) word = static_cast<u32>(random_());
    return result;
  }
  int check(const Words& mqds) const {
    return kfd_criu_mqd_check(layout(), mqds.data(), static_cast<u32>(mqds.size()) / words());
  }

 private:
  std::mt19937 random_{1};
};

TEST_P(Mqd, EveryWordIsListedAtMostOnce) {
  EXPECT_EQ(mqd_num_bad_spans(layout()), 0u);
  for (u32 word = 0; word < words(); word++)
    EXPECT_LE(mqd_num_spans(layout(), word), 1u) << "word " << word;
}

TEST_P(Mqd, BitsAreTheSameAsInOldBlobs) {
  u32 owned = 0, sum = 0;
  for (u32 word = 0; word < words(); word++) {
    const u32 bits = mask(word);
    owned += !bits;
    sum = crc32c(sum, &bits, sizeof(bits));
  }
  EXPECT_EQ(words(), GetParam().words);
  EXPECT_EQ(kfd_criu_mqd_size(layout()), GetParam().words * sizeof(u32));
  EXPECT_EQ(owned, GetParam().owned);
  EXPECT_EQ(sum, GetParam().sum) << std::hex << sum;
}

// Words that a restore of waves needs must be saved.
TEST_P(Mqd, FillsOfSaveAreasAreSaved) {
  for (const u32 word : {mqd_stack_word(layout()), mqd_wave_word(layout())})
    if (word) {
      EXPECT_EQ(mask(word), ~0u);
    }
}

TEST_P(Mqd, StripKeepsSavedBits) {
  for (u32 num = 1; num <= kMaxXccs; num++) {
    const Words before = random(num);
    Words after = before;
    after.push_back(kGuard);
    kfd_criu_mqd_strip(layout(), after.data(), num);
    EXPECT_EQ(after.back(), kGuard);
    for (u32 i = 0; i < before.size(); i++)
      ASSERT_EQ(after[i], before[i] & mask(i % words())) << "word " << i;
    after.pop_back();
    EXPECT_EQ(check(after), 0);
  }
}

// The lowest and the highest, in the first MQD and in the last.
TEST_P(Mqd, OneBitOfAnOwnedWordIsRefused) {
  for (const u32 num : {1u, 2u})
    for (u32 word = 0; word < words(); word++) {
      const u32 owned = ~mask(word);
      for (const u32 bit : {owned & -owned, std::bit_floor(owned)}) {
        Words mqds(static_cast<size_t>(words()) * num);
        mqds[static_cast<size_t>(num - 1) * words() + word] = bit;
        ASSERT_EQ(check(mqds), bit ? -EOPNOTSUPP : 0) << "word " << word;
      }
    }
}

TEST_P(Mqd, AllSavedBitsAreAccepted) {
  for (const u32 num : {1u, 2u})
    for (u32 word = 0; word < words(); word++) {
      Words mqds(static_cast<size_t>(words()) * num);
      mqds[static_cast<size_t>(num - 1) * words() + word] = mask(word);
      ASSERT_EQ(check(mqds), 0) << "word " << word;
    }
}

TEST_P(Mqd, MergeCopiesAllWordsThatAreNotOwned) {
  for (u32 num = 1; num <= kMaxXccs; num++) {
    const Words fresh = random(num), saved = random(num);
    Words merged = fresh;
    merged.push_back(kGuard);
    kfd_criu_mqd_merge(layout(), merged.data(), saved.data(), num);
    EXPECT_EQ(merged.back(), kGuard);
    for (u32 i = 0; i < fresh.size(); i++) {
      const u32 bits = mask(i % words());
      ASSERT_EQ(merged[i], (fresh[i] & ~bits) | (saved[i] & bits)) << "word " << i;
    }
  }
}

TEST_P(Mqd, WavesLieWithinTheirArea) {
  constexpr u32 kStack = 0x8000, kWaves = 0x100000;
  for (u32 num = 1; num <= kMaxXccs; num++)
    for (u32 xcc = 0; xcc < num; xcc++)
      for (const bool stack : {true, false}) {
        const u32 word = stack ? mqd_stack_word(layout()) : mqd_wave_word(layout());
        const u32 limit = stack ? kStack : kWaves;
        Words mqds(static_cast<size_t>(words()) * num);
        for (const u32 value : {0u, limit, limit + 1, ~0u}) {
          mqds[static_cast<size_t>(xcc) * words() + word] = value;
          const int expected = mqd_stack_word(layout()) && value > limit ? -EBADMSG : 0;
          ASSERT_EQ(kfd_criu_mqd_check_bounds(layout(), mqds.data(), num, kStack, kWaves), expected)
              << value;
        }
      }
}

// XCCs share the work-groups of an AQL packet by these ids. With a duplicate or an id out of range,
// groups run twice or never.
TEST_P(Mqd, LogicalIdsOfXccsAreAPermutation) {
  const u32 at = mqd_logic_xcc_word(layout());
  const bool checked = GetParam().kind == MQD_CP_9_4_3 || GetParam().kind == MQD_CP_12_1;
  EXPECT_EQ(at != 0, checked);
  for (u32 num = 1; num <= kMaxXccs; num++) {
    Words mqds(static_cast<size_t>(words()) * num, ~0u);
    const auto id = [&](u32 xcc) -> u32& { return mqds[static_cast<size_t>(xcc) * words() + at]; };
    const auto result = [&](bool aql) {
      return kfd_criu_mqd_check_xccs(layout(), mqds.data(), num, aql);
    };
    EXPECT_EQ(result(true), checked ? -EBADMSG : 0);
    for (u32 start = 0; start < num; start++) {
      for (u32 xcc = 0; xcc < num; xcc++) id(xcc) = (start + xcc) % num;
      EXPECT_EQ(result(true), 0);
      EXPECT_EQ(result(false), checked && num > 1 ? -EBADMSG : 0);
      for (const u32 wrong : {num, 31u, 32u, ~0u, (id(num - 1) + 1) % num}) {
        const u32 right = std::exchange(id(num - 1), wrong);
        EXPECT_EQ(result(true), checked && wrong != right ? -EBADMSG : 0) << wrong;
        id(num - 1) = right;
      }
    }
    for (u32 xcc = 0; xcc < num; xcc++) id(xcc) = 0;
    EXPECT_EQ(result(true), checked && num > 1 ? -EBADMSG : 0);
    EXPECT_EQ(result(false), 0);
  }
}

// Words by name, in a structure of the driver.
std::map<std::string, u32> words_of(const std::string& header, const std::string& structure) {
  std::ifstream file(std::string(AMDGPU_DIR "/include/") + header + "_structs.h");
  std::map<std::string, u32> words;
  std::string line;
  while (std::getline(file, line) && line != "struct " + structure + " {") {
  }
  const std::regex field(R"(\s*uint32_t\s+(\w+);.*)");
  u32 next = 0, first_of_union = 0;
  while (std::getline(file, line) && line != "};") {
    std::smatch match;
    if (std::regex_match(line, match, field)) words[match[1]] = next++;
    if (line.find("union {") != std::string::npos) first_of_union = next;
    if (line.find("struct {") != std::string::npos) next = first_of_union;
  }
  return words;
}

// A word that the driver has a name for, and its bits that a blob contains. The first row whose names
// and layouts match counts.
struct Word {
  const char *names, *layouts;
  u32 mask;
};

constexpr u32 kKept = ~0u;  // evictions of the queue keep it, so a blob contains it
constexpr u32 kOurs = 0;    // the driver sets it from the properties of the queue, or when it runs
constexpr u32 kNever = 0;   // a privilege, or an address that the firmware uses with its own

constexpr Word kWords[] = {
    // --- What starts a dispatch: registers that packets of the process set
    {"compute_(dim|start|num_thread|restart|prescaled_dim)_[xyz]", "", kKept},
    {"compute_(dispatch_initiator|pgm_lo|pgm_hi|resource_limits|tmpring_size)", "", kKept},
    {"compute_(dispatch_id|threadgroup_id|relaunch2?|wave_restore_.*|user_data_.*)", "", kKept},
    {"compute_(dispatch_pkt_addr|dispatch_scratch_base)_(lo|hi)", "", kKept},
    {"compute_(req_ctrl|user_accum_.*|pgm_rsrc3|ddid_index|shader_chksum)", "", kKept},
    {"compute_dispatch_interleave|tg_counter_id|xcc_sync_counter", "", kKept},
    // PRIV runs waves with the privileges of the trap handler.
    {"compute_pgm_rsrc1", "", ~(1u << 20)},
    {"compute_pgm_rsrc2|compute_misc_reserved", "", kKept},
    // The CU mask. These two unions have names for GPUs with and without partitions.
    {"compute_static_thread_mgmt_se6", "Cp943", kOurs},
    {"compute_static_thread_mgmt_.*", "", kKept},
    {"compute_tg_chunk_size", "Cp", kKept},
    {"compute_tg_chunk_size|pm4_target_xcc_in_xcp|cp_mqd_stride_size", "", kOurs},
    {"compute_current_logic(al)?_xcc_id|compute_restart_cg_tg_id", "", kKept},
    {"compute_restore_tg_chunk_size", "", kKept},
    // --- Set by the driver, or the hypervisor's and the debugger's
    {"header|compute_pipelinestat_enable|compute_perfcount_enable|compute_vmid", "", kOurs},
    {"compute_thread_trace_enable|disable_queue", "", kNever},
    // Since GFX9, COMPUTE_DISPATCH_PKT_ADDR and COMPUTE_DISPATCH_SCRATCH_BASE, by older names.
    {"compute_t[bm]a_(lo|hi)", "Cp8", kNever},
    {"compute_t[bm]a_(lo|hi)", "", kKept},
    {"cp_mqd_base_addr_(lo|hi)|cp_hqd_(active|vmid|pipe_priority|queue_priority)", "", kOurs},
    {"cp_hqd_pq_base_(lo|hi)|cp_hqd_pq_(rptr_report|wptr_poll)_addr_(lo|hi)", "", kOurs},
    {"cp_hqd_pq_doorbell_control|cp_hqd_iq_timer|cp_hqd_eop_base_addr_(lo|hi)", "", kOurs},
    {"cp_hqd_eop_control|cp_hqd_ctx_save_(base_addr_lo|base_addr_hi|control|size)", "", kOurs},
    {"cp_hqd_cntl_stack_size|cp_hqd_aql_control|cp_mqd_control", "", kOurs},
    {"cp_hqd_aql_control_1|cp_hqd_hq_(control[01]|status1|scheduler1)", "", kNever},
    {"cp_hqd_kd_.*|dfwx_.*|control_buf_.*|draw_ring_addr_.*|fence_address_.*", "", kNever},
    {"(gds|ctx)_save_(base_addr|mask)_(lo|hi)|dynamic_cu_mask_addr_(lo|hi)", "", kNever},
    {"iqtimer_pkt_.*|set_resources_.*|queue_doorbell_id.*", "", kNever},
    // --- Kept: the place in the ring, in an IB, in the end-of-pipe buffer, and saved waves
    {"cp_hqd_pq_(rptr|wptr|wptr_lo|wptr_hi)|cp_hqd_ib_(base_addr_lo|base_addr_hi|rptr)", "", kKept},
    {"cp_hqd_eop_(rptr|wptr|done_events|dones|wptr_mem)|cp_hqd_error", "", kKept},
    {"cp_hqd_(cntl_stack|wg_state)_offset|cp_hqd_suspend_.*", "", kKept},
    {"cp_hqd_(sema_cmd|msg_type|dequeue_request|dequeue_status|dma_offload)", "", kKept},
    {"cp_hqd_iq_rptr|cp_hqd_atomic[01]_preop_(lo|hi)|cp_hqd_gds_resource_state", "", kKept},
    {"cp_hqd_aql_dispatch_id(_hi)?|cp_hqd_ddid_.*|gds_cs_ctxsw_cnt[0-3]|gws_.*", "", kKept},
    {"cp_(pq_exe_status|packet_id|packet_exe_status|compute_csinvoc_count)_(lo|hi)", "", kKept},
    {"cp_mqd_(query|connect|save|restore)_.*|cp_mqd_readindex_(lo|hi)", "", kKept},
    // RESTORE_ACTIVE, RELAUNCH_WAVES, DISP_ACTIVE. The driver sets the other bits.
    {"cp_hqd_persistent_state", "", 0xb0000000},
    // QUANTUM_ACTIVE. The driver sets the length.
    {"cp_hqd_quantum", "", 0x80000000},
    // PROCESSING_IB and IB_SIZE. IB_PRIV_STATE is a privilege.
    {"cp_hqd_ib_control", "", 0x800fffff},
    // WPTR_CARRY, RPTR_CARRY and PQ_EMPTY, which GFX8 lacks. PRIV_STATE and KMD_QUEUE are privileges.
    {"cp_hqd_pq_control", "Cp8", kOurs},
    {"cp_hqd_pq_control", "", 0x80c0},
    // DEQUEUE_STATUS, SCRATCH_RAM_INIT, TCL2_DIRTY and QUEUE_IDLE. C_INHERIT_VMID is a privilege; the
    // scheduler sets the other bits.
    {"cp_hqd_hq_status0|cp_hqd_hq_scheduler0", "", 0x40000183},
    // --- SDMA
    // CMD_VMID and the privilege of IBs
    {"sdmax_rlcx_ib_cntl", "", 1},
    {"sdmax_rlcx_rb_(rptr|rptr_hi|wptr|wptr_hi)|sdmax_rlcx_ib_.*", "", kKept},
    {"sdmax_rlcx_(skip_cntl|context_status|context_switch_status|midcmd_.*)", "", kKept},
    {"sdmax_rlcx_(doorbell_log|status|watermark|utilization_(lo|hi))", "", kKept},
    {"sdmax_rlcx_rb_(cntl|base|base_hi|(rptr|wptr_poll)_addr_(lo|hi)|wptr_poll_cntl)", "", kOurs},
    {"sdmax_rlcx_(doorbell|doorbell_offset|rb_aql_cntl|dummy_reg|sched_cntl)", "", kOurs},
    {"sdma_(engine|queue)_id|sdmax_rlcx_(minor_ptr_update|wait_unsatisfied_thd)", "", kOurs},
    {"sdmax_rlcx_(virtual_addr|ape1_cntl|csa_addr_(lo|hi)|preempt|rb_preempt)", "", kNever},
    {"sdmax_rlcx_(f32|mcu)_dbg[01]|sdmax_rlcx_mqd_.*", "", kNever},
};

const Word* class_of(const std::string& name, const std::string& layout) {
  struct Row {
    std::regex names, layouts;
  };
  static const std::vector<Row> rows = [] {
    std::vector<Row> result;
    for (const Word& word : kWords)
      result.push_back({std::regex(word.names), std::regex(*word.layouts ? word.layouts : ".*")});
    return result;
  }();
  for (size_t i = 0; i < rows.size(); i++)
    if (std::regex_match(name, rows[i].names) && std::regex_match(layout, rows[i].layouts))
      return &kWords[i];
  return nullptr;
}

// Reserved words are scratch of the firmware.
TEST_P(Mqd, EachWordWithANameHasItsBits) {
  const std::regex reserved("(cp_mqd_)?(reserved|unused)_?.*");
  u32 named = 0;
  for (const auto& [name, word] : words_of(GetParam().header, GetParam().structure)) {
    if (std::regex_match(name, reserved)) continue;
    const Word* found = class_of(name, GetParam().name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(mask(word), found->mask) << name;
    named++;
  }
  EXPECT_GE(named, mqd_stack_word(layout()) ? 200u : 24u);
}

// The registers of a graphics core whose names begin so, as words from the one that is first.
std::map<std::string, u32> registers_of(const std::string& core, const std::string& begin,
                                        const std::string& first) {
  std::ifstream file(AMDGPU_DIR "/include/asic_reg/gc/gc_" + core + "_offset.h");
  const std::regex line_of(R"(#define (?:mm|reg))" + begin + R"((\w+)\s+0x(\w+))");
  std::map<std::string, u32> registers;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_match(line, match, line_of))
      registers[match[1]] = static_cast<u32>(std::stoul(match[2], nullptr, 16));
  }
  const u32 start = registers[first];
  for (auto& [name, word] : registers) word -= start;
  return registers;
}

// What the driver or the debugger sets. All other registers are part of a dispatch.
const std::regex kNoDispatch("PIPELINESTAT_ENABLE|PERFCOUNT_ENABLE|VMID|THREAD_TRACE_ENABLE");

// The names in the structures may be those of an older generation.
TEST(MqdLayout, KeepsTheRegistersOfADispatch) {
  constexpr u32 kFirst = 1, kLast = 38;  // words in the order of the registers
  const std::pair<const char*, mqd_kind> cores[] = {
      {"9_0", MQD_CP},       {"9_4_2", MQD_CP},     {"9_4_3", MQD_CP_9_4_3}, {"10_1_0", MQD_CP_10},
      {"10_3_0", MQD_CP_10}, {"11_0_0", MQD_CP_11}, {"11_5_0", MQD_CP_11},   {"12_0_0", MQD_CP_12},
  };
  for (const auto& [core, kind] : cores) {
    u32 seen = 0;
    for (const auto& [name, at] : registers_of(core, "COMPUTE_", "DISPATCH_INITIATOR")) {
      const u32 word = at + kFirst;
      if (word < kFirst || word > kLast) continue;
      const u32 lost = ~mqd_mask(mqd_layout(kind), word);
      const u32 priv = name == "PGM_RSRC1" ? 1u << 20 : 0;
      EXPECT_EQ(lost, std::regex_match(name, kNoDispatch) ? ~0u : priv) << core << " " << name;
      seen++;
    }
    EXPECT_GE(seen, 32u) << core;
  }
}

// Registers of SDMA queues moved by two words in GFX 12.1, but not in the structure.
TEST(MqdLayout, OwnsThePrivilegedRegistersOfSdma) {
  const auto words = registers_of("12_1_0", "SDMA0_SDMA_QUEUE0_", "RB_CNTL");
  for (const char* name : {"MQD_BASE_ADDR_LO", "MQD_BASE_ADDR_HI", "MQD_CONTROL"}) {
    ASSERT_TRUE(words.contains(name));
    EXPECT_EQ(mqd_mask(mqd_layout(MQD_SDMA_12_1), words.at(name)), 0u) << name;
  }
}

// Names of words that init_mqd() or update_mqd() sets.
std::set<std::string> set_by_driver(const std::string& manager) {
  std::ifstream file(std::string(AMDGPU_DIR "/amdkfd/kfd_mqd_manager_") + manager + ".c");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex assignment(R"(\bm->(\w+)\s*[|&]?=[^=])");
  std::set<std::string> names;
  for (std::sregex_iterator i(text.begin(), text.end(), assignment), end; i != end; ++i)
    names.insert((*i)[1]);
  return names;
}

// Packets of the process or the CP also set these words, or the driver sets other bits.
bool may_be_state(const std::string& name) {
  return name.starts_with("compute_static_thread_mgmt_se") || name == "compute_resource_limits" ||
         name == "compute_current_logic_xcc_id" || name == "compute_current_logical_xcc_id" ||
         name == "cp_hqd_cntl_stack_offset" || name == "cp_hqd_wg_state_offset" ||
         name == "cp_hqd_eop_rptr" || name == "compute_pgm_rsrc2" || name == "sdmax_rlcx_ib_cntl" ||
         name == "cp_hqd_persistent_state" || name == "cp_hqd_quantum" ||
         name == "cp_hqd_ib_control" || name == "cp_hqd_pq_control" || name == "cp_hqd_hq_status0" ||
         name == "cp_hqd_hq_scheduler0" || name == "cp_hqd_iq_rptr";
}

TEST_P(Mqd, WhatTheDriverSetsIsOwned) {
  const auto words_by_name = words_of(GetParam().header, GetParam().structure);
  u32 owned = 0;
  for (const std::string& name : set_by_driver(GetParam().manager)) {
    const auto word = words_by_name.find(name);
    if (word == words_by_name.end() || may_be_state(name)) continue;
    // A mask of CUs where there is one XCC
    if (GetParam().kind == MQD_CP && name == "compute_tg_chunk_size") continue;
    EXPECT_EQ(mask(word->second), 0u) << name;
    owned++;
  }
  EXPECT_GE(owned, 9u);
}

// All enable masks of a new MQD are ~0; a mask in a word that the layout lacks has no meaning.
TEST_P(Mqd, EachMaskOfCusIsFound) {
  const bool compute = mqd_stack_word(layout()) != 0;
  Words mqd(words(), ~0u);
  EXPECT_FALSE(kfd_criu_mqd_masks_cus(layout(), mqd.data()));
  u32 found = 0;
  for (u32 word = 0; word < words(); word++) {
    mqd[word] = ~1u;
    found += kfd_criu_mqd_masks_cus(layout(), mqd.data());
    mqd[word] = ~0u;
  }
  const bool has_four = GetParam().kind == MQD_CP_8 || GetParam().kind == MQD_CP_9_4_3 ||
                        GetParam().kind == MQD_CP_10;
  const bool has_nine = GetParam().kind == MQD_CP_12_1;
  EXPECT_EQ(found, !compute ? 0u : has_four ? 4u : has_nine ? 9u : 8u);
}

// All generations but GFX9 keep control stacks in memory of the process.
TEST_P(Mqd, StacksAreSavedWithTheMqdIfTheyFollowIt) {
  const bool behind = GetParam().kind == MQD_CP || GetParam().kind == MQD_CP_9_4_3;
  EXPECT_EQ(kfd_criu_mqd_stack_size(layout(), 0x8000), behind ? 0x8000u : 0u);
}

// Bytes below the fill level do not belong to the process. A level beyond the end clears the whole
// stack and no more.
TEST_P(Mqd, StripClearsStacksBelowTheirFill) {
  constexpr u32 kSize = 256;
  if (!mqd_stack_word(layout())) GTEST_SKIP() << "no control stack";
  for (u32 num = 1; num <= kMaxXccs; num++)
    for (const u32 fill : {0u, 4u, kSize - 4, kSize, ~0u}) {
      Words mqds(static_cast<size_t>(words()) * num);
      std::vector<u8> stacks(static_cast<size_t>(kSize) * num + 1, 0xa5);
      mqds[static_cast<size_t>(num - 1) * words() + mqd_stack_word(layout())] = fill;
      kfd_criu_mqd_strip_stacks(layout(), mqds.data(), stacks.data(), num, kSize);
      for (u32 i = 0; i < stacks.size(); i++) {
        const bool cleared =
            i >= kSize * (num - 1) && i < kSize * num && i - kSize * (num - 1) < fill;
        ASSERT_EQ(stacks[i], cleared ? 0 : 0xa5) << i;
      }
    }
}

// Name, kind, header, structure, manager; words of all and owned ones; sum.
constexpr Layout kLayouts[] = {
    {"Cp8", MQD_CP_8, "vi", "vi_mqd", "vi", 512, 102, 0x18b5d9a7},
    {"Sdma8", MQD_SDMA_8, "vi", "vi_sdma_mqd", "vi", 128, 13, 0xf2022719},
    {"Cp", MQD_CP, "v9", "v9_mqd", "v9", 512, 101, 0x241a6c68},
    {"Cp943", MQD_CP_9_4_3, "v9", "v9_mqd", "v9", 512, 102, 0x0c6b194d},
    {"Sdma", MQD_SDMA, "v9", "v9_sdma_mqd", "v9", 128, 18, 0xd6b844d1},
    {"Cp10", MQD_CP_10, "v10", "v10_compute_mqd", "v10", 512, 99, 0xe2771890},
    {"Sdma10", MQD_SDMA_10, "v10", "v10_sdma_mqd", "v10", 130, 18, 0x2a4cf26a},
    {"Cp11", MQD_CP_11, "v11", "v11_compute_mqd", "v11", 512, 110, 0x874c96f4},
    {"Sdma11", MQD_SDMA_11, "v11", "v11_sdma_mqd", "v11", 128, 21, 0x3963270d},
    {"Cp12", MQD_CP_12, "v12", "v12_compute_mqd", "v12", 512, 110, 0x36c755f1},
    {"Sdma12", MQD_SDMA_12, "v12", "v12_sdma_mqd", "v12", 128, 24, 0xe542859b},
    {"Cp121", MQD_CP_12_1, "v12", "v12_1_compute_mqd", "v12_1", 1024, 101, 0xd9aa9cc4},
    {"Sdma121", MQD_SDMA_12_1, "v12", "v12_sdma_mqd", "v12_1", 128, 26, 0xea91125e},
};

INSTANTIATE_TEST_SUITE_P(Layouts, Mqd, ::testing::ValuesIn(kLayouts),
                         [](const auto& info) { return info.param.name; });

TEST(MqdLayout, IsThatOfTheGpu) {
  for (const u32 minor : {0u, 1u, 2u, 4u}) {
    const kfd_criu_mqd_layout* layout = mqd_layout_of(9, minor, 1, false);
    EXPECT_EQ(layout, mqd_layout(MQD_CP)) << "9." << minor << ".1";
    EXPECT_EQ(mqd_layout_of(9, minor, 1, true), mqd_layout(MQD_SDMA));
  }
  EXPECT_EQ(mqd_layout_of(9, 4, 2, false), mqd_layout(MQD_CP));
  EXPECT_EQ(mqd_layout_of(9, 4, 3, false), mqd_layout(MQD_CP_9_4_3));
  EXPECT_EQ(mqd_layout_of(9, 4, 4, false), mqd_layout(MQD_CP_9_4_3));
  EXPECT_EQ(mqd_layout_of(9, 5, 0, false), mqd_layout(MQD_CP_9_4_3));
  for (const u32 minor : {1u, 3u}) {
    EXPECT_EQ(mqd_layout_of(10, minor, 0, false), mqd_layout(MQD_CP_10)) << "10." << minor;
    EXPECT_EQ(mqd_layout_of(10, minor, 0, true), mqd_layout(MQD_SDMA_10)) << "10." << minor;
  }
  for (const u32 minor : {0u, 5u, 7u}) {
    EXPECT_EQ(mqd_layout_of(11, minor, 0, false), mqd_layout(MQD_CP_11)) << "11." << minor;
    EXPECT_EQ(mqd_layout_of(11, minor, 0, true), mqd_layout(MQD_SDMA_11)) << "11." << minor;
  }
  EXPECT_EQ(mqd_layout_of(12, 0, 1, false), mqd_layout(MQD_CP_12));
  EXPECT_EQ(mqd_layout_of(12, 0, 1, true), mqd_layout(MQD_SDMA_12));
  // The driver has no version of what is older than GFX9.
  EXPECT_EQ(mqd_layout_of(0, 0, 0, false), mqd_layout(MQD_CP_8));
  EXPECT_EQ(mqd_layout_of(0, 0, 0, true), mqd_layout(MQD_SDMA_8));
  EXPECT_EQ(mqd_layout_of(12, 1, 0, false), mqd_layout(MQD_CP_12_1));
  EXPECT_EQ(mqd_layout_of(12, 1, 0, true), mqd_layout(MQD_SDMA_12_1));
  EXPECT_EQ(mqd_layout_of(12, 2, 0, false), nullptr);
  EXPECT_EQ(mqd_layout_of(13, 0, 0, false), nullptr);
}

// An RX 7900 has six engines with two arrays each.
TEST(MqdLayout, ArraysOfEnginesBeyondTheFourthFollowThoseOfTheFirst) {
  u32 bitmap[4][4] = {};
  // As gfx_v11_0_get_cu_info() and gfx_v9_0_get_cu_info() fill it
  for (u32 se = 0; se < 6; se++)
    for (u32 sh = 0; sh < 2; sh++) bitmap[se % 4][se / 4 * 2 + sh] = (1u << (se * 2 + sh + 1)) - 1;
  std::array<u8, 16> cus{};
  mqd_count_cus(11, bitmap, 6, 2, cus.data());
  for (u32 array = 0; array < 12; array++) EXPECT_EQ(cus[array], array + 1);
  mqd_count_cus(12, bitmap, 6, 2, cus.data());
  EXPECT_EQ(cus[8], 9);
  // An MI100 has eight engines with one array each.
  for (u32 se = 0; se < 8; se++) bitmap[se % 4][se / 4] = (1u << (se + 1)) - 1;
  mqd_count_cus(9, bitmap, 8, 1, cus.data());
  for (u32 se = 0; se < 8; se++) EXPECT_EQ(cus[static_cast<size_t>(se) * 2], se + 1);
}

struct Version {
  u32 major, minor, revision;
};

// The chips of the software GPU.
TEST(MqdLayout, IsTestedWhereAModelRunsQueues) {
  EXPECT_TRUE(mqd_tested(9, 4, 2));
  EXPECT_TRUE(mqd_tested(9, 4, 3));
  EXPECT_TRUE(mqd_tested(11, 0, 0));
}

// Also not the neighbours of a model's version, which share its layout.
TEST(MqdLayout, IsUntestedWhereNoModelRunsQueues) {
  constexpr Version kVersions[] = {
      {0, 0, 0},  {9, 0, 1},  {9, 2, 2},  {9, 3, 0},  {9, 4, 0},  {9, 4, 1},  {9, 4, 4},
      {9, 5, 0},  {10, 1, 0}, {10, 3, 0}, {11, 0, 1}, {11, 0, 2}, {11, 0, 3}, {11, 0, 4},
      {11, 5, 0}, {11, 5, 3}, {11, 7, 0}, {12, 0, 0}, {12, 0, 1}, {12, 1, 0}, {13, 0, 0}};
  for (const Version& at : kVersions)
    EXPECT_FALSE(mqd_tested(at.major, at.minor, at.revision))
        << at.major << "." << at.minor << "." << at.revision;
}

}  // namespace
