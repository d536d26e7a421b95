#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bundle of models/vibration on five CPUs without an operating system: it passes its self-test
on each, and computes the bits that this machine computes with the same kernels.

Usage: bundle_test.py ARENITE WORK_FOLDER
"""

import shutil
import struct
import sys
from pathlib import Path

from bundle_firmware import (BOARDS, ROOT, board_of, build_library, compile_file, emulate, link,
                             program_objects, run)

TOKENS = 8  # as main.c of a bundle feeds them
FEATURES = 16
PICOLIBC = "--specs=picolibc.specs"


def write_npy(path, values, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(118 - 1) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}f", *values))


def digest_here(arenite, model, work):
    """The line's digest, of what `arenite run` computes on this machine with the same kernels."""
    numbers = [(i * 37 % 64) / 32.0 - 1.0 for i in range(TOKENS * FEATURES)]
    write_npy(work / "x.npy", numbers, (1, TOKENS, FEATURES))
    run(arenite, "run", model, "--input", work / "x.npy", "--output", work / "y.npy",
        "--kernels", "scalar")
    data = (work / "y.npy").read_bytes()
    data = data[10 + struct.unpack_from("<H", data, 8)[0]:]
    digest = 2166136261
    for (word,) in struct.iter_unpack("<I", data):
        digest = (digest ^ word) * 16777619 % 2**32
    return f"{digest:08x}"


class Checks:
    def __init__(self):
        self.passed = 0
        self.failed = 0

    def check(self, what, found, expected):
        right = found == expected
        self.passed += right
        self.failed += not right
        print(f"{'pass' if right else 'FAIL'}  {what}")
        if not right:
            print(f"      found {found!r}, expected {expected!r}")


def has_picolibc():
    try:
        run("arm-none-eabi-g++", PICOLIBC, "-E", "-x", "c++", "/dev/null")
        return True
    except RuntimeError:
        return False


def check_without_flags(checks, bundle, work, expected):
    """Compiled as `c++ -std=c++20 -c` does it, with no option but the CPU's."""
    board = board_of("cortex-m7")
    build = work / "flagless"
    build.mkdir()
    for source in sorted(bundle.glob("*.c")) + sorted(bundle.glob("arenite_*.cc")):
        if source.name == "main.c":
            continue
        is_c = source.suffix == ".c"
        run("arm-none-eabi-gcc" if is_c else "arm-none-eabi-g++", *board.flags.split(), "-O2",
            *([] if is_c else ["-std=c++20"]), "-c", source, "-o", build / (source.name + ".o"))
    objects = program_objects(bundle, board, build)
    image = link(objects, [o for o in build.glob("*.o") if o not in objects] + ["-lstdc++"],
                 board, build / "firmware")
    checks.check("without options the bits are the same", emulate(image, board), expected)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    arenite, work = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    model = work / "vibration.arn"
    run(arenite, "convert", ROOT / "models" / "vibration", "-o", model, "--target", "portable")
    bundle = work / "bundle"
    run(arenite, "bundle", model, "-o", bundle)
    expected = f"vibration: self-test passed, digest {digest_here(arenite, model, work)}\n"
    checks = Checks()
    for board in BOARDS:
        build = work / board.cpu
        archive = build_library(bundle, board, build)
        image = link(program_objects(bundle, board, build), [archive], board, build / "firmware")
        checks.check(f"the bundle runs on {board.cpu}, on QEMU's {board.machine}",
                     emulate(image, board), expected)
    check_without_flags(checks, bundle, work, expected)
    if has_picolibc():
        board = board_of("cortex-m7")
        build = work / "picolibc"
        archive = build_library(bundle, board, build, PICOLIBC)
        objects = [compile_file(bundle / "main.c", board, build, PICOLIBC)]
        run("arm-none-eabi-gcc", *board.flags.split(), PICOLIBC, "--oslib=semihost",
            "-Wl,--gc-sections", "-Wl,--defsym=__flash=0", "-Wl,--defsym=__flash_size=4M",
            "-Wl,--defsym=__ram=0x20000000", "-Wl,--defsym=__ram_size=4M",
            "-Wl,--defsym=__stack_size=16K", *objects, archive, "-lm", "-o", build / "firmware")
        checks.check("the bundle runs with picolibc and its start-up code",
                     emulate(build / "firmware", board), expected)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
