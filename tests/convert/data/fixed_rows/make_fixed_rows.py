# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of this folder with PyTorch 2.14: make_fixed_rows.py FOLDER [NAME...].

Models that have numbers of each pair of rows, or groups of rows, so that sequences have as many
rows as that of the example: each NAME.pt2 has an input and the outputs in float64.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import exact, made, save, save_arrays  # noqa: E402

WIDTH, HEADS, DIM, SIDE = 8, 2, 4, 4
ROWS = SIDE * SIDE


class Patches(nn.Module):
    """Patches of an image of 8 x 8, a subclass's `mix` of these [2, 16, 8], and their mean."""

    def __init__(self):
        super().__init__()
        self.patches, self.head = nn.Conv2d(1, WIDTH, 2, 2), nn.Linear(WIDTH, 3)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def heads(self, x):
        batch, rows, _ = x.shape
        return self.qkv(x).view(batch, rows, 3, HEADS, DIM).permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x):
        return self.head(self.mix(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class Mixer(Patches):
    """Matrices over the patches, with more rows between them than there are patches."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(ROWS, 20), nn.Linear(20, ROWS)

    def mix(self, x):
        return x + self.down(F.gelu(self.up(x.transpose(1, 2)))).transpose(1, 2)


class FewRows(Patches):
    """Rows that a matrix makes of the patches, and one of the rows."""

    def __init__(self):
        super().__init__()
        self.rows, self.one = nn.Parameter(torch.zeros(5, ROWS)), nn.Parameter(torch.zeros(1, 5))

    def mix(self, x):
        return self.one @ torch.tanh(self.rows @ x)


class Decomposed(Patches):
    """Relative positions of lines and of columns, within windows and over the image (SAM)."""

    def __init__(self):
        super().__init__()
        self.lines = nn.ParameterList(nn.Parameter(torch.zeros(n, DIM)) for n in (3, 7))
        self.columns = nn.ParameterList(nn.Parameter(torch.zeros(n, DIM)) for n in (3, 7))

    def attend(self, x, layer, side):
        q, k, v = (part.flatten(0, 1) for part in self.heads(x))
        places = torch.arange(side)[:, None] - torch.arange(side)[None] + side - 1
        rows = q.reshape(-1, side, side, DIM)
        lines = torch.einsum("bhwc,hkc->bhwk", rows, self.lines[layer][places])
        columns = torch.einsum("bhwc,wkc->bhwk", rows, self.columns[layer][places])
        terms = (lines[..., None] + columns[..., None, :]).reshape(-1, side * side, side * side)
        made = ((q @ k.transpose(1, 2)) * DIM**-0.5 + terms).softmax(-1) @ v
        return made.reshape(-1, HEADS, side * side, DIM).transpose(1, 2).flatten(2)

    def mix(self, x):
        windows = x.view(-1, 2, 2, 2, 2, WIDTH).transpose(2, 3).reshape(-1, 4, WIDTH)
        windows = self.attend(windows, 0, 2).view(-1, 2, 2, 2, 2, WIDTH).transpose(2, 3)
        x = x + windows.reshape(-1, ROWS, WIDTH)
        return x + self.attend(x, 1, SIDE)


class Subsampled(Patches):
    """Queries of each second patch of each second line, and numbers of each pair (LeViT)."""

    def __init__(self):
        super().__init__()
        self.biases = nn.Parameter(torch.zeros(HEADS, 4, ROWS))

    def mix(self, x):
        q, k, v = self.heads(x)
        q = q.reshape(-1, HEADS, SIDE, SIDE, DIM)[:, :, ::2, ::2].flatten(2, 3)
        made = (q @ k.transpose(2, 3) + self.biases).softmax(-1) @ v
        return F.hardswish(made.transpose(1, 2).flatten(2))


class PooledQueries(Patches):
    """Queries that are the largest numbers of blocks, within units of these blocks (Hiera)."""

    def mix(self, x):
        x = x.view(-1, 2, 2, 2, 2, WIDTH).permute(0, 2, 4, 1, 3, 5).reshape(-1, ROWS, WIDTH)
        rows = x.shape[1]
        qkv = self.qkv(x).reshape(-1, 2, rows // 2, 3, HEADS, DIM).permute(3, 0, 4, 2, 1, 5)
        q, k, v = qkv.reshape(3, -1, HEADS, 4, 4, DIM).transpose(3, 4).unbind(0)
        q = q.reshape(-1, HEADS, 4, 4, 1, DIM).max(3).values
        made = F.scaled_dot_product_attention(q, k, v)
        return made.transpose(1, 3).reshape(-1, 4, WIDTH)


class Separable(nn.Module):
    """Softmax and sums of the pixels that stand at one place of their patches (MobileViTV2)."""

    def __init__(self):
        super().__init__()
        self.stem, self.qkv = nn.Conv2d(1, WIDTH, 1), nn.Conv2d(WIDTH, 1 + 2 * WIDTH, 1)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = F.unfold(self.stem(x), 2, stride=2).view(x.shape[0], WIDTH, 4, -1)
        query, key, value = self.qkv(x).split((1, WIDTH, WIDTH), 1)
        context = (key * query.softmax(-1)).sum(-1, keepdim=True)
        x = x + F.relu(value) * context.expand_as(value)
        x = F.fold(x.flatten(1, 2), (SIDE, SIDE), 2, stride=2)
        return self.head(x.mean((2, 3)))


class Channels(Patches):
    """Channels that attend to channels (DaViT), and linear attention."""

    def mix(self, x):
        q, k, v = self.heads(x)
        made = F.scaled_dot_product_attention(*(part.transpose(2, 3) for part in (q, k, v)))
        x = x + made.permute(0, 3, 1, 2).flatten(2)
        q, k, v = self.heads(x)
        return x + (q @ (k.softmax(2).transpose(2, 3) @ v)).transpose(1, 2).flatten(2)


class Padded(Patches):
    """Rows of zeros after the patches, which attend and are seen (Mllama)."""

    def mix(self, x):
        q, k, v = self.heads(F.pad(x, (0, 0, 0, 3)))
        made = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return made[:, :ROWS] + x


class Focal(Patches):
    """The mean of lines, and the mean of these, beside each pixel (FocalNet)."""

    def mix(self, x):
        image = x.transpose(1, 2).reshape(-1, WIDTH, SIDE, SIDE)
        mean = F.gelu(image.mean(2, keepdim=True).mean(3, keepdim=True))
        return (image * mean).flatten(2).transpose(1, 2)


class Gated(nn.Module):
    """A matrix over the tokens of ids (gMLP)."""

    def __init__(self):
        super().__init__()
        self.embedding, self.over = nn.Embedding(13, WIDTH), nn.Conv1d(7, 7, 1)
        self.gates, self.head = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, ids):
        x, gate = F.gelu(self.gates(self.embedding(ids))).chunk(2, -1)
        return self.head(x * self.over(gate))


class Reordered(nn.Module):
    """Token rows in reverse, turned, and by a list, of a sum each time."""

    def __init__(self):
        super().__init__()
        self.into, self.head = nn.Linear(5, WIDTH), nn.Linear(WIDTH, 3)
        self.qkv, self.over = nn.Linear(WIDTH, 3 * WIDTH), nn.Conv1d(WIDTH, WIDTH, 3)
        self.register_buffer("list", torch.tensor([3, 1, 4, 1, 5, 9, 2, 6]))

    def mix(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return x + F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x):
        x = self.mix(self.into(torch.roll(x, -3, 1)))
        x = self.mix(x.flip(1))
        return self.head(self.over(self.mix(x.index_select(1, self.list)).transpose(1, 2)).mean(2))


class Linear(nn.Module):
    """Linear attention, which is so at any length."""

    def __init__(self):
        super().__init__()
        self.embedding, self.qkv = nn.Embedding(13, WIDTH), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, ids):
        q, k, v = F.elu(self.qkv(self.embedding(ids))).add(1).chunk(3, -1)
        return q @ (k.transpose(1, 2) @ v) / (q @ k.sum(1, keepdim=True).transpose(1, 2))


IMAGE = {
    "mixer": Mixer,
    "few_rows": FewRows,
    "decomposed": Decomposed,
    "subsampled": Subsampled,
    "pooled_queries": PooledQueries,
    "channels": Channels,
    "padded": Padded,
    "focal": Focal,
}
MODELS = {**IMAGE, "separable": Separable, "gated": Gated, "linear": Linear,
          "reordered": Reordered}


def example_of(name, tokens):
    if name in IMAGE:
        return torch.randn(2, 1, 2 * SIDE, 2 * SIDE)
    if name == "reordered":
        return torch.randn(2, 12, 5)
    return torch.randn(2, 1, SIDE, SIDE) if name == "separable" else torch.randint(13, (2, tokens))


def main(folder, names):
    for name, model in made(MODELS, names, 0.4):
        example = example_of(name, 7)
        tokens = torch.export.Dim("tokens", min=2, max=64)
        options = {"dynamic_shapes": ({1: tokens},)} if name == "linear" else {}
        save(model, (example,), f"{folder}/{name}.pt2", **options)
        save_arrays(f"{folder}/{name}", example, exact(model, example))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
