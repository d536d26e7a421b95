#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles each public header alone with another compiler or C++ library than the build has.
# Usage: headers_test.sh FOLDER COMPILER [ARGUMENT]...
set -eu
folder=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for header in "$folder"/arenite/*.h; do
  name=${header##*/}
  printf '#include "arenite/%s"\n' "$name" >"$work/${name%.h}.cc"
done
[ -e "$work/session.cc" ] || exit 1
"$@" -std=c++20 -fsyntax-only -Wall -Wextra -Werror "-I$folder" "$work"/*.cc
