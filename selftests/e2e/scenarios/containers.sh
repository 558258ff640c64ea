# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153  # BUNDLE_RUNTIME, CRIU and the like are those of lib/
# Containers that see one of two GPUs: the second one unless something else is said.

SECOND_MINOR=129

need_two_nodes() {
  need_gpus 2
  need_plugin
  [ -c /dev/dri/renderD$SECOND_MINOR ] || skip "there is no renderD$SECOND_MINOR"
}

# bundle_round_trip PROGRAM OPTIONS...
bundle_round_trip() {
  need_two_nodes
  start_bundle $SECOND_MINOR "$@"
  sees_one_gpu $SECOND_MINOR
  first_steps "$BEFORE_DUMP"
  dump_container dump "$DIR/images"
  restore_container restore "$DIR/images"
  sees_one_gpu $SECOND_MINOR
  ends_well "after the restore"
}

scenario_container_runc() { bundle_round_trip gpu_chain "${SMALL[@]}"; }
