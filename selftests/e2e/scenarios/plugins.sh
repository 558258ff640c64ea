# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Another plugin beside ours, which carries descriptors of /dev/cpu_dma_latency.

LATENCY=/dev/cpu_dma_latency

# load_order PLUGIN PLUGIN: whatever the order in which CRIU loads two files, that of the plugins in them is
# the opposite one if they are given in the opposite order
load_order() {
  PLUGIN_DIR=$DIR/plugins
  rm -rf "$PLUGIN_DIR"
  mkdir "$PLUGIN_DIR"
  cp "$1" "$PLUGIN_DIR/1.so"
  cp "$2" "$PLUGIN_DIR/2.so"
}
# The one that CRIU asked first at CHECKPOINT_DEVICES, which both have.
first_asked() { # first_asked WHAT
  sed -n "s/.*plugin: \`\([^']*\)' hook 11 .*/\1/p" "$DIR/criu-$1.log" | head -n 1
}

has_latency_file() {
  [ "$(readlink "/proc/$PID/fd/9")" = $LATENCY ] || fail "$1: the process lacks its $LATENCY"
}

# asked WHAT LINE...: the other plugin has given these answers
asked() {
  local line
  for line in "${@:2}"; do
    grep -q "^$line\$" "$NEIGHBOUR_LOG" || fail "$1: the other plugin was not asked: $line"
  done
  rm "$NEIGHBOUR_LOG"
}

# start_with_both PROGRAM OPTIONS...: it has a file of the other plugin
start_with_both() {
  rm -rf "$DIR/images" "$DIR/workload.log"
  exec 9<>$LATENCY
  start "$@"
  exec 9>&-
  WHAT="$CRIU $1"
}

# Ours has nothing to do: the other one is asked at each hook, whichever is loaded first.
neighbour_alone() {
  local names=(CHECKPOINT_DEVICES PAUSE_DEVICES) late=(RESUME_DEVICES_LATE)
  [[ $CRIU != *4.3* ]] || names+=(DUMP_DEVICES_LATE DUMP_FINISH) late+=(POST_FORKING)
  start_with_both /bin/sh -c 'echo "ready: "; exec sleep 1000'
  criu_dump dump "$DIR/images" || fail "$WHAT: criu dump ended with status $?"
  asked "$WHAT" 'DUMP_EXT_FILE 0' "${names[@]/%/ -95}"
  criu_restore restore "$DIR/images" || fail "$WHAT: criu restore ended with status $?"
  asked "$WHAT" 'RESTORE_EXT_FILE 0' "${late[@]/%/ -95}"
  has_latency_file "$WHAT"
  kill -KILL "$PID"
  wait_gone "$PID" 20 || fail "$WHAT: the process does not end"
}

neighbour_with_gpu() {
  start_with_both gpu_chain
  first_steps "$BEFORE_DUMP"
  dump_and_kill dump "$DIR/images"
  asked "$WHAT" 'DUMP_EXT_FILE 0'
  restore_and_check restore "$DIR/images"
  asked "$WHAT" 'RESTORE_EXT_FILE 0'
  has_latency_file "$WHAT"
  ends_well "$WHAT"
}

scenario_neighbour_plugin() {
  local ours=$PLUGIN_DIR/amdgpu_criu_plugin.so other=$PAYLOAD/neighbour/neighbour_plugin.so first order
  export NEIGHBOUR_LOG=$DIR/neighbour
  need_gpus 1
  need_plugin
  for CRIU in criu /opt/criu-4.3/criu /opt/criu-4.1.1/criu; do
    first=
    for order in "$ours $other" "$other $ours"; do
      # shellcheck disable=SC2086 # two words
      load_order $order
      neighbour_alone
      first+=$(first_asked dump)
    done
    neighbour_with_gpu
    [[ $first =~ ^(neighbouramdgpu|amdgpu.*neighbour$) ]] || fail "$CRIU: first asked: $first"
    echo "$CRIU: right in both orders"
  done
}
