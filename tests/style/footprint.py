#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the runtime and the trained models take of flash and RAM on each target.

Usage: footprint.py ROOT
ROOT holds build, the build-size-* folders and build-cortex-m7, as `make size` makes them. Fails if
something is over its budget, in size_budget.txt.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from check_archives import CHECKS
from elf_archive import sections
from size_report import BudgetCheck, archive_sizes, total

BARE_TARGET = "cortex-m7"
EMULATOR = ("qemu-system-arm -machine mps2-an500 -nographic -monitor none -serial none "
            "-semihosting-config enable=on,target=native -kernel").split()


@dataclass
class Target:
    name: str
    build: str
    packing: str  # what models are converted for


TARGETS = (
    Target("x86-64", "build-size-x86-64", "x86-64-v3"),
    Target("aarch64", "build-size-aarch64", "arm64"),
    Target("armv7", "build-size-armv7", "arm32"),
    Target("riscv64", "build-size-riscv64", "portable"),
    Target(BARE_TARGET, "build-cortex-m7", "portable"),
)

# Of each model the checkpoint and how to convert it, and the longest call: recall takes its
# tokens one by one, vibration a window at once, home-intent a prompt in pieces of 16.
MODELS = {
    "recall": ("recall/recall.safetensors", ["--heads", "2"], 1),
    "vibration": ("vibration", [], 64),
    "home-intent": ("home-intent", [], 16),
}


def run(*command):
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True).stdout


def print_code(root, check):
    """Returns {target: bytes of runtime and microkernels}."""
    print("Code flash: code and constants at -Os, in bytes; of all, before the linker leaves out")
    print("what a program does not use\n")
    print(f"{'target':<12}{'runtime':>10}{'text':>10}{'interface for C':>18}{'microkernels':>16}")
    code_bytes = {}
    for target in TARGETS:
        runtime, interface, kernels = archive_sizes(root / target.build)
        text = {member: size for member, size in runtime.items() if is_text(root, member)}
        sizes = {"runtime": sum(total(runtime)), "c": sum(total(interface)),
                 "kernels": sum(total(kernels))}
        for part, size_bytes in sizes.items():
            check.check(target.name, part, size_bytes)
        print(f"{target.name:<12}{sizes['runtime']:>10,}{sum(total(text)):>10,}"
              f"{sizes['c']:>18,}{sizes['kernels']:>16,}")
        code_bytes[target.name] = sizes["runtime"] + sizes["kernels"]
    print("\n`runtime` has `text` in it: tokenizers, their verification, and the sampler.\n")
    return code_bytes


def check_archives(root, check):
    """No allocator, no stdio, no unwinder, no constructors, no global state."""
    for target in TARGETS:
        build = root / target.build
        archives = [build / "runtime" / "libarenite.a", build / "libarenite_xnnpack.a"]
        for find in CHECKS.values():
            findings = [f"{target.name}: {finding}" for finding in find(target.name, archives)]
            check.failures += findings
            check.passed += not findings


def is_text(root, member):
    source = re.sub(r"\.o(bj)?$", "", member)
    return (root / "runtime" / "text" / source).exists() or source in (
        "tokenizer_reader.cc", "verify_tokenizer.cc", "verify_unicode.cc")


def print_models(root, code_bytes, check):
    print("The trained models of models/, one sequence of full length, in bytes\n")
    print(f"{'model':<12}{'in a call':>10}  {'target':<12}{'activation RAM':>15}"
          f"{'runtime RAM':>13}{'weights flash':>15}{'code flash':>12}")
    folder = root / "build" / "footprint"
    folder.mkdir(exist_ok=True)
    arenite = root / "build" / "arenite"
    for name, (checkpoint, options, tokens) in MODELS.items():
        shown = name
        for target in TARGETS:
            file = folder / f"{name}-{target.packing}.arn"
            run(arenite, "convert", root / "models" / checkpoint, "-o", file,
                "--target", target.packing, *options)
            model = json.loads(run(arenite, "inspect", "--json", file, "--tokens", tokens))
            arena = model["targets"][0]["arena"]
            check.check("all", "session", arena["session_bytes"])
            activation_bytes = arena["total_bytes"] - arena["session_bytes"]
            print(f"{shown:<12}{tokens if shown else '':>10}  {target.name:<12}"
                  f"{activation_bytes:>15,}{arena['session_bytes']:>13,}"
                  f"{model['file']['bytes']:>15,}{code_bytes[target.name]:>12,}")
            shown = ""
    print("""
activation RAM   of the arena: activations, scratch, keys and values
runtime RAM      of the arena: the session; there are no global variables, and stack is below
weights flash    the model file, its metadata and tokenizer included
code flash       runtime and microkernels, whether the model needs them or not
""")


def print_image(root, check):
    """The bare-metal program around one attention module, as linked."""
    image = root / "build-cortex-m7" / "tests" / "footprint" / "attention_image"
    model = root / "build-cortex-m7" / "tests" / "footprint" / "recall_8.arn"
    sizes = {section.name: section.size_bytes for section in sections(image)}
    flash_bytes = sum(sizes.get(name, 0) for name in (".text", ".ARM.exidx", ".data"))
    ram_bytes = sizes.get(".data", 0) + sizes.get(".bss", 0)
    print(f"A bare attention module of 8 tokens on {BARE_TARGET}, the whole program with newlib, "
          "in bytes\n")
    print(f"{'flash':<18}{flash_bytes:>8,}  of them {model.stat().st_size:,} the model")
    print(f"{'RAM':<18}{ram_bytes:>8,}  the arena")
    check.check(BARE_TARGET, "image", flash_bytes)


def print_stack(root, check):
    """The most that any call took, painted by the device tests."""
    tests = root / "build-cortex-m7" / "tests" / "device" / "device_tests"
    # Semihosting may write to either stream.
    output = subprocess.run([*EMULATOR, str(tests)], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, encoding="utf-8").stdout
    calls = re.findall(r"^stack\s+(\d+)  (.+)$", output, re.MULTILINE)
    if not calls:
        check.failures.append(f"{tests} printed no use of the stack")
        return
    deepest_bytes, call = max((int(size_bytes), call) for size_bytes, call in calls)
    print(f"{'stack':<18}{deepest_bytes:>8,}  at most, in {call}; of all models and calls\n")
    check.check("all", "stack", deepest_bytes)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(sys.argv[1]).resolve()
    check = BudgetCheck()
    code_bytes = print_code(root, check)
    print_models(root, code_bytes, check)
    print_image(root, check)
    print_stack(root, check)
    check_archives(root, check)
    check.print_failures()
    print(f"{check.passed} passed, {len(check.failures)} failed")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
