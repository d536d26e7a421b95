#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the rates of tools/cli/instruction_rates.json of what `make bench-cortex-m` counted.

Usage: fit_rates.py build/bench-cortex-m.json tools/cli/instruction_rates.json
An op's instructions are a sum of counts of its work times rates; board_estimate.cc has the counts
of any op, this file those of the shapes that were counted. Rates are those with the least squares
of relative errors among those that are not negative. Prints the largest error of each kind.
"""

import json
import math
import sys
from pathlib import Path

ROWS_OF_BLOCK = 4  # of all kernels for Cortex-M
TILE = {"dsp": {"q8": 8, "q4": 4}, "mve": {"q8": 16, "q4": 16}}  # inputs: kr of core/targets.h
MADE = "gcc 12, -Os, QEMU 7.2, November 2026"


def solve(matrix, right):
    """Of as many equations as unknowns, a little damped where they do not tell two apart."""
    size = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right)]
    for i in range(size):
        rows[i][i] = rows[i][i] * (1 + 1e-9) + 1e-30
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(size):
            if r == i:
                continue
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def fit(samples):
    """(rates, largest relative error) of [(counts, instructions, whole)]: of instructions that are
    a part of the whole, errors are relative to that."""
    width = len(samples[0][0])
    lines = [([x / whole for x in counts], y / whole) for counts, y, whole in samples]
    scale = [max(abs(x[i]) for x, _ in lines) or 1.0 for i in range(width)]
    used = list(range(width))
    rates = [0.0] * width
    while used:
        gram = [[sum(x[i] * x[j] for x, _ in lines) / scale[i] / scale[j] for j in used]
                for i in used]
        right = [sum(x[i] * y for x, y in lines) / scale[i] for i in used]
        found = solve(gram, right)
        worst = min(range(len(used)), key=lambda i: found[i])
        if found[worst] >= 0:
            for i, rate in zip(used, found):
                rates[i] = rate / scale[i]
            break
        del used[worst]
    error = max(abs(sum(a * b for a, b in zip(x, rates)) - y) for x, y in lines)
    return rates, error


def rounded_up(number, to):
    return math.ceil(number / to) * to


def linear_counts(kernels, weights, outputs, inputs):
    """Of a block of rows."""
    padded = rounded_up(inputs, TILE.get(kernels, {}).get(weights, 1))
    panels = rounded_up(outputs, 4)
    return [1, padded, panels, panels * padded]


def rows_of_block(heads, kv_heads, rows):
    """Queries of one row are those of all heads that share keys."""
    return heads // kv_heads if rows == 1 else rows


def attention_counts(heads, kv_heads, head_dim, value_dim, held, rows):
    """Of blocks with equally many rows."""
    blocks = kv_heads if rows == 1 else heads
    keys, entry = held + rows, head_dim + value_dim
    return [1, kv_heads * rows, kv_heads * rows * entry, blocks, blocks * head_dim,
            blocks * value_dim, blocks * keys, blocks * keys * entry]


def slope_counts(heads, kv_heads, _head_dim, _value_dim, held, rows):
    """Terms of up to 256 keys are made at once."""
    all_rows = (kv_heads if rows == 1 else heads) * rows_of_block(heads, kv_heads, rows)
    return [all_rows * math.ceil((held + rows) / 256), all_rows * (held + rows)]


def row_counts(rows, columns):
    return [1, rows, rows * columns]


def window_counts(rows, kernel, channels):
    """Of a sequence from its start on, whose first windows see fewer rows."""
    seen = sum(min(row + 1, kernel) for row in range(rows))
    return [1, rows, rows * kernel, rows * channels, seen, seen * channels]


class Fits:
    """The rates of one CPU and set of kernels."""

    def __init__(self, kernels, figures):
        self.kernels = kernels
        self.found = {}  # name and type: [(sizes, instructions)]
        for figure in figures:
            _, name, *sizes = figure["what"].split(":")
            key = name, figure["type"]
            self.found.setdefault(key, []).append((list(map(int, sizes)), figure["instructions"]))
        self.rates = {}
        self.errors = {}

    def add(self, work, samples):
        self.rates[work], self.errors[work] = fit(samples)

    def of(self, work, counts):
        return sum(a * b for a, b in zip(self.rates[work], counts))

    def rounding(self, weights, rows, columns):
        if weights not in ("q8", "q4"):
            return 0
        return self.of("round", [0, rows, rows * columns])

    def block(self, work, weights, rows, outputs, inputs):
        return self.of(f"{work} {rows}", linear_counts(self.kernels, weights, outputs, inputs))

    def add_linear(self, weights, plain):
        for rows in range(1, ROWS_OF_BLOCK + 1):
            samples = []
            for (r, outputs, inputs), y in self.found["linear", weights]:
                if r == rows:
                    samples.append((linear_counts(self.kernels, weights, outputs, inputs),
                                    y - self.rounding(weights, r, inputs), y))
            self.add(f"linear {weights} {rows}", samples)
            if weights == "f32":  # windows of which have kernels in plain C, in all sets
                self.rates[f"indirect {rows}"] = (
                    self.rates[f"linear f32 {rows}"] if plain is None else
                    plain.rates[f"linear f32 {rows}"])

    def add_convolution(self, weights):
        """What windows take beside their products."""
        samples = []
        for (rows, kernel, channels, outputs), y in self.found["convolution", weights]:
            inputs = kernel * channels
            blocks = math.ceil(rows / ROWS_OF_BLOCK)
            work = "indirect" if weights == "f32" else f"linear {weights}"
            products = blocks * self.block(work, weights, rows // blocks, outputs, inputs)
            rest = y - products - self.rounding(weights, rows, inputs)
            samples.append((window_counts(rows, kernel, channels), rest, y))
        self.add(f"convolution {weights}", samples)

    def add_rows(self, work, key):
        self.add(work, [(row_counts(*sizes), y, y) for sizes, y in self.found[key]])

    def add_all(self, plain):
        """`plain` are those of the same CPU's kernels in C, or None."""
        self.add_rows("round", ("round", "-"))
        for weights in ("f32", "w8", "q8", "q4"):
            self.add_linear(weights, plain)
            self.add_convolution(weights)
            for table in ("table", "packed_table"):
                self.add_rows(f"{table} {weights}", (table, weights))
        for kv in ("f32", "int8"):
            for size in (1, 2, ROWS_OF_BLOCK):
                self.add(f"attention {kv} {size}", [
                    (attention_counts(*sizes), y, y) for sizes, y in self.found["attention", kv]
                    if rows_of_block(sizes[0], sizes[1], sizes[-1]) == size])
        plain = {tuple(sizes): y for sizes, y in self.found["attention", "f32"]}
        self.add("slopes", [(slope_counts(*sizes), y - plain[tuple(sizes)], y)
                            for sizes, y in self.found["slopes", "f32"]])
        for name, kind in list(self.found):
            if kind in ("norm", "activation") and name != "gated":
                self.add_rows(f"{kind} {name}", (name, kind))
        for name in ("add", "copy"):
            self.add_rows(name, (name, "-"))
        relu = dict((tuple(sizes), y) for sizes, y in self.found["relu", "activation"])
        self.add("gated", [(row_counts(*sizes), y - relu[tuple(sizes)], y)
                           for sizes, y in self.found["gated", "activation"]])
        self.add("rope", [([1, rows, rows * heads, rows * heads * dim], y, y)
                          for (rows, heads, dim), y in self.found["rope", "-"]])
        for name in ("depthwise", "max_pool"):
            self.add(name, [(window_counts(*sizes), y, y) for sizes, y in self.found[name, "-"]])


