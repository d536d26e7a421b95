# SPDX-License-Identifier: Apache-2.0
"""Builds the runtime once more as a shared library, in another way, and links the tests with it.

The objects of the tests and of the converter stay those of the default build. The library binds its
symbols to itself, so functions of its headers are those that were compiled into it.
"""

import json
import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
RUNTIME = ROOT / "runtime"
# The programs of the runtime's tests, quick ones first. Those of tests/device measure their stack,
# which is another one here.
PROGRAMS = {
    "core_tests": "tests/runtime/core_tests",
    "c99_test": "tests/c_api/c99_test",
    "c_api_tests": "tests/c_api/c_api_tests",
    "other_rows_tests": "tests/runtime/other_rows_tests",
    "pinned_tests": "tests/golden/pinned_tests",
    "verify_tests": "tests/runtime/verify_tests",
    "text_tests": "tests/runtime/text_tests",
    "session_tests": "tests/runtime/session_tests",
    "kernels_tests": "tests/runtime/kernels_tests",
    "attention_tests": "tests/runtime/attention_tests",
    "ops_tests": "tests/runtime/ops_tests",
    "convert_tests": "tests/convert/convert_tests",
}
WHOLE = ("c99_test",)  # no GoogleTest: it runs as one test
# Sweeps of damage: they take minutes, and notice harm alone. And that the runtime writes to no
# memory but its arena: here it counts what was reached.
LEFT_OUT = "*RepairedDamage*:*FrozenMemory*"
# Not what hides symbols, warns, or differs from one compiler to the other.
DROPPED = ("-fvisibility", "-W", "-O", "-ffunction-sections", "-fdata-sections")


class BuildError(Exception):
    """A source could not be compiled; `errors` is what the compiler said."""

    def __init__(self, errors):
        super().__init__(errors)
        self.errors = errors


def commands():
    """Source of the runtime: the words of the command that compiles it for the library."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    sources = {Path(entry["file"]): shlex.split(entry["command"]) for entry in entries
               if Path(entry["file"]).is_relative_to(RUNTIME) and entry["file"].endswith(".cc")
               and "-o runtime/CMakeFiles/arenite.dir/" in entry["command"]}
    assert sources, "no command of build/compile_commands.json compiles the runtime"
    return sources


def parse_arguments(words):
    """Those of a command's words that say how a source is read."""
    arguments = [word for word in words if word.startswith(("-D", "-I", "-std"))]
    for option, folder in zip(words, words[1:]):
        if option == "-isystem":
            arguments += [option, folder]
    return arguments


def build_library(library, compiler, flags, link_flags=(), sources=RUNTIME, jobs=1, extra=()):
    """Compiles all sources, which may lie in a copy of the folder, and links them as `library`."""
    library.parent.mkdir(parents=True, exist_ok=True)
    compiled = []
    for source, words in commands().items():
        place = sources / source.relative_to(RUNTIME)
        target = library.parent / (str(source.relative_to(RUNTIME)).replace("/", "-") + ".o")
        kept = [word.replace(f"-I{RUNTIME}", f"-I{sources}") for word in words[1:words.index("-o")]
                if not word.startswith(DROPPED)]
        compiled.append((target, [compiler, *kept, "-w", *flags, "-c", str(place), "-o",
                                  str(target)]))
    for source in extra:
        target = library.parent / (source.name + ".o")
        compiled.append((target, [compiler, "-std=c++20", "-fPIC", "-O1", "-c", str(source), "-o",
                                  str(target)]))

    def compile_one(item):
        return subprocess.run(item[1], capture_output=True, text=True)

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(compile_one, compiled))
    errors = "".join(result.stderr for result in results if result.returncode)
    if errors:
        raise BuildError(errors)
    subprocess.run([compiler, "-shared", "-Wl,-Bsymbolic", *link_flags, "-o", library,
                    *(target for target, _ in compiled), BUILD / "libarenite_xnnpack.a"],
                   check=True)


def link_programs(library, programs, extra=()):
    """Links each program of the tests with the library, beside it; gives back where they are."""
    linked = {}
    for name in programs:
        place = PROGRAMS[name]
        answer = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "-s", place],
                                capture_output=True, text=True, check=True)
        command = answer.stdout.splitlines()[-1].removeprefix(": && ").removesuffix(" && :")
        words = [str(library) if word == "runtime/libarenite.a" else word
                 for word in shlex.split(command)]
        linked[name] = library.parent / name
        words[words.index("-o") + 1] = str(linked[name])
        added = [] if name in WHOLE else list(extra)
        subprocess.run([*words, *map(str, added), f"-Wl,-rpath,{library.parent}"], cwd=BUILD,
                       check=True)
    return linked


def arguments_of(name):
    """What a program is called with, beside options of GoogleTest."""
    if name == "c99_test":
        recall = ROOT / "models/recall"
        made = BUILD / "tests/c_api"
        return [made / "recall.arn", recall / "input.npy", recall / "expected_output.npy",
                made / "intent.arn"]
    return []


def stamp(compiler):
    """Date, compiler and commit, as all figures have them."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, text=True,
                            capture_output=True, check=True)
    date = subprocess.run(["date", "-u", "+%Y-%m-%d"], capture_output=True, text=True, check=True)
    return {"date": date.stdout.strip(), "compiler": version.stdout.splitlines()[0],
            "commit": commit.stdout.strip()}


def environment_with(**values):
    return {**os.environ, **{name: str(value) for name, value in values.items()}}
