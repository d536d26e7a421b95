#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny random models of published programs, and what they compute in double precision.

Needs PyTorch (Debian 12: apt install python3-torch). The programs are written out here with the
names of their tensors. For each case of this folder's `state_dicts/`:
  model.safetensors   the state dict, float32
  training.pt, ..     of nanogpt_relu: the same weights, as training programs leave them
  x.npy, y.npy        what `arenite convert --expect` takes: token ids or features [batch, tokens,
                      ..], and the outputs
"""
import argparse
import collections
import datetime
import enum
import json
import math
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from make_torch_modules import DTYPES, randomised, save_safetensors

FOLDER = pathlib.Path(__file__).parent / "state_dicts"
DTYPES[torch.int64] = "I64"
VOCAB, DIM, HEADS, LAYERS, POSITIONS, BATCH, TOKENS = 11, 8, 2, 2, 10, 2, 7


class Positions(nn.Module):
    """Sines and cosines in a buffer, tokens first, as in PyTorch's tutorial."""

    def __init__(self):
        super().__init__()
        angles = torch.arange(POSITIONS)[:, None] * torch.exp(
            torch.arange(0, DIM, 2) * (-math.log(10000.0) / DIM))
        pe = torch.stack([angles.sin(), angles.cos()], dim=2).reshape(POSITIONS, 1, DIM)
        self.register_buffer("pe", pe)


class TutorialModel(nn.Module):
    """The language model of PyTorch's tutorial; `old`: its older names."""

    def __init__(self, old, scale, causal, **layer_options):
        super().__init__()
        self.embedding_name, self.head_name = (
            ("encoder", "decoder") if old else ("embedding", "linear"))
        self.scale, self.causal = scale, causal
        self.pos_encoder = Positions()
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 12, 0.0, batch_first=True, **layer_options)
        self.transformer_encoder = nn.TransformerEncoder(layer, LAYERS)
        self.add_module(self.embedding_name, nn.Embedding(VOCAB, DIM))
        self.add_module(self.head_name, nn.Linear(DIM, VOCAB))

    def forward(self, ids):
        x = getattr(self, self.embedding_name)(ids) * self.scale
        x = x + self.pos_encoder.pe[:ids.shape[1], 0]
        mask = torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool() if self.causal else None
        for layer in self.transformer_encoder.layers:
            x = layer(x, src_mask=mask)
        return getattr(self, self.head_name)(x)


class SelfAttention(nn.Module):
    """nanoGPT's and minGPT's; `scale` of scores is 1/sqrt(head_dim) there."""

    def __init__(self, scale=None):
        super().__init__()
        self.c_attn = nn.Linear(DIM, 3 * DIM)
        self.c_proj = nn.Linear(DIM, DIM)
        self.scale = scale

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2)
                   for part in self.c_attn(x).split(DIM, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, activation, norm_first):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = SelfAttention()
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(DIM, 12), "c_proj": nn.Linear(12, DIM)})
        self.activation, self.norm_first = activation, norm_first

    def forward(self, x):
        def mlp(x):
            return self.mlp["c_proj"](self.activation(self.mlp["c_fc"](x)))
        if self.norm_first:
            x = x + self.attn(self.ln_1(x))
            return x + mlp(self.ln_2(x))
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + mlp(x))


class NanoGpt(nn.Module):
    def __init__(self, activation, norm_first=True):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(VOCAB, DIM),
            "wpe": nn.Embedding(POSITIONS, DIM),
            "h": nn.ModuleList(Block(activation, norm_first) for _ in range(LAYERS)),
            "ln_f": nn.LayerNorm(DIM)})
        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(ids.shape[1]))
        for block in parts["h"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))


class BookNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(DIM)), nn.Parameter(torch.zeros(DIM))

    def forward(self, x):
        return F.layer_norm(x, (DIM,), self.scale, self.shift, 1e-5)


