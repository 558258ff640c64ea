# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Builds CRIU's own amdgpu plugin of each version, which Debian does not build, in
# build/lab/criu-plugin/VERSION. Our plugin reads its images. A version whose source the mirror does
# not have is skipped with a warning.

CRIU_PLUGINS=$LAB/criu-plugin

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
  local suite tree=$CRIU_PLUGINS/tree
  rm -rf "$CRIU_PLUGINS"
  mkdir -p "$CRIU_PLUGINS"
  begin_sources trixie forky experimental
  for suite in trixie forky experimental; do
    if ! fetch_source criu "$suite" "$tree"; then
      warn "the mirror has no source of CRIU ${VERSION:-of $suite}: its amdgpu plugin is not built"
      continue
    fi
    mkdir "$CRIU_PLUGINS/$VERSION"
    build_criu_plugin "$tree" "$CRIU_PLUGINS/$VERSION/amdgpu_plugin.so"
    rm -r "$tree"
  done
  end_sources
}
