# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153  # LOG and PID are those of lib/
# The command amdgpu-criu, and what `make bench` is made of, where there is a GPU.

TOOL=$PAYLOAD/bin/amdgpu-criu

# json FILE EXPRESSION: of python, about the object `it`; must be true
json() {
  python3 -c "import json, sys; it = json.load(open('$1')); sys.exit(not ($2))" ||
    fail "${1##*/}: not true: $2: $(cat "$1")"
}

tool_check() { # tool_check NAME COMMAND...: status in STATUS, output in NAME.json
  local name=$1
  shift
  STATUS=0
  "$@" "$TOOL" check --libdir "$PLUGIN_DIR" --directory "$DIR" --json >"$DIR/$name.json" || STATUS=$?
}

BAD='[one for one in it["checks"] if one["status"] == "bad"]'

scenario_tool_check() {
  need_gpus 1
  need_plugin
  tool_check root
  [ $STATUS -eq 0 ] || fail "status $STATUS for root: $("$TOOL" check --libdir "$PLUGIN_DIR")"
  json "$DIR/root.json" "it['ok'] and not $BAD"
  json "$DIR/root.json" "sum('gfx target 90010' in one['found'] for one in it['checks']) == $(gpu_count)"
  "$TOOL" check --libdir "$PLUGIN_DIR"
  tool_check nobody setpriv --reuid 65534 --regid 65534 --clear-groups
  [ $STATUS -eq 1 ] || fail "status $STATUS for a user without permission"
  json "$DIR/nobody.json" "{'GPU driver', 'permission'} <= {one['what'] for one in $BAD}"
  json "$DIR/nobody.json" "all(one['consequence'] or one['found'].startswith('not asked') for one in $BAD)"
  json "$DIR/nobody.json" "all(one['remedy'] for one in it['checks'] if one['status'] != 'ok')"
  echo "for nobody: $(grep -c '"bad"' "$DIR/nobody.json") bad, each with a remedy"
}
