# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What a container with a GPU needs, and what the runtime and criu need, with all else taken away; and containers on
# which earlier dumps or file systems have an effect. criu-amdgpu(1), "Privileges", has the lists.

# Of the runtime and criu, for a container without a user namespace of its own: capabilities, and what they see of the
# file system besides programs, the bundle and images. container_privileges_least shows that each is needed. Those of
# the second pair are for a container that has a file of its user in a tmpfs below another one, as most do.
DUMP_CAPS='dac_override kill net_admin sys_admin sys_ptrace sys_resource'
DUMP_MOUNTS='/tmp /proc /sys:ro /dev /run/bundles'
RESTORE_CAPS='dac_override mknod net_admin setgid setpcap setuid sys_admin sys_chroot sys_time'
RESTORE_MOUNTS="$DUMP_MOUNTS /sys/fs/cgroup"
DUMP_MORE='sys_chroot'
RESTORE_MORE='chown'
# What a helper that restores may call besides what containerd's profile allows with these capabilities
HELPER_CALLS='pivot_root'

# System calls that the profile of the poor container denies: those for mounts, namespaces, modules, clocks, keys,
# devices, other processes, and new sockets and rings.
DENIED_CALLS=(acct add_key bpf chroot clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen
  fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
  mknod mknodat mount mount_setattr move_mount move_pages name_to_handle_at open_by_handle_at open_tree
  perf_event_open pidfd_getfd pivot_root process_vm_readv process_vm_writev ptrace quotactl reboot request_key
  setdomainname sethostname setns settimeofday socket swapoff swapon syslog umount2 unshare userfaultfd vhangup)

# poor_container: user 1000 without capabilities, a read-only root, and a profile that kills it at one of these calls
poor_container() {
  local calls none
  printf -v calls '"%s",' "${DENIED_CALLS[@]}"
  none=$(printf '"%s": [],' bounding effective permitted inheritable ambient)
  USER_INSIDE=1000 ROOT_OPTIONS=', "readonly": true' CAPABILITIES="\"capabilities\": {${none%,}},"
  SECCOMP="\"seccomp\": {\"defaultAction\": \"SCMP_ACT_ALLOW\", \"architectures\": [\"SCMP_ARCH_X86_64\"],
    \"syscalls\": [{\"names\": [${calls%,}], \"action\": \"SCMP_ACT_KILL_PROCESS\"}]},"
  LOGS_OUTSIDE=$DIR/logs
  mkdir -p "$LOGS_OUTSIDE"
  chown 1000:1000 "$LOGS_OUTSIDE"
  touch "$LOGS_OUTSIDE/workload.log"
  chown 1000:1000 "$LOGS_OUTSIDE/workload.log"
}

is_poor() { # is_poor WHEN
  local status
  status=$(<"/proc/$PID/status")
  [[ $status == *$'\nUid:\t1000\t1000\t1000\t1000'* ]] || fail "$1: the workload is another user"
  [[ $status == *$'\nCapPrm:\t0000000000000000'* && $status == *$'\nCapBnd:\t0000000000000000'* ]] ||
    fail "$1: the workload has capabilities: $(grep Cap "/proc/$PID/status" | tr '\n' ' ')"
  [[ $status == *$'\nNoNewPrivs:\t1'* && $status == *$'\nSeccomp:\t2'* ]] || fail "$1: it has no seccomp filter"
  grep -qE '^[0-9]+ [0-9]+ [0-9:]+ [^ ]+ / ro[, ]' "/proc/$PID/mountinfo" || fail "$1: its root can be written"
}

start_poor() {
  need_two_nodes
  poor_container
  start_bundle $SECOND_MINOR gpu_chain
  is_poor "at the start"
  first_steps "$BEFORE_DUMP"
}

