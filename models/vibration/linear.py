# SPDX-License-Identifier: Apache-2.0
"""What the features alone are worth: linear classifiers of one frame and of a window's mean.

    /usr/bin/python3 linear.py --cache DIR     prints the share of held-out windows answered right
"""

import argparse
import pathlib

import torch
from torch.nn import functional

import machine
import model
import train
import windows

STEPS = 1500
LEARNING_RATE = 0.02


def share_right(inputs, labels, held_out_inputs, held_out_labels):
    """Logistic regression by Adam on all windows at once: inputs are [windows, 16]."""
    classifier = torch.nn.Linear(inputs.shape[1], len(machine.CLASSES))
    optimizer = torch.optim.Adam(classifier.parameters(), lr=LEARNING_RATE)
    mean, scale = inputs.mean(dim=0), inputs.std(dim=0)
    for _ in range(STEPS):
        loss = functional.cross_entropy(classifier((inputs - mean) / scale), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    answers = classifier((held_out_inputs - mean) / scale).argmax(dim=1)
    return (answers == held_out_labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=pathlib.Path, help="folder that keeps the windows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(train.WEIGHT_SEED)
    frames, labels, _ = windows.load("training", options.cache)
    config = model.config_of(*train.constants_of(frames))
    unseen, unseen_labels, _ = windows.load("held_out", options.cache)
    frames, unseen = (torch.from_numpy(model.normalise(x, config)) for x in (frames, unseen))
    labels, unseen_labels = torch.from_numpy(labels), torch.from_numpy(unseen_labels)
    for name, reduce in [("last frame", lambda x: x[:, -1]), ("mean", lambda x: x.mean(dim=1))]:
        share = share_right(reduce(frames), labels, reduce(unseen), unseen_labels)
        print(f"{name:12s} {100 * share:.2f} %", flush=True)


if __name__ == "__main__":
    main()
