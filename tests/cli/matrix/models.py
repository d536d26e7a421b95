# SPDX-License-Identifier: Apache-2.0
"""Small models as people write them, in PyTorch, for make_models.py."""
import math

import torch
from torch import nn

WIDTH, HEADS, FFN = 32, 4, 64
VOCABULARY, CLASSES, FEATURES = 24, 5, 6


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, visible=None):
        tokens = x.shape[1]
        qkv = self.qkv(x).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        if self.causal:
            hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention(causal)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, FFN), nn.GELU(), nn.Linear(FFN, WIDTH))

    def forward(self, x, visible):
        x = x + self.attention(self.norm1(x), visible)
        return x + self.mlp(self.norm2(x))


class Patches(nn.Module):
    """Images [2, 8, 8] or series [2, 64] as four rows of 32 numbers each."""

    def __init__(self, kind):
        super().__init__()
        self.cut = {"image": nn.Conv2d(2, WIDTH, 4, stride=4),
                    "series": nn.Conv1d(2, WIDTH, 16, stride=16)}[kind]

    def forward(self, x):
        return self.cut(x).flatten(2).transpose(1, 2)


def front_of(reads):
    if reads == "tokens":
        return nn.Embedding(VOCABULARY, WIDTH)
    return nn.Linear(FEATURES, WIDTH) if reads == "features" else Patches(reads)


GIVES = {
    "rows": lambda x, seen: x,
    "first": lambda x, seen: x[:, 0],
    "last": lambda x, seen: x[:, -1],
    "mean": lambda x, seen: x.mean(1) if seen is None else x[:, seen].mean(1),
    "max": lambda x, seen: x.amax(1) if seen is None else x[:, seen].amax(1),
    "turns": lambda x, seen: x.unflatten(1, (-1, 2))[:, :, 1],  # of two rows each
}


class Model(nn.Module):
    """A transformer of one layer, with what comes before and after it."""

    def __init__(self, reads, causal, gives, positions=0, class_token=False, heads=1):
        super().__init__()
        self.embedding, self.causal, self.gives = front_of(reads), causal, gives
        if gives == "turns":
            self.embedding = nn.Linear(FEATURES, 2 * WIDTH)
        self.positions = nn.Parameter(torch.zeros(1, positions, WIDTH)) if positions else None
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH)) if class_token else None
        self.block, self.norm = Block(causal), nn.LayerNorm(WIDTH)
        outputs = VOCABULARY if reads == "tokens" and gives in ("rows", "last") else CLASSES
        self.heads = nn.ModuleList(nn.Linear(WIDTH, outputs - i) for i in range(heads))

    def states(self, x, visible=None):
        x = self.embedding(x)
        if self.gives == "turns":
            x = x.reshape(x.shape[0], -1, WIDTH)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1)
            visible = None if visible is None else torch.cat([torch.tensor([True]), visible])
        if self.positions is not None:
            x = x + self.positions[:, : x.shape[1]]
        return x, self.norm(self.block(x, visible)), visible

    def forward(self, x, visible=None):
        _, x, visible = self.states(x, visible)
        x = GIVES[self.gives](x, visible)
        results = tuple(head(x) for head in self.heads)
        return results if len(results) > 1 else results[0]


class Translation(nn.Module):
    """An encoder of tokens, and a decoder that sees what it makes of them."""

    def __init__(self, positions):
        super().__init__()
        self.source, self.target = (nn.Embedding(VOCABULARY, WIDTH) for _ in range(2))
        self.positions = nn.Parameter(torch.zeros(positions, WIDTH))
        self.encoder, self.decoder = Block(False), Block(True)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.query, self.keys, self.crossed = (
            nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source, target, visible=None):
        x = self.source(source) + self.positions[: source.shape[1]]
        x = self.norms[0](self.encoder(x, visible))
        y = self.decoder(self.target(target) + self.positions[: target.shape[1]], None)
        q = self.query(self.norms[1](y)).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = (part.transpose(1, 2)
                for part in self.keys(x).unflatten(-1, (2, HEADS, WIDTH // HEADS)).unbind(2))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        y = y + self.crossed((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return self.head(self.norms[2](y))


class Sensors(nn.Module):
    """Classes of two sensors, each with its own rows, that are pooled and put together."""

    def __init__(self, positions):
        super().__init__()
        self.a, self.b = nn.Linear(FEATURES, WIDTH), nn.Linear(FEATURES - 2, WIDTH)
        self.positions = nn.Parameter(torch.zeros(positions, WIDTH))
        self.block, self.head = Block(False), nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, a, b):
        a = self.block(self.a(a) + self.positions[: a.shape[1]], None).mean(1)
        b = self.block(self.b(b) + self.positions[: b.shape[1]], None).amax(1)
        return self.head(torch.cat([a, b], 1))


class Module(nn.Module):
    """The attention module of a book, with its buffer."""

    def __init__(self, context=80):
        super().__init__()
        for name in ("W_query", "W_key", "W_value"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH, bias=False))
        self.out_proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(context, context).triu(1))

    def forward(self, x):
        tokens = x.shape[1]
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for part in (self.W_query, self.W_key, self.W_value))
        scores = q @ k.transpose(2, 3)
        scores = scores.masked_fill(self.mask.bool()[:tokens, :tokens], -torch.inf)
        weights = (scores / k.shape[-1] ** 0.5).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


def turned(x):
    """Rotates the two halves of heads."""
    frequencies = 10000.0 ** (-torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])
    angles = torch.arange(x.shape[-2]).double()[:, None] * frequencies
    first, second = x.chunk(2, -1)
    return torch.cat([first * angles.cos() - second * angles.sin(),
                      second * angles.cos() + first * angles.sin()], -1)


class StateDict(nn.Module):
    """A published program, the Llama of "Build a Large Language Model (From Scratch)", whose state
    dict leaves most open."""

    def __init__(self):
        super().__init__()

        def linear(inputs, outputs):
            return nn.Linear(inputs, outputs, bias=False)

        self.tok_emb = nn.Embedding(VOCABULARY, WIDTH)
        self.trf_blocks = nn.ModuleList([nn.ModuleDict({
            "att": nn.ModuleDict({name: linear(WIDTH, WIDTH) for name in (
                "W_query", "W_key", "W_value", "out_proj")}),
            "ff": nn.ModuleDict({"fc1": linear(WIDTH, FFN), "fc2": linear(WIDTH, FFN),
                                 "fc3": linear(FFN, WIDTH)}),
            "norm1": nn.RMSNorm(WIDTH, 1e-5), "norm2": nn.RMSNorm(WIDTH, 1e-5)})])
        self.final_norm, self.out_head = nn.RMSNorm(WIDTH, 1e-5), linear(WIDTH, VOCABULARY)

    def states(self, ids):
        x = embedded = self.tok_emb(ids)
        for layer in self.trf_blocks:
            part, y = layer["att"], layer["norm1"](x)
            q, k, v = (part[name](y).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                       for name in ("W_query", "W_key", "W_value"))
            y = nn.functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
            x = x + part["out_proj"](y.transpose(1, 2).flatten(2))
            part, y = layer["ff"], layer["norm2"](x)
            x = x + part["fc3"](nn.functional.silu(part["fc1"](y)) * part["fc2"](y))
        return embedded, self.final_norm(x)

    def forward(self, ids):
        return self.out_head(self.states(ids)[1])
