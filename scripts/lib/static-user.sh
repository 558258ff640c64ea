# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Static checks of all other files.

# with_interpreter SUFFIX PATTERN: prints files with that suffix or with that interpreter in line 1.
with_interpreter() {
  local path first
  while read -r path; do
    first=
    IFS= read -r first <"$path" || true
    if [[ $path == *"$1" || $first =~ ^\#!.*$2$ ]]; then printf '%s\n' "$path"; fi
  done < <(files)
}

# Text files that are not empty and have no SPDX line at the top.
check_spdx() {
  local missing
  missing=$(files | grep -vE '^(COPYING|LICENSES/.*|README\.md|MAINTAINERS|\.ci/.*\.md|.*\.(patch|bin|golden)|.*/debian/(copyright|source/format))$' |
    xargs -d '\n' grep -Il . | xargs -d '\n' awk '
      FNR == 1 { if (name && !found) print name; name = FILENAME; found = 0 }
      FNR <= 5 && /SPDX-License-Identifier:/ { found = 1 }
      END { if (name && !found) print name }')
  [[ -z $missing ]] || { printf '%s\nhave no SPDX line\n' "$missing" && return 1; }
}

# The files of the scenarios share variables, so they are read with the programs that source them.
check_shellcheck() {
  local scenarios=selftests/e2e/scenarios
  with_interpreter .sh '[/ ](ba|da)?sh' | grep -v "^$scenarios/.*\\.sh$" | xargs shellcheck -x -S warning
  shellcheck -x -a -S warning $scenarios/one
}

# The description of a chip names no other one: neither its product, which is the name of its file, nor its
# target.
check_asics() {
  local file other own names failed=0
  mapfile -t list < <(files 'selftests/gpu/asic/*.cc' | grep -v -e '/asic\.cc$' -e '_test\.cc$')
  ((${#list[@]} > 1)) || { echo "no descriptions of chips in selftests/gpu/asic" && return 1; }
  for file in "${list[@]}"; do
    own=$(basename "$file" .cc)
    names=$(for other in "${list[@]}"; do
      [[ $other == "$file" ]] || { basename "$other" .cc && sed -n 's/.*\.target = "\(.*\)".*/\1/p' "$other"; }
    done | sed -E 's/[a-z]+/& ?/' | paste -sd'|')
    ! grep -niE "$names" "$file" | sed "s|^|$file:|" | grep . || failed=1
    grep -q "name = \"$own\"\|make(\"$own\"" "$file" || { echo "$file describes no $own" && failed=1; }
  done
  return $failed
}

check_python() { with_interpreter .py python3 | xargs -r pyflakes3; }

check_man() {
  local list
  mapfile -t list < <(files '*.1' '*.8')
  ((${#list[@]} == 0)) || mandoc -T lint -W warning "${list[@]}"
}

# scripts/lib/documents says what these look for.
check_documents() { files | PYTHONPATH=scripts/lib python3 -B -m documents.check "$TOP"; }
check_plain_english() { files | PYTHONPATH=scripts/lib python3 -B -m documents.plain_english "$TOP"; }

cxx_files() { files '*.cc' '*.h' | grep -v -e '^kernel/' -e '^uapi/' -e '^selftests/amdgpu_criu/'; }

check_clang_format() {
  cxx_files | xargs -d '\n' -n 40 -P "$(nproc)" clang-format --dry-run -Werror
}

run_tidy() {
  "$TOP/scripts/host" release
  scripts/lib/tidy.py build/release build/cache/tidy "$@"
}

# Reads files that changed, and a sample of those that were never read.
check_clang_tidy() { run_tidy --sample 8; }

# The next two take minutes. They run only by name and in the campaign `static`.
check_clang_tidy_all() { run_tidy; }

# Follows paths through functions, and finds parameters that are copied without need.
check_clang_analyzer() {
  run_tidy --checks='-*,clang-analyzer-core.*,clang-analyzer-cplusplus.*,clang-analyzer-unix.*,performance-unnecessary-value-param'
}
