# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Base 7.3: the source that Debian's package linux-source-7.3 contains, unpacked. KSRC names another
# tree of the same series, a git checkout of v7.3 for example.

# shellcheck disable=SC2034 # read by scripts that source this file
BASE_SOURCE=${KSRC:-/usr/src/linux-source-7.3}
# shellcheck disable=SC2034
BASE_SOURCE_PACKAGE=linux-source-7.3
