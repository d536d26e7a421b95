# SPDX-License-Identifier: Apache-2.0
"""Checks the recall module without PyTorch: numpy, in float64, with recall.safetensors as weights.

Recomputes expected_output.npy, then measures accuracy on freshly drawn sequences. Exits with 1
when the output differs or a share of right answers is too low:
    python3 check.py
"""

import argparse
import json
import pathlib
import struct
import sys

import numpy as np

import task

DIFFERENCE_MAX = 1e-6  # the file holds float32, so half a unit in its last place is the least
ACCURACY_MIN = 0.99    # over all queries, at the noise of training


def read_safetensors(path):
    """The F32 tensors of a safetensors file as float64 arrays."""
    file = path.read_bytes()
    (header_bytes,) = struct.unpack_from("<Q", file)
    header = json.loads(file[8:8 + header_bytes])
    header.pop("__metadata__", None)
    data = file[8 + header_bytes:]
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            sys.exit(f"{path}: tensor {name} is {entry['dtype']}, expected F32; run train.py")
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[begin:end], "<f4").astype(np.float64)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def causal_self_attention(tensors, heads, x):
    """[sequences, tokens, features] -> the same shape, all in float64."""
    sequences, tokens, width = x.shape
    head_dim = width // heads
    qkv = x.astype(np.float64) @ tensors["c_attn.weight"].T + tensors["c_attn.bias"]
    split = qkv.reshape(sequences, tokens, 3, heads, head_dim)
    query, key, value = split.transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-2, -1) / np.sqrt(head_dim)
    scores = np.where(tensors["bias"][:, :, :tokens, :tokens] == 0, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    context = (weights @ value).swapaxes(1, 2).reshape(sequences, tokens, width)
    return context @ tensors["c_proj.weight"].T + tensors["c_proj.bias"]


def rebinding_gaps(keys, values):
    """How recently the asked key changed its value, at queries, int, shaped as keys.

    The number of positions from its latest binding with another value to its latest binding;
    0 where it had no other value, and at bindings.
    """
    gaps = np.zeros(keys.shape, int)
    for row in range(len(keys)):
        history = [[] for _ in range(task.KEYS)]
        for t, (key, value) in enumerate(zip(keys[row], values[row])):
            if value >= 0:
                history[key].append((t, value))
                continue
            latest_t, latest_value = history[key][-1]
            older = [t for t, v in history[key] if v != latest_value]
            gaps[row, t] = latest_t - older[-1] if older else 0
    return gaps


def check_example(folder, tensors, config):
    """Prints how far expected_output.npy is from a fresh result; returns whether it is good."""
    expected = np.load(folder / "expected_output.npy")
    outputs = causal_self_attention(tensors, config["heads"], np.load(folder / "input.npy"))
    if outputs.shape != expected.shape:
        sys.exit(f"{folder / 'expected_output.npy'}: shape {expected.shape}, expected "
                 f"{outputs.shape}; run train.py")
    difference = np.abs(outputs - expected).max()
    print(f"largest difference from expected_output.npy: {difference:.3e} "
          f"(at most {DIFFERENCE_MAX:.0e})")
    answers = np.array(config["example"]["answers"])
    asked = answers >= 0
    right = (task.decode(expected) == answers)[asked]
    print(f"right answers in expected_output.npy: {right.sum()} of {asked.sum()}")
    return bool(difference <= DIFFERENCE_MAX and right.all())


def check_accuracy(tensors, heads, options):
    """Prints the share of right answers; returns whether it is high enough."""
    rng = np.random.default_rng(options.seed)
    keys, values, answers = task.sample_tokens(rng, options.sequences)
    x = task.features(rng, keys, values, options.noise)
    right = task.decode(causal_self_attention(tensors, heads, x)) == answers
    asked = answers >= 0
    last = np.zeros(asked.shape, bool)
    last[:, -1] = True
    gaps = rebinding_gaps(keys, values)
    groups = {"all queries": asked, "the last token": last,
              "key never had another value": asked & (gaps == 0),
              "other value 1 position before": gaps == 1,
              "other value 2 positions before": gaps == 2,
              "other value 3 or more before": gaps >= 3}
    print(f"right answers, {options.sequences} sequences, seed {options.seed}, "
          f"noise {options.noise}:")
    for name, chosen in groups.items():
        print(f"  {name:30s} {right[chosen].mean():.5f} of {chosen.sum()}")
    return bool(right[asked].mean() >= ACCURACY_MIN)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=here, help="where the files are")
    parser.add_argument("--sequences", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1000, help="any but those of train.py (1-3)")
    parser.add_argument("--noise", type=float, default=task.NOISE)
    options = parser.parse_args()
    tensors = read_safetensors(options.folder / "recall.safetensors")
    config = json.loads((options.folder / "config.json").read_text())
    agrees = check_example(options.folder, tensors, config)
    accurate = check_accuracy(tensors, config["heads"], options)
    if not accurate:
        print(f"too few right answers: expected at least {ACCURACY_MIN} over all queries")
    sys.exit(0 if agrees and accurate else 1)


if __name__ == "__main__":
    main()
