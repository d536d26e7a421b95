#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the spotter on synthetic speech, and exports it: wake.pt2.

Needs PyTorch 2.9 or later, NumPy, and the programs espeak-ng and flite. On one core it takes some
25 minutes; speech and features are kept in the folder --cache.
"""
import argparse
import pathlib
import random
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import speech

HOP, WINDOW, MELS, LOW, HIGH, ADDED = 320, 512, 40, 60, 7600, 1e-5
FRAMES = 2              # of a token: 40 ms
WIDTH, HEADS, KEY_WIDTH, VALUE_WIDTH, LAYERS, LOOKBACK = 64, 4, 8, 16, 2, 32
HELD, UNSURE = 10, 3    # tokens after the end of a word say so; those before may say what they like
SCENES, SECONDS, BATCH = 1500, 4, 32
PASSES = [(False, 3, 4000, 4e-3), (True, 6, 2500, 2e-3)]  # wide, times SCENES, steps, top rate


def mel_filters():
    """[MELS, WINDOW / 2 + 1]: triangles, evenly apart in mel (HTK's)."""
    mel = np.linspace(2595 * np.log10(1 + LOW / 700), 2595 * np.log10(1 + HIGH / 700), MELS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    bins = np.arange(WINDOW // 2 + 1) * speech.RATE / WINDOW
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return torch.tensor(np.maximum(0, np.minimum(rise, fall)), dtype=torch.float32)


FILTERS, HANN = mel_filters(), torch.hann_window(WINDOW)


def log_mel(samples):
    """float32 [samples] -> [tokens, FRAMES * MELS], as --sound says it."""
    spectrum = torch.fft.rfft(torch.as_tensor(samples).unfold(-1, WINDOW, HOP) * HANN)
    frames = torch.log(spectrum.abs().square() @ FILTERS.T + ADDED)
    return frames[:len(frames) // FRAMES * FRAMES].reshape(-1, FRAMES * MELS)


def labels_of(said, tokens):
    """The class of each token: a word after its end, silence else; -1 where it does not matter."""
    labels = np.zeros(tokens, np.int64)
    begins = [begin for _, _, _, begin, _ in said[1:]] + [1 << 30]
    for (label, _, _, _, end), after in zip(said, begins):
        first, last = end // (FRAMES * HOP), after // (FRAMES * HOP) + 2
        labels[first - UNSURE:first + 1] = -1
        labels[first + 1:min(first + 1 + HELD, last)] = label
        labels[min(first + 1 + HELD, last):first + 3 + HELD] = -1
    return labels


class Attention(nn.Module):
    """All heads share keys and values, and look LOOKBACK tokens back, each the less the further
    away a token is (ALiBi)."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, HEADS * KEY_WIDTH)
        self.key, self.value = nn.Linear(WIDTH, KEY_WIDTH), nn.Linear(WIDTH, VALUE_WIDTH)
        self.out = nn.Linear(HEADS * VALUE_WIDTH, WIDTH)
        self.register_buffer("slopes", torch.tensor([2.0 ** -(1 + 2 * h) for h in range(HEADS)]))

    def forward(self, x, distance):
        q = self.query(x).unflatten(2, (HEADS, KEY_WIDTH)).transpose(1, 2)
        k = self.key(x)[:, None].expand(-1, HEADS, -1, -1)
        v = self.value(x)[:, None].expand(-1, HEADS, -1, -1)
        bias = self.slopes[:, None, None] * -distance
        bias = bias.masked_fill((distance < 0) | (distance >= LOOKBACK), float("-inf"))
        x = torch.softmax(q @ k.transpose(2, 3) * KEY_WIDTH ** -0.5 + bias, -1) @ v
        return self.out(x.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(),
                                 nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, distance):
        x = x + self.attention(self.norm_1(x), distance)
        return x + self.mlp(self.norm_2(x))


class Spotter(nn.Module):
    """Log mel energies [1, tokens, FRAMES * MELS] -> logits [1, tokens, classes]; none sees a token
    that comes later."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(FRAMES * MELS)
        self.stem = nn.Conv1d(FRAMES * MELS, WIDTH, 3)
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, 7, groups=WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(WIDTH)
        self.to_logits = nn.Linear(WIDTH, len(speech.NAMES))

    def forward(self, tokens):
        x = self.norm(tokens).transpose(1, 2)
        x = F.gelu(self.stem(F.pad(x, (2, 0))))
        x = x + F.gelu(self.depthwise(F.pad(x, (6, 0))))
        x = x.transpose(1, 2)
        place = torch.arange(x.shape[1])
        distance = place[:, None] - place
        for block in self.blocks:
            x = block(x, distance)
        return self.to_logits(self.final_norm(x))


def make_scenes(path, clips, seed, wide):
    """(features float16 [SCENES, tokens, FRAMES * MELS], labels [SCENES, tokens]), kept in a
    file."""
    if not path.exists():
        dice, random_numbers = random.Random(seed), np.random.default_rng(seed)
        features, labels = [], []
        for _ in range(SCENES):
            samples, said = speech.scene(clips, SECONDS, dice, random_numbers, wide=wide)
            features.append(log_mel(samples).numpy().astype(np.float16))
            labels.append(labels_of(said, len(features[-1])))
        np.savez(path, features=np.stack(features), labels=np.stack(labels))
    stored = np.load(path)
    return stored["features"], stored["labels"]


def hide_some(batch):
    """Hides bands, and moments, so that the model does not rely on any of them."""
    def hidden(size, most):
        begin = torch.randint(size, (len(batch), 2, 1))
        end = begin + torch.randint(most, begin.shape)
        place = torch.arange(size)
        return ((place >= begin) & (place < end)).any(1)

    bands = hidden(MELS, 7).tile(1, FRAMES)[:, None]
    return batch.masked_fill(bands | hidden(batch.shape[1], 4)[:, :, None], batch.mean())


def train(model, features, labels, steps, rate):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps,
                                                   pct_start=0.15)
    started, losses = time.time(), []
    for step in range(steps):
        chosen = np.random.randint(len(features), size=BATCH)
        batch = hide_some(torch.tensor(features[chosen].astype(np.float32)))
        loss = F.cross_entropy(model(batch).flatten(0, 1),
                               torch.tensor(labels[chosen]).flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % 100 == 0 or step + 1 == steps:
            print(f"step {step + 1:5}  loss {np.mean(losses[-100:]):.4f}  "
                  f"{time.time() - started:.0f} s", flush=True)


def heard(logits, row, margin):
    """[(class, token)], as the program says it: a command is heard when `row` tokens in a row say
    it, each by `margin` more than any other class."""
    found, run, before = [], 0, 0
    for t, one in enumerate(logits):
        best = int(one.argmax())
        sure = one[best] - np.delete(one, best).max() >= margin
        run = (run + 1 if best == before else 1) if sure else 0
        before = best
        if run == row and best >= 2:
            found.append((best, t))
    return found


def validate(model, clips, seconds):
    """What a rule finds in a stream of speech by voices that were not trained on."""
    dice, random_numbers = random.Random(7), np.random.default_rng(7)
    samples, said = speech.scene(clips, seconds, dice, random_numbers, snr=(10, 30))
    parts = log_mel(samples)
    with torch.no_grad():
        logits = model(parts[None])[0].numpy()
    for row in (2, 3, 4):
        for margin in (0.0, 1.0, 2.0, 3.0):
            found = heard(logits, row, margin)
            right = total = 0
            matched = set()
            for label, _, _, _, end in said:
                if label < 2:
                    continue
                total += 1
                for one, t in found:
                    if one == label and abs(t - end // (FRAMES * HOP)) < 12:
                        right += 1
                        matched.add(t)
                        break
            print(f"row {row} margin {margin}: {right} of {total} words, "
                  f"{len(found) - len(matched)} others in {seconds / 60:.0f} minutes", flush=True)


def export(model, path):
    tokens = torch.export.Dim.AUTO
    example = torch.zeros(1, 50, FRAMES * MELS)
    program = torch.export.export(model.eval(), (example,), dynamic_shapes=({1: tokens},))
    torch.export.save(program, path)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=here, help="where to write")
    parser.add_argument("--cache", type=pathlib.Path, default=here / "cache")
    options = parser.parse_args()
    torch.set_num_threads(1)   # keeps sums in order
    torch.manual_seed(1)
    np.random.seed(1)
    options.cache.mkdir(exist_ok=True)

    started = time.time()
    clips = speech.Clips(options.cache / "trained.pickle", speech.trained_voices(),
                         speech.OTHER_WORDS, speech.SENTENCES, takes=2, others=24, seed=1)
    print(f"speech: {time.time() - started:.0f} s", flush=True)
    model = Spotter()
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    for number, (wide, parts, steps, rate) in enumerate(PASSES):
        kept = options.cache / f"pass-{number}.pt"
        if kept.exists():
            model.load_state_dict(torch.load(kept))
            continue
        made = [make_scenes(options.cache / f"scenes-{number}-{i}.npz", clips, 100 * number + i + 2,
                            wide) for i in range(parts)]
        features, labels = (np.concatenate(one) for one in zip(*made))
        print(f"scenes: {time.time() - started:.0f} s", flush=True)
        train(model, features, labels, steps, rate)
        torch.save(model.state_dict(), kept)
    model.eval()
    export(model, options.folder / "wake.pt2")
    unseen = speech.Clips(options.cache / "validation.pickle", speech.VALIDATION_VOICES,
                          speech.OTHER_WORDS, speech.SENTENCES, takes=4, others=40, seed=3)
    validate(model, unseen, 600)


if __name__ == "__main__":
    main()
