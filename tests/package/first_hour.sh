#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does what a newcomer does, from the packages to a model on a board, in an empty folder that is
# removed afterwards, and prints a table of seconds and bytes.
#
# Usage: first_hour.sh [--markdown FILE] [--build FOLDER]
#   --markdown FILE   writes the table, and the commands that were timed, as Markdown too
#   --build FOLDER    takes the build that is there, so that only steps 3 to 5 are walked, without
#                     installing anything
#
# What is not committed is not in the clone. A step that fails shows its output and ends the script.
set -eu
export LC_ALL=C

usage() {
  echo "usage: $0 [--markdown FILE] [--build FOLDER]" >&2
  exit 2
}

markdown=
build=
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --markdown) markdown=$(realpath "$2") ;;
    --build) build=$(realpath -e "$2") ;;
    *) usage ;;
  esac
  shift 2
done

# The commands find the repository by this name, so that they show no folder of this machine.
ARENITE=$(cd "$(dirname "$0")/../.." && pwd)
export ARENITE
# Each command starts as from a terminal, and compiles as if for the first time.
unset MAKEFLAGS MAKELEVEL MFLAGS
[ -n "$build" ] || export CCACHE_DISABLE=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
log=$work/log
rows=$work/rows
page=$work/page
touch "$log" "$rows" "$page"
exec 3<&0  # for a password of sudo

fail() {
  cat "$log"
  printf 'first hour: %s\n' "$1" >&2
  exit 1
}

bytes_of_packages() {
  dpkg-query -W -f '${Installed-Size}\n' 2>/dev/null |
    awk '{ sum += $1 } END { printf "%.0f\n", sum * 1024 }'
}

# step TITLE FOLDER LEFT runs the commands on standard input in the folder, and notes their seconds
# and the bytes of LEFT: a path in that folder, or `packages` for what they installed.
step() {
  cat >"$work/commands"
  [ -s "$work/commands" ] || fail "no commands were found for this step: $1"
  printf '\n# %s\n' "$1"
  awk '{ print (continued ? "    " : "$ ") $0; continued = /\\$/ }' "$work/commands"
  { printf '\n# %s\n' "$1" && cat "$work/commands"; } >>"$page"
  before=$(bytes_of_packages)
  started=$(date +%s%N)
  (cd "$2" && exec sh -ex "$work/commands") >"$log" 2>&1 <&3 || fail "this step failed: $1"
  seconds=$(awk -v ns="$(($(date +%s%N) - started))" 'BEGIN { printf "%.2f", ns / 1e9 }')
  if [ "$3" = packages ]; then
    bytes=$(($(bytes_of_packages) - before))
  else
    bytes=$(du -sb "$2/$3" | cut -f 1)
  fi
  bytes=$(echo "$bytes" | sed -E ':more; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; t more')
  printf '%s seconds, %s bytes in %s\n' "$seconds" "$bytes" "$3"
  printf '%s|%s|%s|%s\n' "$1" "$seconds" "$bytes" "$3" >>"$rows"
}

# prints PATTERN: the last step must have printed a line like this.
prints() {
  grep -qE "$1" "$log" || fail "expected a line '$1' above"
}

# installs TARGET: the command by which the Makefile's target installs its packages.
installs() {
  make -C "$ARENITE" --no-print-directory -n "$1" | grep install_packages | fold -s -w 88 |
    sed -e 's/ *$//' -e '$!s/$/ \\/'
}

# The numbers of a .npy file, one in each line. Its header says their type, and at byte 8 how long
# it is.
numbers() {
  header=$(od -An -tu2 -j8 -N2 "$1")
  case $(head -c 64 "$1" | tr -d '\0') in
    *"'<f8'"*) width=8 ;;
    *"'<f4'"*) width=4 ;;
    *) return 1 ;;
  esac
  od -An -v -w$width -tf$width -j$((header + 10)) "$1"
}

