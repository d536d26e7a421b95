# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models whose numbers depend on how many tokens there are, or seem to, with
PyTorch 2.14: make_lengths.py FOLDER [NAME...]. As ../exported/make_models.py, which see: NAME.pt2
has fixed sizes, NAME_dyn.pt2 a symbol for the number of tokens, up to 16 or, of GUARDED, with the
guards that PyTorch finds; NAME_5_*.npy are of 5 tokens. The number of tokens of FOURFOLD is 4 times
a symbol: 12 in the example, and 8 of NAME_8_*.npy.
"""
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = pathlib.Path(__file__).parent.parent
sys.path += [str(DATA), str(DATA / "exported")]

from make_models import (HEADS, VOCABULARY, WIDTH, Model, ScoredAttention, causal, positions_of)
from save_cases import exact, made, save, save_arrays

TOKENS, OTHER = 11, 5


def masked(rule):
    """Attention to the keys that rule(query, key, tokens) shows."""
    def apply(scores):
        shown = rule(*positions_of(scores), scores.shape[-1])
        return scores.masked_fill(~shown, float("-inf"))
    return Model(ScoredAttention(apply), positions=False)


def scaled(factor):
    return Model(ScoredAttention(lambda scores: causal(scores * factor(scores.shape[-1]))),
                 positions=False)


class Numbered(nn.Module):
    """Adds to each token what a layer makes of a number for its place."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers, self.layer = numbers, nn.Linear(1, WIDTH)

    def forward(self, x):
        return x + self.layer(self.numbers(x.shape[1]).to(x.dtype)[:, None])


class Looked(nn.Module):
    """Adds rows of a table to the tokens."""

    def __init__(self, places):
        super().__init__()
        self.places, self.table = places, nn.Embedding(32, WIDTH)

    def forward(self, x):
        return x + self.table(self.places(x.shape[1]))


class SharedQueries(nn.Module):
    """Attention whose queries serve otherwise, too: as its keys, or as its values."""

    def __init__(self, use):
        super().__init__()
        self.use, self.query, self.other = use, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, o, raw = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                     for part in (self.query(x), self.other(x), x))
        k, v = {"keys": (q, o), "values": (o, q), "both": (q, q), "raw": (raw, raw)}[self.use]
        q = raw if self.use == "raw" else q
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class MeanAndLast(Model):
    """Two heads side by side, of the mean of all tokens and of the last one."""

    def __init__(self):
        super().__init__()
        self.second = nn.Linear(WIDTH, 3)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions[:, : ids.shape[1]]
        x = x + self.attention(self.norm1(x))
        return torch.cat([self.head(x.mean(1)), self.second(x[:, -1])], -1)


class TokenScores(Model):
    """A number for each token, without a dimension of its own: [sequences, tokens]."""

    def forward(self, ids):
        return super().forward(ids).mean(-1)


class Patches(nn.Module):
    """Makes one row of four tokens each."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv1d(WIDTH, WIDTH, 4, stride=4)

    def forward(self, x):
        return self.patches(x.transpose(1, 2)).transpose(1, 2)


class Branches(nn.Module):
    """Scores that are what they are at some lengths, and twice as large at others."""

    def __init__(self, rule):
        super().__init__()
        self.rule = rule

    def forward(self, scores):
        return causal(scores if self.rule(scores.shape[-1]) else 2 * scores)


def branched(rule):
    return Model(ScoredAttention(Branches(rule)), positions=False)


MODELS = {
    "half_prefix": lambda: masked(lambda query, key, n: (key <= query) | (key < n // 2)),
    "quarter_window": lambda: masked(lambda query, key, n: (query - key).abs() <= n // 4),
    "third_window": lambda: masked(lambda query, key, n: (query - key).abs() <= 3),
    "reversed_table": lambda: Model(positions=False, front=Looked(
        lambda n: torch.arange(n - 1, -1, -1))),
    "from_the_end": lambda: Model(positions=False, front=Numbered(
        lambda n: (n - 1 - torch.arange(n)) / 8)),
    "shares": lambda: Model(positions=False, front=Numbered(lambda n: torch.arange(n) / n)),
    "shared_keys": lambda: Model(SharedQueries("keys")),
    "shared_values": lambda: Model(SharedQueries("values")),
    "shared_both": lambda: Model(SharedQueries("both")),
    "raw_keys": lambda: Model(SharedQueries("raw")),
    "mean_and_last": MeanAndLast,
    "token_scores": lambda: TokenScores(positions=False),
}
FIXED = ("half_prefix", "third_window", "token_scores")  # with fixed sizes, too
GUARDED = {
    "above_eight": lambda: branched(lambda n: n > 8),
    "but_three": lambda: branched(lambda n: n != 3),
    "no_fourths": lambda: branched(lambda n: n % 4 != 0),
    "second_eighth": lambda: branched(lambda n: n // 8 == 1),
    "steps": lambda: scaled(lambda n: max(1, n // 14)),
}
FOURFOLD = {"fourfold": lambda: Model(front=Patches())}


def main(folder, names):
    for name, model in made({**MODELS, **GUARDED}, names, 0.4):
        ids = torch.randint(0, VOCABULARY, (1, TOKENS))
        if name in FIXED:
            save(model, (ids,), f"{folder}/{name}.pt2")
        tokens = (torch.export.Dim.AUTO if name in GUARDED
                  else torch.export.Dim("tokens", min=2, max=16))
        save(model, (ids,), f"{folder}/{name}_dyn.pt2", dynamic_shapes=({1: tokens},))
        for number in (TOKENS, OTHER):
            some = ids[:, :number]
            stem = f"{folder}/{name}" if number == TOKENS else f"{folder}/{name}_{number}"
            save_arrays(stem, some, exact(model, some))
    for name, model in made(FOURFOLD, names, 0.4):
        ids = torch.randint(0, VOCABULARY, (1, 12))
        tokens = 4 * torch.export.Dim("fourth", max=4)
        save(model, (ids,), f"{folder}/{name}_dyn.pt2", dynamic_shapes=({1: tokens},))
        for some, stem in ((ids, name), (ids[:, :8], name + "_8")):
            save_arrays(f"{folder}/{stem}", some, exact(model, some))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
