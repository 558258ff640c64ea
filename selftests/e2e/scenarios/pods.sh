# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Pods of Debian's containerd 2.1, by the calls that a kubelet makes: `cri` is the client. containerd freezes the
# container, dumps it, and writes an archive with the images, the changed files and the description; it
# restores when a container is created whose image is the path of such an archive.

POD_IMAGE=localhost:5000/empty:1
CHECKPOINT_IMAGE=localhost:5000/checkpoint:1
POD_COMMAND="exec $PAYLOAD/bin/gpu_chain </dev/null >>/tmp/workload.log 2>&1"
POD_STATE=/run/containerd/io.containerd.runtime.v2.task/k8s.io
POD_RUNTIME_STATE=/run/containerd/runc/k8s.io
CDI_SPECS=/etc/cdi

cri() { "$PAYLOAD/e2e/cri" "$@" 2>>"$DIR/cri.log"; }

# An image with busybox: /usr of the guest is mounted over it, except in the pod's own container.
make_pod_image() {
  local file
  make_root "$DIR/empty"
  mkdir -p "$DIR/empty/usr/bin"
  cp "$(command -v busybox)" "$DIR/empty/usr/bin/"
  for file in $(ldd "$(command -v busybox)" | grep -o '/[^ ]*' | sed 's,^/usr,,'); do
    mkdir -p "$DIR/empty/usr${file%/*}"
    cp -L "$file" "$DIR/empty/usr$file"
  done
}

# containerd restores with the option -no-subreaper, which crun 1.28 does not have.
write_runtime() {
  if [ "$BUNDLE_RUNTIME" != crun ]; then
    ln -s "$(command -v "$BUNDLE_RUNTIME")" "$DIR/runtime"
    return
  fi
  cat >"$DIR/runtime" <<END
#!/bin/bash
for word; do
  [ "\$word" = -no-subreaper ] || words+=("\$word")
done
exec "$(command -v "$BUNDLE_RUNTIME")" "\${words[@]}"
END
  chmod +x "$DIR/runtime"
}

# keep_restore_log: of the following restores; containerd deletes it with the container
keep_restore_log() {
  rm "$DIR/runtime"
  cat >"$DIR/runtime" <<END
#!/bin/bash
"$(command -v "$BUNDLE_RUNTIME")" "\$@"
status=\$?
for word; do
  [ "\$before" != --work-path ] || cp "\$word/restore.log" "$DIR/criu-restore.log"
  before=\$word
done
exit \$status
END
  chmod +x "$DIR/runtime"
}

write_containerd_config() {
  cat <<END
version = 3
root = "$SCRATCH/containerd"
state = "/run/containerd"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "$POD_IMAGE"
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "$DIR/registries"
[plugins.'io.containerd.cri.v1.runtime']
cdi_spec_dirs = ["$CDI_SPECS"]
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["$DIR/cni"]
conf_dir = "$DIR/cni"
use_internal_loopback = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "$DIR/runtime"
END
}

# A network for the pods that have one of their own: it has only the loopback device.
write_cni() {
  mkdir -p "$DIR/cni"
  printf '{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "none"}]}\n' >"$DIR/cni/pods.conflist"
  cat >"$DIR/cni/none" <<'END'
#!/bin/sh
cat >/dev/null
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD) echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}],
  "ips": [{"address": "192.0.2.1/32", "interface": 0}]}' ;;
esac
END
  chmod +x "$DIR/cni/none"
}

write_cdi() {
  mkdir -p $CDI_SPECS
  "$TOOL" cdi >$CDI_SPECS/amdgpu-criu.json || fail "amdgpu-criu cdi: status $?"
}

is_cri_up() { cri version >"$DIR/version"; }
is_registry_up() { [ "$(cri pull $POD_IMAGE)" ]; }

