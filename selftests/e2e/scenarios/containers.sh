# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Containers that see one of two GPUs, by default the second one.

FIRST_MINOR=128
SECOND_MINOR=129
RESTORE_FILES=/run/amdgpu-criu/restore.d

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
  ${BEFORE_CHECKPOINT-}
  dump_container dump "$DIR/images"
  ${AFTER_DUMP-}
  restore_container restore "$DIR/images"
  sees_one_gpu $SECOND_MINOR
  [ -z "${USER_NAMESPACE-}" ] || has_own_users
  ends_well "after the restore"
}

# CRIU is killed at a restore. Its tasks are children of runc, so they do not end with it.
killed_restore() {
  local VRAM_FREE
  VRAM_FREE=$(vram_used)
  ! with_fault fill:1:kill-criu bundle_restore killed "$DIR/images" || fail "restored without CRIU"
  had_its_fault killed
  wait_until 15 no_gpu_traces || fail "left: $(gpu_traces | head -n 6)"
  wait_until 15 vram_is_free || fail "$(vram_used) bytes of VRAM in use, before $VRAM_FREE"
  bundle_runtime delete -f "$CONTAINER"
}

scenario_container_runc() {
  AFTER_DUMP=killed_restore
  bundle_round_trip gpu_chain
}

# A container that its engine has paused: the kernel has frozen its tasks before CRIU does, while work of
# the GPU goes on.
scenario_container_paused() {
  BEFORE_CHECKPOINT=pause_bundle
  bundle_round_trip gpu_chain
}

pause_bundle() {
  bundle_runtime pause "$CONTAINER" || fail "$BUNDLE_RUNTIME pause: status $?"
  [[ $(bundle_runtime state "$CONTAINER") == *'"status": "paused"'* ]] || fail "the container is not paused"
  STEP_BEFORE=$(last_step)
  sleep 1
  [ "$(last_step)" = "$STEP_BEFORE" ] || fail "the paused container goes on"
}

# The container's root user may not create a session; CRIU's main process creates it.
scenario_container_users_runc() {
  own_users
  bundle_round_trip gpu_chain
}

# An annotation names a configuration of CRIU, which has an option of the plugin.
scenario_container_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  ANNOTATIONS='"annotations": {"org.criu.config": "/run/container.conf"},'
  printf '%s\n' "libdir $PLUGIN_DIR" 'plugin-option amdgpu.timeout=321' >/run/container.conf
  bundle_round_trip render_chain
  has_option restore timeout=321
}

# This CRIU fails without a message if the kernel has no UDP-Lite sockets.
scenario_container_criu_4_1_1() {
  [ -e /proc/net/udplite ] ||
    skip "CRIU 4.1.1 dumps no network namespace on a kernel without UDP-Lite, like this one"
  CRIU=/opt/criu-4.1.1/criu
  bundle_round_trip gpu_chain
}

# Restored where it was dumped, the container keeps its ID.
podman_has_options_of_the_restore() {
  mkdir -p $RESTORE_FILES
  echo 'timeout = 321' >"$RESTORE_FILES/$(podman_command inspect -f '{{.Id}}' "$CONTAINER").conf"
  podman_command container checkpoint --keep "$CONTAINER" >>"$DIR/engine.log" 2>&1 || fail "no second checkpoint"
  STEP_BEFORE=$(last_step)
  podman_command container restore --keep "$CONTAINER" >>"$DIR/engine.log" 2>&1 || fail "no second restore"
  keep_podman_log restore second
  rm -r $RESTORE_FILES
  has_option restore timeout=0
  has_option second timeout=321
  podman_pid
  goes_on "$STEP_BEFORE" "in the same container"
}

