# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# How the contents of GPU memory are saved and filled.

# contents_log WHAT: the plugin's log lines about saved contents, of the last CRIU run of that name
contents_log() { grep -h '(amdgpu): GPU .* bytes stored' "$DIR/criu-$1.log"; }

# contents_fact WHAT REGULAR-EXPRESSION: the sum, over GPUs, of the number that it captures in the plugin's lines;
# "none" if there is no such line
contents_fact() {
  grep -h '(amdgpu): ' "$DIR/criu-$1.log" | sed -nE "s/.*$2.*/\1/p" |
    awk '{ sum += $1 } END { print NR ? sum : "none" }'
}

contents_bytes() { # contents_bytes IMAGES: of files
  stat -c %s "$1"/amdgpu-contents-*.img | awk '{ sum += $1 } END { print sum }'
}

verified() { # verified IMAGES
  "$TOOL" verify "$1" || fail "amdgpu-criu verify: status $?"
}

# part_cached FILE: percent of it in the page cache, by cachestat(2)
part_cached() {
  python3 - "$1" <<'EOF'
import ctypes, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
whole = (ctypes.c_uint64 * 2)(0, 0)
found = (ctypes.c_uint64 * 5)()
if ctypes.CDLL(None, use_errno=True).syscall(451, file, whole, found, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
print(found[0] * os.sysconf("SC_PAGESIZE") * 100 // os.fstat(file).st_size)
EOF
}

went_past_the_cache() { # went_past_the_cache WHAT IMAGES
  local file percent
  ! grep -q 'no direct I/O' "$DIR/criu-$1.log" || fail "$1: no direct I/O"
  for file in "$2"/amdgpu-contents-*.img; do
    percent=$(part_cached "$file") || fail "cachestat does not work"
    [ "$percent" -lt 5 ] || fail "$1: $percent % of $file are in the page cache"
  done
}

# Zeros are not stored, staging memory is bounded even for larger BOs, small BOs are copied
# together.
scenario_contents_bounded() {
  need_gpus 1
  need_plugin
  start gpu_chain --vram 96 --hidden 2 --gtt 2 --userptr 2 --small 500
  describe_workload
  first_steps "$BEFORE_DUMP"
  dump_and_kill dump "$DIR/images"
  contents_log dump
  local stored zeros staging submissions file
  stored=$(contents_fact dump '\): GPU [^ ]+ ([0-9]+) bytes stored')
  zeros=$(contents_fact dump ' ([0-9]+) of zeros')
  submissions=$(contents_fact dump ' ([0-9]+) submissions')
  staging=$(contents_fact dump ' ([0-9]+) KiB of staging')
  file=$(contents_bytes "$DIR/images")
  [ "$zeros" -gt 0 ] || fail "a workload with untouched memory has no zeros"
  [ "$file" -ge "$stored" ] && [ "$file" -lt $((stored + stored / 50 + 65536)) ] ||
    fail "$stored bytes are stored in files of $file"
  [ "$staging" -gt 0 ] && [ "$staging" -le 65536 ] || fail "$staging KiB of staging memory"
  [ "$submissions" -lt 100 ] || fail "$submissions submissions: BOs go one by one"
  contents_log dump | grep -q 'files by io_uring' || fail "the files were not written by io_uring"
  went_past_the_cache dump "$DIR/images"
  restore_and_check restore "$DIR/images"
  went_past_the_cache restore "$DIR/images"
  verified "$DIR/images"
  ends_well "after the restore"
}

# File systems without direct I/O or without a disk, and kernels without io_uring.
scenario_contents_elsewhere() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  local kind
  for kind in tmpfs ramfs; do
    mkdir "$DIR/$kind"
    mount -t "$kind" "$kind" "$DIR/$kind" || fail "no $kind"
    dump_and_kill "$kind" "$DIR/$kind/images"
    [ $kind = tmpfs ] || grep -q 'has no direct I/O' "$DIR/criu-$kind.log" ||
      fail "$kind: direct I/O was turned off without a message"
    verified "$DIR/$kind/images"
    restore_and_check "restore-$kind" "$DIR/$kind/images"
    umount "$DIR/$kind"
  done
  without_io_uring dump_and_kill threads "$DIR/images"
  contents_log threads | grep -q 'files by threads' || fail "not by threads: $(contents_log threads)"
  without_io_uring restore_and_check restore-threads "$DIR/images"
  ends_well "after the restores"
}

without_io_uring() {
  local switch=/proc/sys/kernel/io_uring_disabled
  echo 2 >$switch || fail "this kernel cannot turn io_uring off"
  "$@"
  echo 0 >$switch
}

scenario_contents_compressed() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  local how plain compressed
  for how in lz4 zstd:3; do
    # Dumps the same memory both ways: when the workload compares its memory, it writes to pages of
    # zeros.
    criu_dump "plain-${how%:*}" "$DIR/plain" --leave-running || fail "criu dump ended with status $?"
    plain=$(contents_bytes "$DIR/plain")
    rm -r "$DIR/plain"
    export AMDGPU_CRIU_COMPRESS=$how
    dump_and_kill "${how%:*}" "$DIR/${how%:*}"
    unset AMDGPU_CRIU_COMPRESS
    compressed=$(contents_bytes "$DIR/${how%:*}")
    [ "$compressed" -lt "$plain" ] || fail "$how: $compressed bytes, $plain without compression"
    echo "$how: $compressed bytes, $plain without compression"
    verified "$DIR/${how%:*}"
    restore_and_check "restore-${how%:*}" "$DIR/${how%:*}"
  done
  ends_well "after the restores"
}

