# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The packages that `make deb` builds: installed, used and removed.

PACKAGES=(amdgpu-criu-plugin amdgpu-criu-tools amdgpu-criu-dev amdgpu-criu-tests)

all_files() { # except dpkg's own book-keeping
  find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -path /root \) -prune -o -print | sort
}

remove_packages() {
  [ -n "${PACKAGES_INSTALLED-}" ] || return 0
  dpkg --purge "${PACKAGES[@]}" >>"$DIR/dpkg.log" 2>&1
}
CLEANERS+=(remove_packages)

install_packages() {
  local name file files=()
  for name in "${PACKAGES[@]}"; do
    file=$(compgen -G "$PAYLOAD/deb/${name}_*.deb") || fail "there is no package $name: make deb"
    files+=("$file")
  done
  PACKAGES_INSTALLED=yes
  dpkg --install "${files[@]}" >"$DIR/dpkg.log" 2>&1 || fail "dpkg does not install the packages"
  [ -z "$(dpkg --verify "${PACKAGES[@]}")" ] || fail "$(dpkg --verify "${PACKAGES[@]}")"
}

man_page() { # man_page NAME
  gzip -dc "/usr/share/man/man1/$1.1.gz" | grep -q '^\.TH ' || fail "no man page $1(1)"
}

completions() { # completions WORD...: what bash offers after these
  (
    # shellcheck source=/dev/null
    . /usr/share/bash-completion/completions/amdgpu-criu
    COMP_WORDS=(/usr/bin/amdgpu-criu "$@") COMP_CWORD=$#
    _amdgpu_criu
    echo "${COMPREPLY[*]}"
  )
}

# selftest NAME OPTIONS...: the installed command, with nothing of /payload. Its report is DIR/NAME.
selftest() {
  local name=$1
  shift
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin amdgpu-criu-selftest --report "$DIR/$name" --scratch "$DIR" \
    --patience "$PATIENCE" "$@" >"$DIR/$name.log" 2>&1
}

# selftest_passes NAME COUNT OPTIONS...: and so many tests at least have passed
selftest_passes() {
  local name=$1 count=$2
  shift 2
  selftest "$name" "$@" || fail "amdgpu-criu-selftest: status $?: $(grep -A 2 '^not ok' "$DIR/$name/report.txt")"
  json "$DIR/$name/report.json" "it['passed'] >= $count and not it['failed'] and it['machine']['gpus']"
  grep -qF "$(uname -r)" "$DIR/$name/dmesg.txt" "$DIR/$name/report.txt" || fail "the report names no kernel"
  tar -tf "$DIR/$name/report.tar.gz" >"$DIR/packed" || fail "the archive is damaged"
  grep -q "/topology/1/properties" "$DIR/packed" || fail "no topology in the archive"
  ! grep -v 'show-.*\.json' "$DIR/packed" | grep '\.img' || fail "images in the archive"
  cat "$DIR/$name/report.txt"
}

remove_and_compare() {
  dpkg --purge "${PACKAGES[@]}" >>"$DIR/dpkg.log" 2>&1 || fail "dpkg does not remove the packages"
  PACKAGES_INSTALLED=
  all_files >"$DIR/after"
  diff "$DIR/before" "$DIR/after" >"$DIR/left.log" || fail "something is left behind"
}

# A process that uses a GPU is left alone.
selftest_leaves_others_alone() {
  selftest in-use --only one_gpu
  [ $? -eq 3 ] || fail "in use by $PID, but: $(cat "$DIR/in-use.log")"
  grep -q "$PID gpu_chain" "$DIR/in-use.log" || fail "who uses the GPUs is not named"
}

scenario_packages() {
  need_gpus 1
  all_files >"$DIR/before"
  install_packages
  PLUGIN_DIR=/usr/lib/criu DEFAULT_LIBDIR=yes
  round_trip gpu_chain
  /usr/bin/amdgpu-criu verify "$DIR/images" >"$DIR/verify.log" || fail "the images are damaged"
  /usr/bin/amdgpu-criu show "$DIR/images" >"$DIR/show.log" || fail "the images cannot be shown"
  /usr/bin/amdgpu-criu check >"$DIR/check.log" 2>&1 || fail "amdgpu-criu check: status $?"
  case " $(completions s) " in *" show "*) ;; *) fail "completed: $(completions s)" ;; esac
  man_page amdgpu-criu
  man_page criu-amdgpu
  man_page amdgpu-criu-selftest
  remove_and_compare
}

# A part of the stage `quick`.
scenario_packages_selftest() {
  need_gpus 1
  all_files >"$DIR/before"
  install_packages
  start gpu_chain
  selftest_leaves_others_alone
  ends_well "beside the tests"
  selftest_passes quick 10 --only query --only one_gpu
  remove_and_compare
}

# The driver of the distribution.
scenario_packages_stock() {
  need_gpus 2
  install_packages
  use_driver stock
  selftest_passes stock 1 --only stock_round_trip
  grep -q 'ioctl, without the series' "$DIR/stock/report.txt" || fail "the report does not name the interface"
  use_driver ours
}

# The campaign `machine`.
scenario_packages_full() {
  need_gpus 1
  install_packages
  selftest_passes full 300 --stage full
}
