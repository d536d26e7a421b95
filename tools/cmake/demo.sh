#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demonstration behind `make demo`: a small language model, an encoder and a single attention
# module, from their checkpoints to their answers. Usage: demo.sh BUILD_FOLDER
set -eu
export LC_ALL=C
build=$1
intent=$build/demo/intent.arn
model=$build/demo/recall.arn
mkdir -p "$build/demo"

say() { printf '\n# %s\n' "$*"; }
run() {
  printf '$ %s\n' "$*"
  "$@"
}

# Converts to the second argument. The report goes to a file; what it says of memory is shown.
convert() {
  from=$1
  to=$2
  shift 2
  report=${to%.arn}.txt
  printf '$ %s convert %s -o %s%s >%s\n' "$build/arenite" "$from" "$to" "${*:+ $*}" "$report"
  "$build/arenite" convert "$from" -o "$to" "$@" >"$report"
  sed -n 's/^target *//p; s/^file *//p' "$report"
}

# The values of a float32 .npy file, one in each line. Its header says at byte 8 how long it is.
floats() {
  header=$(od -An -tu2 -j8 -N2 "$1")
  od -An -v -w4 -tf4 -j$((header + 10)) "$1"
}

# Asks the language model for an action line, which must be the second argument.
ask() {
  printf "\n$ %s generate %s --special --no-prompt --prompt '%s<|do|>'\n" \
    "$build/arenite" "$intent" "$1"
  answer=$("$build/arenite" generate "$intent" --special --no-prompt --prompt "$1<|do|>" \
    2>"$build/demo/rates.txt")
  printf '%s\n' "$answer"
  if [ "$answer" != "$2" ]; then
    printf 'expected %s\n' "$2"
    exit 1
  fi
}

say 'Convert a trained language model, its tokenizer included: household commands to actions'
convert models/home-intent "$intent"

say 'Does this machine compute what it should? The file brings its own test'
run "$build/arenite" verify "$intent"

say 'Ask it: prompt to tokens to words, in an arena of that size'
ask 'dim the bedroom lamp to thirty percent' 'light.bedroom.brightness=30'
ask 'could you please switch off all the lights' 'light.all.power=off'
ask 'it is too cold in the bathroom' 'heat.bathroom.temperature=up'
cat "$build/demo/rates.txt"

say 'Convert a trained encoder: vibrations of a machine to what is wrong with it'
convert models/vibration "$build/demo/vibration.arn"

say 'Classify a window of each class, in order; it misses the third, a mild looseness'
run "$build/arenite" classify "$build/demo/vibration.arn" --input models/vibration/input.npy

say 'The same encoder compiled into a program, frame by frame, in a static arena'
printf '$ tail -c +129 models/vibration/stream.npy | %s\n' "$build/examples/sensor/sensor"
tail -c +129 models/vibration/stream.npy | "$build/examples/sensor/sensor"

say 'Convert a trained attention module: pack its weights for this CPU, compile its mask'
convert models/recall/recall.safetensors "$model" --heads 2

say 'What is in the file, and the memory it will need: to the byte, before anything runs'
run "$build/arenite" inspect "$model" --brief

say 'Run it on four sequences, and compare with the output of a float64 reference'
run "$build/arenite" run "$model" --input models/recall/input.npy --output "$build/demo/output.npy"
floats "$build/demo/output.npy" >"$build/demo/output.txt"
floats models/recall/expected_output.npy >"$build/demo/expected_output.txt"
paste "$build/demo/output.txt" "$build/demo/expected_output.txt" | awk '
  { difference = $1 > $2 ? $1 - $2 : $2 - $1 }
  difference > largest { largest = difference }
  { size = $2 < 0 ? -$2 : $2 }
  size > largest_size { largest_size = size }
  END {
    printf "%d numbers up to %.2f; largest difference %.1e\n", NR, largest_size, largest
    exit !(largest < 1e-5)
  }'

say 'The same model compiled into a program, token by token, in a static arena'
run "$build/examples/hello/hello"

say 'Next, a model of your own: README.md says how PyTorch writes model.pt2'
printf '$ %s convert model.pt2 -o model.arn\n' "$build/arenite"
printf '$ %s help\n' "$build/arenite"
