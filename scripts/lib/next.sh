# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The driver of a later kernel, for the tests of versions: our files with the patches of
# kernel/tests/next. The build runs in a mount namespace, where kernel/ is the patched copy and the
# build directories are separate. Paths are the same as in the ordinary build, so ccache has nearly
# all results.

NEXT=$TOP/build/next

# Makes build/next/kernel. Files that stay the same are not touched.
make_next_source() {
  local patch new=$NEXT/kernel.new
  rm -rf "$new"
  mkdir -p "$new"
  (cd "$TOP/kernel" && tar --exclude=./tests -c .) | tar -C "$new" -x
  for patch in "$TOP/kernel/tests/next"/*.patch; do
    patch -d "$new" -p1 --no-backup-if-mismatch -s <"$patch" ||
      die "${patch#"$TOP/"} does not apply any more: adapt it to the changed files"
  done
  rsync -rlp --checksum --delete "$new/" "$NEXT/kernel/"
  rm -rf "$new"
}

# link_next_stage BASE: starts the other stage with links to the files of the ordinary one. The
# script `stage` replaces files, and never writes into one.
link_next_stage() {
  [[ ! -d $NEXT/stage/$1 ]] || return 0
  mkdir -p "$NEXT/stage"
  cp -al "$TOP/build/stage/$1" "$NEXT/stage/$1"
}

# with_next COMMAND...: runs it in that mount namespace. NEXT may be the directory of another driver.
with_next() {
  local options=(--mount)
  ((EUID == 0)) || options+=(--map-root-user)
  # The lab's root is no mount point, and its mounts are private already.
  [[ ${IN_LAB-} != "$TOP" ]] || options+=(--propagation unchanged)
  mkdir -p "$NEXT"/{stage,kbuild,module} "$TOP"/build/{stage,kbuild,module}
  IN_NEXT=1 unshare "${options[@]}" bash -euc 'top=$1 next=$2
    shift 2
    bind() { ${mount:-busybox mount} -o bind "$1" "$2"; } # the lab has no other
    mount=$(command -v mount || true)
    bind "$next/kernel" "$top/kernel"
    for name in stage kbuild module; do
      bind "$next/$name" "$top/build/$name"
    done
    exec "$@"' - "$TOP" "$NEXT" "$@"
}
