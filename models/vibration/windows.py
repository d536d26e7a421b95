# SPDX-License-Identifier: Apache-2.0
"""The labelled windows that the model learns from and is measured on, each of a machine of its own.

    python3 windows.py --cache DIR training held_out     makes them (train.py and evaluate.py do too)
The seed of a window is its split and its number, so that no two splits share a machine.
"""

import argparse
import pathlib

import numpy as np

import features
import machine

# Name: (first number of the seed, windows). "validation" is what choices were made on.
SPLITS = {"training": (1, 15000), "validation": (2, 2500), "held_out": (3, 5000)}
CHUNK_WINDOWS = 500


def label_of(index):
    """Classes take turns, so that any run of windows holds all of them equally often."""
    return index % len(machine.CLASSES)


def window(seed, index):
    """Frames, not yet normalised: float32 [64, 16]."""
    rng = np.random.default_rng([seed, index])
    recording = machine.record(rng, machine.CLASSES[label_of(index)], features.WINDOW_SAMPLES)
    return features.frames_of(recording).astype(np.float32)


def chunk(seed, start, cache):
    """Windows start .. start + CHUNK_WINDOWS - 1, from the cache if they are there."""
    path = cache and cache / f"windows-{seed}-{start:06d}.npy"
    if path and path.exists():
        return np.load(path)
    made = np.stack([window(seed, start + i) for i in range(CHUNK_WINDOWS)])
    if path:
        cache.mkdir(parents=True, exist_ok=True)
        np.save(path.with_suffix(".part.npy"), made)
        path.with_suffix(".part.npy").rename(path)
    return made


def load(split, cache=None, count=None):
    """(frames [windows, 64, 16] float32, labels [windows]); `cache` is a folder or None."""
    seed, most = SPLITS[split]
    count = count or most
    parts = [chunk(seed, start, cache) for start in range(0, count, CHUNK_WINDOWS)]
    return np.concatenate(parts)[:count], label_of(np.arange(count))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("splits", nargs="+", choices=list(SPLITS))
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="folder to keep them in")
    options = parser.parse_args()
    for split in options.splits:
        frames, _ = load(split, options.cache)
        print(f"{split}: {len(frames)} windows", flush=True)


if __name__ == "__main__":
    main()