scenario_container_privileges() {
  start_poor
  RUNTIME_CAPS=$DUMP_CAPS RUNTIME_MOUNTS=$DUMP_MOUNTS
  dump_container dump "$DIR/images"
  RUNTIME_CAPS=$RESTORE_CAPS RUNTIME_MOUNTS=$RESTORE_MOUNTS
  restore_container restore "$DIR/images"
  RUNTIME_CAPS='' RUNTIME_MOUNTS=''
  is_poor "after the restore"
  sees_one_gpu $SECOND_MINOR
  ends_well "after the restore"
}

freely() { RUNTIME_CAPS='' RUNTIME_MOUNTS='' "$@"; }
without() { # without WORD WORD...: the other words
  printf '%s\n' "${@:2}" | grep -vx -- "$1" | paste -sd ' '
}

# first_error dump|restore: without CAP_SYS_RESOURCE each log has the one of RLIMIT_NOFILE, which ends nothing
first_error() {
  { grep -h Error "$DIR/criu-$1.log" | grep -v 'RLIMIT_NOFILE for self' || grep -E 'level=error|Killed' "$DIR/$1.out" ||
    grep -v '^mv:' "$DIR/$1.out"; } 2>/dev/null | head -n 1
}

# try_dump, try_restore: with RUNTIME_CAPS; afterwards, the container runs or is dumped as before. Sets TRIED to the
# status of the runtime; 137: its time was over
try_dump() {
  rm -rf "$DIR/images" "$DIR/criu-dump.log"
  USAGE=$(gpu_usage)
  RUNTIME_SECONDS=$((20 * PATIENCE)) bundle_checkpoint dump "$DIR/images" >"$DIR/dump.out" 2>&1
  TRIED=$?
  if [ $TRIED -eq 0 ]; then
    wait_gone "$PID" 10 || fail "the process is there after a dump that has succeeded"
    STEP_BEFORE=$(last_step)
    freely restore_container restore "$DIR/images"
    return
  fi
  pkill -KILL -x criu # it waits for tasks that it may not kill
  goes_on "$(last_step)" "after a dump that failed"
  return 1
}
try_restore() {
  rm -f "$DIR/criu-restore.log"
  RUNTIME_SECONDS=$((20 * PATIENCE)) bundle_restore restore "$DIR/images" >"$DIR/restore.out" 2>&1
  TRIED=$?
  if [ $TRIED -eq 0 ]; then
    freely bundle_pid
    goes_on "$STEP_BEFORE" "after a restore"
    is_poor "after a restore"
    rm -rf "$DIR/images"
    freely dump_container dump "$DIR/images"
    return
  fi
  cat "$DIR/engine.log" >>"$DIR/restore.out"
  freely remove_killed || fail "a restore that failed has left: $(gpu_traces)"
  return 1
}

# The error of each attempt without one of them, as an extended regular expression: of criu, tar, runc or the plugin
missing_privileges() {
  cat <<'END'
dump    dac_override   cannot list the files of process [0-9]+: Permission denied
dump    kill           Unseizing [0-9]+ into 2$
dump    net_admin      net: Unexpected error: -1\(Operation not permitted\)
dump    sys_admin      Effective capability 21 missing
dump    sys_chroot     Can't setns [0-9]+/mnt: Operation not permitted
dump    sys_ptrace     Unable to interrupt task: [0-9]+ \(Operation not permitted\)
dump    sys_resource   Can't get rlimit [0-9]+: Operation not permitted
dump    /tmp           Fail to make dir /tmp/.*: No such file or directory
dump    /proc          cannot be checkpointed in stopped state
dump    /sys:ro        cannot statfs cgroup root: no such file or directory
dump    /dev           open /dev/null: no such file or directory
dump    /run/bundles   mkdir /run: read-only file system
restore chown          tar: .*: Cannot change ownership to .*: Operation not permitted
restore dac_override   mkdir /sys/fs/cgroup/.*: permission denied
restore mknod          tar: \./null: Cannot mknod: Operation not permitted
restore net_admin      Unable to set socket SO_SNDBUFFORCE/SO_RCVBUFFORCE: Operation not permitted
restore setgid         Unable to set real, effective and saved group ID: -1
restore setpcap        Unable to set SECURE_NO_SETUID_FIXUP: -1
restore setuid         Unable to set real, effective and saved user ID: -1
restore sys_admin      mount .*: operation not permitted
restore sys_chroot     Can't restore ns back: Operation not permitted
restore sys_time       Unable to set a monotonic clock offset: Operation not permitted
restore /tmp           Fail to make dir /tmp/.*: No such file or directory
restore /proc          cgroup namespaces aren't enabled in the kernel
restore /sys:ro        the images need 1 GPUs, this machine has 0
restore /dev           open /dev/null: no such file or directory
restore /run/bundles   mkdir /run: read-only file system
restore /sys/fs/cgroup no cgroup mount found in mountinfo
END
}

