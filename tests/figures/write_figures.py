#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the measured figures, tests/figures/*.json: tests/FIGURES.md, tests/fuzz/FIGURES.md, and
the table between marks in README.md, where budgets of tests/style/size_budget.txt are, too.

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
ROOT = FOLDER.parents[1]
sys.path.append(str(ROOT / "tests/style"))
from size_report import budgets  # noqa: E402

COLUMNS_MAX = 100
# The order of the table; files that are not named follow.
ORDER = ["speed", "fuzz", "damage", "faults", "bits", "kernels", "races", "bounds", "coverage",
         "mutation", "mutation_exported", "builds"]
MADE = "<!-- Made by tests/figures/write_figures.py; not to be edited. -->\n"
README_MARKS = MADE, "<!-- End of what write_figures.py makes. -->\n"


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


def readme_table(measured, allowed):
    """What README.md shows of the figures by their files' names, and of budgets of sizes."""
    x86, m7, terse = (number(allowed[part]) for part in (
        ("x86-64", "runtime"), ("cortex-m7", "runtime"), ("cortex-m7", "terse")))
    rows = [["code and constants, x86-64, `-Os`", f"at most {x86} bytes", "`make size`", "budget"],
            ["the same, Cortex-M7", f"at most {m7}; {terse} without diagnostic strings",
             "`make size`", "budget"]]
    speed = measured.get("speed")
    if speed:
        rates, ran = speed["rates"], f"{speed['date']}, {speed['cpu']}"
        ran = ran.replace(" Processor", "").replace("(R)", "")
        decode, prompt = rates["decode 1"], rates["prompt 1"]
        rows.append(["GPT-2-small, float32, a prompt of 512",
                     f"{prompt['f32']:.0f} tokens/s, {100 * rates['peak']['f32']:.0f} % of peak "
                     "FLOP/s", "`make bench`", ran])
        rows.append(["the same, a token",
                     f"{decode['f32']:.0f} tokens/s, {100 * rates['share']['f32']:.0f} % of read "
                     "bandwidth", "`make bench`", ran])
        for weights in ("q8", "q4"):
            rows.append([f"{weights} to float32, a prompt, a token",
                         f"{prompt[weights] / prompt['f32']:.1f}, "
                         f"{decode[weights] / decode['f32']:.1f} times as fast", "`make bench`",
                         ran])
    fuzz, damage, coverage = measured["fuzz"], measured["damage"], measured["coverage"]
    targets = fuzz["targets"].values()
    inputs = sum(target["executions"] for target in targets)
    findings = sum(len(target["open"]) for target in targets)
    rows.append(["damaged files that were loaded", number(damage["variants"]), "`make damage`",
                 damage["date"]])
    rows.append(["fuzzed inputs, open findings", f"{number(inputs)}, {findings}", "`make fuzz-all`",
                 fuzz["date"]])
    rows.append(["untested branches, format and session", coverage["exceptions"],
                 "`make coverage`", coverage["date"]])
    return table(["what", "measured", "by", "when, CPU"], rows)


def readme_page(text, measured, allowed):
    """README.md with a fresh table between its marks."""
    first, last = README_MARKS
    if first not in text or last not in text:
        raise SystemExit("README.md lacks the marks around its table of figures")
    before, rest = text.split(first, 1)
    return before + first + readme_table(measured, allowed) + last + rest.split(last, 1)[1]


def pages():
    """The pages as the measured figures make them, by their paths."""
    def place(file):
        return (ORDER.index(file.stem) if file.stem in ORDER else len(ORDER), file.stem)

    files = [(f.stem, json.loads(f.read_text())) for f in sorted(FOLDER.glob("*.json"), key=place)]
    made = {"tests/FIGURES.md": figures_page(files)}
    made |= {"tests/fuzz/FIGURES.md": fuzz_page(data) for name, data in files if name == "fuzz"}
    made["README.md"] = readme_page((ROOT / "README.md").read_text(), dict(files), budgets())
    return made


def main():
    for path, text in pages().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