def number(rate):
    """Three digits that count."""
    rounded = float(f"{rate:.3g}")
    return int(rounded) if rounded.is_integer() else rounded


def as_json(value, indent=""):
    """A list stands on one line."""
    if not isinstance(value, dict):
        return json.dumps(value)
    inner = ",\n".join(f"{indent} {json.dumps(key)}: {as_json(item, indent + ' ')}"
                       for key, item in value.items())
    return f"{{\n{inner}\n{indent}}}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results = json.loads(Path(sys.argv[1]).read_text())
    all_rates = {}  # by CPU, kernels and work
    for cpu, figures in results.items():
        shapes = [f for f in figures if f["what"].startswith("op:")]
        plain = None
        for kernels in dict.fromkeys(f["kernels"] for f in shapes):
            fits = Fits(kernels, [f for f in shapes if f["kernels"] == kernels])
            fits.add_all(plain)
            plain = plain or fits
            all_rates.setdefault(cpu, {})[kernels] = {
                work: list(map(number, rates)) for work, rates in fits.rates.items()
                if not work.startswith("indirect")}  # board_estimate.cc takes those in plain C
            for work, error in sorted(fits.errors.items(), key=lambda item: -item[1])[:12]:
                print(f"{cpu} {kernels} {work}: off by at most {100 * error:.1f} %")
    Path(sys.argv[2]).write_text(as_json({"made": MADE, "rates": all_rates}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
