#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the transcripts of PAGES and compares what they show with what the program prints.

Usage: readme_test.py PROGRAM [--update]
A transcript is a block of code that begins with "$ build/arenite". A line of dots stands for any
further lines. --update writes what was printed instead. Numbers are those of the AVX2 kernels: on
other machines the test is skipped (exit code 77).
"""

import difflib
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / folder / "README.md" for folder in (
    ".", "tools/convert", "runtime", "examples/quantization", "examples/debugging",
    "examples/from_onnx", "examples/from_hub")]
TRANSCRIPT = re.compile(r"(?<=```\n)\$ build/arenite.*?(?=```\n)", re.S)
DOTS = "...\n"
SKIPPED = 77


def steps_of(transcript):
    """Yields (lines of the command, lines of its output)."""
    for step in re.split(r"(?m)^\$ ", transcript)[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n", step).group()
        yield command, step[len(command):]


def printed_by(command, folder):
    result = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        sys.exit(f"'{command.strip()}' fails: {result.stderr}")
    # What a CPU with AVX-VNNI runs the same file with.
    return result.stdout.replace("avxvnni", "avx2   ")


def with_dots(printed, shown):
    """What was printed, cut where dots stand in what the page shows."""
    if not shown.endswith(DOTS):
        return printed
    return "".join(printed.splitlines(True)[:shown.count("\n") - 1]) + DOTS


def run_again(transcript, folder):
    return "".join(f"$ {command}{with_dots(printed_by(command, folder), shown)}"
                   for command, shown in steps_of(transcript))


def compare(file, shown, fresh):
    """Whether they are the same; prints how they differ."""
    name = str(file.relative_to(ROOT))
    sys.stdout.writelines(difflib.unified_diff(shown.splitlines(True), fresh.splitlines(True),
                                               name, "what the program makes"))
    return shown == fresh


def in_fresh_folder(program, work):
    """Calls work(folder) where the program and the models are as the pages have them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build").mkdir()
        (folder / "build/arenite").symlink_to(Path(program).resolve())
        (folder / "models").symlink_to(ROOT / "models")
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "tests").symlink_to(ROOT / "tests")
        return work(folder)


def fresh_page(text):
    return lambda folder: TRANSCRIPT.sub(lambda found: run_again(found.group(), folder), text)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    cpu = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not cpu.exists() or " avx2 " not in cpu.read_text():
        print("skipped: this CPU has no AVX2")
        return SKIPPED
    fresh = {}
    for page in PAGES:
        text = page.read_text()
        if not TRANSCRIPT.search(text):
            sys.exit(f"{page} has no transcript")
        fresh[page] = in_fresh_folder(sys.argv[1], fresh_page(text))
    if "--update" in sys.argv:
        for file, text in fresh.items():
            file.write_text(text)
        return 0
    return 0 if all([compare(file, file.read_text(), text) for file, text in fresh.items()]) else 1


if __name__ == "__main__":
    sys.exit(main())
