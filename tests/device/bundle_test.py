#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bundle of models/vibration on five CPUs without an operating system: it passes its self-test
on each, and computes the bits that this machine computes with scalar kernels; those of MVE round
floats otherwise.

Usage: bundle_test.py ARENITE WORK_FOLDER
"""

import os
import shutil
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bundle_firmware import (BOARD_FOLDER, BOARDS, ROOT, Board, board_of, compile_file, compiler,
                             emulate, link, program_objects, run)

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
    """Nothing requires it: its C++ library, libstdc++-arm-none-eabi-picolibc, takes a gigabyte."""
    try:
        run("arm-none-eabi-g++", PICOLIBC, "-std=c++20", "-E", "-include", "algorithm", "-x", "c++",
            "/dev/null")
        return True
    except RuntimeError:
        return False


# Boards by name, and QEMU's machine for each: the chip itself, or one of its family with as much
# memory at the same place.
NAMED_BOARDS = {
    "mps2-an500": "mps2-an500", "mps3-an547": "mps3-an547", "nucleo-f446": "netduinoplus2"}


def build_as_one(bundle, board, build, *options):
    """Compiles the sources of the bundle, those in C++ but for kernels as one, and returns the
    archive. It takes a third of the time; the Makefile, which compiles each, is run for the boards
    with names."""
    build.mkdir(parents=True)
    sources = [*bundle.glob("*.c"), *bundle.glob("arenite_kernels_*.cc")]
    whole = build / "whole.cc"
    whole.write_text("".join(f'#include "{source.name}"\n'
                             for source in sorted(set(bundle.glob("*.cc")) - set(sources))))
    objects = [compile_file(source, board, build, "-w", f"-I{bundle}", *options)
               for source in (*sources, whole) if source.name != "main.c"]
    run("arm-none-eabi-ar", "rcs", build / "libarenite.a", *objects)
    return build / "libarenite.a"


def image_of(bundle, board, build):
    archive = build_as_one(bundle, board, build)
    return link(program_objects(bundle, board, build), [archive], board, build / "firmware")


def check_named_boards(checks, arenite, model, work, expected):
    """`make` in a bundle for a board makes firmware for it, without an option."""
    for name, machine in NAMED_BOARDS.items():
        bundle = work / name
        run(arenite, "bundle", model, "-o", bundle, "--board", name, "--tokens", str(TOKENS))
        run("make", "-C", bundle, f"-j{os.cpu_count()}", f"CC={compiler('arm-none-eabi-gcc')}",
            f"CXX={compiler('arm-none-eabi-g++')}")
        board = Board("", machine, "")
        checks.check(f"a bundle for {name} runs on QEMU's {machine}",
                     emulate(bundle / "build" / "firmware", board), expected)


def check_without_flags(checks, bundle, work, expected):
    """Compiled for speed, with no option on rounding: the sources themselves say how to round."""
    board, build = board_of("cortex-m7"), work / "flagless"
    archive = build_as_one(bundle, board, build, "-O2")
    image = link(program_objects(bundle, board, build), [archive], board, build / "firmware")
    checks.check("without options the bits are the same", emulate(image, board), expected)


def check_own_kernels(checks, arenite, work, pool):
    """Quantized weights, packed for the kernels of a Cortex-M from those of all CPUs."""
    def build(row):
        weights, cpu, target = row
        name = f"vibration-{weights}-{cpu}"
        portable, model, bundle = (work / f"{name}{end}" for end in (".all.arn", ".arn", ""))
        run(arenite, "convert", ROOT / "models" / "vibration", "-o", portable, "--weights", weights,
            "--target", "portable")
        run(arenite, "repack", portable, "-o", model, "--target", target)
        run(arenite, "bundle", model, "-o", bundle)
        return image_of(bundle, board_of(cpu), work / "build" / name)

    rows = (("q8", "cortex-m7", "cortex-m-dsp"), ("q4", "cortex-m33", "cortex-m-dsp"),
            ("q8", "cortex-m55", "cortex-m-mve"))
    for (weights, cpu, target), image in zip(rows, pool.map(build, rows)):
        name = f"vibration-{weights}-{cpu}"
        found = emulate(image, board_of(cpu))
        expected = (f"{name.replace('-', '_')}: self-test passed, "
                    f"digest {digest_here(arenite, work / f'{name}.all.arn', work)}\n")
        if target == "cortex-m-mve":
            found, expected = (text.split(",")[0] for text in (found, expected))
        checks.check(f"{weights} runs with the kernels of {target} on {cpu}", found, expected)


# Loads by the runtime's checksum, or by one that works bit by bit, as a CRC unit does, and may
# fail.
LOADING = r"""
#include <string.h>
#include "arenite/arenite.h"
#include "arenite_model.h"
#include "board.h"
#if defined(WRONG)
static uint32_t crc_unit(const void* bytes, size_t count) {
  const unsigned char* const at = bytes;
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < count; ++i) {
    crc ^= at[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1u)));
  }
  return ~crc + WRONG;
}
#define LOAD(model, file, bytes) arenite_model_load_crc32c(model, file, bytes, NULL, crc_unit, NULL)
#else
#define LOAD(model, file, bytes) arenite_model_load(model, file, bytes, NULL, NULL)
#endif
int main(void) {
  arenite_model model;
  const char* name = arenite_status_name(LOAD(&model, VIBRATION_MODEL, VIBRATION_MODEL_BYTES));
  board_write(name, strlen(name));
  return 0;
}
"""


def check_own_checksums(checks, bundle, archive, work):
    """A program that computes checksums by itself does not link the runtime's way to do it."""
    board, build = board_of("cortex-m7"), work / "checksums"
    build.mkdir()
    program = build / "loading.c"
    program.write_text(LOADING)
    for option, status, has_table in (("-DSOFTWARE", "ok", True), ("-DWRONG=0", "ok", False),
                                      ("-DWRONG=1", "bad model", False)):
        objects = [compile_file(program, board, build, "-I", bundle, option),
                   compile_file(BOARD_FOLDER / "start.cc", board, build),
                   compile_file(BOARD_FOLDER / "board.cc", board, build)]
        image = link(objects, [archive], board, build / "firmware")
        size = run("arm-none-eabi-size", image).splitlines()[1].split()
        checks.check(f"with {option} loading says {status} ({size[0]} bytes of code and model)",
                     (emulate(image, board), "crc32c_portable" in run("arm-none-eabi-nm", image)),
                     (status, has_table))


