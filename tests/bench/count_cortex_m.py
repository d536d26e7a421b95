#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts instructions on emulated Cortex-M boards and prints them as a table for each board.

Usage: count_cortex_m.py ROOT OUTPUT.json
ROOT holds build and those of the builds below that were made; OUTPUT.json takes all figures.

Instructions are no cycles: they say what a kernel asks of a CPU, not how many of them it takes at
once, nor what memory costs.
"""

import json
import subprocess
import sys
from pathlib import Path

# Of each build the name of its CPU, and QEMU's board.
BOARDS = {
    "build-cortex-m7": ("Cortex-M7", "mps2-an500"),
    "build-cortex-m4f": ("Cortex-M4F", "mps2-an386"),
    "build-cortex-m33": ("Cortex-M33", "mps2-an505"),
    "build-cortex-m55": ("Cortex-M55", "mps3-an547"),
    "build-cortex-m3": ("Cortex-M3", "mps2-an385"),
    "build-cortex-m0plus": ("Cortex-M0+", "mps2-an385"),  # which executes its instructions, too
}
WITHOUT_FPU = ("Cortex-M3", "Cortex-M0+")
# What of models/ is converted, and tokens of a call, besides single ones.
MODELS = {"vibration": ("vibration", 64), "home-intent": ("home-intent", 16),
          "recall": ("recall", 16), "wake": ("wake/wake.pt2", 16)}
TYPES = ("f32", "q8", "q4")
# Instructions of a slice by the smallest budget of each model, at most, with an FPU.
SLICE_MAX = 200_000


def convert(tool, root, folder, models, targets):
    """{(model, weights, target): file} of each model in each type."""
    files = {}
    for model in models:
        for weights in TYPES:
            for target in targets:
                file = files[model, weights, target] = folder / f"{model}-{weights}-{target}.arn"
                subprocess.run([tool, "convert", root / "models" / MODELS[model][0], "-o", file,
                                "--weights", weights, "--target", target],
                               check=True, stdout=subprocess.DEVNULL)
    return files


def count(program, machine, arguments, name="bench"):
    """What the program prints for arguments "MODEL,WEIGHTS=FILE:TOKENS"; as "models" of those
    alone."""
    options = ",".join(["enable=on", "target=native", f"arg={name}"] +
                       [f"arg={argument.replace(',', ',,')}" for argument in arguments])
    output = subprocess.run(
        ["qemu-system-arm", "-machine", machine, "-nographic", "-monitor", "none", "-serial",
         "none", "-icount", "shift=0", "-semihosting-config", options, "-kernel", program],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    figures = []
    for line in output.splitlines():
        what, kernels, weights, rows, thousandths = line.split()
        if kernels == "refused":  # packed for another Cortex-M
            continue
        if "," in what:
            what, weights = what.split(",")
        figures.append({"what": what, "kernels": kernels, "type": weights, "rows": int(rows),
                        "instructions": int(thousandths) / 1000})
    return figures


def print_table(cpu, figures):
    """A row for each kind of work, a column for each set of kernels and number of rows."""
    print(f"{cpu}: instructions a multiply-add, a number (rounding to sum), a call or the\n"
          "longest slice of one by the smallest budget, which stands where rows do\n")
    sets = list(dict.fromkeys(f["kernels"] for f in figures))
    print(f"{'':<24}{'rows':>6}" + "".join(f"{name:>16}" for name in sets))
    places = {}
    for f in figures:
        if f["what"].startswith("op:"):
            continue  # what fit_rates.py makes rates of
        places.setdefault((f["what"], f["type"], f["rows"]), {})[f["kernels"]] = f["instructions"]
    for (what, weights, rows), found in places.items():
        cells = "".join(f"{found[name]:>16,.2f}" if name in found else f"{'-':>16}"
                        for name in sets)
        print(f"{what + ' ' + weights:<24}{rows:>6}{cells}")
    print()


def main():
    root, output = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    folder = root / "build" / "bench-cortex-m"
    folder.mkdir(parents=True, exist_ok=True)
    files = convert(root / "build" / "arenite", root, folder, MODELS,
                    ("portable", "cortex-m-dsp", "cortex-m-mve"))
    arguments = [f"{model},{weights}={file}:{MODELS[model][1]}"
                 for (model, weights, _), file in files.items()]
    results = {}
    for build, (cpu, machine) in BOARDS.items():
        program = root / build / "tests" / "bench" / "cortex_m_bench"
        if not program.exists():
            continue
        results[cpu] = count(program, machine, arguments)
        print_table(cpu, results[cpu])
    output.write_text(json.dumps(results, indent=1) + "\n")
    longest = max((f["instructions"] for cpu, figures in results.items() for f in figures
                   if f["what"].startswith("slice:") and cpu not in WITHOUT_FPU),
                  default=SLICE_MAX + 1)
    print(f"The longest slice takes {longest:,.0f} of at most {SLICE_MAX:,} instructions.")
    return 0 if longest <= SLICE_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
