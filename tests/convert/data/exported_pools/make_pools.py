# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of this folder with PyTorch 2.14: make_pools.py FOLDER [NAME...].

Rows that are made of a whole sequence, such as means over tokens, and go back to the tokens within
the program, as people write them. Each is NAME.pt2, for any number of tokens, with an input and the
outputs in float64; mistakes have no outputs.
"""
import functools
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch
import torch.nn as nn
import torch.nn.functional as F
from save_cases import exact, made, save, save_arrays  # noqa: E402

COLUMNS, WIDTH, HEADS, TOKENS = 3, 8, 2, 7


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, mask=None):
        return self.norm(x + self.heads(x, x, x, attn_mask=mask, need_weights=False)[0])


class Model(nn.Module):
    """Steps of a series; `way` says what their mean, or another row, does."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.up, self.down = nn.Linear(COLUMNS, WIDTH), nn.Linear(WIDTH, COLUMNS)
        self.first, self.second = Encoder(), Encoder()
        self.factor, self.offset = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.join = nn.Linear(2 * WIDTH, WIDTH)
        self.score = nn.Linear(WIDTH, 1)
        self.gain = nn.Parameter(torch.rand(COLUMNS) + 0.5)
        self.bias = nn.Parameter(torch.randn(COLUMNS))
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.instance = nn.InstanceNorm1d(COLUMNS, affine=True)

    def forward(self, x):
        return getattr(self, self.way)(x)

    def encoded(self, x):
        return self.down(self.first(self.up(x)))

    # ---- the series itself ----

    def revin(self, x):
        mean = x.mean(dim=1, keepdim=True).detach()
        variance = torch.var(x, dim=1, keepdim=True, unbiased=False)
        deviation = torch.sqrt(variance + 1e-5).detach()
        y = self.encoded((x - mean) / deviation * self.gain + self.bias)
        return (y - self.bias) / (self.gain + 1e-10) * deviation + mean

    def revin_of_columns(self, x):
        x = x.transpose(1, 2)
        mean = x.mean(-1, keepdim=True)
        inverse = torch.rsqrt((x - mean).pow(2).mean(-1, keepdim=True) + 1e-5)
        y = self.encoded(((x - mean) * inverse).transpose(1, 2)).transpose(1, 2)
        return (y / inverse + mean).transpose(1, 2)

    def last_value(self, x):
        last = x[:, -1:]
        return self.encoded(x - last) + last

    def largest_value(self, x):
        return self.encoded(x / x.abs().amax(1, keepdim=True))

    def least_to_largest(self, x):
        least, most = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
        return self.encoded((x - least) / (most - least + 1e-3))

    def var_mean(self, x):
        variance, mean = torch.var_mean(x, 1, keepdim=True, correction=0)
        return self.encoded((x - mean) / (variance + 1e-5) ** 0.5)

    def instance_norm(self, x):
        return self.encoded(self.instance(x.transpose(1, 2)).transpose(1, 2))

    # ---- rows of tokens ----

    def film(self, x):
        y = self.first(self.up(x))
        mean = y.mean(1)
        factor, offset = self.factor(mean), self.offset(mean)
        return self.down(self.second(y * (1 + factor[:, None]) + offset[:, None]))

    def squeeze(self, x):
        y = self.first(self.up(x)).transpose(1, 2)
        gate = torch.sigmoid(self.factor(F.relu(self.offset(y.mean(-1)))))
        return self.down((y * gate.unsqueeze(-1)).transpose(1, 2))

    def beside(self, x):
        y = self.first(self.up(x))
        mean = y.mean(1, keepdim=True).expand(-1, y.size(1), -1)
        return self.down(self.join(F.layer_norm(torch.cat([mean, y], -1), (2 * WIDTH,))))

    def before(self, x):
        y = self.first(self.up(x))
        rows = torch.cat([self.token, y.mean(1, keepdim=True), y], 1)
        return self.down(self.second(rows)[:, 0])

    def after_tokens(self, x):
        y = self.first(self.up(x))
        return self.down(self.second(torch.cat([y, y.mean(1, keepdim=True)], 1)))

    def token_gates(self, x):
        y = self.first(torch.cat([self.token.expand(x.size(0), -1, -1), self.up(x)], 1))
        return self.down(y[:, 1:] * torch.sigmoid(self.factor(y[:, :1])))

    def ends(self, x):
        y = self.first(self.up(x))
        return self.down(self.join(torch.cat([y[:, 0], y[:, -1]], -1)) + y.std(1, unbiased=False))

    def unbiased(self, x):
        mean, deviation = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        y = self.first(self.up((x - mean) / deviation))
        return self.down(self.join(torch.cat([y.mean(1), y.std(1)], -1)))

    # ---- attention pooling ----

    def weighted(self, x):
        y = self.first(self.up(x))
        weights = self.score(torch.tanh(self.factor(y))).softmax(1)
        return self.down((weights * y).sum(1))

    def weighted_back(self, x):
        y = self.first(self.up(x))
        weights = torch.softmax(self.score(y).squeeze(-1), -1)
        mean = torch.einsum("bn,bnd->bd", weights, y)
        return self.down(self.second(y + mean.unsqueeze(1)))

    def query(self, x):
        y = self.up(x)
        row = self.second.heads(self.token.expand(x.size(0), -1, -1), y, y)[0]
        return self.down(row.squeeze(1))

    # ---- with a causal mask: each token reads the last one, so none can go out before it ----

    def causal(self, x):
        tokens = x.size(1)
        mask = torch.triu(torch.full((tokens, tokens), -math.inf), 1)
        y = self.first(self.up(x), mask)
        return self.down(y + y[:, -1:])


    # ---- what is refused ----

    def of_some(self, x):
        return self.down(self.first(self.up(x))[:, :2].mean(1))


MISTAKES = ("of_some",)
WAYS = [name for name in vars(Model) if name not in ("forward", "encoded") and name[0] != "_"]


def main(folder, names):
    models = {name: functools.partial(Model, name) for name in names or WAYS}
    for name, model in made(models, names, 0.3):
        x = 2 * torch.randn(1, TOKENS, COLUMNS) + 1
        tokens = torch.export.Dim("tokens", min=2, max=64)
        save(model, (x,), f"{folder}/{name}.pt2", dynamic_shapes=({1: tokens},))
        if name in MISTAKES:
            continue
        save_arrays(f"{folder}/{name}", x, exact(model, x))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
