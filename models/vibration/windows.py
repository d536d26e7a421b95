# SPDX-License-Identifier: Apache-2.0
"""The labelled windows that the model learns from and is measured on, each of a machine of its own.

    python3 windows.py --cache DIR training held_out     makes them, as train.py and evaluate.py do
The seed of a window is its split and its number, so that no two splits share a machine.
"""

import argparse
import pathlib

import numpy as np

import features
import machine

# Name: (first number of the seed, windows). "validation" is what choices were made on.
SPLITS = {"training": (1, 5000), "validation": (2, 500), "held_out": (3, 5000)}
CHUNK_WINDOWS = 500


def label_of(index):
    """Classes take turns, so that any run of windows holds all of them equally often."""
    return index % len(machine.CLASSES)


def window(seed, index):
    """A window's frames, not yet normalised, [64, 16], and the severity of its fault."""
    rng = np.random.default_rng([seed, index])
    recording = machine.record(rng, machine.CLASSES[label_of(index)], features.WINDOW_SAMPLES)
    return features.frames_of(recording), recording.severity


def chunk(seed, start, cache):
    """Frames and severities, float32, of the CHUNK_WINDOWS windows from `start` on."""
    path = cache and cache / f"windows-{seed}-{start:06d}.npz"
    if path and path.exists():
        kept = np.load(path)
        return kept["frames"], kept["severities"]
    made = [window(seed, start + i) for i in range(CHUNK_WINDOWS)]
    frames, severities = (np.array(part, dtype=np.float32) for part in zip(*made))
    if path:
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part.npz")
        np.savez(unfinished, frames=frames, severities=severities)
        unfinished.rename(path)
    return frames, severities


def load(split, cache=None, count=None):
    """(frames [windows, 64, 16], labels [windows], severities [windows]), from `cache`, a folder,
    as far as they are there."""
    seed, most = SPLITS[split]
    count = count or most
    chunks = [chunk(seed, start, cache) for start in range(0, count, CHUNK_WINDOWS)]
    frames, severities = (np.concatenate(parts)[:count] for parts in zip(*chunks))
    return frames, label_of(np.arange(count)), severities


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("splits", nargs="+", choices=list(SPLITS))
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="folder to keep them in")
    options = parser.parse_args()
    for split in options.splits:
        frames = load(split, options.cache)[0]
        print(f"{split}: {len(frames)} windows", flush=True)


if __name__ == "__main__":
    main()
