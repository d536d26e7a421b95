#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions that a multiply-add takes of a linear layer of 384 x 384 on RISC-V with
vectors, by a plugin of QEMU, and prints a table.

Usage: count_vectors.py VECTOR_COUNTS [MOST]
VECTOR_COUNTS is that program. With MOST, float32 and q8 must not take more by vectors. A layer is
counted as the difference between three calls and one.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

TARGETS = {"portable": 128, "rv64-v128": 128, "rv64-v256": 256}
TYPES = ("f32", "w8", "q8", "q4")
ROWS = (1, 2, 4, 8)
SIDE = 384


def build_plugin(folder):
    plugin = Path(folder) / "count_instructions.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", plugin,
                    Path(__file__).with_name("count_instructions.c")], check=True)
    return plugin


def instructions(plugin, program, target, *arguments):
    cpu = f"rv64,v=true,vext_spec=v1.0,elen=64,vlen={TARGETS[target]}"
    ended = subprocess.run(
        ["qemu-riscv64", "-plugin", plugin, "-L", "/usr/riscv64-linux-gnu", "-cpu", cpu, program,
         target, *map(str, arguments)], capture_output=True, text=True, check=True)
    return int(ended.stderr.split("instructions")[1])


def main():
    program = sys.argv[1]
    most = float(sys.argv[2]) if len(sys.argv) > 2 else None
    is_kept = True
    with tempfile.TemporaryDirectory() as folder:
        plugin = build_plugin(folder)
        print(f"Instructions a multiply-add, {SIDE} x {SIDE}\n")
        print(f"{'':<18}" + "".join(f"{f'{rows} rows':>9}" for rows in ROWS))
        for target in TARGETS:
            for kind in TYPES:
                found = []
                for rows in ROWS:
                    once, thrice = (instructions(plugin, program, target, kind, rows, calls)
                                    for calls in (1, 3))
                    found.append((thrice - once) / (2 * rows * SIDE * SIDE))
                print(f"{target:<14}{kind:<4}" + "".join(f"{number:>9.3f}" for number in found))
                if most and target != "portable" and kind in ("f32", "q8"):
                    is_kept = is_kept and max(found) <= most
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
