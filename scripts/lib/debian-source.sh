# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Downloads upstream sources of Debian packages, with signed lists. Needs $GUEST, whose root has the keys.

DEBIAN_SOURCE=$GUEST/var/tmp/debian-source

source_apt() {
  local dir=/var/tmp/debian-source
  in_guest_root apt-get -o Dir::Etc::SourceList=$dir/sources.list -o Dir::Etc::SourceParts=/nonexistent \
    -o Dir::State::Lists=$dir/lists "$@"
}

# begin_sources SUITE...: reads the lists of these suites.
begin_sources() {
  local suite
  rm -rf "$DEBIAN_SOURCE"
  mkdir -p "$DEBIAN_SOURCE/lists/partial"
  chmod -R 777 "$DEBIAN_SOURCE"
  for suite; do
    echo "deb-src [check-valid-until=no] $MIRROR $suite main"
  done >"$DEBIAN_SOURCE/sources.list"
  retry 3 source_apt update
}

end_sources() { rm -rf "$DEBIAN_SOURCE"; }

# fetch_source PACKAGE SUITE TREE: unpacks its upstream source in TREE, and sets VERSION. VERSION is also
# set if the mirror has the list but not the file.
fetch_source() {
  local package=$1 suite=$2 tree=$3 uri name hash
  VERSION=
  read -r uri name _ hash < <(source_apt --print-uris source "$package/$suite" |
    grep '\.orig\.tar\.[a-z0-9]* ' | tr -d "'")
  [[ -n ${hash-} ]] || return 1
  VERSION=${name#*_}
  VERSION=${VERSION%.orig.tar*}
  echo "$package $VERSION: $name, $hash"
  retry 2 in_guest_root /usr/lib/apt/apt-helper download-file "$uri" \
    "/var/tmp/debian-source/$name" "$hash" || return
  mkdir -p "$tree"
  tar -C "$tree" --strip-components=1 -xf "$DEBIAN_SOURCE/$name"
}
