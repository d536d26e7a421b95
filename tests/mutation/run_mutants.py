#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows each of many small faults in an area to the tests that reach it; prints survivors.

Writes the figures of the area. Results are kept in build/mutation/AREA/results.json, so a run that
was stopped goes on where it was; when tests have changed, only survivors are shown to them again.
survivors.txt explains those that no test can notice; one that is killed or gone is an error there.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import mutated_area
from mutants import Mutant
from mutated_area import COMPILER, HERE, folder_of, library_of
from areas import AREAS, BUILD, ROOT, arguments_of, environment_with, link_programs, stamp

# Of each area: how many lines get a mutant, the file of its figures, and a row of their table.
CHOSEN = {
    "runtime": (600, "mutation", "tests notice faults", "mutants of random lines"),
    "exported": (200, "mutation_exported", "faults of exported/", "mutants"),
}
QUICK_SECONDS = 1.0  # of tests that a mutant is shown to first
TEST_SECONDS_MAX = 8.0  # a test that takes longer is not asked
DATA_BYTES_MAX = 6 << 30  # of a program, so that no mutant takes all memory


def digest(paths):
    sums = hashlib.sha256()
    for path in sorted(paths):
        sums.update(path.read_bytes())
    return sums.hexdigest()


def area_digest(area, count):
    sources = [f for f in area.folder.rglob("*") if f.suffix in (".h", ".cc")]
    tools = [HERE / "mutants.py", HERE / "mutated_area.py", *HERE.glob("arenite_mutant.*")]
    return f"{digest([*sources, *tools])} {count}"


def prepare(area, count):
    """{number: mutant}, from the library as it is, or built now."""
    made = folder_of(area) / "mutants.json"
    wanted = area_digest(area, count)
    if made.exists() and library_of(area).exists():
        data = json.loads(made.read_text())
        if data["digest"] == wanted:
            return {int(n): Mutant(**fields) for n, fields in data["mutants"].items()}
    folder_of(area).mkdir(parents=True, exist_ok=True)
    found = mutated_area.find_all(area)
    print(f"{len(found)} mutants found", flush=True)
    numbered = mutated_area.build(area, mutated_area.choose(area, found, count))
    made.write_text(json.dumps({"digest": wanted,
                                "mutants": {n: vars(m) for n, m in numbered.items()}}))
    return numbered


def link(area):
    listener = folder_of(area) / "reached_by_test.o"
    subprocess.run([COMPILER, "-std=c++20", "-O1", "-c", HERE / "reached_by_test.cc", "-o",
                    listener], check=True)
    return link_programs(area, library_of(area), [listener])


def run(area, program, name, mutant=None, tests=None, seconds=None, **environment):
    """Whether the program, or those of its tests, pass."""
    words = [str(program), *map(str, arguments_of(name))]
    if name not in area.whole:
        words += ["--gtest_brief=1", "--gtest_fail_fast"]
    if tests is not None and name not in area.whole:
        flags = folder_of(area) / f"flags-{mutant}.txt"
        flags.write_text(f"--gtest_filter={':'.join(tests)}\n")
        words.append(f"--gtest_flagfile={flags}")
    elif name not in area.whole:
        words.append(f"--gtest_filter=-{area.left_out}")
    if mutant is not None:
        environment["ARENITE_MUTANT"] = mutant

    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES_MAX, DATA_BYTES_MAX))
        if seconds is not None:
            most = int(4 * seconds + 3)
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))

    try:
        done = subprocess.run(words, cwd=program.parent, env=environment_with(**environment),
                              preexec_fn=limit, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL,
                              timeout=None if seconds is None else 40 * seconds + 60)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def read_reached(area, name, program, numbered):
    """Runs a program's tests without a mutant; gives back {mutant: [(test, seconds)]}."""
    folder = folder_of(area)
    path, of = folder / f"{name}.reached", folder / f"{name}.reached.of"
    wanted = digest([folder / "mutants.json", BUILD / area.programs[name]])
    if not of.exists() or of.read_text() != wanted:
        print(f"what {name} reaches", flush=True)
        before = os.times()
        if not run(area, program, name, ARENITE_MUTANTS_REACHED=path):
            sys.exit(f"{program} fails without any mutant")
        if name in area.whole:
            seconds = os.times().children_user - before.children_user
            path.write_text(path.read_text().replace("all 0", f"all {seconds}", 1))
        of.write_text(wanted)
    reached, seconds_of = defaultdict(list), {}
    for line in path.read_text().splitlines():
        test, seconds, *numbers = line.split(" ")
        seconds_of[test] = float(seconds)
        for number in map(int, numbers):
            if number in numbered:
                reached[number].append((test, float(seconds)))
    # What one test alone reaches may be done once for all that follow, such as filling a table.
    for number, tests in reached.items():
        shown = seconds_of.items() if len(tests) == 1 else tests
        reached[number] = [test for test in shown if test[1] <= TEST_SECONDS_MAX]
    return reached


