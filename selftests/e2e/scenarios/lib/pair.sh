# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Commands for the other guest of selftests/vm/pair, which runs /payload/serve to execute them.

need_pair() { [ -d /shared/asked ] || fail "this is not node 2 of a pair of guests"; }

# ask_node1 COMMAND: queues COMMAND for a shell of node 1, and sets ASKED to its number
ask_node1() {
  local before=(/shared/asked/[0-9]*)
  ASKED=1
  [ ! -e "${before[0]}" ] || ASKED=$((${#before[@]} + 1))
  printf '%s\n' "$1" >/shared/asked/new
  mv /shared/asked/new "/shared/asked/$ASKED"
}

# on_node1 SECONDS COMMAND: runs COMMAND on node 1, prints its output and returns its status
on_node1() {
  local status
  ask_node1 "$2"
  wait_until "$1" [ -e "/shared/answered/$ASKED" ] || fail "node 1, after $1 s, still runs: $2"
  read -r status <"/shared/answered/$ASKED"
  cat "/shared/answered/$ASKED.output"
  return "$status"
}
