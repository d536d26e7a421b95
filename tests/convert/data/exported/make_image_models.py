# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of images, and of rows of constants, with PyTorch 2.14:
make_image_models.py FOLDER. As make_models.py, which see.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import exact, made, save, save_arrays  # noqa: E402

WIDTH, HEADS, CLASSES = 12, 3, 4


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, rows, width = x.shape
        qkv = self.qkv(x).reshape(batch, rows, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(x.transpose(1, 2).reshape(batch, rows, width))


class Block(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention(causal)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 20), nn.GELU(), nn.Linear(20, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Rows(nn.Module):
    """Blocks over rows that a subclass makes of its input, and a classifier."""

    def __init__(self, rows, constants=0, causal=False):
        super().__init__()
        self.constants = nn.Parameter(torch.zeros(1, constants, WIDTH)) if constants else None
        self.positions = nn.Parameter(torch.zeros(1, rows + constants, WIDTH))
        self.block, self.norm = Block(causal), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def joined(self, x):
        if self.constants is not None:
            x = torch.cat((self.constants.expand(x.shape[0], -1, -1), x), dim=1)
        return x + self.positions

    def forward(self, x):
        return self.head(self.norm(self.block(self.joined(self.rows(x))))[:, 0])


class VisionTransformer(Rows):
    def __init__(self):
        super().__init__(6, 1)
        self.patches = nn.Conv2d(3, WIDTH, (4, 3), stride=(4, 3))

    def rows(self, x):
        return self.patches(x).flatten(2).transpose(1, 2)


class TwoClassTokens(VisionTransformer):
    """As DeiT's, and pixels that the model itself scales."""

    def __init__(self):
        super().__init__()
        Rows.__init__(self, 6, 2)
        self.patches = nn.Conv2d(3, WIDTH, (4, 3), stride=(4, 3))
        self.register_buffer("mean", torch.tensor([0.5, 0.25, 0.75]).view(1, 3, 1, 1))

    def forward(self, x):
        x = self.norm(self.block(self.joined(self.rows((x - self.mean) / 0.25))))
        return (self.head(x[:, 0]) + self.head(x[:, 1])) / 2


class FlattenedPatches(VisionTransformer):
    """A head over the numbers of all patches, which are a sum."""

    def __init__(self):
        super().__init__()
        Rows.__init__(self, 6)
        self.patches = nn.Conv2d(3, WIDTH, (4, 3), stride=(4, 3))
        self.head = nn.Linear(6 * WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.block(self.joined(self.rows(x))).flatten(1))


class ChannelsInPatchesLast(Rows):
    """As einops cuts them: (p1 p2 c), with a norm of the pixels; the mean of the patches alone."""

    def __init__(self):
        super().__init__(6, 1)
        self.pixels, self.patches = nn.LayerNorm(36), nn.Linear(36, WIDTH)

    def rows(self, x):
        x = x.reshape(x.shape[0], 3, 2, 4, 3, 3).permute(0, 2, 4, 3, 5, 1)
        return self.patches(self.pixels(x.reshape(x.shape[0], 6, 36)))

    def forward(self, x):
        return self.head(self.norm(self.block(self.joined(self.rows(x))))[:, 1:].mean(dim=1))


class Registers(VisionTransformer):
    """As DINOv2's: between the class token and the patches, after positions."""

    def __init__(self):
        super().__init__()
        self.registers = nn.Parameter(torch.zeros(1, 3, WIDTH))

    def joined(self, x):
        x = super().joined(x)
        registers = self.registers.expand(x.shape[0], -1, -1)
        return torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)


class TurnedPatches(VisionTransformer):
    """As DINOv3's: queries and keys of patches turn by their lines and columns, and others do not.
    Positions are learned for parts of lines, as SigLIP's are for images of any size."""

    def __init__(self):
        super().__init__()
        self.lines = nn.Embedding(4, WIDTH)
        self.block.attn = TurnedAttention(False)

    def joined(self, x):
        parts = torch.bucketize(torch.arange(6) / 8, torch.arange(1, 4) / 4, right=True)
        return super().joined(x + self.lines(parts))


class TurnedAttention(Attention):
    def forward(self, x):
        batch, rows, width = x.shape
        qkv = self.qkv(x).reshape(batch, rows, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        places = torch.stack([torch.arange(6) // 3, torch.arange(6) % 3], -1).to(x.dtype)
        angles = places.repeat(1, 2) * 0.7

        def turned(x):
            patches = x[:, :, 1:]
            half = torch.cat([-patches[..., 2:], patches[..., :2]], -1)
            return torch.cat([x[:, :, :1], patches * angles.cos() + half * angles.sin()], -2)

        x = F.scaled_dot_product_attention(turned(q), turned(k), v)
        return self.proj(x.transpose(1, 2).reshape(batch, rows, width))


class Series(Rows):
    def __init__(self):
        super().__init__(4)
        self.patches = nn.Conv1d(2, WIDTH, 5, stride=5)

    def rows(self, x):
        return self.patches(x).transpose(1, 2)


class Prompt(Rows):
    """A causal model of features with learned rows before them: any length, step by step."""

    def __init__(self):
        super().__init__(21, 3, causal=True)
        self.embed = nn.Linear(5, WIDTH)

    def joined(self, x):
        x = torch.cat((self.constants.expand(x.shape[0], -1, -1), x), dim=1)
        return x + self.positions[:, : x.shape[1]]

    def forward(self, x):
        return self.head(self.norm(self.block(self.joined(self.embed(x)))))


class Stem(Rows):
    """Convolutions that overlap and are apart, one of each channel, and normalised batches."""

    def __init__(self):
        super().__init__(20, 1)
        self.stem = nn.Sequential(
            nn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
            nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.GELU(),
            nn.Conv2d(6, WIDTH, 3, padding=(2, 3), dilation=(2, 3)))
        for norm in self.stem:
            if isinstance(norm, nn.BatchNorm2d):
                norm.running_mean.normal_(0.0, 0.3)
                norm.running_var.uniform_(0.5, 2.0)

    def rows(self, x):
        x = self.stem(x)
        return (x + F.silu(x)).flatten(2).transpose(1, 2)


class Spectrogram(Rows):
    """As AST's: [time, frequency] turned, and windows that overlap in both."""

    def __init__(self):
        super().__init__(9, 2)
        self.patches = nn.Conv2d(1, WIDTH, (4, 5), stride=(2, 3))

    def rows(self, x):
        return self.patches(x.unsqueeze(1).transpose(2, 3)).flatten(2).transpose(1, 2)


class Merging(Rows):
    """As Swin's: channels last, and each block of 2 x 2 pixels as one row, after a norm."""

    def __init__(self):
        super().__init__(6)
        self.pixels, self.norm4 = nn.Linear(3, 5), nn.LayerNorm(20)
        self.merge = nn.Linear(20, WIDTH, bias=False)

    def rows(self, x):
        x = self.pixels(x)
        parts = [x[:, i::2, j::2] for j in range(2) for i in range(2)]
        return self.merge(self.norm4(torch.cat(parts, -1).flatten(1, 2)))


class NoPatches(VisionTransformer):
    """Some of the windows alone."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 3, stride=2, padding=1)

    def rows(self, x):
        return self.patches(x).flatten(2).transpose(1, 2)[:, :6]


IMAGE, SERIES, FEATURES = (2, 3, 8, 9), (2, 2, 20), (2, 7, 5)
MODELS = {
    "vit": (VisionTransformer, IMAGE),
    "vit_two_tokens": (TwoClassTokens, IMAGE),
    "vit_flattened": (FlattenedPatches, IMAGE),
    "vit_channels_last": (ChannelsInPatchesLast, IMAGE),
    "vit_registers": (Registers, IMAGE),
    "vit_turned": (TurnedPatches, IMAGE),
    "series": (Series, SERIES),
    "stem": (Stem, IMAGE),
    "spectrogram": (Spectrogram, (2, 11, 9)),
    "merging": (Merging, (2, 4, 6, 3)),
    "prompt": (Prompt, FEATURES),
    "no_patches": (NoPatches, IMAGE),
}


def main(folder):
    for name, model in made({name: make for name, (make, _) in MODELS.items()}, (), 0.4):
        example = torch.randn(MODELS[name][1])
        save(model, (example,), f"{folder}/{name}.pt2")
        if name == "no_patches":
            continue
        save_arrays(f"{folder}/{name}", example, exact(model, example))


if __name__ == "__main__":
    main(sys.argv[1])
