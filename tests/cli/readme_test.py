#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the transcripts of README.md and compares what they show with what the program prints.

Usage: readme_test.py PROGRAM [--update]
A transcript is a block of code that begins with "$ build/arenite". A line of dots stands for any
further lines. --update writes what was printed into README.md instead. Numbers are those of the
AVX2 kernels: on other machines the test is skipped (exit code 77).
"""

import difflib
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
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
    return result.stdout


def with_dots(printed, shown):
    """What was printed, cut where dots stand in what the page shows."""
    if not shown.endswith(DOTS):
        return printed
    return "".join(printed.splitlines(True)[:shown.count("\n") - 1]) + DOTS


def run_again(transcript, folder):
    return "".join(f"$ {command}{with_dots(printed_by(command, folder), shown)}"
                   for command, shown in steps_of(transcript))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    cpu = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not cpu.exists() or " avx2 " not in cpu.read_text():
        print("skipped: this CPU has no AVX2")
        return SKIPPED
    page = README.read_text()
    if not TRANSCRIPT.search(page):
        sys.exit("README.md has no transcript")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build").mkdir()
        (folder / "build/arenite").symlink_to(Path(sys.argv[1]).resolve())
        (folder / "models").symlink_to(ROOT / "models")
        fresh = TRANSCRIPT.sub(lambda found: run_again(found.group(), folder), page)
    if "--update" in sys.argv:
        README.write_text(fresh)
    elif fresh != page:
        sys.stdout.writelines(difflib.unified_diff(page.splitlines(True), fresh.splitlines(True),
                                                   "README.md", "what the program prints"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
