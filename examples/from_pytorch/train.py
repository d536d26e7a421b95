#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT of one's own on rhymes.txt and writes down what it computes.

Needs PyTorch 2.9 or later and takes a few minutes. Writes
  rhymes.pt2          the model, by torch.export, for any number of tokens up to CONTEXT
  vocab.json          its characters, each with its token id
  x.npy, y.npy        token ids and the logits that PyTorch gives for them, for --expect
"""
import json
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent
CONTEXT, WIDTH, HEADS, LAYERS = 64, 32, 4, 2
STEPS, BATCH = 4500, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, later):
        q, k, v = (layer(x).unflatten(2, (HEADS, -1)).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        scores = scores.masked_fill(later, float("-inf"))
        return self.out((F.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.GELU(),
                                 nn.Linear(3 * WIDTH, WIDTH))

    def forward(self, x, later):
        x = x + self.attention(self.norm_1(x), later)
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.token_embedding = nn.Embedding(characters, WIDTH)
        self.position_embedding = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(WIDTH)
        self.to_logits = nn.Linear(WIDTH, characters, bias=False)

    def forward(self, ids):
        place = torch.arange(ids.shape[1])
        later = place > place[:, None]
        x = self.token_embedding(ids) + self.position_embedding(place)
        for block in self.blocks:
            x = block(x, later)
        return self.to_logits(self.final_norm(x))


def train(model, data):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    for step in range(STEPS):
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH, 1))
        batch = data[starts + torch.arange(CONTEXT + 1)]
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == STEPS - 1:
            print(f"step {step:5}  loss {loss.item():.3f}", flush=True)


def main():
    torch.manual_seed(1)
    text = (FOLDER / "rhymes.txt").read_text()
    stoi = {character: i for i, character in enumerate(sorted(set(text)))}
    data = torch.tensor([stoi[character] for character in text])
    model = Gpt(len(stoi))
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(stoi)} characters")
    train(model, data)
    model.eval()

    example = data[None, :16]
    tokens = torch.export.Dim.AUTO  # any length that the code takes
    program = torch.export.export(model, (example,), dynamic_shapes=({1: tokens},))
    torch.export.save(program, FOLDER / "rhymes.pt2")

    (FOLDER / "vocab.json").write_text(json.dumps(stoi, indent=0) + "\n")
    with torch.no_grad():
        numpy.save(FOLDER / "x.npy", example.numpy())
        numpy.save(FOLDER / "y.npy", model(example).numpy())


if __name__ == "__main__":
    main()