# The public headers of C++, used without -DNDEBUG.
CPP_PROGRAM = r"""
#include "arenite/session.h"
#include "arenite_model.h"
#include "board.h"
alignas(arenite::kArenaAlignment) static std::byte arena[VIBRATION_ARENA_BYTES_MAX];
int main() {
  const auto model = arenite::Model::load(
      {static_cast<const std::byte*>(VIBRATION_MODEL), VIBRATION_MODEL_BYTES});
  if (!model.ok()) return 1;
  const auto session = arenite::Session::create(
      *model, {.positions_max = VIBRATION_POSITIONS_MAX}, arena);
  const auto test = session.ok() ? (*session)->self_test() : session.status();
  board::write(test.ok() && test->passed ? "passed" : "failed");
  return 0;
}
"""


def check_cpp_program(checks, bundle, archive, work):
    """A program in C++ links without system calls of the C library."""
    board, build = board_of("cortex-m7"), work / "cpp"
    build.mkdir()
    program = build / "program.cc"
    program.write_text(CPP_PROGRAM)
    objects = [compile_file(program, board, build, "-I", bundle),
               compile_file(BOARD_FOLDER / "start.cc", board, build),
               compile_file(BOARD_FOLDER / "board.cc", board, build)]
    image = link(objects, [archive], board, build / "firmware")
    checks.check("a program in C++ links and runs", emulate(image, board), "passed")


def check_archives(checks, arenite, model, work, expected):
    """A program of C99 links what `--archive` made, and sees nothing else of the bundle."""
    soft_calls = "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=softfp -mthumb"
    for name, board, core in (
            ("mps2-an500", board_of("cortex-m7"), "cortex-m7/fpv5-d16-hard"),
            ("nano33ble", Board("", "mps2-an386", soft_calls), "cortex-m4/fpv4-sp-d16-softfp")):
        bundle, build = work / f"archive-{name}", work / f"archive-{name}-build"
        build.mkdir()
        run(arenite, "bundle", model, "-o", bundle, "--board", name, "--archive", "--tokens",
            str(TOKENS))
        program = build / "main.c"
        shutil.copy(bundle / "main.c", program)
        objects = [compile_file(program, board, build, "-std=c99", "-pedantic", "-I",
                                bundle / "src", "-DBOARD_WRITE=board_write"),
                   compile_file(BOARD_FOLDER / "start.cc", board, build),
                   compile_file(BOARD_FOLDER / "board.cc", board, build)]
        image = link(objects, [bundle / "src" / core / "libarenite.a"], board, build / "firmware")
        checks.check(f"a program of C99 links the archive for {name}", emulate(image, board),
                     expected)


def check_picolibc(checks, bundle, work, expected):
    """With another C library, its start-up code and its linker script."""
    board = board_of("cortex-m7")
    build = work / "picolibc"
    archive = build_as_one(bundle, board, build, PICOLIBC)
    program = compile_file(bundle / "main.c", board, build, PICOLIBC)
    memory = {"__flash": "0", "__flash_size": "4M", "__ram": "0x20000000", "__ram_size": "4M",
              "__stack_size": "16K"}
    run("arm-none-eabi-gcc", *board.flags.split(), PICOLIBC, "--oslib=semihost", "--crt0=hosted",
        "-Wl,--gc-sections", *[f"-Wl,--defsym={name}={value}" for name, value in memory.items()],
        program, archive, "-lm", "-o", build / "firmware")
    checks.check("the bundle runs with picolibc", emulate(build / "firmware", board), expected)


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
    pool = ThreadPoolExecutor(os.cpu_count())
    images = pool.map(lambda board: image_of(bundle, board, work / board.cpu), BOARDS)
    for board, image in zip(BOARDS, images):
        checks.check(f"the bundle runs on {board.cpu}, on QEMU's {board.machine}",
                     emulate(image, board), expected)
    check_own_kernels(checks, arenite, work, pool)
    check_named_boards(checks, arenite, model, work, expected)
    check_own_checksums(checks, bundle, work / "cortex-m7" / "libarenite.a", work)
    check_cpp_program(checks, bundle, work / "cortex-m7" / "libarenite.a", work)
    check_archives(checks, arenite, model, work, expected)
    check_without_flags(checks, bundle, work, expected)
    if has_picolibc():
        check_picolibc(checks, bundle, work, expected)
    else:
        print("skip  picolibc with its C++ library is not installed")
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