# The options are in the file for those, as there is no command line of CRIU.
scenario_container_podman() {
  local what
  need_two_nodes
  echo 'staging-slots = 3 # of a GPU' >"$OPTION_FILE"
  start_podman $SECOND_MINOR gpu_chain
  sees_one_gpu $SECOND_MINOR
  first_steps "$BEFORE_DUMP"
  dump_container dump "$DIR/container.tar"
  restore_container restore "$DIR/container.tar"
  for what in dump restore; do
    grep -q '(amdgpu): amdgpu_criu_plugin .*, options: .*staging-slots=3 ' "$DIR/criu-$what.log" ||
      fail "$what: $OPTION_FILE is not read"
  done
  sees_one_gpu $SECOND_MINOR
  podman_has_options_of_the_restore
  ends_well "after the restore"
}

has_option() { # has_option WHAT NAME=VALUE
  grep -q "(amdgpu): amdgpu_criu_plugin .*, options: .*$2\\b" "$DIR/criu-$1.log" || fail "$1: the plugin has no $2"
}

# opens_gpu_again MINOR: a program that the engine starts in the container finds the GPU
opens_gpu_again() {
  local output
  output=$("in_$ENGINE" "$PAYLOAD/bin/gpu_chain" --steps 3 2>&1) || fail "a second program: $output"
  [[ $output == *"step 3 "* ]] || fail "a second program does no steps: $output"
  [ "$("in_$ENGINE" stat -c %a /dev/dri/renderD"$1")" = "$("in_$ENGINE" stat -c %a /dev/dri/renderD$FIRST_MINOR)" ] ||
    fail "the new node has another mode than the old one"
}

# bundle_moves PROGRAM OPTIONS...: a restore into a container that has the other GPU. Its /dev is
# restored with the node of the first one, and gets the node of the other one, from which it is dumped again and
# restored on the GPU of SECOND_MOVE.
bundle_moves() {
  local last=${SECOND_MOVE:-$SECOND_MINOR}
  need_two_nodes
  start_bundle $FIRST_MINOR "$@"
  sees_one_gpu $FIRST_MINOR
  first_steps "$BEFORE_DUMP"
  dump_container dump "$DIR/images"
  ${BEFORE_MOVES-}
  write_bundle $SECOND_MINOR "$COMMAND"
  restore_container restore "$DIR/images"
  sees_one_gpu $SECOND_MINOR "renderD$FIRST_MINOR renderD$SECOND_MINOR"
  has_open_only $SECOND_MINOR
  opens_gpu_again $SECOND_MINOR
  dump_container again "$DIR/again"
  [ "$last" = $SECOND_MINOR ] || write_bundle "$last" "$COMMAND"
  restore_container twice "$DIR/again"
  sees_one_gpu "$last" "renderD$FIRST_MINOR renderD$SECOND_MINOR"
  has_open_only "$last"
  ${AFTER_MOVES-}
  ends_well "after the second restore"
}

scenario_container_moved_runc() { bundle_moves gpu_chain; }

# crun sets the device rules after the restore. The GPU is that of the bundle's configuration. But KFD gives the
# process both, of which the configuration has one when the process moves back.
scenario_container_moved_crun() {
  local file=$RESTORE_FILES/$CONTAINER.conf
  BUNDLE_RUNTIME=crun ROOT_OPTIONS=', "readonly": true' SECOND_MOVE=$FIRST_MINOR
  BEFORE_MOVES=needs_a_listed_gpu AFTER_MOVES=had_unused_gpu
  mkdir -p $RESTORE_FILES
  printf '%s\n' 'timeout = 321' 'ignore = vram_size' >"$file"
  bundle_moves gpu_chain
  rm -r $RESTORE_FILES
  grep -q "$file has options of this restore" "$DIR/criu-restore.log" || fail "the log does not name $file"
  has_option restore timeout=321
  has_option dump timeout=0
}

# With this configuration crun would close both GPUs to the restored container.
needs_a_listed_gpu() {
  local absent=190
  write_bundle $SECOND_MINOR "$COMMAND"
  sed -i "s/\"minor\":$SECOND_MINOR\b/\"minor\":$absent/g" "$BUNDLE/config.json"
  ! bundle_restore refused "$DIR/images" || fail "restored on a GPU that the container does not have"
  grep -o 'Error.*its configuration lists (none of this machine).*' "$DIR/criu-refused.log" ||
    fail "refused for another reason: $(tail -n 3 "$DIR/criu-refused.log")"
  bundle_runtime delete -f "$CONTAINER" 2>/dev/null
}

