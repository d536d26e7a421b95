#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains an encoder-decoder that rewrites dates as people write them, and exports it.

Needs PyTorch 2.9 or later and takes some minutes on one core. Writes
  dates.pt2           the model, by torch.export: characters in, and those written so far
  x.npy, y.npy        an example, for --input and --expect: ids of both sides
  logits.npy          what PyTorch gives for it, in float64
Prints how many of 5,000 dates that were not trained on come out right.
"""
import datetime
import pathlib
import random
import zipfile

import numpy
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent
SOURCE_MAX, TARGET_MAX = 40, 12  # characters; the target begins with START and ends with END
CHARACTERS = 128                 # an id is the character's ASCII code
START, END = 2, 3                # codes that no text has
WIDTH, HEADS, LAYERS = 32, 4, 2
STEPS, BATCH = 3000, 64
FIRST, LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def written(date, dice):
    """The date in one of the ways that people write it."""
    month, short = date.strftime("%B"), date.strftime("%b")
    day = str(date.day)
    ordinal = day + ORDINALS.get(date.day, "th")
    name = dice.choice((month, month, short))
    forms = (f"{day} {name} {date.year}", f"{name} {day}, {date.year}",
             f"{ordinal} of {name} {date.year}", f"the {ordinal} of {name}, {date.year}",
             f"{name} {ordinal} {date.year}", f"{date.strftime('%A')}, {day} {name} {date.year}",
             f"{day}.{date.month}.{date.year}", f"{date.year}/{date.month}/{day}",
             f"{day}-{short}-{date.year}")
    text = dice.choice(forms)
    return dice.choice((text, text.lower()))


def ids(text, length):
    codes = [ord(character) for character in text]
    return codes + [0] * (length - len(codes))


class Dates(nn.Module):
    """PyTorch's own encoder-decoder over characters, with learned positions."""

    def __init__(self):
        super().__init__()
        self.source = nn.Embedding(CHARACTERS, WIDTH)
        self.target = nn.Embedding(CHARACTERS, WIDTH)
        self.source_place = nn.Embedding(SOURCE_MAX, WIDTH)
        self.target_place = nn.Embedding(TARGET_MAX, WIDTH)
        self.transformer = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, 3 * WIDTH, dropout=0.0,
                                          batch_first=True, norm_first=True)
        self.to_logits = nn.Linear(WIDTH, CHARACTERS)

    def forward(self, source, target, padding=None):
        x = self.source(source) + self.source_place(torch.arange(source.shape[1]))
        y = self.target(target) + self.target_place(torch.arange(target.shape[1]))
        later = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
        y = self.transformer(x, y, tgt_mask=later, tgt_is_causal=True,
                             src_key_padding_mask=padding, memory_key_padding_mask=padding)
        return self.to_logits(y)


def draw(dates, dice):
    """Source and target ids, each [len(dates), length], and where the source is padding."""
    texts = [(written(date, dice), chr(START) + date.isoformat() + chr(END)) for date in dates]
    longest = max(len(text) for text, _ in texts)
    source = torch.tensor([ids(text, longest) for text, _ in texts])
    target = torch.tensor([ids(text, TARGET_MAX) for _, text in texts])
    return source, target, source == 0


def train(model, dates, dice):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    for step in range(STEPS):
        source, target, padding = draw(dice.choices(dates, k=BATCH), dice)
        logits = model(source, target[:, :-1], padding)
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == STEPS - 1:
            print(f"step {step:5}  loss {loss.item():.4f}", flush=True)


def accuracy(model, dates, dice):
    """The share of dates that greedy decoding writes right to the last character."""
    with torch.no_grad():
        source, target, padding = draw(dates, dice)
        made = target[:, :1]
        while made.shape[1] < TARGET_MAX:
            likeliest = model(source, made, padding)[:, -1].argmax(1)
            made = torch.cat([made, likeliest[:, None]], 1)
    return (made == target).all(1).float().mean().item()


def export(model):
    example = torch.tensor([ids("the 5th of March, 1987", 22)])
    target = torch.tensor([ids(chr(START) + "1987-03", 8)])
    lengths = ({1: torch.export.Dim.AUTO}, {1: torch.export.Dim.AUTO})
    program = torch.export.export(model, (example, target), dynamic_shapes=lengths)
    torch.export.save(program, FOLDER / "stored.pt2")
    with zipfile.ZipFile(FOLDER / "stored.pt2") as stored, zipfile.ZipFile(
            FOLDER / "dates.pt2", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in stored.namelist():  # a third of the size, and it loads as before
            packed.writestr(name, stored.read(name))
    (FOLDER / "stored.pt2").unlink()
    numpy.save(FOLDER / "x.npy", example.numpy())
    numpy.save(FOLDER / "y.npy", target.numpy())
    with torch.no_grad():
        numpy.save(FOLDER / "logits.npy", model.double()(example, target).float().numpy())


def main():
    torch.manual_seed(1)
    dice = random.Random(1)
    days = [FIRST + datetime.timedelta(days=i) for i in range((LAST - FIRST).days + 1)]
    dice.shuffle(days)
    held_out, trained = days[:5000], days[5000:]
    model = Dates()
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    train(model, trained, dice)
    model.eval()
    print(f"right of 5,000 dates held out: {accuracy(model, held_out, dice):.4f}")
    export(model)


if __name__ == "__main__":
    main()
