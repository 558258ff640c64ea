# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Operations that must fail with a good error.

# After a failed dump, the process continues, and a correct dump succeeds.
survives() {
  local step
  step=$(last_step)
  goes_on "$step" "$1"
  all_memory_is_right "$1"
  echo "$1: step $step -> $(last_step) in the same process, all memory right"
}

scenario_no_plugin() {
  need_gpus 1
  start gpu_chain
  mkdir "$DIR/no-plugins"
  PLUGIN_DIR=$DIR/no-plugins
  ! criu_dump dump "$DIR/images" || fail "CRIU dumped a GPU process without a plugin"
  grep -m1 "Error.*Can't handle non-regular mapping" "$DIR/criu-dump.log" ||
    fail "refused for another reason: $(grep Error "$DIR/criu-dump.log" | tail -n 3)"
  survives "after the refused dump"
  ends_well "after the refused dump"
}

# CRIU loads all plugins for every dump, so it must work even if a library of a plugin is missing.
scenario_libraries_missing() {
  local library hidden=()
  need_plugin
  for library in /usr/lib/x86_64-linux-gnu/{libxxhash,liblz4,libzstd,liburing,libdrm,libdrm_amdgpu}.so.?; do
    mount --bind /dev/null "$library" && hidden+=("$library")
  done
  [ ${#hidden[@]} -ge 5 ] || fail "there were only ${hidden[*]}"
  setsid sleep 1000 </dev/null >/dev/null 2>&1 &
  PID=$!
  disown "$PID"
  PIDS+=("$PID")
  criu_dump dump "$DIR/images"
  local dumped=$?
  criu_restore restore "$DIR/images"
  local restored=$?
  umount "${hidden[@]}"
  [ $dumped -eq 0 ] || fail "criu dump ended with status $dumped without ${hidden[*]}"
  [ $restored -eq 0 ] || fail "criu restore ended with status $restored without ${hidden[*]}"
  grep -q '(amdgpu): amdgpu_criu_plugin' "$DIR/criu-dump.log" || fail "CRIU has not loaded the plugin"
  alive "$PID" || fail "there is no process $PID after the restore"
  echo "process $PID was dumped and restored without ${#hidden[@]} libraries"
}

# Without this, no scenario could say that all memory is right.
scenario_wrong_memory() {
  local range start end file
  need_gpus 1
  start gpu_chain --timeout 10
  first_steps 20
  kill -STOP "$PID"
  while read -r range _ _ _ _ file; do
    start=$((16#${range%-*})) end=$((16#${range#*-}))
    # Smaller ones are rings. Not all of the others can be written.
    [[ $file != /dev/dri/render* ]] || [ $((end - start)) -lt 1048576 ] ||
      printf wrong | dd of="/proc/$PID/mem" bs=1 seek=$((start + 4096)) conv=notrunc status=none 2>&-
  done <"/proc/$PID/maps"
  kill -CONT "$PID"
  kill -USR1 "$PID"
  wait_until 60 damage_reported || fail "the workload has not noticed that its memory is wrong"
  echo "noticed: $(grep -m1 '^damage: BO' "$LOG")"
}

damage_reported() { log_has 'damage: BO'; }

flip_byte() { # flip_byte FILE OFFSET
  local old
  old=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf %b "\\x$(printf %02x $((old ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# restore_is_refused WHAT FILE: of images whose FILE is damaged
restore_is_refused() {
  local what=$1 file=$2
  ! criu_restore "$what" "$DIR/images" || fail "$what: restored"
  grep -q "${file##*/}" "$DIR/criu-$what.log" || fail "$what: the log does not name the file"
  nothing_runs "$what"
  rm "$DIR/criu-$what.log"
}

# With CRIU, one random kind of damage for each file; contents_damaged changes many more places.
scenario_flipped_byte() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps 20
  dump_and_kill dump "$DIR/images"
  local file size count=0
  seed_chance
  for file in "$DIR"/images/amdgpu-*.img; do
    [ -s "$file" ] || fail "no image files of the plugin"
    size=$(stat -c %s "$file")
    cp "$file" "$DIR/whole"
    if ((RANDOM % 2)); then
      flip_byte "$file" $((size / 2))
      restore_is_refused "flipped-${file##*/}" "$file"
      echo "${file##*/} ($size bytes): refused with a byte flipped"
    else
      truncate -s $((size / 2)) "$file"
      restore_is_refused "cut-${file##*/}" "$file"
      echo "${file##*/} ($size bytes): refused with half of it"
    fi
    mv "$DIR/whole" "$file"
    count=$((count + 1))
  done
  restore_and_check "restore of the repaired images" "$DIR/images"
  ends_well "after $count refused restores"
}

# Listens where criu-image-streamer does, and keeps the pipes that CRIU sends.
stream_capture() { # stream_capture DIRECTORY SECONDS
  python3 - "$1" "$2" <<'END'
import os, socket, sys
os.chdir(sys.argv[1])
listener = socket.socket(socket.AF_UNIX)
listener.bind("streamer-capture.sock")
listener.listen()
listener.settimeout(float(sys.argv[2]))
criu = listener.accept()[0]
pipes = []
while True:
    data, sent, *_ = socket.recv_fds(criu, 4096, 16)
    if not data and not sent:
        break
    pipes += sent
END
}

# The path of the socket, which CRIU makes from that of the images, must be short.
remove_stream() { [ -z "${STREAM-}" ] || rm -rf "$STREAM"; }

# The images of GPU state would not be in the stream.
scenario_stream_refused() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  CLEANERS+=(remove_stream)
  STREAM=$(mktemp -d /tmp/stream.XXXXXX)
  stream_capture "$STREAM" $((60 * PATIENCE)) &
  local streamer=$!
  wait_until 10 test -S "$STREAM/streamer-capture.sock" || fail "no streamer"
  ! criu_dump dump "$STREAM" --stream || fail "a dump into a stream succeeded"
  wait $streamer || fail "CRIU did not use the streamer"
  log_of dump 'with criu --stream the images of GPU state .*: dump without it' || fail "no reason in the log"
  ! compgen -G "$STREAM/amdgpu-*.img" >/dev/null || fail "images are left"
  survives "after the refused stream"
  ends_well "after the refused stream"
}

# ends_with_full_disk WHAT: the last error but CRIU's "Dumping FAILED." is ours, with the disk and
# the remedy
ends_with_full_disk() {
  local last
  last=$(grep Error "$DIR/criu-$1.log" | grep -v 'Dumping FAILED' | tail -n 1)
  [[ $last == *"(amdgpu): the dump has failed: "*"No space left"*"$DIR/tiny"*" MiB free now"*amdgpu.compress=* ]] ||
    fail "$1: the last error does not say what is full: $last"
}

scenario_disk_full() {
  need_gpus 1
  need_plugin
  start gpu_chain
  local percent total
  total=$(mebibytes "$(fact bytes)")
  mkdir "$DIR/tiny"
  for percent in 10 60; do
    mount -t tmpfs -o size=$((total * percent / 100))m tmpfs "$DIR/tiny" || fail "no tmpfs"
    # Otherwise a dump with too little room does not begin.
    ! AMDGPU_CRIU_COMPRESS=$([ "$percent" = 10 ] && echo lz4 || echo none) \
      criu_dump "dump-$percent" "$DIR/tiny/images" || fail "a dump of $total MiB fitted in $percent %"
    ends_with_full_disk dump-$percent # at 60, CRIU's own part may be what does not fit
    umount "$DIR/tiny"
    survives "disk full at $percent %"
  done
  grep 'cannot save GPU memory: No space left' "$DIR/criu-dump-60.log" || fail "contents were begun"
  ends_well "after full disks"
}

contents_are_being_written() { # contents_are_being_written DIRECTORY
  local size
  for size in $(stat -c %s "$1"/amdgpu-*.img 2>/dev/null); do
    [ "$size" -ge $((1 << 20)) ] && return
  done
  ! alive "$CRIU_PID"
}

# kill_dump SIGNAL|timeout: in the middle of the contents
kill_dump() {
  local signal=$1 images=$DIR/images-$1 seconds=0
  [ "$signal" != timeout ] || seconds=1
  mkdir "$images"
  # Without job control, a command in the background ignores SIGINT.
  env --default-signal=INT AMDGPU_CRIU_TIMEOUT=$seconds "$CRIU" dump -t "$PID" -D "$images" \
    -W "$DIR" -o "criu-dump-$signal.log" -v4 --shell-job -L "$PLUGIN_DIR" &
  CRIU_PID=$!
  wait_until 60 contents_are_being_written "$images" || fail "the dump writes no contents"
  # On a busy machine the time is over before contents are written.
  kill -STOP $CRIU_PID 2>/dev/null || ((seconds)) || fail "the dump was over before it could be killed"
  ! grep -q 'Dumping finished' "$DIR/criu-dump-$signal.log" ||
    fail "the dump was complete before it could be killed"
  if ((seconds)); then sleep $seconds; else kill -"$signal" $CRIU_PID; fi
  kill -CONT $CRIU_PID 2>/dev/null
  { wait $CRIU_PID; } 2>/dev/null  # bash would report the kill
  local status=$?
  if [ "$signal" != KILL ]; then # the plugin fails the dump, and removes its images
    ((status > 0 && status < 128)) || fail "$signal: criu ended with status $status"
    grep -q "the dump has failed: .*$signal" "$DIR/criu-dump-$signal.log" ||
      fail "$signal: no reason in the log"
    # Or says that it did not: on a busy machine, the writer may take long to close its GPU files.
    ! compgen -G "$images/amdgpu-*.img" >/dev/null || grep 'incomplete images are left' "$DIR/criu-dump-$signal.log" ||
      fail "$signal: GPU images are left"
  else
    ((status > 128)) || fail "the dump was not killed by SIGKILL"
  fi
  alive "$PID" || fail "$signal: the process died with CRIU"
  rm -r "$images"
}

# killed_dumps WORKLOAD...
killed_dumps() {
  need_gpus 1
  need_plugin
  start "$@"
  local signal
  for signal in TERM INT timeout KILL; do
    kill_dump $signal
    survives "CRIU ended by $signal"
  done
  dump_and_kill "dump of the survivor" "$DIR/images"
  restore_and_check "restore of the survivor" "$DIR/images"
  ends_well "after killed dumps"
}

scenario_dump_killed() { killed_dumps gpu_chain --vram 96; }

# While its calls block: the end of the session continues them.
scenario_render_killed() { killed_dumps render_chain --many 3000; }

scenario_stock_ioctl() {
  local program=$PAYLOAD/amdgpu_criu/stock_criu_op
  [ -x "$program" ] || fail "$program is missing"
  "$program" || fail "stock_criu_op ended with status $?"
}
