# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Images of one chip on another one, and of a GPU that is divided later.

# refused_for WHAT IMAGES PROPERTY: a restore fails, and names the property that does not fit
refused_for() {
  local before
  before=$(cksum "$2"/*)
  ! criu_restore "$1" "$2" || fail "$1: a GPU that does not fit was accepted"
  grep -E "(amdgpu).*fits.*: $3 was" "$DIR/criu-$1.log" || fail "$1: the log does not name $3"
  nothing_runs "$1"
  [ "$(cksum "$2"/*)" = "$before" ] || fail "$1: the refused restore has changed the images"
}

scenario_generation_dump() {
  need_gpus 1
  dump_and_keep generation gpu_chain
}

scenario_generation_render_dump() {
  need_gpus 1
  dump_and_keep generation_render render_chain
}

# The machine of this boot has a GPU of another generation.
scenario_generation() { refused_elsewhere generation; }
scenario_generation_render() { refused_elsewhere generation_render; }

refused_elsewhere() { # refused_elsewhere NAME
  need_gpus 1
  need_plugin
  read_facts "$1"
  another_boot
  refused_for elsewhere "$KEPT/$1/images" gfx_target_version
  rm -rf "${KEPT:?}/$1" "$KEPT/$1.facts"
}

in_mode() { [ "$(cat "$MODE_FILE")" = "$1" ]; }
try_mode() { in_mode "$1" || echo "$1" 2>/dev/null >"$MODE_FILE"; }

# switch_mode MODE: the driver refuses until the last process that computed has exited
switch_mode() {
  wait_until 30 try_mode "$1" && in_mode "$1" && return
  echo "the driver does not switch from $(cat "$MODE_FILE") to $1"
  return 1
}
whole_again() { switch_mode SPX; }

# A process of the whole GPU does not fit on a partition of it.
scenario_divided_gpu() {
  need_gpus 1
  need_plugin
  MODE_FILE=$(echo /sys/bus/pci/drivers/amdgpu/*/current_compute_partition)
  in_mode SPX || fail "needs one GPU that can be divided, as a whole: $MODE_FILE"
  start gpu_chain
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$DIR/images"
  CLEANERS+=(whole_again)
  switch_mode CPX || fail "the GPU is not divided"
  need_gpus 2
  refused_for divided "$DIR/images" simd_count
  whole_again || fail "the GPU is still divided"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}