scenario_contents_encrypted() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  local key
  for key in right wrong; do
    (umask 077 && head -c 32 /dev/urandom >"$DIR/$key.key")
  done
  export AMDGPU_CRIU_KEY_FILE=$DIR/right.key
  dump_and_kill dump "$DIR/images"
  verified "$DIR/images"
  ! grep -l -e gfx_target_version -e gpu_chain "$DIR"/images/amdgpu-*.img || fail "an image can be read"
  unset AMDGPU_CRIU_KEY_FILE
  ! criu_restore plain "$DIR/images" || fail "restored without the key"
  grep -q 'Error.*is encrypted: name the key by option key-file' "$DIR/criu-plain.log" ||
    fail "refused, but not for the key"
  export AMDGPU_CRIU_KEY_FILE=$DIR/wrong.key
  ! criu_restore wrong "$DIR/images" || fail "restored with another key"
  grep -q 'Error.*the key is not the one' "$DIR/criu-wrong.log" || fail "refused, but not for the key"
  nothing_runs "without the key"
  export AMDGPU_CRIU_KEY_FILE=$DIR/right.key
  restore_and_check restore "$DIR/images"
  unset AMDGPU_CRIU_KEY_FILE
  ends_well "after the restore"
}

# The pages of the task go to the page server, and GPU memory to the image directory.
scenario_contents_page_server() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  mkdir "$DIR/pages"
  "$CRIU" page-server --daemon -D "$DIR/pages" -W "$DIR" -o criu-server.log \
    --address 127.0.0.1 --port 27000 || fail "criu page-server ended with status $?"
  dump_and_kill dump "$DIR/images" --page-server --address 127.0.0.1 --port 27000
  ! compgen -G "$DIR/images/pages-*.img" >/dev/null || fail "the pages are in the image directory"
  compgen -G "$DIR/images/amdgpu-contents-*.img" >/dev/null || fail "there is no GPU memory in the image directory"
  mv "$DIR"/pages/page*.img "$DIR/images/" || fail "the page server has no pages"
  verified "$DIR/images"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# The second dump has only changed chunks, and needs the first. It is in memory: the GPU copies to its pages.
# verified_by_gpu IMAGES: all contents, and a damaged byte is found and named
verified_by_gpu() {
  local bytes compared file at=4196 # behind the header of 4 KiB
  "$TOOL" verify --gpu 0 --json "$1" >"$DIR/by-gpu.json" || fail "verify --gpu: status $?"
  bytes=$(sed -n 's/.*"contents_bytes": *\([0-9]*\).*/\1/p' "$DIR/by-gpu.json")
  compared=$(sed -n 's/.*"gpu_bytes": *\([0-9]*\).*/\1/p' "$DIR/by-gpu.json")
  [ "${bytes:-0}" -gt 0 ] && [ "$compared" = "$bytes" ] || fail "the GPU has compared $compared of $bytes bytes"
  file=$(compgen -G "$1/amdgpu-contents-*.img" | head -n 1)
  cp "$file" "$DIR/whole"
  printf '\377' | dd of="$file" bs=1 seek=$at conv=notrunc status=none
  cmp -s "$file" "$DIR/whole" && printf '\0' | dd of="$file" bs=1 seek=$at conv=notrunc status=none
  "$TOOL" verify --gpu 0 "$1" >"$DIR/damaged.log" && fail "a damaged byte is not found"
  grep 'contents of object .* are damaged' "$DIR/damaged.log" || fail "not named: $(<"$DIR/damaged.log")"
  cp "$DIR/whole" "$file"
}

