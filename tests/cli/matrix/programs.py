# SPDX-License-Identifier: Apache-2.0
"""Programs that have models in them, compiled once for all rows, and what they give.

A maker takes the rows and the words that call the build's compilers and name its libraries; it
returns a program that is run as embedded.c says.
"""

import array
import os
import platform
import subprocess
from pathlib import Path

from arrays import Array
from rows import Wrong, require

HERE = Path(__file__).parent


def make(words, folder):
    result = subprocess.run([str(word) for word in words], cwd=folder, text=True,
                            capture_output=True, check=False)
    require(result.returncode == 0, words[0], "fails:", result.stderr[-3000:])


def write_list(rows, folder, lines):
    each = " ".join(f"EACH({row.name}, {row.name.upper()})" for row in rows)
    text = '#include "arenite/arenite.h"\n' + "".join(line + "\n" for line in lines)
    (folder / "models.h").write_text(text + f"#define ARENITE_MODELS(EACH) {each}\n")


def in_cpp(rows, folder, build):
    """Headers of C++, and the bytes in object files, or in assembler where there are none."""
    lines, objects = [], []
    machine = platform.machine()
    for row in rows:
        has_object = machine in ("x86_64", "aarch64", "riscv64")
        data = folder / f"{row.name}.{'o' if has_object else 'S'}"
        row.arenite("embed", row.model, "-o", folder / f"{row.name}.h", "--data", data, "--section",
                    ".rodata.models", *(["--abi", machine] if has_object else []), *row.sizes())
        name, upper = row.name, row.name.upper()
        lines += [f'#include "{name}.h"', f"#define {upper}_MODEL {name}_model().data()",
                  f"#define {upper}_MODEL_BYTES {name}_model().size()"]
        lines += [f"#define {upper}_{part.upper()} {name}_{part}" for part in
                  ("positions_max", "tokens_max", "sequences_max", "arena_bytes_max")]
        objects.append(data)
    write_list(rows, folder, lines)
    make([*build["cxx"], "-std=c++20", "-I.", "-x", "c++", HERE / "embedded.c", "-x", "none",
          *objects, *build["libraries"], "-o", "program"], folder)
    return folder / "program"


def in_c(rows, folder, build):
    """Headers of C, with the bytes in them."""
    lines = []
    for row in rows:
        row.arenite("embed", row.model, "-o", folder / f"{row.name}.h", "--language", "c", "--name",
                    row.name, *row.sizes())
        lines.append(f'#include "{row.name}.h"')
    write_list(rows, folder, lines)
    make([*build["cc"], "-std=c99", "-I.", "-c", HERE / "embedded.c"], folder)
    make([*build["cxx"], "embedded.o", *build["libraries"], "-o", "program"], folder)
    return folder / "program"


def in_bundle(rows, folder, build):
    """A folder of sources with its own Makefile. main.c tries all models, too."""
    bundle = folder / "bundle"
    for row in rows:
        row.convert("--target", "portable", output=folder / f"{row.name}.arn")
    rows[0].arenite("bundle", *(folder / f"{row.name}.arn" for row in rows), "-o", bundle)
    (bundle / "models.h").write_text('#include "arenite_model.h"\n')
    make(["make", f"-j{os.cpu_count()}", "OPTIMIZE=-O0", "all"], bundle)
    tried = subprocess.run(["./self_test"], cwd=bundle, text=True, capture_output=True, check=False)
    lines = tried.stdout.splitlines()
    require(len(lines) == len(rows) and all("self-test passed, digest" in line for line in lines),
            "main.c of the bundle says", tried.stdout)
    make(["cc", "-std=c99", "-I.", HERE / "embedded.c", "build/libarenite.a", "-lm", "-o",
          "program"], bundle)
    return bundle / "program"


PROGRAMS = {
    "embed --data --section --abi --positions --tokens --sequences": in_cpp,
    "embed --language --name": in_c, "bundle": in_bundle}


def run(column, program, row):
    """Raises Wrong unless the program gives what PyTorch gives."""
    given, wanted = [row.array("input")], row.array("output")
    if column == "bundle" or len(row.inputs) > 1:  # whose sizes are those of a short sequence
        given, wanted = row.short()
    if row.kind.pixels:  # programs take the channels of a pixel side by side
        given = [given[0].with_columns_last(row.kind.pixels)]
    data = b"".join(array.array("I" if each.code == "q" else "f", each.values).tobytes()
                    for each in given)
    shape = [str(given[0].shape[0]),
             *(str(row.kind.pixels or each.shape[1]) for each in given)]
    result = subprocess.run([program, row.name, *shape], input=data, capture_output=True,
                            check=False)
    require(result.returncode == 0, result.stderr.decode())
    found = Array(array.array("I", result.stdout[:8]), array.array("f", result.stdout[8:]))
    if row.kind.is_open:
        wanted = wanted.last_rows()
    width = wanted.shape[-1]
    row.expect(found, Array([len(wanted.values) // width, width], wanted.values))
