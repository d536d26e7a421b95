#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what the shards of damage_every counted, and writes it as one JSON file.

Usage: add_shards.py FOLDER_OF_SHARDS N OUTPUT
"""

import datetime
import json
import subprocess
import sys
import textwrap
from pathlib import Path

COLUMNS_MAX = 100
ROOT = Path(__file__).resolve().parents[2]
FATES = ("refused", "too_large", "ran")


def add(sums, counts):
    for fate in FATES:
        sums[fate] = sums.get(fate, 0) + counts[fate]


def model_figures(parts):
    """Of one model, whose variants each shard has a part of."""
    if any((part["crc"], part["variants"]) != (parts[0]["crc"], parts[0]["variants"])
           for part in parts):
        sys.exit("add_shards.py: the shards are of different models; run all of them again")
    kinds = {}
    for part in parts:
        for kind, counts in part["counts"].items():
            add(kinds.setdefault(kind, {}), counts)
    total = {}
    for counts in kinds.values():
        add(total, counts)
    repaired = sum(kinds["checksums and formulas right"].values())
    return {"enumerated": parts[0]["variants"], "taken": sum(total.values()) - repaired,
            "repaired": repaired, "fates": total, "kinds": kinds}


def commit_of_runtime():
    """The last one that changed what was loaded into and ran."""
    def git(*arguments):
        return subprocess.run(["git", *arguments, "--", "runtime"], cwd=ROOT, text=True,
                              capture_output=True, check=False).stdout.strip()
    return git("log", "-1", "--format=%h") + (", and changes" if git("status", "-s") else "")


def table(header, fates_of):
    lines = [f"| {header} | variants | refused | too large | ran |", "|---|---|---|---|---|"]
    for name, fates in fates_of.items():
        cells = [sum(fates.values())] + [fates[fate] for fate in FATES]
        lines.append(f"| {name} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def details(models, total):
    kinds = {}
    for model in models.values():
        for kind, counts in model["kinds"].items():
            add(kinds.setdefault(kind, {}), counts)
    fates_of_models = {name: model["fates"] for name, model in models.items()}
    text = ("Small models, each damaged in every way of these kinds, with the checksum of the "
            "metadata right again. What load accepts runs between guard pages: with one set of "
            "options where its program is the sound model's, else with several, and until its "
            "context is full; and its tokenizer is used where that is not the sound model's. A "
            "fault, a refusal without a reason or 20 seconds of CPU time end a shard, so what is "
            "counted is without findings.")
    return "\n".join(["## Damaged metadata", "", textwrap.fill(text, COLUMNS_MAX), "",
                      table("model", fates_of_models | {"all": total}),
                      table("damage", kinds)])


def figures(shards):
    if len({(shard["program"], shard["compiler"]) for shard in shards}) != 1:
        sys.exit("add_shards.py: the shards are of different programs; run all of them again")
    names = sorted({name for shard in shards for name in shard["models"]})
    models = {}
    for name in names:
        parts = [shard["models"][name] for shard in shards if name in shard["models"]]
        models[name] = model_figures(parts)
    total = {}
    for model in models.values():
        add(total, model["fates"])
    done = sum(model["taken"] for model in models.values())
    all_there_are = sum(model["enumerated"] for model in models.values())
    variants = sum(total.values())
    share = "" if done == all_there_are else f" ({100 * done // all_there_are} % of all)"
    return {
        "summary": [{"promise": "any damage of metadata",
                     "tested": "bytes, cuts, swaps",
                     "amount": f"{variants:,} files{share}",
                     "command": "make damage"}],
        "details": details(models, total),
        "date": datetime.date.today().isoformat(),
        "commit": commit_of_runtime(),
        "compiler": shards[0]["compiler"],
        "cpu_seconds": round(sum(shard["seconds"] for shard in shards)),
        "variants": variants,
        "complete": done == all_there_are,
        "fates": total,
        "models": models,
    }


def main():
    folder, count, output = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    files = [folder / f"shard-{i}-of-{count}.json" for i in range(count)]
    files = [file for file in files if file.exists()]
    if not files:
        sys.exit(f"add_shards.py: {folder} has no shards of {count}")
    result = figures([json.loads(file.read_text()) for file in files])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    fates = ", ".join(f"{count} {fate.replace('_', ' ')}" for fate, count in
                      result["fates"].items())
    print(f"{result['variants']} variants: {fates}"
          f"{'' if result['complete'] else '; not complete yet'}")


if __name__ == "__main__":
    main()
