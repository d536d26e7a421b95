# SPDX-License-Identifier: Apache-2.0
"""Chooses mutants, writes a copy of an area that has all of them inside, and builds it once."""

import os
import random
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "coverage"))
import areas  # noqa: E402

import mutants  # noqa: E402

HERE = Path(__file__).resolve().parent
COMPILER = "g++"
SEED = 20261123
JOBS = os.cpu_count()


def folder_of(area):
    """Where all that is made for the area lies."""
    return areas.BUILD / "mutation" / area.name


def library_of(area):
    return folder_of(area) / "linked" / area.binary


def copy_of(area):
    """The copy of the area's folder, and the folder that #include names its files from."""
    includes = folder_of(area) / "copy"
    return includes / area.folder.relative_to(area.includes), includes


def find_in(item):
    area, source, words = item
    finder = mutants.Finder(area.folder, str(area.folder.relative_to(areas.ROOT)))
    finder.read(str(source), areas.parse_arguments(words))
    return finder.found


def find_all(area):
    found = {}
    sources = [(area, source, words) for source, words in areas.commands(area).items()]
    with ProcessPoolExecutor(JOBS) as pool:
        for part in pool.map(find_in, sources):
            found |= {key: mutant for key, mutant in part.items() if key not in found}
    return list(found.values())


def choose(area, found, count):
    """`count` lines of all that have mutants, and of each line one: first its kind, then which.

    Its text decides whether a line is chosen, so a change elsewhere leaves the others as they are.
    """
    by_line = defaultdict(lambda: defaultdict(list))
    for mutant in sorted(found, key=lambda m: (m.file, m.line, m.key, m.kind)):
        by_line[mutant.file, mutant.line][mutant.kind].append(mutant)
    texts = {file: (area.folder / file).read_text().splitlines() for file, _ in by_line}
    seen = Counter()
    ranked = []
    for (file, line), kinds in by_line.items():
        name = f"{file} {texts[file][line - 1].strip()}"
        seen[name] += 1
        generator = random.Random(f"{SEED} {name} {seen[name]}")
        rank = generator.random()
        kind = generator.choice(sorted(kinds))
        ranked.append((rank, file, line, generator.choice(kinds[kind])))
    return [mutant for *_, mutant in sorted(ranked, key=lambda r: r[:3])[:count]]


def render(text, start, end, inside):
    """The source from start to end; `inside` are (number, mutant) there, the outer ones first."""
    pieces = []
    place = start
    while inside:
        number, mutant = inside[0]
        within = [item for item in inside[1:] if item[1].end <= mutant.end]
        inside = inside[1 + len(within):]
        pieces.append(text[place:mutant.start].decode())
        original = render(text, mutant.start, mutant.end, within)
        pieces.append(mutant.wrapped(number, original))
        place = mutant.end
    pieces.append(text[place:end].decode())
    return "".join(pieces)


def write_copy(area, copy, numbered):
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(area.folder, copy)
    by_file = defaultdict(list)
    for item in numbered.items():
        by_file[item[1].file].append(item)
    for file, items in by_file.items():
        items.sort(key=lambda item: (item[1].start, -item[1].end))
        text = (area.folder / file).read_bytes()
        mutated = render(text, 0, len(text), items)
        # One line, so that the others keep their numbers.
        first, rest = mutated.split("\n", 1)
        (copy / file).write_text(f'#include "{HERE}/arenite_mutant.h"  {first}\n{rest}')


def lines_of(copy, errors):
    """(file, line) of the copy that a compiler complains of, however far from the error itself."""
    pattern = rf"{re.escape(str(copy))}/([\w/.]+):(\d+)(?::\d+)?: error"
    return {(file, int(line)) for file, line in re.findall(pattern, errors)}


def build(area, chosen):
    """Builds with all that compile; gives back {number: mutant} of those that are in the code."""
    numbered = dict(enumerate(chosen))
    copy, includes = copy_of(area)
    library = library_of(area)
    finished = set()  # objects in which a mutant that is dropped later is never chosen
    while True:
        write_copy(area, copy, numbered)
        try:
            areas.build_library(
                area, library, COMPILER, ["-O1", "-Wno-narrowing", "-fpermissive"],
                includes=includes, jobs=JOBS, extra=[HERE / "arenite_mutant.cc"],
                finished=finished)
            break
        except areas.BuildError as error:
            places = lines_of(copy, error.errors)
            bad = [number for number, mutant in numbered.items()
                   if any(mutant.file == file and mutant.line <= line <= mutant.line + 8
                          for file, line in places)]
            if not bad:
                sys.exit(error.errors[:3000])
            for number in bad:
                del numbered[number]
            print(f"{len(bad)} mutants do not compile", flush=True)
    section = folder_of(area) / "section.bin"
    subprocess.run(["objcopy", "-O", "binary", "-j", "arenite_mutants",
                    "--set-section-flags", "arenite_mutants=alloc", library, section], check=True)
    present = {number for number, in struct.iter_unpack("<i", section.read_bytes())}
    return {number: mutant for number, mutant in numbered.items() if number in present}
