# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# For scripts that make another guest image than the lab's, in steps: scripts/pods, scripts/rocm,
# scripts/slurm and scripts/vulkan. The caller sets EXTRA, the directory, and calls enter_namespace first.

# step NAME "what it makes" [VALUE]...: runs step_NAME unless a stamp has the same hash of the function's
# text and of the values.
step() {
  local name=$1 title=$2 program=${0##*/} key start=$SECONDS
  shift 2
  key=$({ declare -f "step_$name"; printf '%s\n' "$@"; } | sha256sum)
  [[ ! -f $EXTRA/.stamps/$name || $(<"$EXTRA/.stamps/$name") != "$key" ]] || return 0
  rm -f "$EXTRA/.stamps/$name"
  say "$program: $title ..."
  run_logged "$program-$name" "$0" --step "$name"
  printf '%s\n' "$key" >"$EXTRA/.stamps/$name"
  say "$program: $title: done, $((SECONDS - start)) s"
}

stamp() { cat "$1/.stamps/$2"; }

# make_image [DIRECTORY]...: makes $EXTRA/guest.ext4 of $GUEST, without package lists, documents, and the
# contents of the directories.
make_image() {
  unshare --mount bash -euc '
    . "$TOP/scripts/lib/common.sh"
    for hidden in var/lib/apt var/cache usr/share/doc usr/share/man usr/share/locale "${@:4}"; do
      mkdir -p "$1/$hidden"
      mount -t tmpfs none "$1/$hidden"
    done
    used=$(du -smx "$1" | cut -f1)
    rm -f "$2.new"
    IN_LAB="" "$TOP/scripts/in-lab" mke2fs -q -t ext4 -L lab-root -m 0 -O ^has_journal -d "$1" \
      "$2.new" $((used + used / 8 + $3))M' - "$GUEST" "$EXTRA/guest.ext4" "$GUEST_FREE_MB" "$@"
  mv "$EXTRA/guest.ext4.new" "$EXTRA/guest.ext4"
}

# main_of_steps "$@": calls all_steps, or the step that `step` has started this program for.
main_of_steps() {
  case ${1-} in
  --step) "step_$2" ;;
  '')
    mkdir -p "$EXTRA/.stamps"
    with_lock "$EXTRA/.lock" "another scripts/${0##*/} is running; waiting for it"
    all_steps
    ;;
  *) die "usage: scripts/${0##*/}" ;;
  esac
}

# An ordinary user becomes root of a user namespace, so that files get their owners.
enter_namespace() {
  [[ -z ${LAB_NAMESPACE-} ]] || return 0
  [[ -d $LAB/guest ]] || die "there is no lab yet: run 'make lab' first"
  export LAB_NAMESPACE=1
  ((EUID == 0)) || exec unshare --map-root-user --map-auto --mount -- "$0" "$@"
}
