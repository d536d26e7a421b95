#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests that count what they try, and writes how much that was to NAME.json, beside this file.

Usage: counted.py faults|bits|races|builds BUILD
"""

import os
import re
import sys
from pathlib import Path

from recorded import ROOT, output_of, run_tests, total, write


def faults(build):
    """Every call of every command that writes fails once, and kills once."""
    os.environ["ARENITE_EVERY_CALL"] = "1"
    tests = run_tests(build / "tests" / "cli" / "commands_tests", "*FileFaults*")
    return {"promise": "no half-written output", "tested": "failing calls, kills",
            "amount": f"{total(tests, 'faults'):,} faults", "command": "make test-faults"}


def bits(build):
    """Every kind of model is fed in every way, with every kernel set of this CPU."""
    tests = run_tests(build / "tests" / "runtime" / "session_tests", "*SameBits*")
    return {"promise": "same bits, however fed", "tested": "threads, chunks, batch",
            "amount": f"{total(tests, 'ways'):,} ways", "command": "make test-bits"}


def races(build):
    """What uses threads, sessions beside each other and commands, under ThreadSanitizer."""
    programs = ["runtime/attention_tests", "runtime/ops_tests", "runtime/session_tests",
                "cli/commands_tests"]
    tests = [test for program in programs for test in run_tests(build / "tests" / program, "*")]
    return {"promise": "no data races", "tested": "ThreadSanitizer",
            "amount": f"{len(tests):,} tests", "command": "make test-tsan-cli"}


def builds(_):
    """Two builds in two folders, without a cache of objects."""
    said = output_of(ROOT / "tests" / "package" / "two_builds.sh")
    files, size = re.search(r"(\d+) files of two builds are the same, (\d+) bytes", said).groups()
    return {"promise": "any build, the same bytes", "tested": "two folders",
            "amount": f"{files} files, {int(size) / 1e6:.2f} MB", "command": "make reproducible"}


def main():
    figures = {"faults": faults, "bits": bits, "races": races, "builds": builds}
    if len(sys.argv) != 3 or sys.argv[1] not in figures:
        print(__doc__, file=sys.stderr)
        return 2
    write(sys.argv[1], [figures[sys.argv[1]](Path(sys.argv[2]))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
