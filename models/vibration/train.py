# SPDX-License-Identifier: Apache-2.0
"""Trains the encoder on windows of generated machines; writes config.json and model.safetensors.

    /usr/bin/python3 train.py --cache DIR     then evaluate.py, which measures it
"""

import argparse
import math
import pathlib
import time

import numpy as np
import torch
from torch.nn import functional

import model
import windows

WEIGHT_SEED = 1
ORDER_SEED = 2
STEPS = 600
BATCH_WINDOWS = 128
LEARNING_RATE = 2e-3
WARMUP_STEPS = 100
WEIGHT_DECAY = 0.02
GRADIENT_NORM_MAX = 1.0
REPORT_STEPS = 50


def constants_of(frames):
    """Mean and standard deviation of each feature, to four digits: config.json is for people."""
    def rounded(values):
        return [float(f"{value:.4g}") for value in values]
    flat = frames.reshape(-1, frames.shape[-1]).astype(np.float64)
    return rounded(flat.mean(axis=0)), rounded(flat.std(axis=0))


def learning_rate(step, steps):
    """Linear up, then half a cosine down to a hundredth."""
    if step < WARMUP_STEPS:
        return LEARNING_RATE * (step + 1) / WARMUP_STEPS
    share = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    return LEARNING_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))


def accuracy(encoder, frames, labels):
    encoder.eval()
    right = model.logits_of(encoder, frames).argmax(axis=1) == labels
    encoder.train()
    return right.mean()


def batches(count, rng):
    """Endless numbers of windows, each window once before any comes again."""
    while True:
        order = rng.permutation(count)
        for start in range(0, count - BATCH_WINDOWS + 1, BATCH_WINDOWS):
            yield order[start:start + BATCH_WINDOWS]


def train(encoder, frames, labels, validation, steps):
    matrices = [p for p in encoder.parameters() if p.dim() == 2]
    others = [p for p in encoder.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": WEIGHT_DECAY},
                                   {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.98))
    source = batches(len(frames), np.random.default_rng(ORDER_SEED))
    started, losses = time.time(), []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        chosen = next(source)
        loss = functional.cross_entropy(encoder(torch.from_numpy(frames[chosen])),
                                        torch.from_numpy(labels[chosen]))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), GRADIENT_NORM_MAX)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % REPORT_STEPS == 0 or step + 1 == steps:
            print(f"step {step + 1:5d} of {steps}  loss {np.mean(losses[-REPORT_STEPS:]):.4f}  "
                  f"validation {accuracy(encoder, *validation):.4f}  "
                  f"{time.time() - started:.0f} s", flush=True)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=here, help="where to write")
    parser.add_argument("--cache", type=pathlib.Path, help="folder that keeps the windows")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--windows", type=int, help="use only the first so many")
    options = parser.parse_args()
    torch.set_num_threads(1)   # keeps sums in order
    torch.manual_seed(WEIGHT_SEED)

    frames, labels, _ = windows.load("training", options.cache, options.windows)
    config = model.config_of(*constants_of(frames))
    frames = model.normalise(frames, config)
    unseen, unseen_labels, _ = windows.load("validation", options.cache)
    encoder = model.Encoder()
    print(f"{sum(p.numel() for p in encoder.parameters())} parameters, {len(frames)} windows",
          flush=True)
    train(encoder, frames, labels, (model.normalise(unseen, config), unseen_labels), options.steps)
    model.save(encoder, config, options.folder)


if __name__ == "__main__":
    main()