def split(tests):
    """The quickest tests, of QUICK_SECONDS in all, and the others."""
    quick, slow, spent = [], [], 0.0
    for test in sorted(tests, key=lambda t: t[1]):
        spent += test[1]
        (quick if spent <= QUICK_SECONDS else slow).append(test)
    return quick, slow


class Results:
    """Which program killed a mutant, and to which it was shown; kept in a file."""

    def __init__(self, folder):
        self.path = folder / "results.json"
        self.mutants = digest([folder / "mutants.json"])
        old = json.loads(self.path.read_text()) if self.path.exists() else {}
        same = old.get("mutants") == self.mutants
        self.killed = old["killed"] if same else {}
        self.shown = old["shown"] if same else {}  # {key: {round and program: digest of it}}

    def write(self):
        self.path.write_text(json.dumps(
            {"mutants": self.mutants, "killed": self.killed, "shown": self.shown}))


def judge_all(area, numbered, programs):
    """Shows each mutant to the quick tests of each program, and those that survive to the slow."""
    results = Results(folder_of(area))
    for round_name, place in (("quick", 0), ("slow", 1)):
        for name, program in programs.items():
            reached = read_reached(area, name, program, numbered)
            version = digest([BUILD / area.programs[name]])
            turn = f"{round_name} {name}"

            def survives(number):
                chosen = split(reached[number])[place]
                return run(area, program, name, number, [test[0] for test in chosen],
                           sum(test[1] for test in chosen))

            asked = [number for number, tests in sorted(reached.items())
                     if numbered[number].key not in results.killed and split(tests)[place]
                     and results.shown.get(numbered[number].key, {}).get(turn) != version]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                for number, survived in zip(asked, pool.map(survives, asked)):
                    key = numbered[number].key
                    if not survived:
                        results.killed[key] = name
                    results.shown.setdefault(key, {})[turn] = version
                    results.write()
            print(f"{round_name} tests of {name}: {len(results.killed)} of {len(numbered)} killed",
                  flush=True)
    return results


def read_explained(area):
    """{mutant's key: reason}. A line of the file: path:line | old -> new | reason."""
    begin = f"{area.folder.relative_to(ROOT)}/"
    rows = (HERE / "survivors.txt").read_text().splitlines()
    return {row.rpartition(" | ")[0]: row.rpartition(" | ")[2] for row in rows
            if row.startswith(begin)}


def write_figures(area, numbered, results):
    counts = {"kinds": defaultdict(Counter), "folders": defaultdict(Counter)}
    for mutant in numbered.values():
        by = "killed" if mutant.key in results.killed else "survived"
        counts["kinds"][mutant.kind][by] += 1
        inside = mutant.file.split("/")
        counts["folders"][inside[0] if len(inside) > 1 else "its own files"][by] += 1
    killed = sum(count["killed"] for count in counts["kinds"].values())
    total = len(numbered)
    rows = ["| mutation | mutants | killed |", "|---|---|---|"]
    for group in counts.values():
        rows += [f"| {name} | {c.total()} | {c['killed']} |" for name, c in sorted(group.items())]
    _, file, promise, tested = CHOSEN[area.name]
    command = "make mutation" if area.name == "runtime" else f"make mutation AREA={area.name}"
    data = {**stamp(COMPILER), "seed": mutated_area.SEED, "mutants": total, "killed": killed,
            **{name: {k: dict(c) for k, c in sorted(group.items())}
               for name, group in counts.items()},
            "summary": [{"promise": promise, "tested": tested,
                         "amount": f"{killed} of {total} killed", "command": command}],
            "details": "\n".join([f"## Mutants of {area.folder.relative_to(ROOT)}/, by kind and by "
                                  "folder\n", *rows])}
    (ROOT / f"tests/figures/{file}.json").write_text(json.dumps(data, indent=1) + "\n")
    subprocess.run([sys.executable, ROOT / "tests/figures/write_figures.py"], check=True)
    print(f"{killed} of {total} killed ({100 * killed / total:.1f} %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--area", choices=sorted(AREAS), default="runtime")
    parser.add_argument("--mutants", type=int, help="lines that get one")
    options = parser.parse_args()
    area = AREAS[options.area]
    numbered = prepare(area, options.mutants or CHOSEN[area.name][0])
    print(f"{len(numbered)} mutants in the library", flush=True)
    results = judge_all(area, numbered, link(area))
    survivors = {mutant.key for mutant in numbered.values()} - set(results.killed)
    explained = read_explained(area)
    write_figures(area, numbered, results)
    for key in sorted(survivors - set(explained)):
        print(f"{'survived' if results.shown.get(key) else 'not reached'}: {key}")
    for key in sorted(set(explained) - survivors):
        print(f"killed or gone, but listed: {key}")
    sys.exit(survivors != set(explained))


if __name__ == "__main__":
    main()
