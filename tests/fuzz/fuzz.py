#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzzers of a build folder, in parallel and in turns, and keeps count.

  fuzz.py turns BUILD --seconds S         all targets share S seconds of every core
  fuzz.py turns BUILD --hours H --ledger  the same, and adds to tests/figures/fuzz.json
  fuzz.py keep BUILD                      minimises what was found to tests/fuzz/corpus/*.zip

Inputs live in BUILD/fuzz/TARGET/corpus, and what ended a target in BUILD/fuzz/TARGET/findings, both
from one run to the next. A run may be interrupted at any time: the ledger is written after each
turn. A finding is open until its input passes at the start of a later run.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus_archive
import ledger

# Each turn begins with the corpus, which takes some up to a minute.
TURN_SECONDS = 3600
# A target with so many open findings mostly finds them again.
FINDINGS_MAX = 4
# One input may take this much; ten seconds are far beyond what any sound one does.
# Weighing inputs by how rare their features are takes more time than it saves: model_run does 4,200
# executions in a second of a core with it, 12,900 without, and finds as many edges in as many.
# What others add to a folder meanwhile is read at the next turn: to look for it took 6 % of the
# time.
LIMITS = ["-entropic=0", "-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=1024", "-reload=0"]
# Stacks of allocations and a longer quarantine take 15 % of the time of a target that allocates.
SANITIZERS = {
    "ASAN_OPTIONS": "quarantine_size_mb=4:malloc_context_size=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class Target:
    """A fuzzer, its folders, and what it has had of this run."""

    def __init__(self, row, build):
        self.name = row["name"]
        self.weight = row["weight"]
        self.folder = build / "fuzz" / self.name
        self.corpus = self.folder / "corpus"
        self.findings = self.folder / "findings"
        self.corpus.mkdir(parents=True, exist_ok=True)
        self.findings.mkdir(exist_ok=True)
        # A copy, so that the build may go on while it runs.
        self.program = self.folder / "program"
        self.program.unlink(missing_ok=True)
        shutil.copy2(row["program"], self.program)
        self.options = [f"-max_len={row['max_len']}"] + LIMITS
        if row["dictionary"]:
            self.options.append(f"-dict={row['dictionary']}")
        self.seconds = 0.0
        self.running = 0  # processes
        self.rests = False

    def found(self):
        """The inputs that ended the target; what was merely slow is not among them."""
        return [f for f in sorted(self.findings.iterdir()) if not f.name.startswith("slow-unit")]

    def run(self, arguments, **options):
        environment = os.environ | SANITIZERS
        return subprocess.Popen(
            [self.program, *self.options, *map(str, arguments)], env=environment,
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace", **options)


def seed(build, targets):
    """Adds the seeds and the inputs that are kept to each corpus."""
    subprocess.run([build / "tests/fuzz/make_corpus", build / "seeds"], check=True)
    for target in targets:
        folder = build / "seeds" / target.name
        for file in folder.iterdir() if folder.is_dir() else []:
            (target.corpus / file.name).write_bytes(file.read_bytes())
        corpus_archive.unpack(target.name, target.corpus)


def settle(target, counts):
    """Tries open findings again. Those that pass now are fixed, and become ordinary inputs."""
    for file in target.found():
        with target.run([file]) as process:
            process.communicate()
        if process.returncode == 0:
            file.rename(target.corpus / file.name)
            counts.fixed(target.name, file.name)
        else:
            counts.found(target.name, file.name)


def turn(target, seconds, counts, children):
    """One turn of a target: its output goes to a log, its statistics to the counts."""
    arguments = [f"-max_total_time={max(1, int(seconds))}", "-print_final_stats=1",
                 f"-artifact_prefix={target.findings}/", target.corpus]
    before = set(target.found())
    process = target.run(arguments, start_new_session=True)
    children.add(process)
    output = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    children.discard(process)
    spent = usage.ru_utime + usage.ru_stime
    (target.folder / "log.txt").write_text(output)
    new = sorted(set(target.found()) - before)
    # What ends it once more, such as an input of the corpus, would end every turn.
    target.rests = process.returncode != 0 and not new
    for file in new:
        print(f"FINDING {target.name}: {file}", flush=True)
        counts.found(target.name, file.name)
    stats = ledger.statistics(output)
    counts.ran(target.name, stats, spent)
    print(f"{target.name}: {stats['executions']} executions in {spent:.0f} s of a core, "
          f"{stats['edges']} edges", flush=True)


class Scheduler:
    """Gives the next turn to the target that is furthest below its share, of those that run least:
    few targets take several jobs each."""

    def __init__(self, targets, seconds, jobs, counts):
        self.targets = targets
        self.counts = counts
        self.weight_seconds = max(1.0, seconds * jobs / sum(t.weight for t in targets))
        self.ends = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.children = set()
        self.is_over = False

    def stop(self, *_):
        self.is_over = True
        for child in list(self.children):
            child.send_signal(signal.SIGINT)

    def next(self):
        with self.lock:
            free = [t for t in self.targets
                    if not t.rests and len(t.found()) < FINDINGS_MAX]
            if self.is_over or not free or time.monotonic() + 1 > self.ends:
                return None
            target = min(free, key=lambda t: (t.running, t.seconds / t.weight))
            target.running += 1
            return target

    def work(self):
        while target := self.next():
            started = time.monotonic()
            seconds = min(self.weight_seconds * target.weight, TURN_SECONDS,
                          self.ends - time.monotonic())
            turn(target, seconds, self.counts, self.children)
            with self.lock:
                target.seconds += time.monotonic() - started
                target.running -= 1


def run_turns(options, build, targets):
    counts = ledger.Ledger(ROOT, build) if options.ledger else ledger.Counts()
    seed(build, targets)
    for target in targets:
        settle(target, counts)
    seconds = options.hours * 3600 if options.hours else options.seconds
    scheduler = Scheduler(targets, seconds, options.jobs, counts)
    signal.signal(signal.SIGINT, scheduler.stop)
    signal.signal(signal.SIGTERM, scheduler.stop)
    workers = [threading.Thread(target=scheduler.work) for _ in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = sum(len(target.found()) for target in targets)
    print(f"{found} open findings")
    return 1 if found else 0


def keep(targets):
    """Minimises each corpus with libFuzzer's merge, and packs what is worth most of it."""
    for target in targets:
        folder = target.folder / "kept"
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        with target.run(["-merge=1", folder, target.corpus]) as process:
            output = process.communicate()[1]
        if process.returncode != 0:
            sys.exit(f"{target.name}: merge failed\n{output[-2000:]}")
        corpus_archive.pack(target.name, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["turns", "keep"])
    parser.add_argument("build", type=Path)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--ledger", action="store_true")
    parser.add_argument("--targets", help="only these, separated by commas")
    options = parser.parse_args()
    build = options.build.resolve()
    names = options.targets.split(",") if options.targets else []
    rows = json.loads((build / "fuzzers.json").read_text())
    targets = [Target(row, build) for row in rows if not names or row["name"] in names]
    if options.command == "keep":
        return keep(targets)
    return run_turns(options, build, targets)


if __name__ == "__main__":
    sys.exit(main())
