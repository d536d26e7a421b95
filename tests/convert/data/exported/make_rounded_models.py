#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny random decoders whose weights were rounded, and what they give.

Needs PyTorch 2.14. For each case NAME: NAME.pt2, NAME_input.npy with ids [batch, tokens], and
NAME_expected.npy, computed in double precision (`bfloat16`: in its own).
"""
import pathlib
import sys

import numpy
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401, defines the ops
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from save_cases import save  # noqa: E402

FOLDER = pathlib.Path(__file__).parent
VOCAB, DIM, HEADS, FFN, TOKENS = 11, 16, 2, 32, 6
OPS = torch.ops.quantized_decomposed


class Int8(nn.Module):
    """Integers and a scale for each output, as PT2E leaves them."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.register_buffer("integers", torch.randint(-127, 128, (outputs, inputs)).to(torch.int8))
        self.register_buffer("scales", torch.rand(outputs) * 2e-3 + 1e-3)
        self.register_buffer("zeros", torch.zeros(outputs, dtype=torch.int64))

    def weight(self):
        return OPS.dequantize_per_channel(
            self.integers, self.scales, self.zeros, 0, -127, 127, torch.int8)

    def forward(self, x):
        return F.linear(x, self.weight().to(x.dtype))


class Int4(Int8):
    """Two integers a byte, and shifts."""

    def __init__(self, outputs, inputs):
        super().__init__(outputs, inputs)
        self.register_buffer("bytes", torch.randint(0, 256, (outputs, inputs // 2)).to(torch.uint8))
        self.register_buffer("scales", torch.rand(outputs) * 3e-2 + 1e-2)
        del self.integers, self.zeros

    def weight(self):
        parts = [(self.bytes & 15).float() - 8, (self.bytes >> 4).float() - 8]
        return torch.stack(parts, dim=-1).flatten(1) * self.scales[:, None]


class Fake(nn.Linear):
    """Floats that are rounded where they are used, by one scale for all."""

    def __init__(self, outputs, inputs):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x):
        return F.linear(x, torch.fake_quantize_per_tensor_affine(
            self.weight.float(), 0.003, 0, -127, 127).to(x.dtype))


class Plain(nn.Linear):
    def __init__(self, outputs, inputs):
        super().__init__(inputs, outputs, bias=False)


class Rounds(Plain):
    """What it reads is rounded, too."""

    def forward(self, x):
        rounded = OPS.quantize_per_tensor(x, 0.1, 0, -127, 127, torch.int8)
        return super().forward(
            OPS.dequantize_per_tensor(rounded, 0.1, 0, -127, 127, torch.int8).to(x.dtype))


class Decoder(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.table, self.head = nn.Embedding(VOCAB, DIM), Plain(VOCAB, DIM)
        self.qkv, self.back = layer(3 * DIM, DIM), layer(DIM, DIM)
        self.wide, self.narrow = layer(FFN, DIM), layer(DIM, FFN)

    def forward(self, ids):
        x = self.table(ids)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for part in self.qkv(F.rms_norm(x, (DIM,), None, 1e-5)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.back(y.transpose(1, 2).flatten(2))
        return self.head(x + self.narrow(F.gelu(self.wide(x))))


def main():
    tokens = torch.export.Dim("tokens", min=2, max=16)
    for name, layer in (("int8", Int8), ("int4", Int4), ("fake_int8", Fake),
                        ("bfloat16", Plain), ("rounds_inputs", Rounds)):
        torch.manual_seed(3)
        model = Decoder(layer).eval()
        ids = torch.randint(VOCAB, (2, TOKENS))
        if name == "bfloat16":
            model = model.bfloat16()
        save(model, (ids,), f"{FOLDER}/{name}.pt2", dynamic_shapes=({1: tokens},))
        with torch.no_grad():
            y = (model.double() if name in ("int8", "int4", "fake_int8") else model)(ids)
        numpy.save(FOLDER / f"{name}_input.npy", ids.numpy())
        numpy.save(FOLDER / f"{name}_expected.npy", y.double().numpy())


if __name__ == "__main__":
    main()