had_unused_gpu() {
  [ "$("$PAYLOAD/bin/amdgpu-criu" requirements --json "$DIR/again" | grep -c '"used": false')" = 1 ] ||
    fail "the images do not have one GPU that is not used"
  grep -q 'of the images, which no process uses, is left out' "$DIR/criu-twice.log" ||
    fail "the GPU that is not used is not left out"
  opens_gpu_again $FIRST_MINOR
}

# A user without capabilities, and a read-only root; /dev can be written.
scenario_container_moved_readonly() {
  AFTER_MOVES="is_poor moved"
  poor_container
  bundle_moves gpu_chain
}

# also_named MINOR OTHER: the node of the minor is mounted in the container under the name of another one, too
also_named() {
  MORE_MOUNTS=", {\"destination\": \"/dev/dri/renderD$2\", \"type\": \"bind\", \"source\": \"/dev/dri/renderD$1\",
    \"options\": [\"bind\", \"rw\"]}"
}

# In a user namespace no node can be made that can be opened. The nodes are mounts, which the images name: that of the
# GPU has both names, before the move and after it.
scenario_container_users_moved() {
  local both="renderD$FIRST_MINOR renderD$SECOND_MINOR"
  need_two_nodes
  own_users
  ROOT_OPTIONS=', "readonly": true'
  also_named $FIRST_MINOR $SECOND_MINOR
  start_bundle $FIRST_MINOR gpu_chain
  sees_one_gpu $FIRST_MINOR "$both"
  first_steps "$BEFORE_DUMP"
  dump_container dump "$DIR/images"
  MORE_MOUNTS=
  write_bundle $SECOND_MINOR "$COMMAND"
  ! bundle_restore refused "$DIR/images" || fail "restored without the names of the images"
  grep -o 'Error.*No mapping for .* mountpoint' "$DIR/criu-refused.log" || fail "refused for another reason"
  bundle_runtime delete -f "$CONTAINER" 2>/dev/null
  also_named $SECOND_MINOR $FIRST_MINOR
  write_bundle $SECOND_MINOR "$COMMAND"
  restore_container restore "$DIR/images"
  has_own_users
  ! in_bundle touch /file 2>/dev/null || fail "the root can be written"
  sees_one_gpu $SECOND_MINOR "$both"
  has_open_only $SECOND_MINOR
  opens_gpu_again $SECOND_MINOR
  dump_container again "$DIR/again"
  restore_container twice "$DIR/again"
  has_open_only $SECOND_MINOR
  ends_well "after the second restore"
}

# In the next boot the GPUs have exchanged their minors: the node in the container is that of the other GPU.
scenario_container_swapped_dump() {
  need_two_nodes
  rm -rf "$KEPT/container_swapped"
  mkdir -p "$KEPT/container_swapped"
  start_bundle $SECOND_MINOR gpu_chain
  first_steps "$BEFORE_DUMP"
  dump_container dump "$KEPT/container_swapped/images"
  cp "$LOG" "$KEPT/container_swapped/"
  keep_facts container_swapped
}

scenario_container_swapped() {
  need_two_nodes
  read_facts container_swapped
  another_boot
  need_engine "$BUNDLE_RUNTIME"
  prepare_engines
  ENGINE=bundle BUNDLE=$DIR/bundle LOGS_OUTSIDE=$DIR LOG=$DIR/workload.log
  cp "$KEPT/container_swapped/workload.log" "$LOG"
  write_bundle $FIRST_MINOR "$(container_command gpu_chain)"
  restore_container restore "$KEPT/container_swapped/images"
  sees_one_gpu $FIRST_MINOR "renderD$FIRST_MINOR renderD$SECOND_MINOR"
  has_open_only $FIRST_MINOR
  ends_well "after the restore"
  rm -rf "$KEPT/container_swapped" "$KEPT/container_swapped.facts"
}