scenario_contents_incremental() {
  # As in pre_dump: page tables of userptrs differ, because --track-mem makes writes move their
  # pages.
  gpu_usage() { kfd_usage; }
  need_gpus 1
  need_plugin
  start gpu_chain --vram 24 --hidden 2 --gtt 2 --userptr 2 --small 4
  first_steps "$BEFORE_DUMP"
  export AMDGPU_CRIU_INCREMENTAL=on
  criu_dump first "$DIR/first" --leave-running --track-mem || fail "criu dump ended with status $?"
  unset AMDGPU_CRIU_INCREMENTAL
  goes_on "$(last_step)" "after the first dump"
  mkdir "$DIR/second"
  mount -t tmpfs second "$DIR/second" || fail "no tmpfs"
  CLEANERS+=(unmount_second)
  USAGE=$(gpu_usage)
  criu_dump second "$DIR/second" --track-mem --prev-images-dir ../first ||
    fail "the second dump ended with status $?"
  gone "$PID" || fail "the dumped process is still there"
  STEP_BEFORE=$(last_step)
  local first second
  first=$(contents_fact first '\): GPU [^ ]+ ([0-9]+) bytes stored')
  second=$(contents_fact second '\): GPU [^ ]+ ([0-9]+) bytes stored')
  contents_log first
  contents_log second
  [ "$second" -lt $((first / 4)) ] || fail "the second dump stored $second bytes, the first $first"
  local dump hashed
  for dump in first second; do
    hashed=$(contents_fact "$dump" '; ([0-9]+) hashed by the GPU')
    [ "$hashed" -gt 0 ] || fail "the GPU has hashed nothing: $(grep 'hashes GPU memory' "$DIR/criu-$dump.log")"
  done
  local pages
  pages=$(contents_fact second ' ([0-9]+) copied to pages')
  [ "$second" -gt 0 ] && [ "$pages" = "$second" ] ||
    fail "the GPU has copied $pages of $second bytes to pages of the file: $(grep 'threads write' "$DIR/criu-second.log")"
  verified "$DIR/second"
  verified_by_gpu "$DIR/second"
  mv "$DIR/first" "$DIR/away"
  ! criu_restore orphan "$DIR/second" || fail "restored without the first dump"
  grep -q 'Error.*parent/amdgpu-contents-.*\.img' "$DIR/criu-orphan.log" ||
    fail "refused, but not by the name of what is missing"
  nothing_runs "without the first dump"
  mv "$DIR/away" "$DIR/first"
  restore_and_check restore "$DIR/second"
  local compared bytes
  compared=$(contents_fact restore ' ([0-9]+) compared by it')
  bytes=$(contents_fact restore 'filled [0-9]+ BOs, ([0-9]+) bytes')
  [ "$compared" -eq "$bytes" ] || fail "the GPU has compared $compared of $bytes restored bytes"
  # Those of the first dump are in the page cache: verify has read them.
  pages=$(contents_fact restore '; ([0-9]+) copied from pages')
  [ "$pages" -gt 0 ] || fail "the GPU has copied nothing from pages of files: $(grep 'filled again' "$DIR/criu-restore.log")"
  ends_well "after the restore"
}

unmount_second() { umount -l "$DIR/second"; }

# pre_dump ROUND OPTIONS...: of a workload that computes; sets STORED
pre_dump() {
  local round=$1
  shift
  mkdir -p "$DIR/$round"
  "$TOOL" pre-dump --pid "$PID" -D "$DIR/$round" "$@" >"$DIR/$round.out" 2>"$DIR/$round.log" ||
    fail "pre-dump $round: status $?"
  STORED=$(sed -nE 's/^pre-dump of .*; ([0-9]+) stored,.*/\1/p' "$DIR/$round.out")
  cat "$DIR/$round.out"
}

