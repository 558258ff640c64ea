# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The other guest of selftests/vm/pair. It runs /payload/serve, which reads what is asked here.

need_pair() { [ -d /shared/asked ] || fail "this is not node 2 of a pair of guests"; }

# ask_node1 COMMAND: lets a shell of node 1 run it, after what was asked before; sets ASKED
ask_node1() {
  local before=(/shared/asked/[0-9]*)
  ASKED=1
  [ ! -e "${before[0]}" ] || ASKED=$((${#before[@]} + 1))
  printf '%s\n' "$1" >/shared/asked/new
  mv /shared/asked/new "/shared/asked/$ASKED"
}

# on_node1 SECONDS COMMAND: the same, with its output and its status
on_node1() {
  local status
  ask_node1 "$2"
  wait_until "$1" [ -e "/shared/answered/$ASKED" ] || fail "node 1, after $1 s, still runs: $2"
  read -r status <"/shared/answered/$ASKED"
  cat "/shared/answered/$ASKED.output"
  return "$status"
}
