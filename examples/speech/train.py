#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a spotter of ten spoken words on synthetic speech, frame by frame, and exports it.

Needs PyTorch 2.9 or later, NumPy and the program espeak-ng, and takes an hour on one core.
Writes
  words.pt2           the model, by torch.export: any number of frames of log mel energies
  heard.raw           words of voices that were not trained on: 16-bit samples, 16,000 a second
  x.npy, y.npy        its first 50 frames, and the logits that PyTorch gives for them
Prints what it hears of voices that were not trained on.
"""
import pathlib
import random
import struct
import subprocess
import zipfile

import numpy
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent
RATE, HOP, WINDOW, MELS = 16000, 320, 512, 32  # 50 frames a second, each of 32 ms
WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
OTHERS = ["house", "seven", "hello", "window", "table", "music", "water", "people", "never",
          "morning", "garden", "before", "yellow", "tree", "under", "again", "four", "dog",
          "simple", "now", "nine", "above", "lift", "not"]
ACCENTS = ["en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbcwmd"]
VARIANTS = ["m1", "m2", "m3", "m4", "m5", "m6", "m8", "f1", "f2", "f3", "f5", "Andy", "Annie",
            "Lee", "Michael", "steph", "linda", "robert", "edward", "Alex", "Alicia", "Denis",
            "Diogo", "Gene", "Henrique", "Hugo", "Jacky", "Marco", "Mario", "Mike", "Nguyen",
            "Reed", "adam", "anika", "antonio", "belinda", "benjamin", "boris", "caleb", "david",
            "ed", "gustave", "ian", "max", "michel", "miguel", "norbert", "pablo", "paul", "pedro",
            "quincy", "rob", "sandro", "shelby", "travis", "klatt", "klatt2", "klatt3", "grandpa",
            "grandma"]
OTHER_ACCENTS, OTHER_VARIANTS = ["en-us-nyc", "en-029"], ["m7", "f4", "Andrea", "john"]
WIDTH, HEADS, LAYERS, LOOKBACK = 48, 4, 2, 60
HELD_FRAMES, UNSURE_FRAMES = 12, 6  # after the end of a word its frames say so; before it, neither
STEPS, BATCH, SECONDS = 4000, 24, 3


def spoken(word, voice, speed, pitch):
    """What espeak-ng says: float32 samples at RATE, without silence around them."""
    wav = subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout",
                          word], check=True, capture_output=True).stdout
    (rate,) = struct.unpack_from("<I", wav, 24)
    samples = numpy.frombuffer(wav[44:44 + (len(wav) - 44) // 2 * 2], "<i2") / 32768.0
    spectrum = numpy.fft.rfft(samples)
    length = len(samples) * RATE // rate
    samples = numpy.fft.irfft(spectrum[:length // 2 + 1], length) * length / len(samples)
    loud = numpy.flatnonzero(numpy.abs(samples) > 0.02 * numpy.abs(samples).max())
    return (samples[loud[0]:loud[-1] + 1] / numpy.abs(samples).max()).astype(numpy.float32)


def clips(accents, variants, dice):
    """[(label, samples)]: 1 to 10 are WORDS, twice each, and 0 is any other word."""
    made = []
    for voice in (f"{accent}+{variant}" for accent in accents for variant in variants):
        for label, word in 2 * [*enumerate(WORDS, 1)] + [(0, word) for word in OTHERS]:
            made.append((label, spoken(word, voice, dice.randint(120, 200), dice.randint(30, 70))))
    return made


def scene(made, seconds, dice):
    """Words with pauses and noise: samples, the label of each frame, -1 where it does not matter,
    and the words as [(label, frame of its end)]."""
    samples = numpy.random.randn(seconds * RATE).astype(numpy.float32)
    if dice.random() < 0.5:  # noise of a room rather than of an amplifier
        samples = numpy.convolve(samples, numpy.full(8, 0.3, numpy.float32), "same")
    samples *= 10 ** dice.uniform(-4.0, -1.7)
    labels = numpy.zeros((len(samples) - WINDOW) // HOP + 1, numpy.int64)
    words, begin = [], dice.randint(0, RATE // 2)
    while True:
        label, word = dice.choice(made)
        length = int(len(word) * dice.uniform(0.85, 1.15))  # slower and lower, or faster and higher
        word = numpy.interp(numpy.linspace(0, len(word) - 1, length), numpy.arange(len(word)), word)
        if begin + len(word) + RATE // 4 > len(samples):
            return samples, labels, words
        samples[begin:begin + len(word)] += word * 10 ** dice.uniform(-1.0, -0.1)
        end = (begin + len(word)) // HOP
        if label != 0:
            labels[end - UNSURE_FRAMES:end] = -1
            labels[end:end + HELD_FRAMES] = label
            words.append((label, end))
        begin += len(word) + dice.randint(RATE // 3, RATE)


def mel_filters():
    """[MELS, WINDOW / 2 + 1]: triangles, evenly apart in mel (HTK's), from 60 to 7,600 Hz."""
    mel = numpy.linspace(2595 * numpy.log10(1 + 60 / 700), 2595 * numpy.log10(1 + 7600 / 700),
                         MELS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    bins = numpy.arange(WINDOW // 2 + 1) * RATE / WINDOW
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return torch.tensor(numpy.maximum(0, numpy.minimum(rise, fall)), dtype=torch.float32)


FILTERS, HANN = mel_filters(), torch.hann_window(WINDOW)


def log_mel(samples):
    """[..., samples] -> [..., frames, MELS], frame t of the samples from t * HOP on."""
    spectrum = torch.fft.rfft(samples.unfold(-1, WINDOW, HOP) * HANN)
    return torch.log(spectrum.abs().square() @ FILTERS.T + 1e-3)


class Attention(nn.Module):
    """Each head looks LOOKBACK frames back, and the less the further away a frame is (ALiBi)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("slopes", torch.tensor([2.0 ** -(2 + 2 * h) for h in range(HEADS)]))

    def forward(self, x, distance):
        q, k, v = self.qkv(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        bias = self.slopes[:, None, None] * -distance
        hidden = (distance < 0) | (distance >= LOOKBACK)
        bias = bias.masked_fill(hidden, float("-inf"))
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(x.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Dropout(0.1),
                                 nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, distance):
        x = x + self.attention(self.norm_1(x), distance)
        return x + self.mlp(self.norm_2(x))


class Spotter(nn.Module):
    """Log mel energies [1, frames, MELS] -> logits [1, frames, 1 + WORDS], seeing none later."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(MELS)
        self.stem = nn.Conv1d(MELS, WIDTH, 5)
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, 9, groups=WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(WIDTH)
        self.to_logits = nn.Linear(WIDTH, 1 + len(WORDS))

    def forward(self, frames):
        x = self.norm(frames).transpose(1, 2)
        x = F.gelu(self.stem(F.pad(x, (4, 0))))
        x = x + F.gelu(self.depthwise(F.pad(x, (8, 0))))
        x = x.transpose(1, 2)
        place = torch.arange(x.shape[1])
        distance = place[:, None] - place
        for block in self.blocks:
            x = block(x, distance)
        return self.to_logits(self.final_norm(x))


def train(model, made, dice):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=STEPS)
    for step in range(STEPS):
        samples, labels, _ = zip(*(scene(made, SECONDS, dice) for _ in range(BATCH)))
        logits = model(log_mel(torch.tensor(numpy.stack(samples))))
        loss = F.cross_entropy(logits.flatten(0, 1), torch.tensor(numpy.stack(labels)).flatten(),
                               ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == STEPS - 1:
            print(f"step {step:5}  loss {loss.item():.4f}", flush=True)


def heard(logits):
    """[(label, frame)]: a word is heard when three frames in a row say it, and the one before
    did not."""
    found, run = [], 0
    likeliest = logits.argmax(-1).tolist()
    for t, label in enumerate(likeliest):
        run = run + 1 if t > 0 and label == likeliest[t - 1] else 1
        if run == 3 and label != 0:
            found.append((label, t))
    return found


def evaluate(model, made, dice):
    right = words = false = 0
    for _ in range(200):
        samples, _, said = scene(made, 10, dice)
        with torch.no_grad():
            found = heard(model(log_mel(torch.tensor(samples))[None])[0])
        matched = sum(any(label == one and abs(t - end) < 25 for one, t in found)
                      for label, end in said)
        words, right, false = words + len(said), right + matched, false + len(found) - matched
    print(f"voices not trained on: {right} of {words} words heard, {false} heard wrongly in "
          f"{200 * 10 / 60:.0f} minutes, in which {len(OTHERS)} other words are said, too")


def export(model, made):
    frames = torch.export.Dim.AUTO
    program = torch.export.export(model, (torch.zeros(1, 50, MELS),), dynamic_shapes=({1: frames},))
    torch.export.save(program, FOLDER / "stored.pt2")
    with zipfile.ZipFile(FOLDER / "stored.pt2") as stored, zipfile.ZipFile(
            FOLDER / "words.pt2", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in stored.namelist():  # smaller, and it loads as before
            packed.writestr(name, stored.read(name))
    (FOLDER / "stored.pt2").unlink()
    pause = numpy.random.randn(RATE // 3).astype(numpy.float32) * 0.001
    parts = [pause]
    for label in (1, 9, 0, 5):
        parts += [0.5 * next(s for one, s in made if one == label), pause]
    samples = numpy.concatenate(parts)
    (samples * 32767).astype("<i2").tofile(FOLDER / "heard.raw")
    x = log_mel(torch.tensor(samples))[None, :50]
    numpy.save(FOLDER / "x.npy", x.numpy())
    with torch.no_grad():
        numpy.save(FOLDER / "y.npy", model.double()(x.double()).float().numpy())


def main():
    torch.manual_seed(1)
    numpy.random.seed(1)
    dice = random.Random(1)
    made = clips(ACCENTS, VARIANTS, dice)
    model = Spotter()
    print(f"{len(made)} spoken words, {sum(p.numel() for p in model.parameters())} parameters",
          flush=True)
    train(model, made, dice)
    model.eval()
    others = clips(OTHER_ACCENTS, OTHER_VARIANTS, dice)
    evaluate(model, others, dice)
    export(model, others)


if __name__ == "__main__":
    main()
