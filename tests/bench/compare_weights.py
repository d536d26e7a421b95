#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the same models with float32, q8 and q4 weights side by side, and prints ratios.

Usage: compare_weights.py ARENITE FOLDER LENGTHS [ROUNDS] [--figures]
FOLDER holds what make_bench_models writes, LENGTHS are those of texts for the encoder. Each round
times every model once, so that all see the same minutes of a shared machine; the best of ROUNDS
counts (2 unless told). Goals are printed beside what was found, which depends on the machine:
nothing fails here. With --figures the best are written to tests/figures/speed.json, which the table
in README.md is made of.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "figures"))
import recorded  # noqa: E402, what writes figures

WEIGHTS = ("f32", "q8", "q4")
CONTEXT = 1024
PROMPT = 512
DECODER = f"--context {CONTEXT} --chunk {PROMPT} --prompt {PROMPT} --decode 64".split()

# What is to be at least, of float32 unless the row says otherwise.
GOALS = {
    "decode": {"q8": 3.2, "q4": 4.2},
    "of the read bandwidth": {"q8": 0.88, "q4": 0.72},
    f"prompt of {PROMPT}": {"q8": 2.8, "q4": 1.7},
    "texts, MiniLM-L6": {"q8": 2.6},
    "decode, 2 threads to 1": {"f32": 1.85, "q8": 1.85, "q4": 1.85},
    "prompt, 2 threads to 1": {"f32": 1.85, "q8": 1.85, "q4": 1.85},
}


def bench(arenite, model, *options):
    command = [arenite, "bench", model, "--json", *options]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return {run.get("what") or run["test"]: run for run in found["runs"]}


class Best:
    """The best of several rounds, by row and weights."""

    def __init__(self):
        self.rows = {}

    def add(self, row, weights, value):
        by_weights = self.rows.setdefault(row, {})
        by_weights[weights] = max(value, by_weights.get(weights, 0.0))

    def of(self, row, weights):
        return self.rows[row].get(weights)


def time_decoders(arenite, folder, best):
    for weights in WEIGHTS:
        model = folder / decoder_file(weights)
        for threads in (1, 2):
            runs = bench(arenite, model, *DECODER, "--threads", str(threads))
            best.add(f"decode {threads}", weights, runs["tg64"]["tokens_per_s"])
            best.add(f"prompt {threads}", weights, runs[f"pp{PROMPT}"]["tokens_per_s"])
            if threads == 1:
                best.add("share", weights, runs["tg64"]["share_of_read"])
                best.add("peak", weights, runs[f"pp{PROMPT}"]["share_of_peak"])


def time_encoders(arenite, folder, lengths, best):
    for weights in ("f32", "q8"):
        model = folder / encoder_file(weights)
        runs = bench(arenite, model, "--tokens", "16", "--lengths", lengths)
        texts = next(run for run in runs.values() if run["sequences"] > 1)  # not padded
        best.add("texts", weights, 1e3 * texts["sequences"] / texts["median_ms"])


def decoder_file(weights):
    return "gpt2-small.arn" if weights == "f32" else f"gpt2-small-{weights}.arn"


def encoder_file(weights):
    return "minilm-l6.arn" if weights == "f32" else f"minilm-l6-{weights}.arn"


def goal_text(row, weights):
    goal = GOALS.get(row, {}).get(weights)
    return "" if goal is None else f" (goal {goal:g})"


def print_rates(best):
    print(f"{'tokens or texts a second':<28}" + "".join(f"{weights:>20}" for weights in WEIGHTS))
    for row, key in (("decode", "decode 1"), (f"prompt of {PROMPT}", "prompt 1"),
                     ("texts, MiniLM-L6", "texts")):
        cells = ""
        for weights in WEIGHTS:
            rate = best.of(key, weights)
            cells += f"{'-' if rate is None else f'{rate:.1f}':>20}"
        print(f"{row:<28}{cells}")
    print()


def print_ratios(best):
    print(f"{'times float32':<28}" + "".join(f"{weights:>20}" for weights in WEIGHTS))

    def line(row, value_of):
        cells = ""
        for weights in WEIGHTS:
            value = value_of(weights)
            text = "-" if value is None else f"{value:.2f}{goal_text(row, weights)}"
            cells += f"{text:>20}"
        print(f"{row:<28}{cells}")

    def to_float(key):
        return lambda weights: (best.of(key, weights) / best.of(key, "f32")
                                if best.of(key, weights) else None)

    def to_one_thread(key):
        return lambda weights: best.of(f"{key} 2", weights) / best.of(f"{key} 1", weights)

    line("decode", to_float("decode 1"))
    line(f"prompt of {PROMPT}", to_float("prompt 1"))
    line("texts, MiniLM-L6", to_float("texts"))
    print()
    print("of this machine")
    line("of the read bandwidth", lambda weights: best.of("share", weights))
    line("decode, 2 threads to 1", to_one_thread("decode"))
    line("prompt, 2 threads to 1", to_one_thread("prompt"))
    print()


def resident_bytes(arenite, model):
    """The most that `generate` had resident, and what its arena takes."""
    command = [arenite, "generate", model, "--prompt-ids", "1,2,3", "--ids", "--tokens", "16",
               "--context", str(CONTEXT)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    inspect = [arenite, "inspect", "--json", model, "--positions", str(CONTEXT)]
    plan = json.loads(subprocess.run(inspect, stdout=subprocess.PIPE, check=True).stdout)
    return usage.ru_maxrss * 1024, plan["targets"][0]["arena"]["total_bytes"]


def print_bytes(arenite, folder):
    print(f"{'GPT-2-small, MB':<28}{'file':>12}{'goal':>8}{'resident':>12}"
          f"{'beyond file + arena':>22}")
    for weights, goal in (("f32", ""), ("q8", ""), ("q4", "92"), ("q4-none", "76")):
        model = folder / decoder_file(weights)
        file_bytes = model.stat().st_size
        resident, arena_bytes = resident_bytes(arenite, model)
        beyond = resident - file_bytes - arena_bytes
        print(f"{weights:<28}{file_bytes / 1e6:>12.1f}{goal:>8}{resident / 1e6:>12.1f}"
              f"{beyond / 1e6:>15.1f} (goal 8)")


def cpu_name():
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(line.split(": ")[1] for line in lines if line.startswith("model name"))


def write_figures(best, load):
    """Rates of one thread, in tokens and texts a second, shares of the machine's limits, and how
    many programs wanted its CPUs before."""
    rates = {key: {weights: round(value, 3) for weights, value in best.rows[key].items()}
             for key in ("decode 1", "prompt 1", "texts", "share", "peak")}
    amount = (f"prompt {100 * rates['peak']['f32']:.0f} %, "
              f"token {100 * rates['share']['f32']:.0f} %")
    recorded.write("speed", [{"promise": "speed of the machine", "tested": "limits",
                              "amount": amount, "command": "make bench FIGURES=1"}],
                   cpu=cpu_name(), load_before=round(load, 2), rates=rates)


def main():
    words = [word for word in sys.argv[1:] if word != "--figures"]
    if len(words) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    arenite, folder, lengths = Path(words[0]), Path(words[1]), words[2]
    rounds = int(words[3]) if len(words) == 4 else 2
    load = os.getloadavg()[0]
    best = Best()
    for _ in range(rounds):
        time_decoders(arenite, folder, best)
        time_encoders(arenite, folder, lengths, best)
    print_rates(best)
    print_ratios(best)
    print_bytes(arenite, folder)
    if "--figures" in sys.argv:
        write_figures(best, load)
    return 0


if __name__ == "__main__":
    sys.exit(main())
