#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests that count what they try, and writes how much that was to NAME.json, beside this file.

Usage: counted.py faults|bits|races|builds|kernels BUILD
"""

import datetime
import json
import os
import re
import sys
from pathlib import Path

from recorded import FOLDER, ROOT, output_of, run_tests, total, write


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


def kernels(build):
    """Whole models run on each kernel set that this CPU has, and on stand-ins for all. Sets that it
    lacks keep what another CPU has written."""
    said = output_of(build / "tests" / "runtime" / "forced_kernels_tests")
    names = re.findall(r"OK \] .*\.RunWholeModels/(\w+)", said)
    stand_ins = [name for name in names if name.startswith("like_")]
    cpu = dict(re.findall(r"(?m)^(vendor_id|cpu family|model|model name)\s*: (.*)$",
                          Path("/proc/cpuinfo").read_text(encoding="utf-8")))
    here = {"cpu": f"{cpu['model name']}, family {cpu['cpu family']}, model {cpu['model']}",
            "date": datetime.date.today().isoformat()}
    file = FOLDER / "kernels.json"
    sets = json.loads(file.read_text(encoding="utf-8"))["sets"] if file.exists() else {}
    sets.update({name: here for name in names if name not in stand_ins})
    rows = "".join(f"| {name} | {run['cpu']} | {run['date']} |\n" for name, run in sets.items())
    details = ("## Kernel sets\n\nWhere each was last run on a real CPU. Others are run in "
               "emulators (make test-arm64 and its\nlike), where these have them, and as stand-ins "
               "in plain C++.\n\n| kernel set | CPU | date |\n|---|---|---|\n" + rows)
    summary = {"promise": "all kernel sets", "tested": "whole models",
               "amount": f"{len(names) - len(stand_ins)} real, {len(stand_ins)} stand-ins",
               "command": "make test-kernel-sets"}
    write("kernels", [summary], details, sets=sets)


def main():
    if sys.argv[1:2] == ["kernels"] and len(sys.argv) == 3:
        kernels(Path(sys.argv[2]))
        return 0
    figures = {"faults": faults, "bits": bits, "races": races, "builds": builds}
    if len(sys.argv) != 3 or sys.argv[1] not in figures:
        print(__doc__, file=sys.stderr)
        return 2
    write(sys.argv[1], [figures[sys.argv[1]](Path(sys.argv[2]))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
