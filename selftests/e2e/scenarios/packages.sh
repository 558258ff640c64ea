# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The packages that `make deb` builds: installed, used and removed.

PACKAGES=(amdgpu-criu-plugin amdgpu-criu-tools amdgpu-criu-dev)

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
  dpkg --purge "${PACKAGES[@]}" >>"$DIR/dpkg.log" 2>&1 || fail "dpkg does not remove the packages"
  all_files >"$DIR/after"
  diff "$DIR/before" "$DIR/after" >"$DIR/left.log" || fail "something is left behind"
}