class BookAttention(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("W_query", "W_key", "W_value"):
            self.add_module(name, nn.Linear(DIM, DIM, bias=False))
        self.out_proj = nn.Linear(DIM, DIM)
        self.register_buffer("mask", torch.ones(POSITIONS, POSITIONS).triu(1))

    def forward(self, x):
        q, k, v = (part(x).unflatten(2, (HEADS, -1)).transpose(1, 2)
                   for part in (self.W_query, self.W_key, self.W_value))
        hidden = self.mask.bool()[:x.shape[1], :x.shape[1]]
        scores = (q @ k.transpose(2, 3)).masked_fill(hidden, -torch.inf)
        y = torch.softmax(scores / (DIM // HEADS) ** 0.5, dim=-1) @ v
        return self.out_proj(y.transpose(1, 2).flatten(2))


class BookBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.att = BookAttention()
        self.ff = nn.ModuleDict({"layers": nn.Sequential(
            nn.Linear(DIM, 12), nn.GELU(approximate="tanh"), nn.Linear(12, DIM))})
        self.norm1, self.norm2 = BookNorm(), BookNorm()

    def forward(self, x):
        x = x + self.att(self.norm1(x))
        return x + self.ff["layers"](self.norm2(x))


class BookModel(nn.Module):
    """GPTModel of "Build a Large Language Model (From Scratch)"."""

    def __init__(self):
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(VOCAB, DIM), nn.Embedding(POSITIONS, DIM)
        self.trf_blocks = nn.Sequential(*[BookBlock() for _ in range(LAYERS)])
        self.final_norm = BookNorm()
        self.out_head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        x = self.tok_emb(ids) + self.pos_emb(torch.arange(ids.shape[1]))
        return self.out_head(self.final_norm(self.trf_blocks(x)))


def save(name, model, x):
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    model = randomised(model)
    with torch.no_grad():  # so that norms are not all small
        for module in model.modules():
            for gain in ("weight", "scale"):
                if isinstance(module, (nn.LayerNorm, BookNorm)) and hasattr(module, gain):
                    getattr(module, gain).add_(1.0)
    save_safetensors(folder / "model.safetensors",
                     {key: tensor.clone() for key, tensor in model.state_dict().items()})
    # Training mode takes the plain path rather than a fused one; there is no dropout.
    with torch.no_grad():
        y = model.double().train()(x.double() if x.is_floating_point() else x)
    numpy.save(folder / "x.npy", x.numpy())
    numpy.save(folder / "y.npy", y.numpy())


class Stage(enum.Enum):
    LAST = "last"


class Config:
    """Read by nobody, as its code is not in the file."""

    def __init__(self, **values):
        self.__dict__.update(values)


class History(collections.OrderedDict):
    pass


def save_training():
    """What is no plain value beside the weights, or in a dict of a class of its own."""
    model = NanoGpt(F.relu)
    folder = FOLDER / "nanogpt_relu"
    data = (folder / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    weights = History()
    for name, entry in json.loads(data[8:begin]).items():
        first, last = entry["data_offsets"]
        numbers = numpy.frombuffer(data[begin + first:begin + last], "<f4").copy()
        weights[name] = torch.from_numpy(numbers).reshape(entry["shape"])
    model.load_state_dict(weights)
    optimizer = torch.optim.AdamW(model.lm_head.parameters())
    model(torch.zeros(1, 2, dtype=torch.int64)).sum().backward()
    optimizer.step()
    losses = collections.defaultdict(list)
    losses["train"].append(numpy.float64(0.5))
    torch.save({
        "net": weights, "optim": optimizer.state_dict(), "losses": losses,
        "args": argparse.Namespace(n_head=HEADS, activation="relu", out=pathlib.Path("runs")),
        "config": Config(norm_first=True), "stage": Stage.LAST, "best": numpy.float32(0.25),
        "seen": {1, 2}, "kept": frozenset([3]), "when": datetime.datetime(2026, 1, 2),
        "device": torch.device("cpu"), "type": torch.float32, "size": torch.Size([2, 3]),
        "rng": numpy.random.RandomState(0).get_state(), "bytes": b"x", "array": bytearray(b"y"),
    }, folder / "training.pt")
    torch.save({"model": weights,
                "model_ema": {name: tensor / 2 for name, tensor in weights.items()}},
               folder / "average.pt")
    inner = {"model." + name: tensor for name, tensor in weights.items()}
    torch.save({"state_dict": {**inner, "criterion.weight": torch.ones(VOCAB),
                               "train_acc.total": torch.tensor(3)},
                "hyper_parameters": {"n_head": HEADS}}, folder / "lightning.ckpt")


def main():
    torch.manual_seed(2)
    ids = torch.randint(VOCAB, (BATCH, TOKENS))
    save("tutorial", TutorialModel(False, math.sqrt(DIM), True), ids)
    save("tutorial_old", TutorialModel(True, 1.0, False, norm_first=True), ids)
    save("nanogpt_relu", NanoGpt(F.relu), ids)
    save_training()
    save("nanogpt_norm_last", NanoGpt(F.gelu, norm_first=False), ids)
    save("book", BookModel(), ids)
    save("unscaled_module", SelfAttention(scale=1.0), torch.randn(BATCH, TOKENS, DIM))


if __name__ == "__main__":
    main()
