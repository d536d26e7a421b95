#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and installs the same sources twice, in folders, time zones, languages and with file modes
# that differ, and compares every byte of what was installed.
#
# Usage: two_builds.sh [--runtime]
# With --runtime only the libraries, without the program.
set -euo pipefail
cd "$(dirname "$0")/../.."

options=(-DCMAKE_BUILD_TYPE=Release -DARENITE_BUILD_TESTS=OFF -DARENITE_BUILD_EXAMPLES=OFF)
case ${1:-} in
  --runtime) options+=(-DARENITE_BUILD_TOOLS=OFF) ;;
  '') ;;
  *)
    sed -n '3,7s/^# //p' "$0" >&2
    exit 2
    ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A cache of objects would give the second build those of the first.
export CCACHE_DISABLE=1
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# build FOLDER installs the sources, as they are in this folder now, to FOLDER-installed.
build() {
  local folder=$work/$1
  mkdir -p "$folder"
  git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$folder"
  if [[ -d .cache ]]; then cp -r .cache "$folder/"; fi
  cmake -S "$folder" -B "$folder/build" -G Ninja --log-level=WARNING "${options[@]}"
  cmake --build "$folder/build" -j "${JOBS:-2}" >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    exit 1
  }
  cmake --install "$folder/build" --prefix "$work/installed-$2" >/dev/null
}

(TZ=UTC LC_ALL=C build first 1)
(umask 027 && TZ=Pacific/Chatham LC_ALL=C.UTF-8 build second/with/a/longer/name 2)
diff -r "$work/installed-1" "$work/installed-2" || {
  echo '0 passed, 1 failed'
  exit 1
}
files=$(find "$work/installed-1" -type f | wc -l)
printf '%d files of two builds are the same, %d bytes\n' "$files" \
  "$(find "$work/installed-1" -type f -print0 | xargs -0 cat | wc -c)"
echo '1 passed, 0 failed'
