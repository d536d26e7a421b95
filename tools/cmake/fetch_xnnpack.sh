#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the pinned XNNPACK source from the Debian mirror that this machine uses and unpacks it.
#
# Usage: fetch_xnnpack.sh DESTINATION
# Does nothing when DESTINATION exists. It appears by one rename, so it is always complete, and two
# builds may run this at once. Needs no root and changes nothing outside the folder of DESTINATION.
set -eu

version=0.0~git20241108.4ea82e5
revision=2
sha256=90bde2caef0f880f627bab0dc805a86c4b8070cd98e3243db3046ab3f3be1a99
suite=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
tarball=xnnpack_$version.orig.tar.xz

[ $# = 1 ] || { echo "usage: $0 DESTINATION" >&2; exit 2; }
destination=$1
[ -d "$destination" ] && exit 0

fail() {
  printf 'arenite: cannot fetch the XNNPACK source: %s\n' "$1" >&2
  if [ -n "${log:-}" ] && [ -s "$log" ]; then
    echo "arenite: apt-get said:" >&2
    grep -E '^(E|W|Err):?' "$log" | tail -n 10 >&2 || tail -n 10 "$log" >&2
  fi
  cat >&2 <<MESSAGE
arenite: instead, unpack upstream commit 4ea82e595b36106653175dcb04b2aa532660d0d8 of XNNPACK
arenite: somewhere and configure with -DARENITE_XNNPACK_SOURCE=DIR (with make: XNNPACK_SOURCE=DIR).
MESSAGE
  exit 1
}

command -v apt-get >/dev/null 2>&1 || fail "it comes from Debian, and this system has no apt-get."
[ -r "$keyring" ] || fail "$keyring is missing; install the package debian-archive-keyring."
command -v xz >/dev/null 2>&1 || fail "xz is missing; install the package xz-utils."
mkdir -p "$(dirname "$destination")" || fail "the folder of $destination cannot be made."
# Absolute, because apt-get wants absolute folders and downloads into the current one.
destination=$(cd "$(dirname "$destination")" && pwd)/$(basename "$destination")
work=$(mktemp -d "$destination.XXXXXX") || fail "no temporary folder beside $destination."
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial" "$work/unpacked"
log=$work/log

# The mirrors that are configured here, Debian's own first. Release files tell which one that is;
# where the package lists were thrown away (small containers), the bare configuration must do.
sites() {
  {
    apt-get indextargets 'Created-By: Packages' 'Label: Debian' --format '$(SITE)'
    apt-get indextargets --no-release-info 'Created-By: Packages' 'Component: main' \
      --format '$(SITE)'
  } 2>/dev/null | awk '!seen[$0]++'
}

# Downloads the tarball into $work from one mirror, with apt-get's own folders all inside $work.
# Only the tarball is asked for: some mirrors do not carry the other files of an old revision.
download_from() {
  printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
    "$1" "$suite" "$keyring" >"$work/parts/xnnpack.sources"
  set -- -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/parts" \
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Get::List-Cleanup=0
  (
    cd "$work" &&
      apt-get "$@" update &&
      apt-get "$@" source --download-only --tar-only "xnnpack=$version-$revision"
  ) >>"$log" 2>&1 && [ -f "$work/$tarball" ]
}

echo "arenite: fetching the source of XNNPACK $version"
all_sites=$(sites)
[ -n "$all_sites" ] || fail "no Debian mirror is configured for apt-get on this machine."
for site in $all_sites; do
  download_from "$site" && break
done
[ -f "$work/$tarball" ] ||
  fail "no configured mirror delivered xnnpack $version-$revision of $suite. No network?"

found=$(sha256sum "$work/$tarball" | cut -d ' ' -f 1)
[ "$found" = "$sha256" ] || {
  : >"$log"
  fail "sha256 of $tarball is
  $found, expected
  $sha256. The download was thrown away."
}

# Tests, benchmarks and build files of XNNPACK are many times the size of what is used here.
tar -xf "$work/$tarball" -C "$work/unpacked" --no-same-owner src include LICENSE || {
  : >"$log"
  fail "$tarball cannot be unpacked. Disk full?"
}
chmod 755 "$work/unpacked"
if ! mv -T "$work/unpacked" "$destination" 2>/dev/null; then
  [ -d "$destination" ] || fail "$destination cannot be written."
fi