need_pods() {
  [ -x /usr/bin/containerd ] && [ -d /usr/lib/python3/dist-packages/cri ] ||
    fail "there is no containerd: selftests/vm/run --image pods"
  prepare_engines
  ENGINE=pod
  ip link set lo up
  make_pod_image
  write_cdi
  "$PAYLOAD/e2e/registry" "$DIR/empty" "$DIR/archive.tar" /usr/bin/busybox sleep 1000000 >"$DIR/registry.log" 2>&1 &
  PIDS+=($!)
  write_runtime
  write_cni
  write_containerd_config >"$DIR/containerd.toml"
  mkdir -p "$SCRATCH/tmp" "$DIR/registries/localhost:5000"
  printf '[host."http://localhost:5000"]\n' >"$DIR/registries/localhost:5000/hosts.toml"
  CLEANERS=(remove_pods "${CLEANERS[@]}")
  start_containerd
  cat "$DIR/version"
  wait_until 60 is_registry_up || fail "containerd does not pull the image"
}

start_containerd() {
  TMPDIR=$SCRATCH/tmp containerd --config "$DIR/containerd.toml" >>"$DIR/containerd.log" 2>&1 &
  CONTAINERD=$!
  wait_until 90 is_cri_up || fail "containerd does not answer"
}

remove_pods() {
  local mount
  [ -z "${POD-}" ] || cri remove "$POD" >/dev/null
  kill "$CONTAINERD" 2>/dev/null && wait_gone "$CONTAINERD" 10
  pkill -KILL -f '^/usr/bin/containerd-shim' || true
  # A restore whose criu was killed has left its view of cgroups there.
  awk '{ print $2 }' /proc/mounts | grep -E "^(/run|/var/lib|$SCRATCH)/containerd" | sort -r | while read -r mount; do
    umount -l "$mount"
  done
  rm -rf "$SCRATCH/containerd" "$SCRATCH/tmp" $CDI_SPECS
}

# container_json IMAGE GPU COMMAND: a container that CDI gives the GPU, or with DEVICE_LIST=yes, the list of devices;
# with POD_VOLUME=DIRECTORY, its root is read-only, and this is its /tmp
container_json() {
  python3 - "$@" "$PAYLOAD" "${DEVICE_LIST-}" "$FIRST_MINOR" "${POD_VOLUME-}" <<'END'
import json, sys
image, gpu, command, payload, listed, first, volume = sys.argv[1:]
config = {"metadata": {"name": "workload"}, "image": {"image": image}, "command": ["sh", "-c", command],
          "log_path": "workload.out", "linux": {"security_context": {}},
          "mounts": [{"container_path": path, "host_path": path, "readonly": True} for path in ("/usr", payload)]}
if volume:
    config["linux"]["security_context"]["readonly_rootfs"] = True
    config["mounts"].append({"container_path": "/tmp", "host_path": volume})
nodes = ["/dev/kfd", f"/dev/dri/renderD{int(first) + int(gpu)}"]
if listed:
    config["devices"] = [{"container_path": node, "host_path": node, "permissions": "rw"} for node in nodes]
else:
    config["CDI_devices"] = [{"name": f"amd.com/gpu={gpu}"}]
print(json.dumps(config))
END
}

# pod_create NAME IMAGE GPU COMMAND: sets POD, POD_CONTAINER and LOG
pod_create() {
  POD=$(cri pod "$1" "$DIR" "${POD_NAMESPACES:-{\}}") || fail "no pod $1: $(tail -n 2 "$DIR/cri.log")"
  POD_CONTAINER=$(cri create "$POD" "$(container_json "${@:2}")") ||
    fail "no container in pod $1: $(tail -n 2 "$DIR/cri.log")"
  LOG=${POD_VOLUME:-$POD_STATE/$POD_CONTAINER/rootfs/tmp}/workload.log
}

# pod_start NAME IMAGE GPU COMMAND: sets PID, too
pod_start() {
  pod_create "$@"
  cri start "$POD_CONTAINER" || fail "the container of pod $1 does not start: $(tail -n 2 "$DIR/cri.log")"
  read -r _ PID < <(cri status "$POD_CONTAINER")
  PIDS+=("$PID")
}

in_pod() { "$PAYLOAD/e2e/cri" exec "$POD_CONTAINER" "$@"; }

pod_opens_gpu_again() {
  local output
  output=$(in_pod "$PAYLOAD/bin/gpu_chain" --steps 3 2>&1) || fail "a second program: $output"
  [[ $output == *"step 3 "* ]] || fail "a second program does no steps: $output"
}

# pod_checkpoint ARCHIVE WHAT: the shim keeps CRIU's log of one that fails
pod_checkpoint() {
  cri checkpoint "$POD_CONTAINER" "$1" && return
  cp "$POD_STATE/$POD_CONTAINER/criu-dump.log" "$DIR/criu-failed.log"
  fail "no $2: $(tail -n 2 "$DIR/cri.log")"
}

