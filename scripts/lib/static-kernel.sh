# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Static checks of kernel files and of the uapi header.

KERNEL_SOURCE=/usr/src/linux-source-7.3
HEADER=uapi/drm/amdgpu_criu.h
KERNEL_LINES=10000
I386=(-m32 -isystem /usr/include/x86_64-linux-gnu)

bases() { (cd kernel/base && printf '%s\n' */source.sh) | sed 's,/.*,,'; }

# kernel_files BASE: prints our files in its tree, common and its own, each once.
kernel_files() {
  files 'kernel/drivers/*.[ch]' "kernel/base/$1/drivers/*.[ch]" |
    sed 's,^kernel/\(base/[^/]*/\)\?,,' | grep -v _test | sort -u
}

checkpatch() {
  perl "$KERNEL_SOURCE/scripts/checkpatch.pl" --root="$KERNEL_SOURCE" --strict --terse --no-summary \
    --show-types "$@"
}

# Runs in the stage, because checkpatch's rules depend on the path in the kernel tree.
check_checkpatch_files() {
  local base list bad=0
  while read -r base; do
    "$TOP/scripts/stage" "$base"
    # Common files are checked with the first base only.
    mapfile -t list < <(if [[ $base == 7.3 ]]; then
      kernel_files "$base"
      echo "include/$HEADER"
    else
      files "kernel/base/$base/drivers/*.[ch]" | sed "s,^kernel/base/$base/,,"
    fi)
    (cd "$TOP/build/stage/$base" && checkpatch --file "${list[@]}") || bad=1
  done < <(bases)
  return "$bad"
}

# Hook patches get author, message and sign-off when they become commits of a series. checkpatch
# reads copies outside of the checkout, because it treats a file that git tracks as source, not as a
# patch; it takes longer to start than to read one.
check_checkpatch_hooks() {
  local patch list copies bad=0
  mapfile -t list < <(files 'kernel/base/*/hooks/*.patch' 'kernel/base/*/files/*.patch')
  copies=$(mktemp -d)
  for patch in "${list[@]}"; do
    mkdir -p "$copies/${patch%/*}"
    sed -n '/^--- a/,$p' "$patch" | sed 's,^--- a/\(.*\),diff --git a/\1 b/\1\n&,' >"$copies/$patch"
  done
  (cd "$copies" && checkpatch --no-signoff --ignore=COMMIT_MESSAGE,FILE_PATH_CHANGES "${list[@]}") || bad=1
  rm -r "$copies"
  return "$bad"
}

