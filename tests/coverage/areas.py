# SPDX-License-Identifier: Apache-2.0
"""Builds an area of the sources once more, in another way, and links its tests with that.

The objects of the tests and of all else stay those of the default build. The runtime becomes a
shared library that binds its symbols to itself, so functions of its headers are those that were
compiled into it. What calls all else of the converter becomes one object, which is linked first.
"""

import json
import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


@dataclass(frozen=True)
class Area:
    """A folder of sources that is built apart, and its tests."""
    name: str
    folder: Path
    includes: Path  # the folder that #include names its files from
    objects: str  # how the paths of its objects in the default build begin
    binary: str  # what is built; one that ends with .so replaces runtime/libarenite.a
    programs: dict  # name of a test program: its path; quick ones first
    left_out: str  # tests that are not run
    whole: tuple = ()  # programs without GoogleTest: each runs as one test


# The programs of tests/device measure their stack, which is another one here. Left out are sweeps
# of damage: they take minutes, and notice harm alone. And that the runtime writes to no memory but
# its arena: here it counts what was reached.
RUNTIME = Area(
    "runtime", ROOT / "runtime", ROOT / "runtime", "runtime/CMakeFiles/arenite.dir/",
    "libarenite_again.so",
    {
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
    },
    "*RepairedDamage*:*FrozenMemory*", ("c99_test",))
# Left out are random changes of programs, which may be refused or read.
EXPORTED = Area(
    "exported", ROOT / "tools/convert/exported", ROOT / "tools",
    "tools/CMakeFiles/arenite_convert.dir/arenite_convert_sources/convert_exported_",
    "exported_again.o",
    {
        "exported_parts_tests": "tests/convert/exported_parts_tests",
        "exported_models_tests": "tests/convert/exported_models_tests",
    },
    "*ChangedModels*:*ChangedBytesOfArchives*")
AREAS = {area.name: area for area in (RUNTIME, EXPORTED)}
# Not what hides symbols, warns, or differs from one compiler to the other.
DROPPED = ("-fvisibility", "-W", "-O", "-ffunction-sections", "-fdata-sections",
           "-fpch-preprocess")


class BuildError(Exception):
    """A source could not be compiled; `errors` is what the compiler said."""

    def __init__(self, errors):
        super().__init__(errors)
        self.errors = errors


def commands(area):
    """Source, or file that includes several: the words of the command that compiles it."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    sources = {Path(entry["file"]): shlex.split(entry["command"]) for entry in entries
               if f"-o {area.objects}" in entry["command"] and entry["file"].endswith(".cc")}
    assert sources, f"no command of build/compile_commands.json compiles the {area.name}"
    return sources


def parse_arguments(words):
    """Those of a command's words that say how a source is read."""
    arguments = [word for word in words if word.startswith(("-D", "-I", "-std"))]
    for option, folder in zip(words, words[1:]):
        if option == "-isystem":
            arguments += [option, folder]
    return arguments


def kept_arguments(area, words, includes):
    """What compiles a source with the area in `includes`, and no header that was read before."""
    kept = [word for word in words[1:words.index("-o")] if not word.startswith(DROPPED)]
    if "-include" in kept:
        place = kept.index("-include")
        del kept[place:place + 2]
    inside = [word for word in kept if word.startswith(f"-I{area.includes}")]
    return [word.replace(str(area.includes), str(includes)) for word in inside] + kept


def build_library(area, library, compiler, flags, link_flags=(), includes=None, jobs=1, extra=(),
                  finished=None):
    """Compiles all sources and links them as `library`. They may lie in a copy of the area's folder
    in `includes`. Objects in the set `finished` stay as they are; those that are made go there."""
    library.parent.mkdir(parents=True, exist_ok=True)
    includes = includes or area.includes
    finished = set() if finished is None else finished
    compiled = []
    for source, words in commands(area).items():
        is_inside = source.is_relative_to(area.folder)
        place = includes / source.relative_to(area.includes) if is_inside else source
        name = str(source.relative_to(area.folder)) if is_inside else source.name
        target = library.parent / (name.replace("/", "-") + ".o")
        kept = kept_arguments(area, words, includes)
        compiled.append((target, [compiler, *kept, "-w", *flags, "-c", str(place), "-o",
                                  str(target)]))
    for source in extra:
        target = library.parent / (source.name + ".o")
        compiled.append((target, [compiler, "-std=c++20", "-fPIC", "-O1", "-c", str(source), "-o",
                                  str(target)]))

    def compile_one(item):
        target, words = item
        if target in finished:
            return ""
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            return done.stderr
        finished.add(target)
        return ""

    with ThreadPoolExecutor(jobs) as pool:
        errors = "".join(pool.map(compile_one, compiled))
    if errors:
        raise BuildError(errors)
    how = ["-shared", "-Wl,-Bsymbolic"] if library.suffix == ".so" else ["-r"]
    beside = [BUILD / "libarenite_xnnpack.a"] if library.suffix == ".so" else []
    subprocess.run([compiler, *how, *link_flags, "-o", library,
                    *(target for target, _ in compiled), *beside], check=True)


def link_programs(area, library, extra=()):
    """Links each program of the tests with the library, beside it; gives back where they are."""
    linked = {}
    for name, place in area.programs.items():
        answer = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "-s", place],
                                capture_output=True, text=True, check=True)
        command = answer.stdout.splitlines()[-1].removeprefix(": && ").removesuffix(" && :")
        words = shlex.split(command)
        if library.suffix == ".so":
            words = [str(library) if word == "runtime/libarenite.a" else word for word in words]
            words.append(f"-Wl,-rpath,{library.parent}")
        else:
            first = next(i for i, word in enumerate(words) if word.endswith(".o"))
            words.insert(first, str(library))
        linked[name] = library.parent / name
        words[words.index("-o") + 1] = str(linked[name])
        added = [] if name in area.whole else list(extra)
        subprocess.run([*words, *map(str, added)], cwd=BUILD, check=True)
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