# start_pod NAME: one with the first GPU that does some steps
start_pod() {
  pod_start "$1" $POD_IMAGE 0 "$POD_COMMAND"
  wait_until 120 log_is_there || fail "the workload has no output"
  wait_until 120 started || fail "the workload is not ready"
  sees_one_gpu $FIRST_MINOR
  first_steps "$BEFORE_DUMP"
}

# pod_arrives_as NAME IMAGE: restores it with the second GPU
pod_arrives_as() {
  local steps
  pod_start "$1" "$2" 1 "$POD_COMMAND"
  steps=$(last_step)
  goes_on "$steps" "in the $1 pod"
  all_memory_is_right "in the $1 pod"
  steps_are_unbroken
  has_open_only $SECOND_MINOR
  sees_one_gpu $SECOND_MINOR "renderD$FIRST_MINOR renderD$SECOND_MINOR"
  pod_opens_gpu_again
  echo "restored with another GPU, at step $steps; a second program uses it"
}

# pod_moves [IMAGE]: a pod with the first GPU is checkpointed, continues, ends, and is restored in another pod with
# the second one, from the archive or from an image of it
pod_moves() {
  need_two_nodes
  need_pods
  start_pod first
  pod_checkpoint "$DIR/archive.tar" checkpoint
  goes_on "$(last_step)" "after the checkpoint"
  tar -xOf "$DIR/archive.tar" dump.log >"$DIR/criu-dump.log" 2>/dev/null
  echo "checkpoint: $(stat -c %s "$DIR/archive.tar") bytes, the pod goes on"
  cri remove "$POD" || fail "the first pod stays"
  wait_gone "$PID" 20 || fail "the first workload is still there"
  [ -z "${POD_VOLUME-}" ] || : >"$LOG" # it has later steps than the checkpoint
  [ $# = 0 ] || cri pull "$1" || fail "containerd does not pull the image of the checkpoint"
  pod_arrives_as second "${1:-$DIR/archive.tar}"
  [ -z "${POD_VOLUME-}" ] || ! in_pod /usr/bin/touch /file 2>/dev/null || fail "the root can be written"
  pod_checkpoint "$DIR/again.tar" "second checkpoint"
  goes_on "$(last_step)" "after a second checkpoint"
  ends_well "in the second pod"
}

scenario_pod_cdi() { pod_moves; }
scenario_pod_devices() {
  DEVICE_LIST=yes
  pod_moves
}
scenario_pod_crun() {
  BUNDLE_RUNTIME=crun
  pod_moves
}

# As an OCI image, whose only layer is the archive
scenario_pod_image() { pod_moves $CHECKPOINT_IMAGE; }

scenario_pod_readonly() {
  POD_VOLUME=$DIR/volume
  mkdir -p "$POD_VOLUME"
  pod_moves
}

# The users of the pod are its own, and so is its network, which must be then. A checkpoint can be made. CRIU restores
# tasks in a user namespace that it makes, and from that it may not enter the network of the pod.
scenario_pod_users() {
  local first log users='[{"container_id": 0, "host_id": 100000, "length": 65536}]'
  POD_NAMESPACES="{\"network\": \"POD\", \"userns_options\": {\"mode\": \"POD\", \"uids\": $users, \"gids\": $users}}"
  need_two_nodes
  chmod 666 /dev/kfd /dev/dri/renderD*
  need_pods
  start_pod first
  first=$POD log=$LOG
  has_own_users
  pod_checkpoint "$DIR/archive.tar" checkpoint
  goes_on "$(last_step)" "after the checkpoint"
  keep_restore_log
  pod_create second "$DIR/archive.tar" 0 "$POD_COMMAND"
  ! cri start "$POD_CONTAINER" || fail "restored: describe it in the manual page"
  grep -o "Can't setns .*/net: Operation not permitted" "$DIR/criu-restore.log" || fail "refused for another reason"
  cri remove "$POD" || fail "the second pod stays"
  POD=$first LOG=$log
  goes_on "$(last_step)" "after the restore that failed"
  all_memory_is_right "after the restore that failed"
  ends_well "after the restore that failed"
}
