# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Which kernels the Debian archive has: in the suites of the lab, which it can install, and in all
# others.

readonly ARCHIVE_SUITES=(trixie trixie-updates trixie-backports forky sid experimental)
ARCHIVE_LISTS=/var/lib/lab-archive # in the tool chain root, which installs nothing by these lists

lab_apt_cache() { in_toolchain apt-cache "$@"; }

# apt_of_archive TOOL...: runs a tool of apt with the package lists of all suites.
apt_of_archive() {
  local tool=$1
  shift
  in_toolchain "$tool" -o Dir::Etc::SourceList="$ARCHIVE_LISTS/sources.list" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$ARCHIVE_LISTS/lists" \
    -o Dir::Cache::PkgCache= -o Dir::Cache::SrcPkgCache= "$@"
}

archive_apt_cache() { apt_of_archive apt-cache "$@"; }

# Reads the package lists of all suites. A suite that a mirror lacks is left out.
read_archive() {
  printf "deb [check-valid-until=no] $MIRROR %s main\n" "${ARCHIVE_SUITES[@]}" |
    in_toolchain sh -euc 'mkdir -p "$1/lists/partial"; cat >"$1/sources.list"' - "$ARCHIVE_LISTS"
  apt_of_archive apt-get update || true
}

# list_kernels APT-CACHE: prints "BASE VERSION SUITE RELEASE" for each kernel source that APT-CACHE
# finds, the newest last. RELEASE is - if the suite lacks image or headers of that version.
list_kernels() {
  local names
  mapfile -t names < <("$1" --names-only search '^linux-(source-[0-9.]+|(headers|image)-[0-9].*-amd64)$' |
    sed -E 's/ .*//; /-(rt|cloud)-amd64$/d')
  ((${#names[@]} > 0)) || return 0
  "$1" madison "${names[@]}" | awk '
    $NF != "Packages" { next }
    { sub(/\/.*/, "", $6); at = $3 " " $6 }
    sub(/^linux-source-/, "", $1) { source[$1 " " at] = at }
    sub(/^linux-image-/, "", $1) { image[$1 " " at] = 1 }
    sub(/^linux-headers-/, "", $1) { headers[$1 " " at] = $1 }
    END {
      for (key in headers)
        if (key in image) complete[substr(key, length(headers[key]) + 2)] = headers[key]
      for (key in source)
        print key, source[key] in complete ? complete[source[key]] : "-"
    }' | sort -V -k2,2 -k3,3
}

# newest_kernel [BASE]: prints "release version" of its newest kernel that has image, headers and source.
newest_kernel() {
  local base=${1-$KERNEL_BASE} found
  found=$(list_kernels lab_apt_cache |
    awk -v base="$base" '$1 == base && $4 != "-" { found = $4 " " $2 } END { print found }')
  if [[ -z $found ]]; then
    name_other_kernels "$base" >&2
    return 1
  fi
  echo "$found"
}

# Says what the archive has instead of a base, and which lab can be made of it.
name_other_kernels() {
  local base
  echo "the lab's suites have no complete kernel $1 (image, headers and source). The archive has:"
  read_archive >/dev/null 2>&1
  list_kernels archive_apt_cache | awk '
    { newest[$1 " in " $3] = "  kernel " $1 ": " $2 " in " $3 ($4 == "-" ? ", source only" : "") }
    END { for (at in newest) print newest[at] }' | sort -V
  for base in $(installable_bases); do
    echo "A lab for kernel $base alone: LAB_BASES=$base BASE=$base with each make"
  done
  echo "The lab installs kernels of trixie and trixie-backports only: others are for newer compilers." \
    "\`make campaign ARGS=next-kernel\` builds one from its source."
}

# Prints the bases in kernel/base that the lab's suites have, the newest first.
installable_bases() {
  comm -12 <(cd "$TOP/kernel/base" && printf '%s\n' */source.sh | sed 's,/.*,,' | LC_ALL=C sort) \
    <(list_kernels lab_apt_cache | awk '$4 != "-" { print $1 }' | LC_ALL=C sort -u) | sort -rV
}