# fails_for_its_reason dump|restore WORD: the attempt without the word has ended with its error. Without CAP_KILL there
# is none: criu has saved all, and waits for a process that it cannot kill until its time is over.
fails_for_its_reason() {
  local reason said
  reason=$(missing_privileges | awk -v what="$1" -v word="$2" '$1 == what && $2 == word { $1 = $2 = ""; print substr($0, 3) }')
  [ -n "$reason" ] || fail "$1 without $2 fails, and nobody knows with which error: $(first_error "$1")"
  said=$(grep -ahsE -m 1 "$reason" "$DIR/criu-$1.log" "$DIR/$1.out" | head -n 1)
  [ -n "$said" ] || fail "$1 without $2: status $TRIED, but not for '$reason': $(first_error "$1")"
  [ "$1 $2" != "dump kill" ] || [ $TRIED -eq 137 ] || fail "a dump without CAP_KILL ends, with status $TRIED"
  echo "needed: $1 | $2 | $said"
}

# least dump|restore LIST: drops each word of the variable LIST, and adds those without which it succeeds to SPARE
least() {
  local -n list=$2
  local one rest=$list
  "try_$1" || fail "$1: fails with all: $(first_error "$1")"
  for one in $rest; do
    list=$(without "$one" $rest)
    if "try_$1"; then
      SPARE+=("$1: $one")
      rest=$list
    else
      fails_for_its_reason "$1" "$one"
    fi
  done
  list=$rest
}

