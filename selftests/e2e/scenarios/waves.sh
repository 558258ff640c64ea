# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Waves in flight.

# The long kernel of a step ends when a verdict is requested. STEPS_WANTED is 0 in these scenarios,
# because no step ends before.
in_long_kernel() { # in_long_kernel STEP
  wait_until $STEP_SECONDS said "long kernel of step $1" || fail "step $1 has no long kernel"
  alive "$PID" || fail "the process is gone before step $1"
}

HAS_XNACK=0
DEBUGGER=0 # 1: AMD's debugger library reads the waves, too

said() { log_has "$1"$'\n' || gone "$PID"; }

# A line for each wave: its registers, without those that the library does not print as numbered ones.
wave_lines() {
  awk '/^queue/ { queue = NR } /^group/ && $5 !~ /^s1(0[2-9]|1)/ {
      wave = queue " " $2 " " $4; $1 = $2 = $3 = $4 = ""; text[wave] = text[wave] "\n" $0 }
    END { for (wave in text) { command = "sort | md5sum"; print text[wave] | command; close(command) } }' |
    sort
}

# read_registers WHERE DIR|PID: writes the registers of all waves to $DIR/registers. With DEBUGGER=1 they
# are those that AMD's library reads, and saved_waves must have read the same ones.
read_registers() {
  if ((DEBUGGER == 0)); then
    "$PAYLOAD/bin/saved_waves" --registers "$2" >"$DIR/registers" 2>&1
    return
  fi
  "$PAYLOAD/bin/saved_waves" --core "$DIR/core" "$2" >"$DIR/registers" 2>&1 || return
  wave_lines <"$DIR/registers" >"$DIR/waves"
  "$PAYLOAD/dbgapi/bin/dbgapi_waves" "$DIR/core" >"$DIR/registers" 2>"$DIR/dbgapi.log" ||
    fail "$1: dbgapi_waves ended with status $?: $(tail -n 1 "$DIR/dbgapi.log")"
  wave_lines <"$DIR/registers" >"$DIR/waves-of-debugger"
  [ -s "$DIR/waves" ] || fail "$1: there are no waves"
  cmp -s "$DIR/waves" "$DIR/waves-of-debugger" ||
    fail "$1: saved_waves reads $(wc -l <"$DIR/waves") waves, and the library $(
      comm -12 "$DIR/waves" "$DIR/waves-of-debugger" | wc -l) of them"
  echo "$1: librocm-dbgapi reads the same $(wc -l <"$DIR/waves") waves"
}

waves_are_saved() { # waves_are_saved IMAGES: prints how many
  local text
  text=$("$PAYLOAD/bin/saved_waves" "$1" 2>&1) || fail "saved waves of $1: $text"
  echo "$text"
  grep -q '^waves [1-9]' <<<"$text" || fail "no waves in $1"
  [ "$(grep -c '^queue' <<<"$text")" -eq "$(xccs_with_waves)" ] || fail "not all XCCs have waves in $1"
}

