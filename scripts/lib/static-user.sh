# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Static checks of everything that does not go into the kernel.

shell_scripts() {
  files | while read -r path; do
    case $path in *.sh) echo "$path" ;; *) head -n 1 "$path" | grep -qE '^#!.*\b(ba|da)?sh$' && echo "$path" ;; esac
  done || true
}

check_spdx() {
  local bad=0 path
  while read -r path; do
    case $path in COPYING | LICENSES/* | README.md | MAINTAINERS | *.patch | *.bin | *.golden | .ci/*.md) continue ;; esac
    grep -Iq . "$path" || continue # a binary fixture, or empty
    head -n 5 "$path" | grep -q 'SPDX-License-Identifier:' || {
      echo "$path: no SPDX line"
      bad=1
    }
  done < <(files)
  return "$bad"
}

check_shellcheck() { shell_scripts | xargs shellcheck -x; }

check_python() {
  files | while read -r path; do
    case $path in *.py) echo "$path" ;; *) head -n 1 "$path" | grep -qE '^#!.*python3' && echo "$path" ;; esac
  done | xargs -r pyflakes3
}

check_man() {
  local list
  mapfile -t list < <(files '*.1' '*.8')
  ((${#list[@]} == 0)) || mandoc -T lint -W warning "${list[@]}"
}

cxx_files() { files '*.cc' '*.h' | grep -v -e '^kernel/' -e '^uapi/' -e '^selftests/amdgpu_criu/'; }

check_clang_format() { cxx_files | xargs -r clang-format --dry-run -Werror; }

check_clang_tidy() {
  "$TOP/scripts/host" release
  scripts/lib/tidy.py build/release build/cache/tidy
}
