# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Finds or installs what the lab needs on the host: mmdebstrap, archive keys, a package mirror.

# Prints the Debian archive that the host's apt uses, or LAB_MIRROR.
find_mirror() {
  local uri
  if [[ -n ${LAB_MIRROR-} ]]; then
    printf '%s\n' "${LAB_MIRROR%/}"
    return
  fi
  command -v apt-get >/dev/null ||
    die "no apt here to take a package mirror from: set LAB_MIRROR to the base of a Debian archive"
  uri=$(apt-get indextargets --format '$(CREATED_BY) $(RELEASE) $(ORIGIN) $(REPO_URI)' | awk '
    $1 == "Packages" && $2 !~ /security/ &&
    $2 ~ /^(bookworm|trixie|forky|sid|oldstable|stable|testing|unstable)(-updates|-backports)?$/ &&
    ($3 == "Debian" || NF == 3) { print $NF; exit }')
  [[ -n $uri ]] || die "apt here knows no Debian archive: set LAB_MIRROR to the base of one"
  printf '%s\n' "${uri%/}"
}

# Prints the host's proxy and certificate settings as options for apt in the new root.
apt_network_options() {
  command -v apt-config >/dev/null || return 0
  apt-config dump | grep -E '^Acquire::(https?|ftp)::[^ ]*(Proxy|CaInfo|Verify)' || true
}

has_trixie_keys() {
  compgen -G '/usr/share/keyrings/debian-archive-trixie-*' >/dev/null
}

# Installs host packages as root. Otherwise it prints the command that does.
install_on_host() {
  if command -v apt-get >/dev/null && ((EUID == 0)); then
    say "installing on this machine: $*"
    retry 3 run_logged host-update apt-get update
    retry 3 run_logged host-install env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "$@"
    return
  fi
  die "this machine lacks $*; please run: sudo apt-get update && sudo apt-get install $*"
}

require_host() {
  local missing=()
  command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
  command -v python3 >/dev/null || missing+=(python3)
  has_trixie_keys || missing+=(debian-archive-keyring)
  if ((EUID != 0)); then
    command -v newuidmap >/dev/null || missing+=(uidmap)
  fi
  ((${#missing[@]} == 0)) || install_on_host "${missing[@]}"
  has_trixie_keys || die "the keys of Debian trixie (debian-archive-trixie-*.gpg) are not on this" \
    "machine: it needs a newer package debian-archive-keyring"
  # apt verifies signatures as another user, and reports an error of gpgv if that fails.
  [[ $(stat -c %a /dev/null) == 666 ]] ||
    die "/dev/null is not writable by everybody; as root: chmod 666 /dev/null"
  ((EUID == 0)) || require_user_namespace
}

require_user_namespace() {
  grep -q "^$(id -un):" /etc/subuid 2>/dev/null ||
    die "user $(id -un) has no line in /etc/subuid; as root: usermod --add-subuids 100000-165535" \
      "--add-subgids 100000-165535 $(id -un)"
  unshare --map-root-user --map-auto --mount --pid --fork true 2>/dev/null ||
    die "this kernel does not let user $(id -un) make user namespaces: run this as root"
}
