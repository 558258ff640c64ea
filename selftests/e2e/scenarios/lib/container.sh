# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Containers that see one GPU. The workload is process 1 in the container; PID is its number
# outside.
#
# BUNDLE: the bundle of runc and crun, which have the same command line. PODMAN_RUNTIME: the runtime
# of podman. The root file system is empty except for mount points.

CRIU_CONF=/etc/criu/default.conf
OPTION_FILE=/etc/amdgpu-criu.conf
BUNDLE_RUNTIME=${BUNDLE_RUNTIME:-runc}
PODMAN_RUNTIME=${PODMAN_RUNTIME:-crun}
# Every container has its own pid 1, so all scenarios can use the same names.
CONTAINER=workload
PODMAN_IMAGE=localhost/empty:1

need_engine() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

# Engines have no option for CRIU's plugins or for the CRIU program.
prepare_engines() {
  local bin=$DIR/bin
  mkdir -p "$bin" "${CRIU_CONF%/*}"
  printf 'libdir %s\nverbosity 4\n' "$PLUGIN_DIR" >"$CRIU_CONF"
  ln -sfn "$(command -v "$CRIU")" "$bin/criu"
  case $PATH in "$bin":*) ;; *) PATH=$bin:$PATH ;; esac
}

make_root() {
  local name
  mkdir -p "$1"/{usr,proc,sys,dev,payload,logs,tmp,run,etc}
  for name in bin sbin lib lib64; do ln -sfn usr/$name "$1/$name"; done
}

# One shell command: CRIU carries no descriptor of a file that is outside of the container.
container_command() { echo "exec $PAYLOAD/bin/$* </dev/null >>/logs/workload.log 2>&1"; }

device_json() { # device_json PATH: its device numbers in OCI's format
  printf '"type":"c","major":%d,"minor":%d' "$(stat -c %Hr "$1")" "$(stat -c %Lr "$1")"
}

# own_users: the container gets a user namespace, in which root is a user without rights outside.
# Its logs are in a directory with no mounts below it: CRIU, in that namespace, may not clone the mount
# tree of another one.
own_users() {
  local first=100000 mapping
  LOGS_OUTSIDE=$DIR/logs
  mapping="[{\"containerID\": 0, \"hostID\": $first, \"size\": 65536}]"
  USER_NAMESPACE=", {\"type\": \"user\"}"
  USER_MAPPINGS="\"uidMappings\": $mapping, \"gidMappings\": $mapping,"
  mkdir -p "$DIR/bundle/rootfs" "$LOGS_OUTSIDE"
  make_root "$DIR/bundle/rootfs"
  chown -R $first:$first "$DIR/bundle" "$LOGS_OUTSIDE"
  chmod o+x "$SCRATCH" "$SCRATCH/e2e" "$DIR"
  chmod 666 /dev/kfd /dev/dri/renderD*
}

# write_bundle RENDER-MINOR COMMAND: may be called again, before a restore
write_bundle() {
  local render=/dev/dri/renderD$1 kfd=/dev/kfd
  mkdir -p "$BUNDLE"
  make_root "$BUNDLE/rootfs"
  cat >"$BUNDLE/config.json" <<END
{ "ociVersion": "1.0.2", "hostname": "container", "root": {"path": "rootfs"${ROOT_OPTIONS-}}, ${ANNOTATIONS-}
  "process": { "terminal": false, "user": {"uid": ${USER_INSIDE:-0}, "gid": ${USER_INSIDE:-0}}, "cwd": "/",
    "env": ["PATH=/usr/bin"], "args": ["sh", "-c", "$2"], ${CAPABILITIES-} "noNewPrivileges": true },
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
    {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
    {"destination": "$PAYLOAD", "type": "bind", "source": "$PAYLOAD", "options": ["rbind", "ro"]},
    {"destination": "/logs", "type": "bind", "source": "$LOGS_OUTSIDE", "options": ["rbind", "rw"]}${MORE_MOUNTS-}],
  "linux": {
    "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"},
      {"type": "network"}, {"type": "cgroup"}${USER_NAMESPACE-}],
    ${USER_MAPPINGS-} ${SECCOMP-}
    "devices": [{"path": "$kfd", $(device_json $kfd), "fileMode": 438},
      {"path": "$render", $(device_json "$render"), "fileMode": 438}],
    "resources": {"devices": [{"allow": false, "access": "rwm"},
      {"allow": true, $(device_json $kfd), "access": "rw"},
      {"allow": true, $(device_json "$render"), "access": "rw"}]}}}
END
}

