# SPDX-License-Identifier: Apache-2.0
"""What the fuzzers have done so far, over all runs: tests/figures/fuzz.json."""

import datetime
import json
import os
import re
import subprocess
import sys
import threading


def statistics(output):
    """The executions of a run of libFuzzer, the edges that its inputs cover, and where the target
    says it, how far they got."""
    executions = re.findall(r"^stat::number_of_executed_units:\s*(\d+)", output, re.M)
    lines = re.findall(r"^#(\d+)\s", output, re.M)
    edges = [int(n) for n in re.findall(r"^#\d+\s.* cov: (\d+)", output, re.M)]
    count = int(executions[-1]) if executions else int(lines[-1]) if lines else 0
    stages = {name: int(n) for name, n in re.findall(r"^stage::(.*): (\d+)$", output, re.M)}
    return {"executions": count, "edges": max(edges, default=0), "stages": stages}


class Counts:
    """Where nothing is kept."""

    def ran(self, target, stats, seconds):
        pass

    def found(self, target, name):
        pass

    def fixed(self, target, name):
        pass


class Ledger(Counts):
    """Counts for each target, written whole after each change."""

    def __init__(self, root, build):
        self.file = root / "tests/figures/fuzz.json"
        self.write_figures = root / "tests/figures/write_figures.py"
        self.lock = threading.Lock()
        self.data = {"targets": {}}
        self.compiler = compiler_of(build)
        self.commit = subprocess.run(
            ["git", "-C", root, "rev-parse", "--short=12", "HEAD"], capture_output=True,
            text=True, check=True).stdout.strip()

    def ran(self, target, stats, seconds):
        with self.lock:
            row = self.row(target)
            row["executions"] += stats["executions"]
            row["seconds"] = round(row["seconds"] + seconds, 1)
            row["edges"] = stats["edges"] or row["edges"]
            for stage, count in stats["stages"].items():
                stages = row.setdefault("stages", {})
                stages[stage] = stages.get(stage, 0) + count
            self.write()

    def found(self, target, name):
        with self.lock:
            row = self.row(target)
            if name not in row["open"]:
                row["open"].append(name)
                self.write()

    def fixed(self, target, name):
        with self.lock:
            row = self.row(target)
            if name in row["open"]:
                row["open"].remove(name)
                row["fixed"] += 1
                self.write()

    def row(self, target):
        """The counts of a target as the file has them now: another run may have added to it."""
        if self.file.exists():
            self.data = json.loads(self.file.read_text())
        empty = {"executions": 0, "seconds": 0, "edges": 0, "open": [], "fixed": 0}
        return self.data["targets"].setdefault(target, empty)

    def write(self):
        self.data["date"] = datetime.date.today().isoformat()
        self.data["compiler"] = self.compiler
        self.data["commit"] = self.commit
        text = json.dumps(self.data, indent=1, sort_keys=True) + "\n"
        temporary = self.file.with_suffix(".tmp")
        temporary.write_text(text)
        os.replace(temporary, self.file)
        subprocess.run([sys.executable, self.write_figures], check=True)


def compiler_of(build):
    cache = (build / "CMakeCache.txt").read_text()
    program = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M).group(1)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return version.stdout.splitlines()[0]
