# SPDX-License-Identifier: Apache-2.0
"""Measures the trained encoder on machines it never saw, and keeps accuracy.json and the examples.

    /usr/bin/python3 evaluate.py            measures and compares; exits with 1 if worse
    /usr/bin/python3 evaluate.py --write    measures and writes
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch

import features
import machine
import model
import windows

ACCURACY_MIN = 0.97
CLOSE_CALLS = 64
LOGIT_DIFFERENCE_MAX = 2e-6   # logits reach about 10 and are rounded to float32
STREAM_SEED = (4, 1)          # no split begins with 4
STREAM_FAULT = "bearing_outer_race"
STREAM_SECONDS = 10
STREAM_ONSET = (4.5, 5.5)     # seconds: no fault before, all of it after

BOUNDS = {1: machine.IMBALANCE_VELOCITY, 2: machine.LOOSENESS_VELOCITY,
          3: machine.DEFECT_TO_BACKGROUND, 4: machine.DEFECT_TO_BACKGROUND}   # by label


def stream_frames(config):
    """The normalised frames [194, 16] of a recording in which a healthy machine breaks."""
    count = STREAM_SECONDS * machine.SAMPLE_RATE
    onset = np.interp(np.arange(count) / machine.SAMPLE_RATE, STREAM_ONSET, (0, 1))
    recording = machine.record(np.random.default_rng(STREAM_SEED), STREAM_FAULT, count, onset)
    return model.normalise(features.frames_of(recording).astype(np.float32), config)


def all_windows(frames):
    """[frames, 16] -> [frames - 63, 64, 16]: the window that ends at each frame."""
    starts = np.arange(len(frames) - features.WINDOW_FRAMES + 1)
    return frames[starts[:, None] + np.arange(features.WINDOW_FRAMES)]


def close_calls_of(encoder, held_out):
    """The numbers of the windows at which the best class is least ahead, in order."""
    logits = np.sort(model.logits_of(encoder, held_out), axis=1)
    return np.sort(np.argsort(logits[:, -1] - logits[:, -2], kind="stable")[:CLOSE_CALLS])


def examples_of(encoder, config, held_out, labels):
    """File name -> array; logits are computed in float64 and rounded."""
    close = close_calls_of(encoder, held_out)
    exact = encoder.double()
    stream = stream_frames(config)
    one_of_each = held_out[:len(machine.CLASSES)]
    examples = {"input.npy": one_of_each,
                "expected_logits.npy": model.logits_of(exact, one_of_each),
                "stream.npy": stream,
                "expected_stream_logits.npy": model.logits_of(exact, all_windows(stream))}
    encoder.float()
    rounded = {name: array.astype(np.float32) for name, array in examples.items()}
    rounded["close_calls.npy"] = held_out[close].astype(np.float32)
    rounded["close_calls_labels.npy"] = labels[close].astype(np.int64)
    return rounded


def by_severity(right, labels, severities):
    """Per faulty class, the share of right answers in thirds of its range of severities."""
    found = {}
    for label, (low, high) in BOUNDS.items():
        edges = np.geomspace(low, high, 4)
        found[machine.CLASSES[label]] = rows = []
        for first, last in zip(edges[:-1], edges[1:]):
            chosen = (labels == label) & (severities >= first) & (severities < last)
            rows.append({"from": round(float(first), 2), "to": round(float(last), 2),
                         "windows": int(chosen.sum()), "share": round(right[chosen].mean(), 4)})
    return found


def report_of(encoder, frames, labels, severities):
    """accuracy.json's content."""
    answers = model.logits_of(encoder, frames).argmax(axis=1)
    classes = range(len(machine.CLASSES))
    confusion = {machine.CLASSES[label]: {machine.CLASSES[answer]: int(np.sum(
        (labels == label) & (answers == answer))) for answer in classes} for label in classes}
    right = int(np.sum(answers == labels))
    return {"windows": len(labels), "right": right, "share": round(right / len(labels), 5),
            "confusion": confusion,
            "by_severity": by_severity(answers == labels, labels, severities)}


def print_report(report):
    print(f"{report['right']} of {report['windows']} held-out windows right: "
          f"{100 * report['share']:.2f} %")
    for name, row in report["confusion"].items():
        print(f"    {name:20s}" + "".join(f"{count:7d}" for count in row.values()))
    for name, rows in report["by_severity"].items():
        print(f"    {name:20s}" + "".join(
            f"   {row['from']:5.2f} to {row['to']:5.2f}: {100 * row['share']:6.2f} %"
            for row in rows))


def agrees(examples, folder):
    """Whether the files in the folder say the same; prints how far they are off."""
    good = True
    for name, array in examples.items():
        wanted = np.load(folder / name)
        difference = np.abs(array - wanted).max() if array.shape == wanted.shape else np.inf
        print(f"{name}: largest difference {difference:.1e} (at most {LOGIT_DIFFERENCE_MAX:.0e})")
        good = good and difference <= LOGIT_DIFFERENCE_MAX
    return good


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=here, help="where the files are")
    parser.add_argument("--cache", type=pathlib.Path, help="folder that keeps the windows")
    parser.add_argument("--write", action="store_true", help="write the files")
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder, config = model.load(options.folder)
    frames, labels, severities = windows.load("held_out", options.cache)
    frames = model.normalise(frames, config)
    report = report_of(encoder, frames, labels, severities)
    print_report(report)
    examples = examples_of(encoder, config, frames, labels)
    stream = examples["expected_stream_logits.npy"].argmax(axis=1)
    print("stream: " + "".join(str(answer) for answer in stream))
    good = report["share"] >= ACCURACY_MIN
    if options.write:
        (options.folder / "accuracy.json").write_text(json.dumps(report, indent=2) + "\n")
        for name, array in examples.items():
            np.save(options.folder / name, array)
    else:
        good = agrees(examples, options.folder) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