scenario_container_privileges_least() {
  local SPARE=()
  mount_debugfs
  VRAM_FREE=$(vram_used)
  start_poor
  RUNTIME_CAPS=$DUMP_CAPS RUNTIME_MOUNTS=$DUMP_MOUNTS
  least dump RUNTIME_CAPS
  least dump RUNTIME_MOUNTS
  rm -rf "$DIR/images"
  freely dump_container dump "$DIR/images"
  RUNTIME_CAPS=$RESTORE_CAPS RUNTIME_MOUNTS=$RESTORE_MOUNTS
  least restore RUNTIME_CAPS
  least restore RUNTIME_MOUNTS
  [ ${#SPARE[@]} -eq 0 ] || fail "not needed: $(printf '%s, ' "${SPARE[@]}")"
}

has_shared_file() {
  [ "$(stat -c '%u %a' "/proc/$PID/root/dev/shm/own")" = "1000 600" ] || fail "$1: /dev/shm has no file of the user"
}
fails_without_more() { # fails_without_more dump|restore CAPABILITIES MORE
  RUNTIME_CAPS=$2
  ! "try_$1" || fail "$1 succeeds without $3"
  fails_for_its_reason "$1" "$3"
  RUNTIME_CAPS="$2 $3"
}

scenario_container_privileges_shm() {
  local MORE_MOUNTS=', {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
    "options": ["nosuid", "noexec", "nodev", "mode=1777"]}'
  mount_debugfs
  VRAM_FREE=$(vram_used)
  start_poor
  in_bundle sh -c 'umask 077; echo mine >/dev/shm/own' || fail "the user cannot write to /dev/shm"
  has_shared_file "at the start"
  fails_without_more dump "$DUMP_CAPS" $DUMP_MORE
  rm -rf "$DIR/images"
  dump_container dump "$DIR/images"
  fails_without_more restore "$RESTORE_CAPS" $RESTORE_MORE
  restore_container restore "$DIR/images"
  RUNTIME_CAPS=
  has_shared_file "after the restore"
  ends_well "after the restore"
}

# Two rounds of runc's pre-copy, and then the checkpoint
scenario_container_pre_dump() {
  need_two_nodes
  start_bundle $SECOND_MINOR gpu_chain
  first_steps "$BEFORE_DUMP"
  bundle_checkpoint first "$DIR/first" --pre-dump || fail "no first round"
  goes_on "$(last_step)" "after the first round"
  bundle_checkpoint second "$DIR/second" --pre-dump --parent-path ../first || fail "no second round"
  goes_on "$(last_step)" "after the second round"
  USAGE=$(gpu_usage)
  bundle_checkpoint dump "$DIR/images" --parent-path ../second || fail "no checkpoint"
  gone "$PID" || fail "the dumped process is still there"
  STEP_BEFORE=$(last_step)
  [ -L "$DIR/images/parent" ] || fail "the images have no parent"
  restore_container restore "$DIR/images"
  ends_well "after the restore"
}

# Images on a file system that passes I/O on to another one, as in a container of an engine
scenario_images_on_overlay() {
  need_gpus 1
  need_plugin
  mkdir -p "$DIR/lower" "$DIR/upper" "$DIR/over" "$DIR/images"
  mount -t overlay -o "lowerdir=$DIR/lower,upperdir=$DIR/upper,workdir=$DIR/over" overlay "$DIR/images" ||
    fail "no overlay"
  round_trip gpu_chain
  compgen -G "$DIR/upper/amdgpu-contents-*.img" >/dev/null || fail "the images have not passed through the overlay"
}

# helper_json CAPABILITY...: a container that sees all processes and both GPUs, with these capabilities, a read-only
# root and the seccomp profile HELPER_PROFILE or, without it, the runtime's default
helper_json() {
  python3 - "$POD_IMAGE" "$DIR" "$PAYLOAD" "$POD_STATE" $POD_RUNTIME_STATE "${HELPER_PROFILE-}" "$@" <<'END'
import json, sys
image, directory, payload, bundles, states, profile, *capabilities = sys.argv[1:]
paths = {path: True for path in ("/usr", "/etc/alternatives", "/etc/criu", payload, bundles)}
paths |= {path: False for path in ("/tmp", "/sys/fs/cgroup", "/run/bundles", states, directory)}
print(json.dumps({
    "metadata": {"name": profile.replace("/", "-") or "helper"},
    "image": {"image": image}, "command": ["sleep", "1000000"],
    "mounts": [{"container_path": path, "host_path": path, "readonly": readonly} for path, readonly in paths.items()],
    "CDI_devices": [{"name": f"amd.com/gpu={gpu}"} for gpu in (0, 1)],
    "linux": {"security_context": {
        "readonly_rootfs": True, "no_new_privs": True,
        "seccomp": {"profile_type": "Localhost", "localhost_ref": profile} if profile else
                   {"profile_type": "RuntimeDefault"},
        "capabilities": {"add_capabilities": [name.upper() for name in capabilities],
                         "drop_capabilities": ["ALL"]}}}}))
END
}

# A pod with the privileges that a dump needs checkpoints the container of another pod. In that, file systems are
# mounted below /dev, so criu enters its mount namespace to dump /dev.
scenario_pod_helper() {
  local container status
  need_two_nodes
  need_pods
  start_pod first
  container=$POD_CONTAINER
  mkdir "$DIR/images" "$DIR/work"
  POD=$(cri pod helper "$DIR" '{"pid": "NODE"}') || fail "no pod for the helper"
  # shellcheck disable=SC2086
  POD_CONTAINER=$(cri create "$POD" "$(helper_json $DUMP_CAPS sys_chroot)") || fail "no helper: $(tail -n 2 "$DIR/cri.log")"
  cri start "$POD_CONTAINER" || fail "the helper does not start: $(tail -n 2 "$DIR/cri.log")"
  in_pod /usr/bin/grep -E '^(Cap(Prm|Bnd)|NoNewPrivs|Seccomp):' /proc/self/status
  in_pod /usr/bin/env PATH="$DIR/bin:/usr/sbin:/usr/bin" runc --root $POD_RUNTIME_STATE checkpoint --leave-running \
    --manage-cgroups-mode ignore --image-path "$DIR/images" --work-path "$DIR/work" "$container"
  status=$?
  cp "$DIR/work/dump.log" "$DIR/criu-dump.log"
  [ $status = 0 ] || fail "the helper writes no checkpoint"
  goes_on "$(last_step)" "after the checkpoint"
  "$TOOL" verify "$DIR/images" || fail "the images are not complete"
  ends_well "after the checkpoint"
}

# allow_more CALL...: containerd's profile for the capabilities of a restore, which allows these calls, too
allow_more() {
  local helper
  # shellcheck disable=SC2086
  helper=$(cri create "$POD" "$(helper_json $RESTORE_CAPS)") || fail "no helper: $(tail -n 2 "$DIR/cri.log")"
  ctr --namespace k8s.io containers info "$helper" | python3 -c 'import json, sys
profile = json.load(sys.stdin)["Spec"]["linux"]["seccomp"]
profile["syscalls"].append({"names": sys.argv[1:], "action": "SCMP_ACT_ALLOW"})
print(json.dumps(profile))' "$@" >"$DIR/profile.json" || fail "containerd shows no profile"
  HELPER_PROFILE=$DIR/profile.json
}

# Likewise with those of a restore, into a container that has the other GPU. The cgroups of the images are not those
# that the helper sees; runc puts the tasks into that of the container.
scenario_pod_helper_restores() {
  local status BUNDLE
  need_two_nodes
  need_pods
  poor_container
  start_bundle $FIRST_MINOR gpu_chain
  first_steps "$BEFORE_DUMP"
  dump_container dump "$DIR/images"
  write_bundle $SECOND_MINOR "$COMMAND"
  POD=$(cri pod helper "$DIR" '{"pid": "NODE"}') || fail "no pod for the helper"
  allow_more $HELPER_CALLS
  # shellcheck disable=SC2086
  POD_CONTAINER=$(cri create "$POD" "$(helper_json $RESTORE_CAPS)") || fail "no helper: $(tail -n 2 "$DIR/cri.log")"
  cri start "$POD_CONTAINER" || fail "the helper does not start: $(tail -n 2 "$DIR/cri.log")"
  in_pod /usr/bin/grep -E '^(Cap(Prm|Bnd)|NoNewPrivs|Seccomp):' /proc/self/status
  rm -rf "$DIR/work" && mkdir "$DIR/work"
  in_pod /usr/bin/env PATH="$DIR/bin:/usr/sbin:/usr/bin" sh -c "runc --root /run/bundles restore -d \
    --manage-cgroups-mode ignore --bundle $BUNDLE --image-path $DIR/images --work-path $DIR/work $CONTAINER \
    </dev/null >$DIR/engine.log 2>&1"
  status=$?
  cp "$DIR/work/restore.log" "$DIR/criu-restore.log"
  [ $status = 0 ] || fail "the helper restores nothing: $(first_error restore)"
  bundle_pid
  goes_on "$STEP_BEFORE" "restored by the helper"
  all_memory_is_right "restored by the helper"
  is_poor "restored by the helper"
  has_open_only $SECOND_MINOR
  opens_gpu_again $SECOND_MINOR
  cri remove "$POD" || fail "the helper stays"
  POD=
  ends_well "without the helper"
}