# RUNTIME_CAPS, RUNTIME_MOUNTS: the only capabilities of the runtime and of criu, and what they see besides programs
# and DIR, which has the bundle and images. RUNTIME_SECONDS: how long the runtime may take
bundle_runtime() {
  local with=() capabilities files
  [ -z "${RUNTIME_SECONDS-}" ] || with=(timeout -s KILL "$RUNTIME_SECONDS")
  read -d '' -ra capabilities <<<"${RUNTIME_CAPS-}"
  read -d '' -ra files <<<"${RUNTIME_MOUNTS-}"
  [ ${#files[@]} -eq 0 ] || with+=("$PAYLOAD/e2e/small-root" /usr:ro /etc:ro "$PAYLOAD:ro" "$DIR" "${files[@]}" --)
  [ ${#capabilities[@]} -eq 0 ] || with+=(setpriv --bounding-set "-all$(printf ',+%s' "${capabilities[@]}")")
  "${with[@]}" "$BUNDLE_RUNTIME" --root /run/bundles "$@"
}

bundle_pid() { # a restored process has another number outside
  PID=$(bundle_runtime state "$CONTAINER" | sed -n 's/^ *"pid": \([0-9]*\).*/\1/p')
  [ "${PID:-0}" -gt 0 ] || fail "$BUNDLE_RUNTIME reports no process of $CONTAINER"
  PIDS+=("$PID")
}

# wait_for_workload STATUS-OF-ENGINE: waits until the process that the engine started is ready
wait_for_workload() {
  [ "$1" -eq 0 ] || fail "the container does not start: status $1"
  "${ENGINE}_pid"
  wait_until 120 started || fail "the workload is not ready after 120 s"
  ! gone "$PID" || fail "the workload ended in its container"
}

# start_bundle RENDER-MINOR PROGRAM OPTIONS...
start_bundle() {
  local minor=$1
  shift
  need_engine "$BUNDLE_RUNTIME"
  prepare_engines
  ENGINE=bundle BUNDLE=$DIR/bundle LOGS_OUTSIDE=${LOGS_OUTSIDE:-$DIR}
  LOG=$LOGS_OUTSIDE/workload.log
  COMMAND=$(container_command "$@")
  write_bundle "$minor" "$COMMAND"
  bundle_runtime run -d --bundle "$BUNDLE" "$CONTAINER" </dev/null >"$DIR/engine.log" 2>&1
  wait_for_workload $?
}

in_bundle() { bundle_runtime exec "$CONTAINER" "$@"; }

bundle_checkpoint() { # bundle_checkpoint WHAT IMAGES OPTION...
  local status
  mkdir -p "$2" "$DIR/work" # runc makes them, crun does not
  bundle_runtime checkpoint --image-path "$2" --work-path "$DIR/work" "${@:3}" "$CONTAINER"
  status=$?
  mv "$DIR/work/dump.log" "$DIR/criu-$1.log"
  return $status
}

bundle_restore() { # bundle_restore WHAT IMAGES
  local status
  mkdir -p "$DIR/work"
  bundle_runtime restore -d --bundle "$BUNDLE" --image-path "$2" --work-path "$DIR/work" \
    "$CONTAINER" </dev/null >"$DIR/engine.log" 2>&1
  status=$?
  mv "$DIR/work/restore.log" "$DIR/criu-$1.log"
  return $status
}

podman_command() {
  podman --root "$SCRATCH/containers" --runroot /run/containers --cgroup-manager cgroupfs \
    --events-backend file --storage-driver overlay --runtime "$PODMAN_RUNTIME" "$@"
}

podman_pid() {
  PID=$(podman_command inspect -f '{{.State.Pid}}' "$CONTAINER")
  [ "${PID:-0}" -gt 0 ] || fail "podman reports no process of $CONTAINER"
  PIDS+=("$PID")
}

in_podman() { podman_command exec "$CONTAINER" "$@"; }

prepare_podman() {
  need_engine podman
  need_engine "$PODMAN_RUNTIME"
  prepare_engines
  export TMPDIR=$SCRATCH/tmp
  mkdir -p "$TMPDIR"
  podman_command image exists $PODMAN_IMAGE 2>/dev/null && return
  make_root "$DIR/empty"
  tar -C "$DIR/empty" -c . | podman_command import --quiet - $PODMAN_IMAGE >/dev/null ||
    fail "podman does not import an image"
}

# start_podman RENDER-MINOR PROGRAM OPTIONS...
start_podman() {
  local minor=$1
  shift
  prepare_podman
  ENGINE=podman LOGS_OUTSIDE=${LOGS_OUTSIDE:-$DIR}
  LOG=$LOGS_OUTSIDE/workload.log
  podman_command run -d --name "$CONTAINER" --network none --device /dev/kfd \
    --device "/dev/dri/renderD$minor" -v /usr:/usr:ro -v "$PAYLOAD:$PAYLOAD:ro" \
    -v "$LOGS_OUTSIDE:/logs" $PODMAN_IMAGE sh -c "$(container_command "$@")" >"$DIR/engine.log" 2>&1
  wait_for_workload $?
}

# CRIU's log is in the directory of the container.
keep_podman_log() { # keep_podman_log dump|restore WHAT
  find "$SCRATCH/containers/overlay-containers" -name "$1.log" -exec cp {} "$DIR/criu-$2.log" \;
}

podman_checkpoint() { # podman_checkpoint WHAT FILE
  local status
  podman_command container checkpoint --keep --compress none --export "$2" "$CONTAINER" \
    >>"$DIR/engine.log" 2>&1
  status=$?
  keep_podman_log dump "$1"
  podman_command rm -f "$CONTAINER" >/dev/null 2>&1
  return $status
}

podman_restore() { # podman_restore WHAT FILE
  local status
  podman_command container restore --keep --import "$2" --name "$CONTAINER" \
    >>"$DIR/engine.log" 2>&1
  status=$?
  keep_podman_log restore "$1"
  return $status
}

# sees_one_gpu RENDER-MINOR: the other nodes, and the other GPU in KFD's topology, are hidden
sees_one_gpu() {
  local minors gpus
  minors=$("in_$ENGINE" sh -c 'cat /sys/class/kfd/kfd/topology/nodes/*/properties 2>/dev/null' |
    sed -n 's/^drm_render_minor \([1-9][0-9]*\)$/\1/p' | tr '\n' ' ')
  [ "$minors" = "$1 " ] || fail "KFD shows the container the render minors $minors, not $1"
  gpus=$("in_$ENGINE" sh -c 'ls /dev/dri' | tr '\n' ' ')
  [ "$gpus" = "${2:-renderD$1} " ] || fail "the container has in /dev/dri: $gpus"
}

# has_own_users: the workload is root of a user namespace that is not the initial one
has_own_users() {
  local users
  users=$(sed -n 's/^Uid:\t\([0-9]*\)\t.*/\1/p' "/proc/$PID/status")
  [ "$users" = 100000 ] || fail "the workload is user $users outside, not 100000"
  [ "$(readlink "/proc/$PID/ns/user")" != "$(readlink /proc/self/ns/user)" ] ||
    fail "the workload is in the initial user namespace"
}

# has_open_only RENDER-MINOR: the workload has only this render node open
has_open_only() {
  local minors
  minors=$(stat -L -c '%t %T' "/proc/$PID/fd"/* | sed -n 's/^e2 /0x/p' | sort -u | xargs printf '%d ')
  [ "$minors" = "$1 " ] || fail "the workload has the render minors $minors open, not $1"
}

# dump_container WHAT IMAGES: sets STEP_BEFORE
dump_container() {
  local start
  USAGE=$(gpu_usage)
  uses_gpu "$1" "$USAGE"
  start=$(now)
  "${ENGINE}_checkpoint" "$1" "$2" || fail "$1: the checkpoint of the container failed"
  gone "$PID" || fail "$1: the dumped process is still there"
  STEP_BEFORE=$(last_step)
  echo "$1 $(seconds_since "$start") s by $ENGINE, step $STEP_BEFORE"
}

# restore_container WHAT IMAGES: checks that it continues from STEP_BEFORE, and all its memory
restore_container() {
  local start
  start=$(now)
  "${ENGINE}_restore" "$1" "$2" || fail "$1: the restore of the container failed"
  "${ENGINE}_pid"
  goes_on "$STEP_BEFORE" "$1"
  all_memory_is_right "$1"
  same_usage "$(gpu_usage)" "$USAGE" || fail "$1: KFD counts $(gpu_usage), before the dump $USAGE"
  echo "$1 $(seconds_since "$start") s by $ENGINE, step $STEP_BEFORE -> $(last_step), all memory" \
    "right, GPUs $(gpu_map "$1")"
}

remove_containers() {
  case ${ENGINE-} in
    bundle) RUNTIME_CAPS='' RUNTIME_MOUNTS='' bundle_runtime delete -f "$CONTAINER" ;;
    podman) podman_command rm -f -t 0 "$CONTAINER" ;;
    *) return 0 ;;
  esac >/dev/null 2>&1
  rm -f $CRIU_CONF $OPTION_FILE
  rm -rf "$DIR/bundle" "$DIR/empty"
}
