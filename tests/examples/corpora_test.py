#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows examples/corpora: GNU parallel embeds 100,000 lines, and one worker dies midway.

Usage: corpora_test.py ROOT ARENITE
Every line must be answered once, in order, as one process answers it, by which memory does not
grow.
"""
import json
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile

ROOT, ARENITE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
LINES = 100_000
WORDS = "the pump is loud a noisy we ran home in rain rainy".split()
# The first worker answers some lines and is killed; all others are the program.
WORKER = """#!/bin/sh
if mkdir died 2>/dev/null; then
  '{program}' "$@" | head -n 100
  kill -9 $$
fi
exec '{program}' "$@"
"""


def write_corpus(path):
    draw = random.Random(1)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(LINES):
            line = {"id": i, "text": " ".join(draw.choices(WORDS, k=draw.randint(1, 6)))}
            file.write("no JSON\n" if i == 5000 else json.dumps(line) + "\n")


def peak_bytes(folder, lines):
    """The most memory that one process holds for so many lines of the corpus; writes one.jsonl."""
    script = (f"head -n {lines} corpus.jsonl | build/arenite embed-text sentences.arn --json-lines "
              "--on-error skip >one.jsonl")
    subprocess.run(["sh", "-c", script], cwd=folder, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def main():
    page = (ROOT / "examples/corpora/README.md").read_text(encoding="utf-8")
    command = re.search(r"```sh\n(split .*?)```", page, re.S)[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([ARENITE, "convert", ROOT / "tests/cli/matrix/data/sentence", "-o",
                        folder / "sentences.arn"], check=True, stdout=subprocess.DEVNULL)
        write_corpus(folder / "corpus.jsonl")
        (folder / "build").mkdir()
        program = folder / "build/arenite"
        program.symlink_to(ARENITE)
        few = peak_bytes(folder, 2000)
        many = peak_bytes(folder, LINES)
        assert many < few + 4e6, f"memory grew from {few} to {many} bytes"
        program.unlink()
        program.write_text(WORKER.format(program=ARENITE), encoding="utf-8")
        program.chmod(0o755)
        subprocess.run(["sh", "-c", command], cwd=folder, check=True)
        assert (folder / "died").exists(), "no worker died"
        one = (folder / "one.jsonl").read_text(encoding="utf-8")
        answers = (folder / "vectors.jsonl").read_text(encoding="utf-8")
        # A worker counts the lines of its own part.
        numbers = re.compile(r"input, line \d+")
        assert numbers.sub("", one) == numbers.sub("", answers), "the answers differ"
        found = [json.loads(line).get("id") for line in answers.splitlines()]
        assert found == [None if i == 5000 else i for i in range(LINES)], "ids are not in order"
    print(f"{LINES} lines, each answered once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
