# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What a container with a GPU needs, and what the runtime and criu need, with all else taken away; and containers on
# which earlier dumps or file systems have an effect. criu-amdgpu(1), "Privileges", has the lists.

# Of the runtime and criu, for a container without a user namespace of its own
HELPER_CAPS='chown dac_override fowner kill mknod net_admin setgid setpcap setuid sys_admin sys_chroot sys_ptrace
  sys_resource sys_time checkpoint_restore'

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
  RUNTIME_CAPS=$(echo $HELPER_CAPS)
  start_bundle $SECOND_MINOR gpu_chain
  is_poor "at the start"
  first_steps "$BEFORE_DUMP"
}

scenario_container_privileges() {
  start_poor
  dump_container dump "$DIR/images"
  restore_container restore "$DIR/images"
  is_poor "after the restore"
  sees_one_gpu $SECOND_MINOR
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
  mkdir -p "$DIR/lower" "$DIR/upper" "$DIR/over" "$DIR/store"
  mount -t overlay -o "lowerdir=$DIR/lower,upperdir=$DIR/upper,workdir=$DIR/over" overlay "$DIR/store" ||
    fail "no overlay"
  round_trip gpu_chain
}
