#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of bounds and writes what they measured to bounds.json, beside this file.

Usage: bounds.py BUILD
The stack of other CPUs is measured where their device tests have been built.
"""

import re
import subprocess
import sys
from pathlib import Path

from recorded import ROOT, largest, run_tests, total, write

# Folder of the build, and what runs its programs; the order is that of the table.
MACHINES = {
    "x86-64": ("build", []),
    "arm64": ("build-arm64", ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]),
    "arm32": ("build-armv7", ["qemu-arm", "-L", "/usr/arm-linux-gnueabihf"]),
    "riscv64": ("build-riscv64", ["qemu-riscv64", "-L", "/usr/riscv64-linux-gnu"]),
    "riscv32": ("build-riscv32", [
        "qemu-system-riscv32", "-machine", "virt", "-bios", "none", "-nographic", "-monitor",
        "none", "-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]),
    "cortex-m": ("build-cortex-m7", [
        "qemu-system-arm", "-machine", "mps2-an500", "-nographic", "-monitor", "none", "-serial",
        "none", "-semihosting-config", "enable=on,target=native", "-kernel"]),
}


def device_stack(build, emulator):
    """The most that a call took on a machine, and its bound; None where it was not built."""
    program = ROOT / build / "tests" / "device" / "device_tests"
    if not program.exists():
        return None
    output = subprocess.run([*emulator, str(program)], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=True).stdout
    found = [int(size) for size in re.findall(r"^stack +(\d+)  ", output, re.MULTILINE)]
    bound = re.search(r"^stack bound +(\d+)$", output, re.MULTILINE)
    return max(found), int(bound.group(1))


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    sessions = build / "tests" / "runtime" / "session_tests"
    frozen = run_tests(sessions, "*FrozenMemory*")
    painted = run_tests(sessions, "*StackBounds*")
    loads = run_tests(build / "tests" / "runtime" / "load_cost_tests", "*")
    calls = run_tests(build / "tests" / "cli" / "cost_tests", "*")
    stacks = {name: device_stack(*machine) for name, machine in MACHINES.items()}
    stacks = {name: stack for name, stack in stacks.items() if stack}
    name = "x86-64"
    stacks[name] = (max(stacks[name][0], largest(painted, "stack_bytes")), stacks[name][1])
    summary = [
        {"promise": "nothing outside the arena", "tested": "frozen memory",
         "amount": f"{total(frozen, 'lives'):,} lives of sessions"},
        {"promise": "stack of any call", "tested": "painted",
         "amount": f"{stacks[name][0]:,} of {stacks[name][1]:,} bytes, {name}"},
        {"promise": "steps of a load", "tested": "blocks of code counted",
         "amount": f"{total(loads, 'files'):,} files"},
        {"promise": "multiply-adds of a call", "tested": "kernels count",
         "amount": f"{total(calls, 'calls'):,} calls"},
    ]
    rows = "\n".join(f"| {cpu} | {most:,} | {bound:,} |" for cpu, (most, bound) in stacks.items())
    details = ("## Bounds\n\nBytes of stack that the deepest call took, painted.\n\n"
               "| CPU | deepest | bound |\n|---|---:|---:|\n" + rows + "\n\n"
               "The load that came closest to its bound took "
               f"{largest(loads, 'percent_of_bound')} % of it.\n")
    write("bounds", [{**row, "command": "make bounds"} for row in summary], details)
    return 0


if __name__ == "__main__":
    sys.exit(main())
