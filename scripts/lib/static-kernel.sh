# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Static checks of what goes into the kernel, and of the header that goes with it.

KERNEL_SOURCE=/usr/src/linux-source-7.2
KERNEL_OBJECTS=$TOP/build/kbuild/static
HEADER=uapi/drm/amdgpu_criu.h
I386=(-m32 -isystem /usr/include/x86_64-linux-gnu)

bases() { (cd kernel/base && printf '%s\n' */source.sh) | sed 's,/.*,,'; }

# kernel_files BASE: our files in its tree, whether they are the same for all bases or its own.
kernel_files() {
  files 'kernel/drivers/*.[ch]' "kernel/base/$1/drivers/*.[ch]" |
    sed 's,^kernel/\(base/[^/]*/\)\?,,' | grep -v _test | sort -u
}

checkpatch() {
  perl "$KERNEL_SOURCE/scripts/checkpatch.pl" --root="$KERNEL_SOURCE" --strict --terse --no-summary \
    --show-types "$@"
}

# In the stage, where every file is at the place in the kernel tree that it is judged by.
check_checkpatch_files() {
  local base list bad=0
  while read -r base; do
    "$TOP/scripts/stage" "$base"
    # What is the same was looked at with the first of them.
    mapfile -t list < <(if [[ $base == 7.2 ]]; then
      kernel_files "$base"
      echo "include/$HEADER"
    else
      files "kernel/base/$base/drivers/*.[ch]" | sed "s,^kernel/base/$base/,,"
    fi)
    (cd "$TOP/build/stage/$base" && checkpatch --file "${list[@]}") || bad=1
  done < <(bases)
  return "$bad"
}

# Hook patches get author, message and sign-off when they become commits of a series. They are
# piped in, because checkpatch takes a file that git knows for source, not for a patch.
check_checkpatch_hooks() {
  local patch bad=0
  while read -r patch; do
    sed -n '/^--- a/,$p' "$patch" | sed 's,^--- a/\(.*\),diff --git a/\1 b/\1\n&,' |
      checkpatch --no-signoff --ignore=COMMIT_MESSAGE,FILE_PATH_CHANGES - |
      sed "s,^-:,diff in $patch:," || bad=1
  done < <(files 'kernel/base/*/hooks/*.patch')
  return "$bad"
}

# Every base's hook patches apply, with no fuzz.
check_hooks() {
  local base
  while read -r base; do
    "$TOP/scripts/stage" "$base"
  done < <(bases)
}

# kbuild_ours BASE ARGUMENT...: compiles our files alone, in a build tree of its own.
kbuild_ours() {
  local base=$1 source objects=() directory=build/stage/$1/drivers/gpu/drm/amd/amdgpu
  shift
  "$TOP/scripts/stage" "$base"
  hold_stage "$base"
  while read -r source; do
    [[ $source == *.c ]] || continue
    # All of the driver is built by the makefile in amdgpu/.
    source=${source#drivers/gpu/drm/amd/}
    [[ $source == amdgpu/* ]] && source=${source#amdgpu/} || source=../$source
    objects+=("$directory/${source%.c}.o")
  done < <(kernel_files "$base")
  mkdir -p "$KERNEL_OBJECTS/$base"
  kbuild "$base" "build/stage/$base" "$KERNEL_OBJECTS/$base" "$@" "${objects[@]}"
}

kbuild_ours_for_all() {
  local base
  while read -r base; do
    kbuild_ours "$base" "$@" || return
  done < <(bases)
}

# W=1e: a warning is an error, so that a file with one is never taken for built.
check_kernel_w1() { kbuild_ours_for_all W=1e; }

# sparse warns and goes on, so its output decides; other files' headers may have warnings. The
# packaged headers lack the script that C=2 asks whether sparse works; and trixie's sparse does not
# know __typeof_unqual__, which differs in qualifiers only.
check_kernel_sparse() {
  local output=$KERNEL_OBJECTS/sparse.output
  mkdir -p "$KERNEL_OBJECTS"
  kbuild_ours_for_all W=1e KBUILD_CHECKSRC=2 CF=-D__typeof_unqual__=__typeof__ 2>&1 |
    tee "$output"
  ! grep -qE '^[^ ]*/[a-z_]*criu[a-z_]*\.[ch]:[0-9]+:([0-9]+:)? (warning|error)' "$output"
}

check_header_c() { gcc -x c -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$HEADER"; }

# A pragma-free main file, because g++ warns of `#pragma once`-like use of a header alone.
check_header_cxx() {
  echo "#include \"$TOP/$HEADER\"" |
    g++ -x c++ -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -
}

check_header_m32() {
  gcc "${I386[@]}" -x c -std=c99 -Wall -Wextra -Werror -fsyntax-only "$HEADER"
}

# Every structure has the same layout for 32-bit and 64-bit programs (i386 aligns __u64 to 4, which
# may show nowhere else), and no hole that the compiler made: nobody would clear it.
our_layouts() { awk -v RS= '/struct amdgpu_criu/' | sed 's/, align=[48]//'; }

check_header_layout() {
  local flags=(-x c -fsyntax-only -Wpadded -Werror -Xclang -fdump-record-layouts-complete)
  local layouts=$TOP/build/static-layout
  clang "${flags[@]}" "$HEADER" | our_layouts >"$layouts.64"
  clang "${I386[@]}" "${flags[@]}" "$HEADER" | our_layouts >"$layouts.32"
  grep -q 'struct amdgpu_criu_state' "$layouts.64"
  diff "$layouts.32" "$layouts.64"
}
