#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the lines, branches and conditions (MC/DC) of the runtime that the tests run.

Writes tests/figures/coverage.json. In the folders of COMPLETE every branch must be taken both ways,
except those that exceptions.txt lists with a reason; one that is taken, or gone, is an error there.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict

from areas import (BUILD, ROOT, RUNTIME, arguments_of, build_library, environment_with,
                   link_programs, stamp)

COMPILER = "clang++-19"
COMPLETE = ("format", "session")
FOLDER = BUILD / "coverage"
EXCEPTIONS = ROOT / "tests/coverage/exceptions.txt"
# Atomic: threads that count at once would lose counts, and Clang derives others from them.
FLAGS = ["-O1", "-fprofile-instr-generate", "-fprofile-update=atomic", "-fcoverage-mapping",
         "-fcoverage-mcdc"]


def run_tests(programs):
    """Runs all programs, each with counts of its own; those of an earlier run are dropped."""
    for old in FOLDER.glob("*.profraw"):
        old.unlink()
    for name, program in programs.items():
        options = [] if name in RUNTIME.whole else [
            "--gtest_brief=1", f"--gtest_filter=-{RUNTIME.left_out}"]
        print(f"running {name}", flush=True)
        done = subprocess.run(
            [program, *arguments_of(name), *options], cwd=program.parent, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment_with(LLVM_PROFILE_FILE=FOLDER / f"{name}-%m.profraw"))
        if done.returncode:
            sys.exit(f"{done.stdout[-3000:]}\n{name} failed, so its coverage means nothing")


def exported(library):
    """What llvm-cov knows of each file of the runtime: {path below runtime/: its record}."""
    profile = FOLDER / "merged.profdata"
    subprocess.run(["llvm-profdata-19", "merge", "-o", profile, *FOLDER.glob("*.profraw")],
                   check=True)
    answer = subprocess.run(["llvm-cov-19", "export", f"-instr-profile={profile}", library],
                            stdout=subprocess.PIPE, check=True)
    files = json.loads(answer.stdout)["data"][0]["files"]
    prefix = str(RUNTIME.folder) + os.sep
    return {file["filename"].removeprefix(prefix): file for file in files
            if file["filename"].startswith(prefix)}


def branches_of(file):
    """[(line, column, end line, end column), (taken, not taken)] of each condition; instances of a
    template are one. What the compiler knew is not counted: neither way, in a line that is run."""
    counts = defaultdict(lambda: [0, 0])
    for begin, column, end, end_column, taken, refused, *_ in file["branches"]:
        both = counts[begin, column, end, end_column]
        both[0] += taken
        both[1] += refused
    return sorted(counts.items())


def is_run(file, line, column):
    """Whether the code at a place is run: the count of the last segment that begins before it."""
    before = [s for s in file["segments"] if (s[0], s[1]) <= (line, column) and s[3]]
    return bool(before) and before[-1][2] > 0


def uncovered(path, file):
    """Each way that no test takes: ((path, text of the condition, way), line)."""
    lines = (RUNTIME.folder / path).read_text().splitlines()
    for (line, column, end, end_column), (taken, refused) in branches_of(file):
        if not taken and not refused and is_run(file, line, column):
            continue
        text = lines[line - 1][column - 1:end_column - 1 if end == line else None]
        if not taken:
            yield (f"runtime/{path}", text, "true"), line
        if not refused:
            yield (f"runtime/{path}", text, "false"), line


def read_exceptions():
    """(path, condition, way): line. A line of the file: path:line | condition | way | reason."""
    found = {}
    for row in EXCEPTIONS.read_text().splitlines():
        if row and not row.startswith("#"):
            place, condition, way, reason = row.split(" | ", 3)
            path, line = place.split(":")
            if not reason.strip():
                sys.exit(f"{EXCEPTIONS.name}: no reason: {row}")
            found[path, condition, way, int(line)] = reason
    return found


def compare(files):
    """Prints what is wrong; gives back the number of exceptions, or None."""
    missing = {(*key, line) for path, file in files.items()
               if path.split("/")[0] in COMPLETE for key, line in uncovered(path, file)}
    exceptions = read_exceptions()
    for path, condition, way, line in sorted(missing - set(exceptions), key=lambda m: (m[0], m[3])):
        print(f"not covered: {path}:{line} | {condition} | {way}")
    for path, condition, way, line in sorted(set(exceptions) - missing, key=lambda m: (m[0], m[3])):
        print(f"covered or changed, but listed: {path}:{line} | {condition} | {way}")
    return len(exceptions) if missing == set(exceptions) else None


def folder_counts(files):
    """{folder: {kind: [covered, all]}}"""
    folders = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for path, file in files.items():
        counts = folders[path.split("/")[0]]
        for kind, name in (("lines", "lines"), ("conditions", "mcdc")):
            summary = file["summary"][name]
            counts[kind][0] += summary["covered"]
            counts[kind][1] += summary["count"]
        ways = 2 * sum(1 for (line, column, *_), both in branches_of(file)
                       if any(both) or not is_run(file, line, column))
        counts["branches"][1] += ways
        counts["branches"][0] += ways - sum(1 for _ in uncovered(path, file))
    return {name: dict(counts) for name, counts in sorted(folders.items())}


def share(covered, total):
    return f"{100 * covered / total:.1f} %" if total else "none"


def write_figures(folders, exceptions):
    kinds = ("lines", "branches", "conditions")
    total = {kind: [sum(counts[kind][i] for counts in folders.values()) for i in (0, 1)]
             for kind in kinds}
    rows = ["| folder | lines | branches | MC/DC |", "|---|---|---|---|"]
    rows += [f"| {name} | " + " | ".join(
        f"{share(*counts[kind])} of {counts[kind][1]}" for kind in kinds) + " |"
        for name, counts in [*folders.items(), ("all", total)]]
    command = {"command": "make coverage"}
    data = {**stamp(COMPILER), "folders": folders, "exceptions": exceptions, "summary": [
        {"promise": "tests reach the runtime", "tested": "branches, MC/DC", **command,
         "amount": f"{share(*total['branches'])}, {share(*total['conditions'])}"},
        {"promise": "tests reach format, session", "tested": "branches", **command,
         "amount": f"{exceptions} missed, explained"}],
        "details": "## Coverage of the runtime, by folder\n\n" + "\n".join(rows)}
    figures = ROOT / "tests/figures/coverage.json"
    figures.parent.mkdir(exist_ok=True)
    figures.write_text(json.dumps(data, indent=1) + "\n")
    print("\n".join(rows))


def main():
    library = FOLDER / "libarenite_coverage.so"
    build_library(RUNTIME, library, COMPILER, FLAGS, ["-fprofile-instr-generate"])
    run_tests(link_programs(RUNTIME, library))
    files = exported(library)
    exceptions = compare(files)
    if exceptions is None:
        sys.exit("tests/coverage/exceptions.txt differs from what the tests reach")
    write_figures(folder_counts(files), exceptions)


if __name__ == "__main__":
    main()