has_contents() { compgen -G "$1/amdgpu-contents-*.img" >/dev/null; }

# A process that ends while it is copied is no error.
pre_dump_of_what_ends() {
  LOG_NAME=short start gpu_chain --vram 16 --hidden 1 --gtt 1 --userptr 1 --small 4
  mkdir "$DIR/short"
  "$TOOL" pre-dump --pid "$PID" -D "$DIR/short" >"$DIR/short.out" 2>"$DIR/short.log" &
  local copier=$!
  wait_until 30 has_contents "$DIR/short" || fail "the pre-dump writes nothing"
  kill -KILL "$PID"
  wait_gone "$PID" 30 || fail "the killed process is still there"
  kill -0 "$copier" || fail "the pre-dump ended before the process"
  wait "$copier" || fail "the pre-dump of what was killed: status $?"
  rm -r "$DIR/short"
}

# flip_chunks IMAGES: a byte of each chunk in the first half of the file
flip_chunks() {
  python3 - "$1"/amdgpu-contents-*.img <<'END'
import os
import sys
with open(sys.argv[1], "r+b") as file:
    for at in range(4096, os.path.getsize(sys.argv[1]) // 2, 65536):
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
END
}

# Memory copied while the process computed is not written again, and is used only if it is
# undamaged.
scenario_contents_pre_dump() {
  gpu_usage() { kfd_usage; }
  need_gpus 1
  need_plugin
  pre_dump_of_what_ends
  start gpu_chain --vram 1 --hidden 1 --gtt 1 --userptr 1 --small 4
  first_steps "$BEFORE_DUMP"
  local first stored
  pre_dump first
  first=$STORED
  goes_on "$(last_step)" "after the first round"
  pre_dump second --prev-images-dir ../first
  [ "$STORED" -lt $((first / 4)) ] || fail "the second round stored $STORED bytes, the first $first"
  sleep 100 &
  "$TOOL" pre-dump --pid $! -D "$DIR/second"
  [ $? -eq 1 ] || fail "a process that uses no GPU was saved"
  kill $!
  USAGE=$(gpu_usage)
  criu_dump dump "$DIR/images" --track-mem --prev-images-dir ../second ||
    fail "criu dump ended with status $?"
  gone "$PID" || fail "the dumped process is still there"
  STEP_BEFORE=$(last_step)
  contents_log dump
  stored=$(contents_fact dump '\): GPU [^ ]+ ([0-9]+) bytes stored')
  [ "$stored" -lt $((first / 4)) ] || fail "the dump stored $stored bytes, the first round $first"
  verified "$DIR/images"
  cp -r "$DIR/first" "$DIR/right"
  flip_chunks "$DIR/first"
  ! criu_restore damaged "$DIR/images" || fail "restored from a damaged pre-dump"
  grep -q 'Error.*amdgpu-contents-.*\.img' "$DIR/criu-damaged.log" ||
    fail "refused, but not by the name of what is damaged"
  nothing_runs "from a damaged pre-dump"
  rm -r "$DIR/first"
  mv "$DIR/right" "$DIR/first"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# line_of WHAT REGULAR-EXPRESSION: of CRIU's log, the number of the first such line
line_of() { grep -nE -m 1 "$2" "$DIR/criu-$1.log" | cut -d: -f1; }

# come_in_order WHAT REGULAR-EXPRESSION...: in CRIU's log
come_in_order() {
  local what=$1 last=0 line wanted
  shift
  for wanted; do
    line=$(line_of "$what" "$wanted")
    [ -n "$line" ] || fail "$what: there is no line '$wanted'"
    [ "$line" -gt "$last" ] || fail "$what: '$wanted' comes too early"
    last=$line
  done
}

log_of() { grep -qsE "$2" "$DIR/criu-$1.log"; } # log_of WHAT REGULAR-EXPRESSION

# begin_overlapped_dump WHAT IMAGES: sets CRIU_PID. Both CRIU's own part and ours are in the middle: it
# waits for a reader of the pages of the processes, and our writer sleeps.
begin_overlapped_dump() {
  mkfifo "$2/pages-1.img"
  AMDGPU_CRIU_TEST_FAIL=DMABUF:1:sleep "$CRIU" dump -t "$PID" -D "$2" -W "$DIR" -o "criu-$1.log" -v4 \
    --shell-job -L "$PLUGIN_DIR" &
  CRIU_PID=$!
  wait_until 60 log_of "$1" 'Dumping pages \(type' || fail "CRIU dumps no pages"
  wait_until 60 log_of "$1" 'fault at DMABUF' || fail "our part has not begun"
}

# end_overlapped_dump WHAT: by SIGTERM
end_overlapped_dump() {
  local status
  kill -TERM $CRIU_PID
  { wait $CRIU_PID; } 2>/dev/null # bash would report the signal
  status=$?
  [ $status -eq 143 ] || fail "criu ended with status $status, not by SIGTERM"
  ! log_of "$1" 'saved [0-9]+ BOs' || fail "the contents were saved before the signal"
  survives "CRIU ended in its own part"
}

end_in_both_parts() {
  mkdir "$DIR/images"
  begin_overlapped_dump ended "$DIR/images"
  compgen -G "$DIR/images/amdgpu-*.img" >/dev/null || fail "there are no images yet"
  end_overlapped_dump ended
  ! compgen -G "$DIR/images/amdgpu-*.img" >/dev/null || fail "images are left"
  rm -r "$DIR/images"
}

# CRIU ends at once if a child of it ends, and leaves the network locked. Our writer is none.
lose_the_writer() {
  ! AMDGPU_CRIU_TEST_FAIL=DMABUF:1:kill criu_dump lost "$DIR/images" --leave-running ||
    fail "a dump whose writer was killed succeeded"
  log_of lost 'the dump has failed: .*the process that saves GPU memory in the background has died' ||
    fail "the log does not say that the writer has died"
  log_of lost 'Unlock network' || fail "CRIU has left the network locked"
  ! compgen -G "$DIR/images/amdgpu-*.img" >/dev/null || fail "images are left"
  survives "a dump whose writer was killed"
  rm -r "$DIR/images"
}

# CRIU 4.3 dumps the pages of the processes while contents are saved, which are delayed here.
scenario_contents_overlap() {
  local began='event ioctl DMABUF' pages='Dumping pages \(type' saved='\(amdgpu\): saved [0-9]+ BOs'
  need_gpus 2
  need_plugin
  CRIU=/opt/criu-4.3/criu
  start gpu_chain --gpus 2
  first_steps "$BEFORE_DUMP"
  export AMDGPU_CRIU_TEST_FAIL=DMABUF:1:sleep
  criu_dump overlapped "$DIR/images" --leave-running || fail "criu dump ended with status $?"
  come_in_order overlapped "$began" "$pages" "$saved"
  rm -r "$DIR/images"
  end_in_both_parts
  lose_the_writer
  AMDGPU_CRIU_TEST_FAIL=ioctl:0:EIO AMDGPU_CRIU_PARALLEL=off \
    criu_dump alone "$DIR/images" --leave-running || fail "criu dump ended with status $?"
  come_in_order alone "$began" "$saved" "$pages"
  rm -r "$DIR/images"
  AMDGPU_CRIU_TEST_FAIL=DMABUF:2:ENOSPC
  ! criu_dump full "$DIR/images" --leave-running || fail "a dump without its contents succeeded"
  grep '(amdgpu)' "$DIR/criu-full.log" | tail -n 1 | grep 'the dump has failed: .* MiB free now' ||
    fail "our last line does not say why"
  ! compgen -G "$DIR/images/amdgpu-*.img" >/dev/null || fail "images are left"
  unset AMDGPU_CRIU_TEST_FAIL
  goes_on "$(last_step)" "a failed dump"
  dump_and_kill dump "$DIR/images"
  verified "$DIR/images"
  restore_and_check restore "$DIR/images"
  ends_well "after overlapped dumps"
}

# Every image file changed at many places and cut at some, read as verification and restore read it.
scenario_contents_damaged() {
  need_gpus 1
  need_plugin
  local flips=100 cuts=25
  ((EVERY == 0)) || flips=5000 cuts=1000
  start_tree "gpu_chain --vram 1 --hidden 1 --gtt 1 --userptr 1 --small 4" "render_group fork"
  for_each first_steps 20
  dump_and_kill_tree dump "$DIR/images"
  "$PAYLOAD/bin/image_damage" "$DIR/images" "$flips" "$cuts" || fail "image_damage: status $?"
  restore_and_check_tree "restore of the repaired images" "$DIR/images"
  tree_ends_well "after the campaign"
}
