#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests that count what they try, and writes how much that was to NAME.json, beside this file.

Usage: counted.py faults|bits BUILD
"""

import os
import sys
from pathlib import Path

from recorded import run_tests, total, write


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


def main():
    figures = {"faults": faults, "bits": bits}
    if len(sys.argv) != 3 or sys.argv[1] not in figures:
        print(__doc__, file=sys.stderr)
        return 2
    write(sys.argv[1], [figures[sys.argv[1]](Path(sys.argv[2]))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