# checkpatch reads messages and kselftests only as patches of a series. Prints lines that it would refuse.
check_columns() {
  local list long
  mapfile -t list < <(files 'kernel/base/*/hooks/*.patch' 'kernel/base/*/files/*.patch' \
    'kernel/base/*/series/*.txt' ':!*/cover-*' 'selftests/amdgpu_criu/*.[ch]')
  long=$(expand_each "${list[@]}" | awk -F '\t' '
    $1 ~ /[.][ch]$/ { if (length($3) > 100) print $1 ":" $2 ": more than 100 columns"; next }
    $3 ~ /^--- / { diff[$1] = 1 }
    !diff[$1] && $3 !~ /^(Subject|Fixes):/ && length($3) > 75 { print $1 ":" $2 ": more than 75 columns" }')
  [[ -z $long ]] || ! printf '%s\n' "$long"
}

# Prints the lines of files as "FILE<tab>LINE<tab>TEXT", with spaces for the tabs in TEXT.
expand_each() {
  local file
  for file; do
    expand "$file" | awk -v file="$file" -v OFS='\t' '{ print file, FNR, $0 }'
  done
}

# What is carried is described beside its code, and criu.rst includes each of these descriptions.
check_kernel_carried() {
  diff <(files 'kernel/drivers/*.[ch]' 'kernel/base/7.3/drivers/*.[ch]' |
    xargs grep -o '^ \* DOC: .*' |
    sed 's,.*drivers/gpu/,drivers/gpu/,; s,: \* DOC: , ,' | sort) \
    <(awk '/kernel-doc:: drivers\// { file = $3 } /^ +:doc: / { sub(/^ +:doc: /, ""); print file, $0 }' \
      kernel/Documentation/gpu/amdgpu/criu.rst | sort)
}

# A maintainer reads all of it.
check_kernel_lines() {
  local list lines
  mapfile -t list < <(files 'kernel/drivers/gpu/drm/amd/*/*.[ch]' 'kernel/base/7.3/drivers/*.[ch]')
  lines=$(cat "${list[@]}" | wc -l)
  echo "$lines lines in ${#list[@]} files, at most $KERNEL_LINES"
  ((lines > 0 && lines <= KERNEL_LINES))
}

# A lower layer never calls a higher one.
check_kernel_layers() {
  local list
  mapfile -t list < <(files 'kernel/drivers/*.c' 'kernel/base/*/drivers/*.c')
  scripts/lib/kernel_layers.py scripts/lib/kernel_layers.txt "${list[@]}"
}

# A blob may have a million records to sort: sort() does not reschedule, sort_nonatomic() does.
check_kernel_sort() {
  local list
  mapfile -t list < <(files 'kernel/drivers/*.c' 'kernel/base/*/drivers/*.c')
  ! grep -nE '\<sort\(' "${list[@]}"
}

# The hook patches of every base apply without fuzz.
check_hooks() {
  local base
  while read -r base; do
    "$TOP/scripts/stage" "$base"
  done < <(bases)
}

# scripts/module compiles our files with W=1e.
check_kernel_w1() {
  local base
  while read -r base; do
    "$TOP/scripts/module" "$base" || return
  done < <(bases)
}

# sparse_key BASE SOURCE: prints a digest of everything of ours that sparse reads for this file.
sparse_key() {
  local amd=$TOP/build/stage/$1/drivers/gpu/drm/amd
  {
    echo "$1 $(kernel_release "$1") $(sparse --version)"
    cat "$amd/amdgpu/$2" "$amd"/amd{gpu,kfd}/*criu*.h "$TOP/$HEADER" "$TOP/kernel/base/$1"/hooks/*.patch
  } | sha256sum | cut -d' ' -f1
}

# sparse_files BASE SOURCE...: runs sparse on files that changed since it found them clean. sparse
# exits with 0 after a warning, so its output decides; warnings in the base's headers are ignored. C=2
# itself needs a script that the packaged headers lack. trixie's sparse does not support
# __typeof_unqual__, which differs from __typeof__ in qualifiers only.
sparse_files() {
  local base=$1 source key keys=() targets=()
  local output=$TOP/build/static-sparse-$1 clean=$TOP/build/cache/sparse
  shift
  for source; do
    key=$(sparse_key "$base" "$source")
    [[ ! -f $clean/$key ]] || continue
    keys+=("$key")
    targets+=("build/stage/$base/drivers/gpu/drm/amd/amdgpu/${source%.c}.o")
  done
  echo "$base: ${#targets[@]} of $# files"
  ((${#targets[@]} > 0)) || return 0
  "$TOP/scripts/module" "$base" -- KBUILD_CHECKSRC=2 CF=-D__typeof_unqual__=__typeof__ "${targets[@]}" >"$output" 2>&1 || {
    cat "$output"
    return 1
  }
  if grep -E '^[^ ]*/[a-z_]*criu[a-z_]*\.[ch]:[0-9]+:([0-9]+:)? (warning|error)' "$output"; then
    return 1
  fi
  mkdir -p "$clean"
  (cd "$clean" && touch "${keys[@]}")
}

# is_own BASE SOURCE: true if the file is that base's alone, or changed for it.
is_own() {
  local base=$TOP/kernel/base/$1 path=drivers/gpu/drm/amd/amdgpu/$2
  path=${path/amdgpu\/..\//}
  [[ -f $base/$path ]] || grep -q "^+++ b/$path\$" "$base"/files/*.patch
}

# Files that are the same on each kernel are read with the headers of 7.3 only.
check_kernel_sparse() {
  local base list bad=0
  while read -r base; do
    "$TOP/scripts/module" "$base" || return
    mapfile -t list < <(our_sources "$base" |
      while read -r source; do
        if [[ $base == 7.3 ]] || is_own "$base" "$source"; then echo "$source"; fi
      done)
    ((${#list[@]} == 0)) || sparse_files "$base" "${list[@]}" || bad=1
  done < <(bases)
  return "$bad"
}

# Reads all files with the headers of every base. It runs only by name.
check_kernel_sparse_all() {
  local base list bad=0
  while read -r base; do
    "$TOP/scripts/module" "$base" || return
    mapfile -t list < <(our_sources "$base")
    sparse_files "$base" "${list[@]}" || bad=1
  done < <(bases)
  return "$bad"
}

check_header_c() { gcc -x c -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$HEADER"; }

# Includes the header from a main file, because g++ warns about a header that is compiled alone.
check_header_cxx() {
  echo "#include \"$TOP/$HEADER\"" |
    g++ -x c++ -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -
}

check_header_m32() {
  gcc "${I386[@]}" -x c -std=c99 -Wall -Wextra -Werror -fsyntax-only "$HEADER"
}

# Every structure has the same layout in 32-bit and 64-bit programs, and no padding by the compiler,
# which no code would clear. i386 aligns __u64 to 4; no other test shows that.
our_layouts() { awk -v RS= '/struct amdgpu_criu/' | sed 's/, align=[48]//'; }

check_header_layout() {
  local flags=(-x c -fsyntax-only -Wpadded -Werror -Xclang -fdump-record-layouts-complete)
  local layouts=$TOP/build/static-layout
  clang "${flags[@]}" "$HEADER" | our_layouts >"$layouts.64"
  clang "${I386[@]}" "${flags[@]}" "$HEADER" | our_layouts >"$layouts.32"
  grep -q 'struct amdgpu_criu_state' "$layouts.64"
  diff "$layouts.32" "$layouts.64"
}
