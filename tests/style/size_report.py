#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints code and constants of the archives in bytes; fails when the runtime is over its budget.

Usage: size_report.py BUILD_FOLDER [ARCHITECTURE]
ARCHITECTURE is a name in size_budget.txt, x86-64 unless given; one that is not there has no budget.
"""

import sys
from collections import defaultdict
from pathlib import Path

from elf_archive import sections

BUDGET = Path(__file__).with_name("size_budget.txt")


def sizes_by_member(archive):
    """{member: [code bytes, constant bytes]}; pointer tables count as constants."""
    sizes = defaultdict(lambda: [0, 0])
    for section in sections(archive):
        if section.name.startswith(".text"):
            sizes[section.member][0] += section.size_bytes
        elif section.name.startswith((".rodata", ".data.rel.ro")):
            sizes[section.member][1] += section.size_bytes
    return sizes


def print_row(name, code_bytes, constant_bytes):
    print(f"{name:<44}{code_bytes:>10}{constant_bytes:>12}{code_bytes + constant_bytes:>10}")


def total(sizes):
    return [sum(size[column] for size in sizes.values()) for column in (0, 1)]


def budget_bytes(architecture):
    for line in BUDGET.read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] == architecture:
            return int(words[1])
    return None


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    architecture = sys.argv[2] if len(sys.argv) == 3 else "x86-64"
    runtime = sizes_by_member(build / "runtime" / "libarenite.a")
    kernels = sizes_by_member(build / "libarenite_xnnpack.a")

    print(f"{architecture:<44}{'code':>10}{'constants':>12}{'bytes':>10}")
    for member in sorted(runtime):
        print_row("  " + member.removesuffix(".o"), *runtime[member])
    print_row("runtime", *total(runtime))
    print_row(f"microkernels ({len(kernels)})", *total(kernels))

    used, allowed = sum(total(runtime)), budget_bytes(architecture)
    if allowed is None:
        return 0
    print(f"budget of the runtime: {used} of {allowed} bytes")
    if used > allowed:
        print(f"over budget; shrink it, or raise {BUDGET.name} in a commit that says why")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
