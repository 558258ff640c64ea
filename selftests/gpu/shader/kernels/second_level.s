// SPDX-License-Identifier: GPL-2.0
// The second level of a trap handler, reduced to the parts of ROCr's that decide about a wave: it
// returns behind an s_trap; for any other exception it informs the driver and halts the wave. An
// s_trap takes a while, so that waves can be saved meanwhile.
.text
.globl second_level
.type second_level,@function
second_level:
  s_bfe_u32 ttmp2, ttmp1, 0x80010
  s_cbranch_scc0 .Lexception
  s_movk_i32 ttmp2, 0x20
.Lwhile:
  s_sub_u32 ttmp2, ttmp2, 1
  s_cmp_lg_u32 ttmp2, 0
  s_cbranch_scc1 .Lwhile
  s_add_u32 ttmp0, ttmp0, 4
  s_addc_u32 ttmp1, ttmp1, 0
  s_branch .Lexit
.Lexception:
  s_mov_b32 ttmp2, exec_lo
  s_mov_b32 ttmp3, exec_hi
  s_mov_b32 exec_lo, 0x80000000
  s_sendmsg sendmsg(MSG_GET_DOORBELL)
.Lwait:
  s_nop 7
  s_bitcmp0_b32 exec_lo, 31
  s_cbranch_scc0 .Lwait
  s_mov_b32 exec_hi, ttmp3
  s_and_b32 ttmp3, exec_lo, 0x3ff
  s_mov_b32 exec_lo, ttmp2
  s_getreg_b32 ttmp2, hwreg(HW_REG_TRAPSTS)
  s_bitcmp1_b32 ttmp2, 28
  s_cbranch_scc0 .Lno_page
  s_bitset1_b32 ttmp3, 14
  s_branch .Lsend
.Lno_page:
  s_bitcmp1_b32 ttmp2, 8
  s_cbranch_scc0 .Lillegal
  s_bitset1_b32 ttmp3, 15
  s_branch .Lsend
.Lillegal:
  s_bitset1_b32 ttmp3, 13
.Lsend:
  s_mov_b32 ttmp2, m0
  s_mov_b32 m0, ttmp3
  s_nop 0
  s_sendmsg sendmsg(MSG_INTERRUPT)
  s_mov_b32 m0, ttmp2
  s_bitset1_b32 ttmp12, 13
.Lexit:
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_and_b64 exec, exec, exec
  s_and_b64 vcc, vcc, vcc
  s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
  s_rfe_b64 [ttmp0, ttmp1]
  s_endpgm
.size second_level, .-second_level
