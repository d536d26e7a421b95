#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts programs with masks of padding, and runs them on all arrays that their authors give.

Usage: padding_masks_test.py PROGRAM
"""

import ast
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "convert" / "data" / "masks"
ERROR = 2e-6  # of the largest number
# What the report says; NaN among the expected numbers is of rows that see no key.
RIGHT = {
    "given": ["input 3 (source_mask)", "input 5 (source_padding_mask) becomes the lengths",
              "input 6 (target_padding_mask) becomes the lengths",
              "input 7 (memory_key_padding_mask) becomes the lengths"],
    "made": ["sequences of 'target' must begin with a token that counts"],
    "made_infinite": ["sequences of 'target' must begin with a token that counts"],
    "left": ["sequences of 'ids' must begin with a token that counts", "of padding 0"],
    "last_id": [],
    "any_of": [],
    "is_in": [],
    "any_equal": [],
    "chosen": [],
    "chosen_together": [],
    "partly": ["inputs are concatenated along the columns: source is columns 0 to 3, "
               "hidden is columns 4 to 4"],
    "partly_kept": ["inputs are concatenated along the columns", "holds integers from 0 to 1"],
    "partly_source": ["inputs are concatenated along the columns"],
}
REFUSED = {
    "first_feature": "aten.eq.Scalar", "first_feature_weighted": "aten.eq.Scalar",
    "zero_rows": "aten.masked_fill.Scalar", "zero_rows_weighted": "aten.eq.Scalar",
}


def numbers(path):
    """The shape and the numbers of an array of floats."""
    data = path.read_bytes()
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:end].decode())
    kind = {"<f4": "f", "<f8": "d"}[header["descr"]]
    count = (len(data) - end) // struct.calcsize(kind)
    return header["shape"], struct.unpack(f"<{count}{kind}", data[end:])


def problems_of(program, name, words, folder):
    model, output = folder / "m.arn", folder / "y.npy"
    made = subprocess.run([program, "convert", DATA / f"{name}.pt2", "-o", model],
                          capture_output=True, text=True)
    if made.returncode != 0:
        yield made.stderr
        return
    report = " ".join(made.stdout.split())
    yield from (f"the report does not say '{each}'" for each in words if each not in report)
    examples = sorted(DATA.glob(f"{name}_y?.npy"))
    for example in examples:
        arrays = sorted(DATA.glob(example.name.replace("_y", "_x").replace(".npy", "_?.npy")))
        if "inputs are concatenated along the columns" in report:
            arrays[:2] = [f"{arrays[0]},{arrays[1]}"]
        inputs = [text for array in arrays for text in ("--input", array)]
        run = subprocess.run([program, "run", model, *inputs, "--output", output],
                             capture_output=True, text=True)
        if run.returncode != 0:
            yield f"{example.name}: {run.stderr}"
            continue
        (shape, found), (expected_shape, expected) = numbers(output), numbers(example)
        if shape != expected_shape:
            yield f"{example.name}: it is {shape}, expected {expected_shape}"
            continue
        largest = max(abs(each) for each in expected if not math.isnan(each))
        error = max(abs(a - b) for a, b in zip(found, expected) if not math.isnan(b))
        if not error <= ERROR * largest:
            yield f"{example.name}: it is off by {error:.1e}, and reaches {largest:.1e}"


def main(program):
    problems = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, words in RIGHT.items():
            problems += [f"{name}: {each}" for each in problems_of(program, name, words, folder)]
        for name, op in REFUSED.items():
            made = subprocess.run(
                [program, "convert", DATA / f"{name}.pt2", "-o", folder / "m.arn"],
                capture_output=True, text=True)
            asked = "def forward(self, x, padding_mask)"
            if made.returncode != 1 or op not in made.stderr or asked not in made.stderr:
                problems.append(f"{name}: expected to be refused, found {made.stderr}")
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main(sys.argv[1])
