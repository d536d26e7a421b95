# SPDX-License-Identifier: Apache-2.0
"""Makes the models of this folder with PyTorch 2.14: make_pairs.py FOLDER.

Models that are told by a second input which tokens see which, as graph transformers are, and
modules whose keys have a row of constants beside a mask. NAME_input.npy and NAME_pairs.npy are two
sequences of another length than the example's, NAME_expected.npy what the model gives in float64.
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save_program  # noqa: E402

WIDTH, HEADS, TOKENS, OTHER = 8, 2, 6, 9


class Graph(nn.Module):
    """Attention along the edges of a graph, and a gate, as in UniMP."""

    def __init__(self, hide):
        super().__init__()
        self.inputs = nn.Linear(5, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.skip, self.gate = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.head = nn.Linear(WIDTH, 3)
        self.hide = hide

    def forward(self, x, adjacency):
        x = torch.relu(self.inputs(x))
        q, k, v = (
            part(x).view(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        seen = adjacency[:, None]
        if self.hide == "bits":
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        else:
            scores = q @ k.transpose(-1, -2) / 2.0
            scores = {
                "filled": lambda: scores.masked_fill(seen == 0, float("-inf")),
                "added": lambda: scores + (1.0 - seen) * -1e9,
                "infinite": lambda: scores + seen,
                "turned": lambda: scores.masked_fill(seen.transpose(-1, -2) == 0, float("-inf")),
                "biased": lambda: (scores + torch.eye(x.shape[1])).masked_fill(seen == 0, -1e9),
            }[self.hide]()
            y = scores.softmax(-1) @ v
        y = y.transpose(1, 2).flatten(2)
        gate = torch.sigmoid(self.gate(y))
        return self.head(gate * self.skip(x) + (1.0 - gate) * y)


class Masked(nn.Module):
    """nn.MultiheadAttention along the edges of one graph, which the mask shows or hides."""

    def __init__(self, is_hidden=False):
        super().__init__()
        self.is_hidden = is_hidden
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x, adjacency):
        hidden = adjacency if self.is_hidden else ~adjacency
        return self.attention(x, x, x, attn_mask=hidden, need_weights=False)[0]


class Constants(nn.Module):
    """A key and a value that every token sees beside earlier ones, in two layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True, batch_first=True)
            for _ in range(2)
        )

    def forward(self, x):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        for layer in self.layers:
            x = x + layer(x, x, x, attn_mask=later, need_weights=False)[0]
        return x


def pairs_of(sequences, tokens, kind):
    pairs = torch.rand(sequences, tokens, tokens) < 0.4
    for token in range(tokens):
        pairs[:, token, torch.randint(0, tokens, (1,))] = True
    if kind == "infinite":
        return torch.zeros(pairs.shape).masked_fill(~pairs, float("-inf"))
    if kind == "hidden":
        return ~pairs
    return pairs if kind in ("bits", "masked") else pairs.float()


def main(folder):
    tokens = torch.export.Dim("tokens", min=2, max=32)
    makers = {"masked": Masked, "hidden": lambda: Masked(True), "constants": Constants}
    for name in ("filled", "added", "infinite", "bits", "masked", "hidden", "turned", "biased",
                 "constants"):
        torch.manual_seed(len(name))
        model = makers.get(name, lambda: Graph(name))().eval()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
        width = 5 if isinstance(model, Graph) else WIDTH
        inputs = [torch.randn(1, TOKENS, width)]
        others = [torch.randn(1 if isinstance(model, Masked) else 2, OTHER, width)]
        dynamic = [{1: tokens}]
        if name != "constants":
            inputs.append(pairs_of(1, TOKENS, name))
            others.append(pairs_of(2, OTHER, name))
            dynamic.append({1: tokens, 2: tokens})
        if isinstance(model, Masked):
            inputs[1], others[1] = inputs[1][0], others[1][0]
            dynamic[1] = {0: tokens, 1: tokens}
        path = os.path.join(folder, name)
        program = torch.export.export(model, tuple(inputs), dynamic_shapes=tuple(dynamic))
        save_program(program, path + ".pt2")
        if name in ("turned", "biased"):
            continue
        with torch.no_grad():
            doubles = [x.double() if x.is_floating_point() else x for x in others]
            outputs = model.double()(*doubles)
        np.save(path + "_input.npy", others[0].numpy())
        np.save(path + "_expected.npy", outputs.numpy())
        if name != "constants":
            np.save(path + "_pairs.npy", others[1].numpy())


if __name__ == "__main__":
    main(sys.argv[1])