# same_numbers FOUND EXPECTED: as many, and apart by rounding only.
same_numbers() {
  numbers "$1" >"$work/found" || fail "the numbers of $1 cannot be read"
  numbers "$2" >"$work/expected" || fail "the numbers of $2 cannot be read"
  paste "$work/found" "$work/expected" | awk '
    NF != 2 { bad = 1 }
    { difference = $1 - $2; if (difference < 0) difference = -difference }
    { size = $2 < 0 ? -$2 : $2 }
    !(difference <= 1e-5 * (size > 1 ? size : 1)) { bad = 1 }
    END { exit bad || NR == 0 }' || fail "the numbers of $1 are not those of $2"
}

print_table() {
  awk -F '|' '
    BEGIN { printf "\n%-38s %8s %13s  %s\n", "step", "seconds", "bytes", "left" }
    { printf "%-38s %8s %13s  %s\n", $1, $2, $3, $4; sum += $2 }
    END { printf "%-38s %8.2f\n", "all", sum }' "$rows"
}

write_markdown() {
  awk -F '|' '
    BEGIN { print "| step | seconds | bytes | left |\n|---|---:|---:|---|" }
    { printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 ~ /^packages$/ ? $4 : "`" $4 "`"; sum += $2 }
    END { printf "| all | %.2f | | |\n\n```sh", sum }' "$rows"
  cat "$page"
  echo '```'
}

build_it() {
  step '1. git and make' "$ARENITE" packages <<'COMMANDS'
tools/cmake/install_packages.sh git make
COMMANDS
  installs demo | step '1. Packages of the build' "$ARENITE" packages
  step '2. make demo in a clone' "$work" arenite <<'COMMANDS'
git clone --quiet "$ARENITE" arenite
make -C arenite demo
COMMANDS
  prints '11 of 11 answers right'
}

# The folders that the commands of steps 3 to 5 look into.
take_build() {
  mkdir "$work/arenite"
  ln -s "$build" "$work/arenite/build"
  for name in models examples tests; do ln -s "$ARENITE/$name" "$work/arenite/$name"; done
}

# Neither is a model that came with the program: an exported program says all, the state dict of a
# published program does not, and what is open is said.
own_models() {
  step '3. Own model, exported' "$work/arenite" exported.arn <<'COMMANDS'
data=tests/convert/data/exported_zoo
build/arenite convert $data/gates.pt2 -o exported.arn \
  --expect $data/gates_input.npy,$data/gates_expected.npy
build/arenite run exported.arn --input $data/gates_input.npy --output y.npy
COMMANDS
  prints "^expect +as the author's model gave it"
  same_numbers "$work/arenite/y.npy" "$ARENITE/tests/convert/data/exported_zoo/gates_expected.npy"
  step '3. Own model, a state dict' "$work/arenite" mine.arn <<'COMMANDS'
data=tests/convert/data/state_dicts/book
build/arenite convert $data/model.safetensors -o mine.arn --heads 2 --activation gelu_tanh \
  --norm-first --expect $data/x.npy,$data/y.npy
build/arenite run mine.arn --input $data/x.npy --output y.npy
COMMANDS
  prints "^expect +as the author's model gave it"
  same_numbers "$work/arenite/y.npy" "$ARENITE/tests/convert/data/state_dicts/book/y.npy"
}

own_program() {
  step '4. Own program, by find_package' "$work/arenite" prefix <<'COMMANDS'
cmake --install build --prefix prefix
cmake -S tests/package/consumer -B own -DCMAKE_PREFIX_PATH="$PWD/prefix"
cmake --build own
own/consumer
COMMANDS
  prints '^arenite [0-9]+\.[0-9]+\.[0-9]+$'
}

# The commands are those of the page, word for word.
own_firmware() {
  if [ -z "$build" ]; then
    installs test-cortex-m7 | step '5. Packages for Cortex-M' "$ARENITE" packages
  fi
  awk '/^```/ { shown = $0 == "```sh"; next } shown' "$ARENITE/examples/boards/README.md" |
    step '5. Own firmware on a Cortex-M7' "$work/arenite" firmware
  prints '^slot A, version 1: self-test passed$'
  prints '^slot B, version 2: self-test passed$'
}

if [ -n "$build" ]; then take_build; else build_it; fi
own_models
own_program
own_firmware
print_table
if [ -n "$markdown" ]; then write_markdown >"$markdown"; fi
