# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Two guests that have a network and the directory /shared: see selftests/vm/pair.

# take_from_node1 FACTS COMMAND: node 1, which has other GPUs, runs COMMAND, which keeps FACTS in /shared/kept
take_from_node1() {
  need_pair
  on_node1 300 "KEPT=/shared/kept $2" || fail "node 1 has not dumped"
  KEPT=/shared/kept
  read_facts "$1"
  another_boot
  [ "$(gpu_ids | tr '\n' ' ')" != "$OLD_GPU_IDS" ] || fail "node 1 has the same GPUs"
}

# Runs on node 1. The image is copied too, because the guests have no registry.
scenario_podman_leaves() {
  need_gpus 1
  need_plugin
  LOGS_OUTSIDE=$KEPT/logs
  mkdir -p "$LOGS_OUTSIDE"
  start_podman $FIRST_MINOR gpu_chain
  first_steps "$BEFORE_DUMP"
  podman_command save --quiet -o "$KEPT/image.tar" $PODMAN_IMAGE >/dev/null ||
    fail "podman does not save the image"
  dump_container dump "$KEPT/container.tar"
  keep_facts podman
}

scenario_podman_arrives() {
  take_from_node1 podman '/payload/e2e/run podman_leaves'
  need_engine podman
  need_engine "$PODMAN_RUNTIME"
  prepare_engines
  export TMPDIR=$SCRATCH/tmp
  mkdir -p "$TMPDIR"
  ENGINE=podman
  podman_command load --quiet -i "$KEPT/image.tar" >/dev/null || fail "podman does not load the image"
  restore_container restore "$KEPT/container.tar"
  sees_one_gpu $FIRST_MINOR
  opens_gpu_again $FIRST_MINOR
  ends_well "after the restore"
  rm -rf /shared/kept
}

# Runs on node 1. The archive is all that node 2 gets: its registry makes the same base image.
scenario_pod_leaves() {
  need_gpus 1
  need_plugin
  need_pods
  start_pod first
  USAGE=$(gpu_usage)
  pod_checkpoint "$KEPT/archive.tar" checkpoint
  STEP_BEFORE=$(last_step)
  goes_on "$STEP_BEFORE" "after the checkpoint"
  cri remove "$POD" || fail "the pod stays"
  keep_facts pod
}

scenario_pod_arrives() {
  need_two_nodes
  take_from_node1 pod "PATIENCE=$PATIENCE /payload/e2e/run pod_leaves"
  need_pods
  pod_arrives_as second "$KEPT/archive.tar"
  ends_well "on node 2"
  rm -rf /shared/kept
}
