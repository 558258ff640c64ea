# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Disks that fail, and disks that do not answer.

# A separate file system on DIR/disk.
make_disk() {
  truncate -s 96M "$DIR/disk.img"
  mkfs.ext4 -q -O ^has_journal -N 256 "$DIR/disk.img" || fail "no file system"
  mkdir -p "$DIR/disk"
  mount_disk
}
mount_disk() { mount -o loop "$DIR/disk.img" "$DIR/disk" || fail "no loop device"; }

# The device returns errors beyond that place.
disk_ends_at() { # disk_ends_at MIB
  truncate -s "$1M" "$DIR/disk.img"
  losetup --set-capacity "$(findmnt -no SOURCE "$DIR/disk")" || fail "the disk does not shrink"
}

# failed_with_eio WHAT: the plugin logged the error and the name of its file
failed_with_eio() {
  grep -q '(amdgpu).*amdgpu-contents-.*Input/output error' "$DIR/criu-$1.log" ||
    fail "$1: failed, but the log does not say which file could not be used, and why"
  echo "$1: $(grep -m1 -o 'amdgpu-contents-.*Input/output error' "$DIR/criu-$1.log")"
}

# A disk on which contents cannot be written, and one from which they cannot be read.
scenario_contents_disk_fails() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  make_disk
  disk_ends_at 6
  ! criu_dump unwritable "$DIR/disk/images" || fail "dumped to a disk that cannot be written"
  failed_with_eio unwritable
  survives "after a dump to a disk that fails"
  umount "$DIR/disk"

  dump_and_kill dump "$DIR/images"
  make_disk
  local file
  file=$(compgen -G "$DIR/images/amdgpu-contents-*.img")
  mv "$file" "$DIR/disk/" && ln -s "$DIR/disk/${file##*/}" "$file"
  umount "$DIR/disk" # drops the page cache
  cp --sparse=always "$DIR/disk.img" "$DIR/whole.img"
  mount_disk
  disk_ends_at 6
  ! criu_restore unreadable "$DIR/images" || fail "restored from a disk that cannot be read"
  failed_with_eio unreadable
  nothing_runs unreadable
  umount "$DIR/disk"
  mv "$DIR/whole.img" "$DIR/disk.img"
  mount_disk
  restore_and_check restore "$DIR/images"
  ends_well "after disks that fail"
}

# Two dumps into one directory at a time: the second one is refused, and the first one is complete.
scenario_contents_two_dumps() {
  local first first_log criu
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  first=$PID first_log=$LOG
  USAGE=$(gpu_usage)
  LOG_NAME=second start render_chain
  first_steps "$BEFORE_DUMP"

  mkdir "$DIR/images"
  AMDGPU_CRIU_TEST_FAIL=CHECKPOINT:1:sleep "$CRIU" dump -t "$first" -D "$DIR/images" -W "$DIR" -o criu-first.log -v4 \
    --shell-job -L "$PLUGIN_DIR" &
  criu=$!
  PIDS+=("$criu")
  wait_until 60 log_of first 'fault at CHECKPOINT' || fail "the first dump does not reach CHECKPOINT"
  kill -STOP $criu
  ! criu_dump second "$DIR/images" || fail "two dumps into one directory at a time"
  grep -o 'the dump has failed: .*another dump writes images to this directory.*' "$DIR/criu-second.log" ||
    fail "the second dump does not say why it fails"
  survives "after a dump that was refused"
  ends_well "after a dump that was refused"

  kill -CONT $criu
  wait $criu || fail "the first dump fails"
  PID=$first LOG=$first_log
  gone "$PID" || fail "the dumped process is still there"
  STEP_BEFORE=$(last_step)
  restore_and_check restore "$DIR/images"
  ends_well "after the dump and another one"
}

# A disk in a file of the other one, which stops answering when that is frozen.
make_inner_disk() {
  make_disk
  truncate -s 80M "$DIR/disk/inner.img"
  mkfs.ext4 -q -O ^has_journal -N 256 "$DIR/disk/inner.img" || fail "no file system"
  mkdir -p "$DIR/inner"
  mount -o loop "$DIR/disk/inner.img" "$DIR/inner" || fail "no loop device"
}
# CRIU waits for the disk when it closes a file that it has truncated.
new_inner_images() {
  rm -rf "$DIR/inner/images"
  mkdir "$DIR/inner/images"
  sync
}
freeze_disk() { fsfreeze --freeze "$DIR/disk" || fail "the disk cannot be frozen"; }
thaw_disk() { fsfreeze --unfreeze "$DIR/disk" 2>/dev/null; }

# dump_to_hanging_disk WHAT IO DIRECT-IO: criu ends when the disk answers, but the process continues
# within a second of the deadline
dump_to_hanging_disk() {
  local what=$1 criu paused
  new_inner_images
  freeze_disk
  AMDGPU_CRIU_TIMEOUT=$((2 * PATIENCE)) AMDGPU_CRIU_IO=$2 AMDGPU_CRIU_DIRECT_IO=$3 \
    criu_dump "$what" "$DIR/inner/images" --leave-running &
  criu=$!
  wait_until 60 log_of "$what" 'the dump has failed: ' || fail "$what: the dump does not end"
  goes_on "$(last_step)" "$what"
  paused=$(sed -n 's/.*GPU work was paused for \([0-9]*\) ms.*/\1/p' "$DIR/criu-$what.log")
  [ "$paused" -le $((3000 * PATIENCE)) ] || fail "$what: GPU work was paused for $paused ms"
  echo "$what: paused for $paused ms; $(grep -o 'the dump has failed: .*' "$DIR/criu-$what.log")"
  thaw_disk
  ! wait $criu || fail "$what: the dump succeeded"
  # A process in the middle of a system call stays, and so do its files.
  log_of "$what" 'the disk does not answer: incomplete images are left' ||
    ! compgen -G "$DIR/inner/images/amdgpu-*.img" >/dev/null || fail "$what: images are left without a warning"
  all_memory_is_right "$what"
}

# A signal ends CRIU 4.3 in its own part, while our writer waits for the disk.
end_dump_to_hanging_disk() {
  local CRIU=/opt/criu-4.3/criu CRIU_PID
  new_inner_images
  begin_overlapped_dump ended "$DIR/inner/images"
  freeze_disk
  wait_until 60 slept ended || fail "our writer still sleeps"
  sleep 1 # it writes
  end_overlapped_dump ended
  thaw_disk
  rm -r "$DIR/inner/images"
}
slept() { [ "$(grep -c 'event ioctl DMABUF' "$DIR/criu-$1.log")" -gt 1 ]; }

# In the middle of direct writes, and in the wait for the page cache.
scenario_contents_disk_hangs() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  make_inner_disk
  CLEANERS+=(thaw_disk)
  dump_to_hanging_disk direct io_uring on
  dump_to_hanging_disk threads threads on
  dump_to_hanging_disk cached io_uring off
  end_dump_to_hanging_disk
  dump_and_kill dump "$DIR/inner/images"
  restore_and_check restore "$DIR/inner/images"
  umount "$DIR/inner"
  ends_well "after a disk that did not answer"
}
