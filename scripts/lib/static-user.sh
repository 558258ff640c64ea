# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Static checks of everything that does not go into the kernel.

# with_interpreter SUFFIX PATTERN: files with that suffix, or with that interpreter in line one.
with_interpreter() {
  local path first
  while read -r path; do
    first=
    IFS= read -r first <"$path" || true
    if [[ $path == *"$1" || $first =~ ^\#!.*$2$ ]]; then printf '%s\n' "$path"; fi
  done < <(files)
}

check_spdx() {
  local bad=0 path
  while read -r path; do
    case $path in COPYING | LICENSES/* | */debian/copyright | */debian/source/format | README.md | MAINTAINERS | *.patch | *.bin | *.golden | .ci/*.md) continue ;; esac
    grep -Iq . "$path" || continue # a binary fixture, or empty
    head -n 5 "$path" | grep -q 'SPDX-License-Identifier:' || {
      echo "$path: no SPDX line"
      bad=1
    }
  done < <(files)
  return "$bad"
}

check_shellcheck() { with_interpreter .sh '[/ ](ba|da)?sh' | xargs shellcheck -x -S warning; }

check_python() { with_interpreter .py python3 | xargs -r pyflakes3; }

check_man() {
  local list
  mapfile -t list < <(files '*.1' '*.8')
  ((${#list[@]} == 0)) || mandoc -T lint -W warning "${list[@]}"
}

cxx_files() { files '*.cc' '*.h' | grep -v -e '^kernel/' -e '^uapi/' -e '^selftests/amdgpu_criu/'; }

check_clang_format() {
  local path bad=0
  while read -r path; do
    clang-format --dry-run -Werror "$path" 2>/dev/null || {
      echo "clang-format would change $path"
      bad=1
    }
  done < <(cxx_files)
  return "$bad"
}

check_clang_tidy() {
  "$TOP/scripts/host" release
  scripts/lib/tidy.py build/release build/cache/tidy
}

# Follows paths through functions, and finds what is passed by value in vain; too slow to be part of
# every check, so it is run by name.
check_clang_analyzer() {
  "$TOP/scripts/host" release
  scripts/lib/tidy.py build/release build/cache/tidy \
    '-*,clang-analyzer-core.*,clang-analyzer-cplusplus.*,clang-analyzer-unix.*,performance-unnecessary-value-param'
}
