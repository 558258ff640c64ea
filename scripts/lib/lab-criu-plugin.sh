# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Builds CRIU's own amdgpu plugin of each version, which Debian does not build, in
# build/lab/criu-plugin/VERSION. Our plugin reads its images. A version whose source the mirror does
# not have is skipped with a warning.

CRIU_PLUGINS=$LAB/criu-plugin

# Runs apt in the guest's root, which has the releases of all CRIU versions, with signed lists.
criu_apt() {
  local dir=/var/tmp/criu-source
  in_guest_root apt-get -o Dir::Etc::SourceList=$dir/sources.list -o Dir::Etc::SourceParts=/nonexistent \
    -o Dir::State::Lists=$dir/lists "$@"
}

# fetch_criu_source SUITE: downloads /var/tmp/criu-source/SUITE.tar.xz in the guest's root, and sets
# VERSION.
fetch_criu_source() {
  local uri name hash
  read -r uri name _ hash < <(criu_apt --print-uris source "criu/$1" | grep '\.orig\.tar' | tr -d "'")
  [[ -n ${hash-} ]] || return 1
  VERSION=${name#criu_}
  VERSION=${VERSION%.orig.tar*}
  echo "CRIU $VERSION: $name, $hash"
  retry 2 in_guest_root /usr/lib/apt/apt-helper download-file "$uri" \
    "/var/tmp/criu-source/$1.tar.xz" "$hash"
}

# Makes headers that CRIU's core headers include in a configured tree. The plugin does not use them.
make_stand_ins() {
  local tree=$1 stand=$1/stand-in
  mkdir -p "$stand"/{sys,common,compel/plugins/std}
  echo '#include <linux/capability.h>' >"$stand/sys/capability.h"
  printf '#include <sys/types.h>\nint find_unused_fd_pid(pid_t pid);\n' >"$stand/files.h"
  : >"$stand/common/config.h"
  ln -s "$tree/include/common/arch/x86/asm" "$stand/common/asm"
  ln -s "$tree/compel/arch/x86/plugins/include/asm" "$stand/compel/plugins/std/asm"
}

# build_criu_plugin TREE RESULT: compiles all C files of the plugin, as its Makefile does.
build_criu_plugin() {
  local tree=$1 result=$2 plugin=$1/plugins/amdgpu
  make_stand_ins "$tree"
  in_toolchain protoc-c --proto_path="$plugin" --c_out="$plugin" criu-amdgpu.proto
  in_toolchain gcc -O1 -w -D_GNU_SOURCE -shared -nostartfiles -fPIC -iquote "$tree/stand-in" \
    -iquote "$tree/include" -iquote "$tree/criu/include" -iquote "$tree/criu/arch/x86/include" \
    -iquote "$tree" -I "$tree/stand-in" -I "$tree/compel/include/uapi" -I /usr/include/libdrm \
    "$plugin"/*.c -o "$result" -lpthread -lrt -ldrm -ldrm_amdgpu
}

step_criu_plugin() {
  local suite tree source=$GUEST/var/tmp/criu-source
  rm -rf "$CRIU_PLUGINS" "$source"
  mkdir -p "$CRIU_PLUGINS" "$source/lists/partial"
  chmod -R 777 "$source"
  for suite in trixie forky experimental; do
    echo "deb-src [check-valid-until=no] $MIRROR $suite main"
  done >"$source/sources.list"
  retry 3 criu_apt update
  for suite in trixie forky experimental; do
    VERSION=
    if ! fetch_criu_source "$suite"; then
      warn "the mirror has no source of CRIU ${VERSION:-of $suite}: its amdgpu plugin is not built"
      continue
    fi
    tree=$CRIU_PLUGINS/$VERSION/tree
    mkdir -p "$tree"
    tar -C "$tree" --strip-components=1 -xf "$source/$suite.tar.xz"
    build_criu_plugin "$tree" "$CRIU_PLUGINS/$VERSION/amdgpu_plugin.so"
    rm -r "$tree"
  done
  rm -rf "$source"
}