# The kernels have eight work-groups at least, which the XCCs of a GPU share.
xccs_with_waves() {
  local xccs
  xccs=$(sed -n 's/^num_xcc //p' /sys/class/kfd/kfd/topology/nodes/*/properties | sort -n | tail -n 1)
  echo $((xccs > 8 ? 8 : xccs > 1 ? xccs : 1))
}

restore_in_long_kernel() { # restore_in_long_kernel WHAT IMAGES
  restore_and_check "$1" "$2"
  [ "$(last_step)" -gt "$STEP_BEFORE" ] || fail "$1: the kernel has not ended"
}

misses_pages() { # misses_pages WHEN
  ((HAS_XNACK == 0)) || grep -qvx 0 /sys/class/kfd/kfd/proc/"$PID"/counters_*/faults ||
    fail "$1: the GPUs have missed no page"
}

long_kernels_continue() { # long_kernels_continue [OPTION VALUE]
  STEPS_WANTED=0
  need_gpus 1
  need_plugin
  start rocr_kernels --held 8 "$@"
  all_memory_is_right "before the dump"
  misses_pages "before the dump"
  in_long_kernel $(($(last_step) + 1))
  dump_and_kill dump "$DIR/images"
  waves_are_saved "$DIR/images"
  ((EVERY == 0)) || withheld_waves_are_missed "$DIR/images"
  restore_in_long_kernel restore "$DIR/images"
  misses_pages "after the restore"
  in_long_kernel $(($(last_step) + 1))
  dump_and_kill again "$DIR/images2"
  waves_are_saved "$DIR/images2"
  restore_in_long_kernel restore-again "$DIR/images2"
  ends_well "after the restores"
}

# Waves in flight: the dump interrupts a kernel. Its waves are in the images, and in the restored
# process the kernel ends with the same numbers as on the CPU.
scenario_rocr_waves() { long_kernels_continue; }

# The waves of one GPU continue on the other one.
scenario_rocr_waves_moved() {
  STEPS_WANTED=0
  need_gpus 2
  need_plugin
  start rocr_kernels --held 8
  all_memory_is_right "before the dump"
  in_long_kernel $(($(last_step) + 1))
  dump_and_kill dump "$DIR/images"
  waves_are_saved "$DIR/images"
  swap_gpus
  restore_in_long_kernel restore "$DIR/images"
  echo "GPUs: $(gpu_map restore)"
  ends_well "after the restore"
}

# XNACK: the GPU works on ordinary memory, of which the driver maps a page when the GPU misses it. After
# a restore it misses all pages.
scenario_rocr_xnack() {
  HAS_XNACK=1
  long_kernels_continue --plain 1
}

# withheld_waves_are_missed IMAGES: without a part of the saved waves, no restore gets the right
# result, in more time than a restore that has all of them needs. Only the campaign `waves` runs it, because it takes
# minutes.
withheld_waves_are_missed() {
  local part begin seconds usage=$USAGE
  allow_complaint 'model fault: .*(saved waves|saved MQD|control stack|the waves of a group)'
  allow_complaint 'model fault: .*a wave stops at|Illegal opcode in command stream'
  allow_complaint 'page fault \(src_id|VM fault: VMID [0-9]+ cannot (read|write)'
  cp "$LOG" "$DIR/log-at-dump"
  for part in nothing mqd stack area; do
    cp -a "$1" "$1-$part"
    [ $part = nothing ] || "$PAYLOAD/bin/saved_waves" --withhold $part "$1-$part" || fail "$part cannot be withheld"
    criu_restore "without-$part" "$1-$part" || fail "$part withheld: criu restore ended with status $?"
    PIDS+=("$PID")
    # A wave that fails may have ended the process.
    kill -USR1 "$PID" 2>"$DIR/kill" || gone "$PID"
    # Without a stack no wave continues, and so the kernel does not end.
    begin=$(now)
    wait_until "${seconds:-$STEP_SECONDS}" stopped_or_further || echo "$part withheld: the kernel does not end"
    if [ $part = nothing ]; then
      [ "$(last_step)" -gt "$STEP_BEFORE" ] || fail "nothing withheld: the result is not right"
      seconds=$((5 + 3 * ($(now) - begin) / 1000000))
    else
      [ "$(last_step)" -eq "$STEP_BEFORE" ] || fail "$part withheld: the result is right"
      grep '^stopped' "$LOG"
    fi
    gone "$PID" || kill -KILL "$PID"
    wait_gone "$PID" 60 || fail "$part withheld: the process does not end"
    rm -r "$1-$part"
    # CRIU requires the unchanged file.
    cat "$DIR/log-at-dump" >"$LOG"
  done
  USAGE=$usage
  disallow_complaints
}

stopped_or_further() { grep -q '^stopped' "$LOG" || [ "$(last_step)" -gt "$STEP_BEFORE" ] || gone "$PID"; }

# registers_are_right WHERE DIR|PID: every register of the parked waves has its number
registers_are_right() {
  read_registers "$1" "$2" || fail "$1: $(tail -n 1 "$DIR/registers")"
  differing_registers "$1"
  [ -z "$DIFFERENT" ] || fail "$1: $DIFFERENT"
  echo "$1: $(grep -c '^group 0 wave ' "$DIR/expected") registers of $(tail -n 1 "$DIR/registers") are right"
}

# Sets DIFFERENT: which registers have other numbers than expected, or are missing.
differing_registers() { # differing_registers WHERE
  DIFFERENT=$(comm -23 "$DIR/expected" <(grep '^group ' "$DIR/registers" | sort) | cut -d' ' -f-5 |
    paste -sd,)
}

# Registers of waves that wait, in three places: of the suspended queue of the process, in the
# images, and when it is restored. A number that is changed in the images is found there and in the
# restored process, and its wave comes to another result.
scenario_waves_parked() {
  local changed=v7
  need_gpus 1
  need_plugin
  start rocr_parked
  grep '^group ' "$LOG" | sort >"$DIR/expected"
  registers_are_right "suspended queue" "$PID"
  registers_are_right "suspended queue, once more" "$PID"
  dump_and_kill dump "$DIR/images"
  cp "$LOG" "$DIR/log-at-dump"
  registers_are_right images "$DIR/images"
  cp -a "$DIR/images" "$DIR/changed"
  # KFD counts other memory than before: reading a save area moves it out of VRAM.
  criu_restore restore "$DIR/images" || fail "criu restore ended with status $?"
  PIDS+=("$PID")
  registers_are_right "restored process" "$PID"
  ends_well "after the restore"

  "$PAYLOAD/bin/saved_waves" --change $changed "$DIR/changed" >/dev/null || fail "no change"
  cat "$DIR/log-at-dump" >"$LOG"
  read_registers images "$DIR/changed"
  only_one_differs images $changed
  criu_restore changed "$DIR/changed" || fail "changed: criu restore ended with status $?"
  PIDS+=("$PID")
  read_registers "restored process" "$PID"
  only_one_differs "restored process" $changed
  kill -TERM "$PID"
  wait_gone "$PID" $STEP_SECONDS || fail "changed: it does not end"
  log_has 'final FAILED: step 0 problems 1' || fail "changed: $(tail -n 2 "$LOG")"
  echo "changed: $(grep '^damage' "$LOG")"
}

scenario_debugger_parked() {
  DEBUGGER=1
  scenario_waves_parked
}

# The same for waves that run: of the suspended queue, in the images, and when they are restored.
scenario_debugger_waves() {
  DEBUGGER=1 STEPS_WANTED=0
  need_gpus 1
  need_plugin
  start rocr_kernels --held 8
  all_memory_is_right "before the dump"
  in_long_kernel $(($(last_step) + 1))
  read_registers "suspended queue" "$PID" || fail "$(tail -n 1 "$DIR/registers")"
  dump_and_kill dump "$DIR/images"
  read_registers images "$DIR/images" || fail "$(tail -n 1 "$DIR/registers")"
  # KFD counts other memory than before: reading a save area moves it out of VRAM.
  criu_restore restore "$DIR/images" || fail "criu restore ended with status $?"
  PIDS+=("$PID")
  read_registers "restored process" "$PID" || fail "$(tail -n 1 "$DIR/registers")"
  all_memory_is_right "after the restore"
  [ "$(last_step)" -gt "$STEP_BEFORE" ] || fail "the kernel has not ended"
  ends_well "after the restore"
}

only_one_differs() { # only_one_differs WHERE REGISTER
  differing_registers "$1"
  [ "$DIFFERENT" = "group 0 wave 1 $2" ] || fail "$1 changed: '$DIFFERENT' differ"
  echo "$1 changed: $DIFFERENT is reported"
}
