# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Programs of Debian's HIP runtime, in a guest image that scripts/rocm makes: HIP names it.

# A persistent kernel runs from the beginning to the end, for a minute at least, so that every dump
# has its waves.
scenario_hip() {
  local begin=$SECONDS
  STEPS_WANTED=3
  need_gpus 2
  need_plugin
  start "$PAYLOAD/${HIP:-rocm}/bin/hip_programs"
  first_steps 2
  all_memory_is_right "before the dump"
  describe_workload
  dump_and_kill dump "$DIR/images"
  waves_are_saved "$DIR/images"
  restore_and_check restore "$DIR/images"
  dump_and_kill again "$DIR/images2"
  waves_are_saved "$DIR/images2"
  swap_gpus
  restore_and_check elsewhere "$DIR/images2"
  while ((SECONDS < begin + 60)); do
    goes_on "$(last_step)" "within a minute"
  done
  echo "the persistent kernel has run for $((SECONDS - begin)) s and answered $(last_step) times"
  ends_well "after the restores"
}
