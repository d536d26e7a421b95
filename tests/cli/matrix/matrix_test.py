#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills the cells of table.py: runs the program as people type it, and compares.

Usage: matrix_test.py KIND PROGRAM...      a kind of model, with all types of weights and cache
       matrix_test.py programs BUILD.json PROGRAM...    the columns that compile models in
       matrix_test.py whole PROGRAM...     whether the table has all commands and options
       matrix_test.py kinds                prints their names
PROGRAM may be several words: valgrind -q --error-exitcode=9 build/arenite
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import file_columns  # noqa: F401, which adds its columns
import programs
import table
from columns import COLUMNS
from rows import Refused, Row, Wrong, arenite


def check(cell, fill):
    """What is wrong with a cell, or nothing. `fill` does what is in it."""
    try:
        fill()
    except Refused as refused:
        if cell == table.RIGHT:
            return f"refused, {refused}"
        code, reason = table.REFUSALS[cell]
        if refused.code == code and reason in " ".join(refused.message.split()):
            return None
        return f"refused with other words than {reason!r}, {refused}"
    except Wrong as wrong:
        return str(wrong)
    return None if cell == table.RIGHT else f"not refused: {table.REFUSALS[cell][1]!r} was expected"


def check_kind(kind, program):
    """Of the variants that the environment names, or of all."""
    wrong = []
    for variant in os.environ.get("ARENITE_VARIANTS", "").split() or table.VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            row = Row(program, kind, variant, Path(folder))
            for column, cell in table.cells_of(kind, variant).items():
                if column in programs.PROGRAMS:
                    continue
                problem = check(cell, lambda: COLUMNS[column](row))
                if problem:
                    wrong.append(f"{row.name}, {column}: {problem}")
    return wrong


def check_programs(build, program):
    """All rows are in one program of each of these columns."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for kind in table.KINDS:
            for variant in table.VARIANTS:
                place = Path(folder) / f"{kind}_{variant}"
                place.mkdir()
                rows.append(Row(program, kind, variant, place, targets="native"))
        for column, make in programs.PROGRAMS.items():
            place = Path(folder) / column.replace(" ", "")
            place.mkdir()
            made = make(rows, place, build)
            for row in rows:
                problem = check(table.RIGHT, lambda: programs.run(column, made, row))
                if problem:
                    wrong.append(f"{row.name}, {column}: {problem}")
    return wrong


def options_of(program):
    """{command: its options}, as the completions have them."""
    def words(*typed):
        lines = arenite(program, ["help", "--complete", "--", *typed])
        return [line.split("\t")[0] for line in lines.splitlines()]
    return {command: [word for word in words(command, "--") if word.startswith("--")]
            for command in words("")}


def check_whole(program):
    options = options_of(program)
    wrong = [] if len(options) > 10 else ["the completions name no options"]
    columns = set(table.columns())
    covered = {command: set(names) for command, names in table.ALSO_GIVEN.items()}
    for column in columns:
        command, *names = column.split()
        covered.setdefault(command, set()).update(names)
        if column not in COLUMNS and column not in programs.PROGRAMS:
            wrong.append(f"nothing fills the column {column!r}")
    for column in [*COLUMNS, *programs.PROGRAMS]:
        if column not in columns:
            wrong.append(f"the table has no column {column!r}")
    for command, names in options.items():
        if command in table.NO_MODEL:
            continue
        missing = sorted(set(names) - covered.get(command, set()))
        wrong += [f"the table has no column '{command} {name}'" for name in missing]
        if command not in covered:
            wrong.append(f"the table has no column '{command}'")
    return wrong


def main():
    if sys.argv[1:] == ["kinds"]:
        print("\n".join(table.KINDS))
        return 0
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    what, *words = sys.argv[1:]
    if what == "programs":
        build = json.loads(Path(words[0]).read_text())
        wrong = check_programs({key: text.split() for key, text in build.items()}, words[1:])
    else:
        wrong = check_whole(words) if what == "whole" else check_kind(what, words)
    print("\n".join(wrong) or "all cells are as the table has them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
