# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Steps of the lab. Each has a stamp in build/lab/.stamps.

# A step is a shell function step_NAME. Its stamp holds a hash of the function's text, of its values
# and of the stamps that it depends on, so a changed package list reruns the step and all steps that
# depend on it.
STAMPS=$LAB/.stamps

step_key() {
  local name=$1 dep
  shift
  {
    declare -f "step_$name"
    for dep; do
      case $dep in
      @*) cat "$STAMPS/${dep#@}" 2>/dev/null || true ;;
      *) printf '%s\n' "$dep" ;;
      esac
    done
  } | sha256sum | cut -d' ' -f1
}

# run_step NUMBER NAME "what it makes" [VALUE | @STEP]...
run_step() {
  local number=$1 name=$2 title=$3 key start
  shift 3
  key=$(step_key "$name" "$@")
  if [[ -f $STAMPS/$name && $(<"$STAMPS/$name") == "$key" ]]; then
    return 0
  fi
  mkdir -p "$STAMPS"
  rm -f "$STAMPS/$name" "$LAB/.ready"
  start=$SECONDS
  say "[$number/$STEPS_TOTAL] $title ..."
  run_logged "lab-$name" "$TOP/scripts/lab" --step "$name" || return 1
  printf '%s\n' "$key" >"$STAMPS/$name"
  say "[$number/$STEPS_TOTAL] $title: done, $((SECONDS - start)) s"
}
