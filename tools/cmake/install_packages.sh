#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs those of the Debian packages given that are missing; silent when all are there.
#
# As root it calls apt-get; as a user it goes through sudo, and without sudo it prints the command
# for someone who may run it. ARENITE_SKIP_PACKAGES=1 skips it all (tools that come from elsewhere).
set -eu

[ "${ARENITE_SKIP_PACKAGES:-0}" = 1 ] && exit 0
if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
  echo "arenite: not a Debian system, so packages are not checked; needed: $*" >&2
  exit 0
fi

missing=
for package in "$@"; do
  status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null || true)
  case "$status" in
    installed*) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -z "$missing" ] && exit 0

install_line="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=sudo
else
  cat >&2 <<MESSAGE
arenite: these Debian packages are missing:$missing
This user may not install packages. Run once as root:

    apt-get update && $install_line

or set ARENITE_SKIP_PACKAGES=1 if the tools are installed in another way.
MESSAGE
  exit 1
fi

echo "arenite: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  if ! $as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "arenite: this failed: $*" >&2
    echo "arenite: is there a network, and is no other package installation running?" >&2
    exit 1
  fi
}
quietly apt-get -o DPkg::Lock::Timeout=120 update -q
# The package names are words of a list, so they must split here.
# shellcheck disable=SC2086
quietly apt-get -o DPkg::Lock::Timeout=120 install -q -y --no-install-recommends $missing
