# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models with convolutions of this folder with PyTorch 2.14:
make_convolutions.py FOLDER [NAME...].

Each is NAME.pt2 with an input and the outputs in float64, NAME_other_* of another length where it
takes any. Archives, mostly traces, are compressed.
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save_program  # noqa: E402

WIDTH, HEADS = 8, 2


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, n, _ = x.shape
        parts = self.qkv(x).view(b, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(a.transpose(1, 2).reshape(b, n, WIDTH))


class Block(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(causal)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Whisper(nn.Module):
    """The stem of Whisper: two convolutions of 3, the second with stride 2, then positions."""

    def __init__(self, channels=6, positions=32):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, WIDTH, 3, padding=1)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.positions = nn.Parameter(torch.randn(positions, WIDTH))
        self.blocks = nn.ModuleList([Block()])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = F.gelu(self.conv1(x.transpose(1, 2)))
        x = F.gelu(self.conv2(x)).transpose(1, 2)
        x = x + self.positions[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class CausalStem(nn.Module):
    """A keyword spotter's stem, which sees no later frame, before causal attention."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(5, WIDTH, 3)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, dilation=2)
        self.block, self.head = Block(True), nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = F.relu(self.conv1(F.pad(x.transpose(1, 2), (2, 0))))
        x = F.relu(self.conv2(F.pad(x, (4, 0)))).transpose(1, 2)
        return self.head(self.block(x))


class ShortConvolution(nn.Module):
    """LFM2's block: a gated depthwise convolution of 3, whose last results are cut off."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inward, self.outward = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, groups=WIDTH, padding=2, bias=False)

    def forward(self, x):
        b, c, y = self.inward(self.norm(x)).transpose(1, 2).chunk(3, 1)
        y = c * self.conv(b * y)[..., : x.shape[1]]
        return x + self.outward(y.transpose(1, 2))


class Lfm2(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(13, WIDTH)
        self.conv, self.block, self.head = ShortConvolution(), Block(True), nn.Linear(WIDTH, 13)

    def forward(self, ids):
        return self.head(self.block(self.conv(self.embedding(ids))))


class Conformer(nn.Module):
    """A Conformer's module: GLU, a depthwise convolution of 7 around each token, a batch norm."""

    def __init__(self):
        super().__init__()
        self.inward = nn.Linear(5, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.pointwise = nn.Conv1d(WIDTH, 2 * WIDTH, 1)
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)
        self.batch_norm = nn.BatchNorm1d(WIDTH)
        self.pointwise2 = nn.Conv1d(WIDTH, WIDTH, 1)
        self.block = Block()
        with torch.no_grad():
            self.batch_norm.running_mean.normal_()
            self.batch_norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        x = self.inward(x)
        y = F.glu(self.pointwise(self.norm(x).transpose(1, 2)), 1)
        y = F.silu(self.batch_norm(self.depthwise(y)))
        return self.block(x + self.pointwise2(y).transpose(1, 2))


class Stem(nn.Module):
    """No zeros, a large stride, groups, a mean of all: what is heard in an EEG or by wav2vec2."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(4, WIDTH, 5, stride=3)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 2, stride=2, bias=False)
        self.positions = nn.Conv1d(WIDTH, WIDTH, 4, padding=2, groups=2)
        self.block, self.head = Block(), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = F.gelu(self.conv1(x.transpose(1, 2)))
        x = F.gelu(self.conv2(x))
        x = (x + F.gelu(self.positions(x)[:, :, :-1])).transpose(1, 2)
        return self.head(self.block(x).mean(1))


class Raised(nn.Module):
    """Rows of more and more places: by transposed convolutions, by repeating them, and by a layer,
    whose parts are rows."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(5, WIDTH, 1)
        self.raise1 = nn.ConvTranspose1d(WIDTH, WIDTH, 2, 2)
        self.raise2 = nn.ConvTranspose1d(WIDTH, 3, 2, 2, bias=False)
        self.layer = nn.Linear(WIDTH, 3 * WIDTH)
        self.block, self.block2, self.head = Block(), Block(), nn.Linear(3, 4)

    def forward(self, x):
        x = F.gelu(self.raise1(self.conv1(x.transpose(1, 2)))).transpose(1, 2)
        x = self.block(x)
        x = x + self.block2(self.layer(x).reshape(x.size(0), -1, WIDTH))[:, ::3]
        x = F.interpolate(x.transpose(1, 2), scale_factor=2.0, mode="nearest")
        return self.head(self.raise2(x).transpose(1, 2))


class Skipped(nn.Module):
    """Half as many rows and as many again, beside those that there were before."""

    def __init__(self):
        super().__init__()
        self.into = nn.Conv1d(5, WIDTH, 3, padding=1)
        self.fewer = nn.Conv1d(WIDTH, WIDTH, 4, 2, 1)
        self.block = Block()
        self.more = nn.ConvTranspose1d(WIDTH, WIDTH, 4, 2, 1)
        self.head = nn.Conv1d(2 * WIDTH, 2, 3, padding=1)

    def forward(self, x):
        x = F.silu(self.into(x.transpose(1, 2)))
        y = self.block(self.fewer(x).transpose(1, 2)).transpose(1, 2)
        return self.head(torch.cat([F.silu(self.more(y)), x], 1)).transpose(1, 2)


class Nearest(nn.Module):
    """A convolution of rows that are there twice."""

    def __init__(self):
        super().__init__()
        self.into, self.block = nn.Linear(5, WIDTH), Block()
        self.head = nn.Conv1d(WIDTH, 2, 3, padding=1)

    def forward(self, x):
        x = self.block(self.into(x)).transpose(1, 2)
        return self.head(F.interpolate(x, scale_factor=2)).transpose(1, 2)


class Video(nn.Module):
    """Blocks of two frames, which are given before channels."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Conv3d(3, WIDTH, (2, 4, 4), (2, 4, 4))
        self.places = nn.Parameter(torch.randn(1, 6, WIDTH))
        self.block, self.head = Block(), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.blocks(x.permute(0, 2, 1, 3, 4)).flatten(2).transpose(1, 2)
        return self.head(self.block(x + self.places))


class Spotter(nn.Module):
    """Spectrograms as images of any width, of which a layer sees all lines at once."""

    def __init__(self):
        super().__init__()
        self.into, self.block = nn.Conv2d(1, WIDTH, (6, 3), padding=(0, 1)), Block()
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.head(self.block(F.relu(self.into(x)).squeeze(2).transpose(1, 2)).mean(1))


class OneChannel(nn.Module):
    """Sound as one channel, which stands before the samples."""

    def __init__(self):
        super().__init__()
        self.into, self.block = nn.Conv1d(1, WIDTH, 8, stride=4), Block()
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.head(self.block(F.relu(self.into(x)).transpose(1, 2)).mean(1))


def frames(width):
    return lambda tokens: torch.randn(1, tokens, width)


def ids(tokens):
    return torch.randint(0, 13, (1, tokens))


# Name, model, input, tokens of the example, of another input, how the lengths are exported.
MODELS = [
    ("whisper", Whisper, frames(6), 20, 33, "any"),
    ("whisper_fixed", Whisper, frames(6), 20, 0, "fixed"),
    ("causal_stem", CausalStem, frames(5), 12, 29, "any"),
    ("short_convolution", Lfm2, ids, 9, 23, "any"),
    ("conformer", Conformer, frames(5), 14, 31, "any"),
    ("stem", Stem, frames(4), 40, 71, "any"),
    ("raised", Raised, frames(5), 6, 11, "any"),
    ("skipped", Skipped, frames(5), 12, 0, "fixed"),
    ("nearest", Nearest, frames(5), 9, 0, "fixed"),
    ("video", Video, lambda count: torch.randn(1, count, 3, 8, 4), 6, 0, "fixed"),
    ("spotter", Spotter, lambda tokens: torch.randn(1, 1, 6, tokens), 12, 19, "wide"),
    ("one_channel", OneChannel, lambda tokens: torch.randn(1, 1, tokens), 32, 45, "long"),
]


def save(folder, name, model, example, lengths):
    free = torch.export.Dim.AUTO
    dynamic = {"any": ({1: free},), "wide": ({3: free},), "long": ({2: free},)}.get(lengths)
    program = torch.export.export(model, (example,), dynamic_shapes=dynamic)
    save_program(program, os.path.join(folder, name + ".pt2"))


def main(folder, names):
    for name, build, make_input, tokens, other, lengths in MODELS:
        if names and name not in names:
            continue
        torch.manual_seed(len(name))
        model = build().eval()
        example = make_input(tokens)
        save(folder, name, model, example, lengths)
        exact = model.double()
        inputs = [("", example)] + ([("_other", make_input(other))] if other else [])
        for suffix, x in inputs:
            y = exact(x.double() if x.is_floating_point() else x)
            np.save(os.path.join(folder, f"{name}{suffix}_input.npy"),
                    x.numpy().astype(np.float32 if x.is_floating_point() else np.int64))
            np.save(os.path.join(folder, f"{name}{suffix}_expected.npy"),
                    np.ascontiguousarray(y.detach().numpy()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
