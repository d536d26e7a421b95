#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints code and constants of the members of the archives; fails when they are over a budget.

Usage: size_report.py BUILD_FOLDER TARGET
TARGET is a name in size_budget.txt. In a build of type Release, at -O2, the budget `release`
counts.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

from elf_archive import sections, unreadable_members

BUDGET = Path(__file__).with_name("size_budget.txt")
# Tables of pointers are constants once they are loaded; tables for unwinding would be loaded, too.
CONSTANTS = (".rodata", ".data.rel.ro", ".eh_frame", ".gcc_except_table")


def sizes_by_member(archive):
    """{member: [code bytes, constant bytes]}"""
    sizes = defaultdict(lambda: [0, 0])
    shared = set()
    for section in sections(archive):
        if section.is_shared:
            if section.name in shared:
                continue
            shared.add(section.name)
        if section.name.startswith(".text"):
            sizes[section.member][0] += section.size_bytes
        elif section.name.startswith(CONSTANTS):
            sizes[section.member][1] += section.size_bytes
    return sizes


# What the parts of the runtime are for: the first line whose pattern is in a section's member and
# name, "linear.cc:.text._ZN7arenite...", counts it.
FEATURES = (
    ("tokenizer: WordPiece", r"^word_pieces\.cc"),
    ("tokenizer: Unigram, normalizers", r"^(best_path|normalizer)\.cc"),
    ("tokenizers: all", r"^(pre_tokenizer|encoder|framed_texts|merger|special_finder|tokenizer|"
                        r"tokenizer_reader|utf8|verify_tokenizer)\.cc"),
    ("text stream", r"^text_stream\.cc"),
    ("stop strings", r"^stop_strings\.cc"),
    ("sound", r"^(frames|sound_stream|verify_sound)\.cc"),
    ("sampler", r"^sampler\.cc"),
    ("self-test", r"^self_test\.cc|self_test_layout|digest_of_row"),
    ("caches in int8", r"^kv_cache\.cc.*[iI]nt8|^integer_attention\.cc"),
    ("quantized weights", r"^(linear|scalar_set)\.cc.*([qQ]uantize|qc8w|qb4w)|^views\.cc"),
    ("rows that meet NaN", r"^attention_alone\.cc"),
    ("masks", r"^(verify_masks|mask)\.cc"),
    ("check of files", r"^(verify\w*|crc32c)\.cc"),
    ("attention, caches", r"^(attention|kv_cache)\.cc"),
    ("convolutions", r"^convolution\.cc"),
    ("products of Cortex-M", r"^cortex_m_"),
    ("linear layers", r"^linear\.cc"),
    ("experts", r"^experts\.cc"),
    ("other ops", r"^(activation|embedding|norm|row_ops|rows|select)\.cc"),
    ("kernel sets", r"^(kernel_set|\w+_sets?|targets)\.cc"),
    ("models and sessions", r"^(model|plan|reader|run_op|session|status|step|step_input)\.cc"),
)


def sizes_by_feature(archive):
    """{feature: bytes} of the runtime without the interface for C."""
    sizes = {feature: 0 for feature, _ in FEATURES}
    shared = set()
    for section in sections(archive):
        if section.member.startswith("c_") or not section.name.startswith((".text", *CONSTANTS)):
            continue
        if section.is_shared and section.name in shared:
            continue
        shared.add(section.name)
        place = f"{section.member}:{section.name}"
        found = [feature for feature, pattern in FEATURES if re.search(pattern, place)]
        if not found:
            raise SystemExit(f"{archive}: no line of FEATURES is for {place}")
        sizes[found[0]] += section.size_bytes
    return sizes


def archive_sizes(build):
    """Sizes by member of the runtime, of the interface for C and of the microkernels."""
    for archive in (build / "runtime" / "libarenite.a", build / "libarenite_xnnpack.a"):
        for problem in unreadable_members(archive):  # what cannot be seen has no size
            raise SystemExit(f"{archive}: {problem}")
    library = sizes_by_member(build / "runtime" / "libarenite.a")
    interface = {member: size for member, size in library.items() if member.startswith("c_")}
    kernels = {member: size for member, size in library.items() if member.startswith("cortex_m_")}
    runtime = {member: size for member, size in library.items()
               if member not in interface and member not in kernels}
    return runtime, interface, kernels | sizes_by_member(build / "libarenite_xnnpack.a")


def total(sizes):
    return [sum(size[column] for size in sizes.values()) for column in (0, 1)]


def budgets():
    """{(target, part): bytes}"""
    lines = (line.split("#")[0].split() for line in BUDGET.read_text().splitlines())
    return {(words[0], words[1]): int(words[2]) for words in lines if words}


class BudgetCheck:
    """Compares with the budgets of a target and counts."""

    def __init__(self):
        self.allowed = budgets()
        self.used = {}  # of what was checked
        self.passed = 0
        self.failures = []

    def check(self, target, part, used_bytes):
        self.used[target, part] = used_bytes
        allowed = self.allowed.get((target, part))
        if allowed is None:
            self.failures.append(f"{target} {part}: {BUDGET.name} has no line for it")
        elif used_bytes > allowed:
            self.failures.append(
                f"{target} {part}: {used_bytes:,} bytes are over the budget of {allowed:,}; "
                f"shrink it, or raise {BUDGET.name} in a commit that says why")
        else:
            self.passed += 1

    def print_failures(self):
        for failure in self.failures:
            print(failure)


def print_row(name, code_bytes, constant_bytes):
    print(f"{name:<44}{code_bytes:>10,}{constant_bytes:>12,}{code_bytes + constant_bytes:>10,}")


def is_release(build):
    cache = (build / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_BUILD_TYPE:\w+=Release$", cache, re.MULTILINE) is not None


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    build, target = Path(sys.argv[1]), sys.argv[2]
    runtime, interface, kernels = archive_sizes(build)

    print(f"{target:<44}{'code':>10}{'constants':>12}{'bytes':>10}")
    for member in sorted(runtime):
        print_row("  " + member.removesuffix(".obj").removesuffix(".o"), *runtime[member])
    print_row("runtime", *total(runtime))
    print_row("interface for C", *total(interface))
    print_row(f"microkernels ({len(kernels)})", *total(kernels))

    check = BudgetCheck()
    if is_release(build):
        check.check(target, "release", sum(total(runtime)) + sum(total(interface)))
    else:
        check.check(target, "runtime", sum(total(runtime)))
        check.check(target, "c", sum(total(interface)))
        check.check(target, "kernels", sum(total(kernels)))
    check.print_failures()
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
