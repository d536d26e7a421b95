# SPDX-License-Identifier: Apache-2.0
"""Firmware from a bundle: compiled by the bundle's own Makefile for a CPU without an operating
system, linked with the start-up code of examples/boards/mps2, and run on QEMU's board."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOARD_FOLDER = ROOT / "examples" / "boards" / "mps2"


@dataclass
class Board:
    cpu: str
    machine: str  # of QEMU
    flags: str
    memory: str = ""  # where it differs from mps2.ld


BOARDS = (
    Board("cortex-m3", "mps2-an385", "-mcpu=cortex-m3 -mthumb"),
    Board("cortex-m4", "mps2-an386",
          "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard -mthumb"),
    Board("cortex-m7", "mps2-an500", "-mcpu=cortex-m7 -mfpu=fpv5-d16 -mfloat-abi=hard -mthumb"),
    Board("cortex-m33", "mps2-an505",
          "-mcpu=cortex-m33 -mfpu=fpv5-sp-d16 -mfloat-abi=hard -mthumb",
          "-Wl,--defsym=arenite_flash=0x10000000,--defsym=arenite_ram=0x38000000"),
    Board("cortex-m55", "mps3-an547", "-mcpu=cortex-m55 -mfloat-abi=hard -mthumb",
          "-Wl,--defsym=arenite_flash_bytes=0x80000,--defsym=arenite_ram=0x21000000"),
)


def board_of(cpu):
    return next(board for board in BOARDS if board.cpu == cpu)


def run(*command, **options):
    """The standard output. A command that fails says what it printed."""
    words = [str(word) for word in command]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False, **options)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}\nended with {result.returncode}:\n{result.stdout}")
    return result.stdout


def compiler(name):
    """With ccache, where it is: every board compiles the same sources."""
    return f"ccache {name}" if shutil.which("ccache") else name


def build_library(bundle, board, build, libc=""):
    """Compiles the bundle for the board and returns the archive."""
    run("make", "-C", bundle, f"-j{os.cpu_count()}", "lib", f"BUILD={build}",
        f"CPU={board.flags} {libc}".strip(), f"CC={compiler('arm-none-eabi-gcc')}",
        f"CXX={compiler('arm-none-eabi-g++')}", "AR=arm-none-eabi-ar")
    return Path(build) / "libarenite.a"


def compile_file(source, board, build, *options):
    """Compiles a file of the program around the bundle, C or C++."""
    is_c = str(source).endswith(".c")
    language = ["-std=gnu99"] if is_c else ["-std=c++20", "-fno-exceptions", "-fno-rtti"]
    made = Path(build) / (Path(source).name + ".o")
    run("arm-none-eabi-gcc" if is_c else "arm-none-eabi-g++", *board.flags.split(), *language,
        "-Os", "-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections",
        f"-I{BOARD_FOLDER}", *options, "-c", source, "-o", made)
    return made


def link(objects, archives, board, image):
    run("arm-none-eabi-gcc", *board.flags.split(), "-nostartfiles", "-Wl,--gc-sections",
        "-Wl,-z,noexecstack", *board.memory.split(), "-T", BOARD_FOLDER / "mps2.ld", *objects,
        *archives, "-lm", "-o", image)
    return image


def program_objects(bundle, board, build):
    """main.c of the bundle, and the board's own files."""
    return [compile_file(Path(bundle) / "main.c", board, build, "-DBOARD_WRITE=board_write"),
            compile_file(BOARD_FOLDER / "start.cc", board, build),
            compile_file(BOARD_FOLDER / "board.cc", board, build)]


def emulate(image, board, seconds=120):
    return run("qemu-system-arm", "-machine", board.machine, "-nographic", "-monitor", "none",
               "-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel",
               image, timeout=seconds)
