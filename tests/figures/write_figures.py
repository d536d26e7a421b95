#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the measured figures, tests/figures/*.json: tests/FIGURES.md, tests/fuzz/FIGURES.md.

Each JSON file is written by one long-running target of the Makefile, and says when, with which
compiler and of which commit: "date", "compiler", "commit". fuzz.json holds counts for each target.
Any other file says itself what it has to tell, in "summary", a list of rows:
  {"promise": "...", "tested": "how", "amount": "how much", "command": "make ..."}
and optionally in "details", Markdown that goes below the table. A row of the table has at most 100
bytes, so be brief: the four together have room for 75.
"""

import json
import sys
import textwrap
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TESTS = FOLDER.parent
COLUMNS_MAX = 100
# The order of the table; files that are not named follow.
ORDER = ["fuzz", "damage", "faults", "bits", "kernels", "races", "bounds", "coverage", "mutation",
         "mutation_exported", "builds"]
MADE = "<!-- Made by tests/figures/write_figures.py; not to be edited. -->\n"


def number(value):
    return f"{value:,}"


def hours(seconds):
    return f"{seconds / 3600:.2f}"


def when(data):
    return f"{data.get('date', '?')}, {data.get('compiler', '?')}, commit {data.get('commit', '?')}"


def fuzz_rows(data):
    """The rows of the table that the fuzzers' counts give: what reads models, all that reads bytes,
    and those whose inputs are changes to programs."""
    targets = data["targets"]
    model = [row for name, row in targets.items() if name.startswith("model_")]
    programs = [row for row in targets.values() if "stages" in row]

    def row(promise, targets):
        executions = sum(target["executions"] for target in targets)
        open_findings = sum(len(target["open"]) for target in targets)
        return {"promise": promise, "tested": "sanitizers",
                "amount": f"{number(executions)} runs, {open_findings} open",
                "command": "make fuzz-all"}

    rows = [row("any bytes as a model file", model),
            row("any bytes, all readers", [t for t in targets.values() if "stages" not in t])]
    return rows + [row("changed programs", programs)] if programs else rows


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def stages(name, row):
    """How far the inputs of a target got, where it says so."""
    counts = row.get("stages", {})
    if not counts:
        return ""
    total = sum(counts.values())
    rows = [[stage, number(count), f"{100 * count / total:.1f} %"]
            for stage, count in counts.items()]
    return (f"\n## How far inputs of `{name}` got\n\n"
            "Each is read, followed at two lengths, lowered, packed, loaded and run, up to where "
            "it is\nrefused; one in eight is compared with its program, too.\n\n" +
            table(["end", "executions", "share"], rows))


def fuzz_page(data):
    rows = []
    for name, row in sorted(data["targets"].items()):
        rate = row["executions"] / row["seconds"] if row["seconds"] else 0
        rows.append([f"`{name}`", number(row["executions"]), hours(row["seconds"]), f"{rate:.0f}",
                     number(row["edges"]), len(row["open"]), row["fixed"]])
    total = [sum(row[key] for row in data["targets"].values()) for key in ("executions", "seconds")]
    rows.append(["all", number(total[0]), hours(total[1]), "", "",
                 sum(len(row["open"]) for row in data["targets"].values()),
                 sum(row["fixed"] for row in data["targets"].values())])
    header = ["target", "executions", "hours of a core", "per second", "edges", "open findings",
              "inputs fixed"]
    return (MADE + "# Figures of fuzzing\n\n"
            "Over all runs since 27 November 2026, when most of the format was new, with "
            "libFuzzer,\nAddressSanitizer and UBSan. Edges are those that the inputs of the last "
            "turn cover.\n`make fuzz-all HOURS=h` adds to these figures.\n\n"
            f"Last run: {when(data)}.\n\n" + table(header, rows) +
            "".join(stages(name, row) for name, row in sorted(data["targets"].items())))


def figures_page(files):
    rows = []
    sources = []
    details = []
    for name, data in files:
        summary = fuzz_rows(data) if name == "fuzz" else data.get("summary", [])
        for row in summary:
            rows.append([row["promise"], f"`{row['command']}`: {row['tested']}", row["amount"],
                         data.get("date", "?")])
        sources.append(f"* {name}: {when(data)}")
        if data.get("details"):
            details.append(data["details"].strip() + "\n")
    lines = table(["promise", "how it is tested", "how much", "when"], rows)
    for line in lines.splitlines():
        if len(line.encode()) > COLUMNS_MAX:
            print(f"write_figures.py: too long for the table: {line}", file=sys.stderr)
    sources = [textwrap.fill(s, COLUMNS_MAX, subsequent_indent="  ", break_on_hyphens=False)
               for s in sources]
    page = (MADE + "# Figures\n\nWhat Arenite promises, how that is tested, and how much of it has "
            "been done. Each command makes\nits figures again.\n\n" + lines +
            "\nMeasured last:\n\n" + "\n".join(sources) + "\n")
    if any(name == "fuzz" for name, _ in files):
        page += "\nFor each fuzzer: [tests/fuzz/FIGURES.md](fuzz/FIGURES.md).\n"
    return "\n".join([page, *details])


def pages():
    """The pages as the measured figures make them, by their paths below tests/."""
    def place(file):
        return (ORDER.index(file.stem) if file.stem in ORDER else len(ORDER), file.stem)

    files = [(f.stem, json.loads(f.read_text())) for f in sorted(FOLDER.glob("*.json"), key=place)]
    made = {"FIGURES.md": figures_page(files)}
    made |= {"fuzz/FIGURES.md": fuzz_page(data) for name, data in files if name == "fuzz"}
    return made


def main():
    for path, text in pages().items():
        (TESTS / path).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
