# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Builds the driver out of tree, against the packaged headers of a base's kernel.

# kernel_release BASE: prints the release of the lab's kernel of that base.
kernel_release() { cat "$LAB/kernel-release-$1"; }

# warn_of_other_kernel RELEASE: if a module for that kernel is installed on a machine that runs another
warn_of_other_kernel() {
  [[ $1 == "$(uname -r)" ]] || warn "the module is for Linux $1, and this machine runs $(uname -r), which does not" \
    "load it: boot Linux $1, or build the module for $(uname -r) with scripts/module and KDIR"
}

sources_below() { (cd "$1" && find . -name '*.[ch]' ! -name '*.mod.c' | LC_ALL=C sort); }

# Kernels before 6.13 do not support MO= and write objects next to their sources, so the stage is
# copied. The copy keeps time stamps, so make compiles what it would compile in the stage itself.
copy_stage() {
  local stage=$1 objects=$2
  mkdir -p "$objects/$stage"
  if [[ -f $TOP/$stage/.base ]] && ! cmp -s "$TOP/$stage/.base" "$objects/$stage/.base"; then
    rm -rf "${objects:?}/$stage"
    mkdir -p "$objects/$stage"
  fi
  cp -au "$TOP/$stage/." "$objects/$stage/"
  LC_ALL=C comm -13 <(sources_below "$TOP/$stage") <(sources_below "$objects/$stage") |
    (cd "$objects/$stage" && xargs -r rm)
  ln -sfn "$TOP/Kbuild" "$objects/Kbuild"
}

# The warnings for gcc that W=1 adds in the kernel's scripts/Makefile.warn (Makefile.extrawarn
# before 7.0).
W1=(-Wmissing-format-attribute -Wmissing-include-dirs -Wunused-const-variable
  -Wunused-but-set-variable -Wpacked-not-aligned -Wformat-overflow -Wformat-truncation
  -Wstringop-truncation)

# our_sources BASE: prints each of our C files of that base, common and its own, once. Paths are
# relative to amdgpu/, which has the makefile of the driver.
our_sources() {
  local path
  (cd "$TOP/kernel" && find drivers "base/$1/drivers" -name '*.c' ! -name '*_test.c' 2>/dev/null) |
    sed 's,.*drivers/gpu/drm/amd/,,' | LC_ALL=C sort -u | while read -r path; do
    [[ $path == amdgpu/* ]] && path=${path#amdgpu/} || path=../$path
    printf '%s\n' "$path"
  done
}

# for_ours BASE VARIABLE OURS OTHERS: prints a make variable that has one value for our files, another
# for all others. make expands it for each object.
for_ours() {
  local stems
  stems=$(our_sources "$1" | sed 's,\.c$,,' | tr '\n' ' ')
  # shellcheck disable=SC2016 # make expands it
  printf '%s=$(if $(filter $(target-stem),%s),%s,%s)\n' "$2" "$stems" "$3" "$4"
}

# our_warnings BASE: prints a make variable that compiles only our files with W=1e. CFLAGS_FILE.o would
# replace what the hook patches assign.
our_warnings() { for_ours "$1" CFLAGS_MODULE "${W1[*]} -Werror" ''; }

# our_instrumentation BASE: prints a make variable that makes KCSAN watch only our files.
our_instrumentation() { for_ours "$1" KCSAN_SANITIZE y n; }

# precompile_headers OBJECTS RELEASE: prints a directory of compilers that keep the kernel's headers
# precompiled in OBJECTS.
precompile_headers() {
  local objects=$1 release=$2 key name headers=$TOP/kernel/base/kernel-headers.h
  mkdir -p "$objects/compiler"
  key=$(cat - "$headers" "$TOP/scripts/lib/kernel-compiler" <<<"$release" | sha256sum)
  if [[ $key != "$(cat "$objects/compiler/key" 2>/dev/null)" ]]; then
    rm -f "$objects/compiler/kernel-headers.h.gch"
    cp "$headers" "$objects/compiler/"
    # ccache hashes this file instead of the precompiled header, which is different each time.
    printf '%s\n' "$key" | tee "$objects/compiler/key" >"$objects/compiler/kernel-headers.h.gch.sum"
  fi
  for name in /usr/lib/ccache/*-gcc*; do
    ln -sfn "$TOP/scripts/lib/kernel-compiler" "$objects/compiler/${name##*/}"
  done
  printf '%s\n' "$objects/compiler"
}

# kbuild BASE STAGE OBJECTS MAKE-ARGUMENT...: runs make. STAGE is a path below the checkout; the object
# of STAGE/FILE is in OBJECTS/STAGE. Uses ccache if it is installed.
kbuild() {
  local base=$1 stage=$2 objects=$3 kdir=${KDIR-} where compilers=
  shift 3
  if [[ -z $kdir && -d /usr/lib/ccache ]]; then
    compilers=$(precompile_headers "$objects" "$(kernel_release "$base")"):
  fi
  kdir=${kdir:-/usr/src/linux-headers-$(kernel_release "$base")}
  if [[ $(printf '%s\n' 6.13 "$base" | sort -V | head -n 1) == 6.13 ]]; then
    where=(M="$TOP" MO="$objects")
  else
    copy_stage "$stage" "$objects" || return
    where=(M="$objects" criu-top="$TOP")
  fi
  # Variables on the command line override those of Kbuild.
  PATH=$compilers/usr/lib/ccache:$PATH CCACHE_PCH_EXTSUM=1 \
    KERNEL_HEADERS=$objects/compiler/kernel-headers.h make -C "$kdir" "${where[@]}" \
    criu-stage="$stage" STAGED=1 --no-print-directory -j"$(nproc)" "$@"
}
