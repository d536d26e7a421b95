# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of this folder with PyTorch 2.14: make_models.py FOLDER [NAME...].

Small models whose parts are written by hand in different ways, each NAME.pt2 with an input and the
outputs in float64, and mistakes, which have no outputs. Archives, mostly traces, are compressed.
"""
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import exact, made, save, save_arrays  # noqa: E402

VOCABULARY, WIDTH, HEADS, TOKENS = 13, 8, 2, 7


def interleaved_rotation(x):
    dim, tokens = x.shape[-1], x.shape[-2]
    frequencies = 10000.0 ** (-torch.arange(0, dim, 2).float() / dim)
    angles = torch.arange(tokens).float()[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2)


def complex_rotation(x):
    dim, tokens = x.shape[-1], x.shape[-2]
    frequencies = 10000.0 ** (-torch.arange(0, dim, 2).float() / dim)
    angles = torch.outer(torch.arange(tokens).float(), frequencies)
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


def unit_heads(x):
    return 3 * F.normalize(x, dim=-1)


class Attention(nn.Module):
    def __init__(self, mask="causal", change=None, kv_heads=HEADS):
        super().__init__()
        self.dim, self.kv_heads, self.mask, self.change = WIDTH // HEADS, kv_heads, mask, change
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, kv_heads * self.dim)
        self.value = nn.Linear(WIDTH, kv_heads * self.dim)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q = self.query(x).view(batch, tokens, HEADS, self.dim).transpose(1, 2)
        k = self.key(x).view(batch, tokens, self.kv_heads, self.dim).transpose(1, 2)
        v = self.value(x).view(batch, tokens, self.kv_heads, self.dim).transpose(1, 2)
        if self.change:
            q, k = self.change(q), self.change(k)
        k = k.repeat_interleave(HEADS // self.kv_heads, 1)
        v = v.repeat_interleave(HEADS // self.kv_heads, 1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.dim)
        i, j = torch.arange(tokens)[:, None], torch.arange(tokens)[None]
        hidden = j > i
        if self.mask == "soft_cap":
            scores = torch.tanh(scores / 5) * 5
        if self.mask == "clamp":
            scores = scores.clamp(-5, 5)
        if self.mask == "alibi":
            scores = scores + torch.tensor([0.5, 0.25])[:, None, None] * (j - i)
        if self.mask == "bias":
            scores = scores + torch.sin((i * j).float())
        if self.mask in ("window", "soft_cap"):
            hidden = hidden | (i - j >= 3)
        if self.mask == "prefix":
            hidden = hidden & (j >= 3)
        if self.mask == "all":
            hidden = j < 0
        scores = scores.masked_fill(hidden, float("-inf"))
        if self.mask == "late_cap":
            scores = 5 * torch.tanh(scores / 5)
        weights = scores.softmax(-1)
        if self.mask == "after":
            weights = weights * (j <= i)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, tokens, -1))


class EinsumAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, HEADS, WIDTH // HEADS).unbind(2)
        scores = torch.einsum("bthd,bshd->bhts", q * (WIDTH // HEADS) ** -0.5, k)
        scores = scores + torch.full((tokens, tokens), float("-inf")).triu(1)
        mixed = torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v)
        return self.output(mixed.reshape(batch, tokens, WIDTH))


class ScoredAttention(nn.Module):
    """Attention whose scores a part of its own changes, before the softmax."""

    def __init__(self, rule, kv_heads=HEADS):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * kv_heads) * (WIDTH // HEADS))
        self.rule, self.output, self.kv_heads = rule, nn.Linear(WIDTH, WIDTH), kv_heads

    def forward(self, x):
        batch, tokens, _ = x.shape
        sizes = [WIDTH] + 2 * [self.kv_heads * (WIDTH // HEADS)]
        q, k, v = (part.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                   for part in self.qkv(x).split(sizes, -1))
        if isinstance(self.rule, RelativeTable):
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=self.rule(tokens))
        else:
            scores = q @ k.repeat_interleave(HEADS // self.kv_heads, 1).mT
            v = v.repeat_interleave(HEADS // self.kv_heads, 1)
            mixed = self.rule(scores).softmax(-1) @ v
        return self.output(mixed.transpose(1, 2).flatten(2))


def positions_of(scores):
    tokens = scores.shape[-1]
    return torch.arange(tokens)[:, None], torch.arange(tokens)[None]


def causal(scores):
    query, key = positions_of(scores)
    return scores.masked_fill(key > query, float("-inf"))


class LearnedBias(nn.Module):
    """A bias and a temperature of each head."""

    def __init__(self, positions):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(HEADS, positions, positions))
        self.temperature = nn.Parameter(torch.zeros(HEADS, 1, 1))

    def forward(self, scores):
        bias = self.bias
        if bias.shape[-1] > TOKENS:
            bias = bias[:, : scores.shape[-2], : scores.shape[-1]]
        return causal(scores * self.temperature.exp() + bias)


class RelativeTable(nn.Module):
    """As Swin's: rows of a table by an index of pairs, for scaled_dot_product_attention."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(31, HEADS))
        places = torch.arange(16)
        self.register_buffer("index", places[None] - places[:, None] + 15)

    def forward(self, tokens):
        index = self.index[:tokens, :tokens]
        bias = self.table[index.reshape(-1)].view(tokens, tokens, -1)
        return bias.permute(2, 0, 1).contiguous().unsqueeze(0)


class Buckets(nn.Module):
    """As T5's: distances beyond 4 share buckets that grow."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, HEADS)

    def forward(self, scores):
        query, key = positions_of(scores)
        back = -torch.min(key - query, torch.zeros_like(key - query))
        far = 4 + (torch.log(back.float() / 4) / math.log(32 / 4) * 4).to(torch.long)
        buckets = torch.where(back < 4, back, torch.min(far, torch.full_like(far, 7)))
        return causal(scores + self.embedding(buckets).permute([2, 0, 1]).unsqueeze(0))


class Slopes(nn.Module):
    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(torch.zeros(HEADS))

    def forward(self, scores):
        query, key = positions_of(scores)
        capped = 3 * (2 * torch.sigmoid(2 * scores / 3) - 1)
        return causal(capped - (query - key) * F.softplus(self.slopes).view(-1, 1, 1))


class HeadMasks(nn.Module):
    """Nobody's rule, and another one for each head; one of them is causal."""

    def __init__(self):
        super().__init__()
        seen = torch.rand(HEADS, 16, 16, generator=torch.Generator().manual_seed(3)) < 0.4
        seen = seen | torch.eye(16, dtype=torch.bool)
        seen[1] = seen[1].tril()
        self.register_buffer("seen", seen)

    def forward(self, scores):
        tokens = scores.shape[-1]
        return scores.masked_fill(~self.seen[:, :tokens, :tokens], -1e9)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 3e-6) * (1 + self.gain)


class StdNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, -1)
        return self.down(gate * torch.sigmoid(1.702 * gate) * up)


class Mlp(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.function = function

    def forward(self, x):
        return self.down(self.function(self.up(x)))


class Shift(nn.Module):
    def forward(self, x):
        return x + F.pad(x, (0, 0, 1, 0))[:, :-1]


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


class Model(nn.Module):
    def __init__(self, attention=None, mlp=None, norm=nn.LayerNorm, give=None, positions=True,
                 front=None):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.zeros(1, 16, WIDTH)) if positions else None
        self.attention = attention or Attention()
        self.mlp = mlp or Mlp(F.gelu)
        self.norm1, self.norm2, self.norm3 = norm(WIDTH), norm(WIDTH), norm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.front, self.give = front, give

    def forward(self, ids):
        x = self.embedding(ids) * 2
        if self.positions is not None:
            x = x + self.positions[:, : ids.shape[1]]
        if self.front:
            x = self.front(x)
        x = x + self.attention(self.norm1(x))
        x = self.norm3(x + self.mlp(self.norm2(x)))
        if self.give == "last":
            return self.head(x[:, -1])
        if self.give == "mean":
            return self.head(x.mean(1))
        if self.give == "third":
            return self.head(x[:, 2])
        if self.give == "probabilities":
            return self.head(x).softmax(-1)
        if self.give == "two":
            return self.head(x), x
        return self.head(x)


class Prefixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.embedding, self.attention = nn.Embedding(VOCABULARY, WIDTH), Attention("all")

    def forward(self, ids):
        x = self.embedding(ids)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.attention(x)[:, 0]


class WrongMask(nn.Module):
    """A mask of 4 x 4, which PyTorch stretches over nothing: it is of one token's scores."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, ids):
        x = self.b(ids)
        half = self.a(x)[:, :4]
        return (x @ half.transpose(1, 2)).softmax(-1) @ half


GOOD = {
    "alibi": lambda: Model(Attention("alibi"), positions=False),
    "soft_cap": lambda: Model(Attention("soft_cap")),
    "bias": lambda: Model(Attention("bias")),
    "learned_bias": lambda: Model(ScoredAttention(LearnedBias(16))),
    "fixed_bias": lambda: Model(ScoredAttention(LearnedBias(TOKENS))),
    "relative": lambda: Model(ScoredAttention(RelativeTable()), give="mean"),
    "buckets": lambda: Model(ScoredAttention(Buckets(), 1), positions=False),
    "capped_slopes": lambda: Model(ScoredAttention(Slopes()), positions=False),
    "head_masks": lambda: Model(ScoredAttention(HeadMasks(), 1)),
    "window_kv1": lambda: Model(Attention("window", kv_heads=1)),
    "prefix": lambda: Model(Attention("prefix")),
    "neighbours": lambda: Model(Attention(change=interleaved_rotation), positions=False),
    "complex": lambda: Model(Attention(change=complex_rotation), positions=False),
    "unit_heads": lambda: Model(Attention(change=unit_heads), give="last"),
    "einsum_rms_fused": lambda: Model(EinsumAttention(), Fused(), RmsNorm, give="two"),
    "squares_mean": lambda: Model(Attention("all"), Mlp(lambda x: F.relu(x) ** 2), give="mean"),
    "class_token": Prefixed,
    "std_norm": lambda: Model(norm=StdNorm),
    "mish": lambda: Model(mlp=Mlp(F.mish)),
    "dropout_in_place": lambda: Model(mlp=Mlp(lambda x: F.dropout(F.silu(x), 0.5, False, True))),
    "probabilities": lambda: Model(give="probabilities"),
}
MISTAKES = {
    "late_cap": lambda: Model(Attention("late_cap")),
    "clamp": lambda: Model(Attention("clamp")),
    "after": lambda: Model(Attention("after")),
    "sine": lambda: Model(mlp=Mlp(torch.sin)),
    "shift": lambda: Model(front=Shift()),
    "convolution": lambda: Model(front=Convolution()),
    "third": lambda: Model(give="third"),
    "wrong_mask": WrongMask,
}


# Of these there is NAME_dyn.pt2, too, up to so many tokens; of learned_bias a part of its table.
DYNAMIC = dict(alibi=64, learned_bias=15, buckets=64, capped_slopes=64, class_token=64,
               neighbours=16, soft_cap=16, window_kv1=16, prefix=16, complex=16, unit_heads=16)
# These are of any length themselves.
ANY_LENGTH = ("bias", "learned_bias", "relative", "head_masks", "einsum_rms_fused", "squares_mean",
              "std_norm", "mish", "probabilities")


def main(folder, names):
    for name, model in made({**GOOD, **MISTAKES}, names, 0.4):
        ids = torch.randint(0, VOCABULARY, (1, TOKENS))
        inputs = (ids,)
        save(model, inputs, f"{folder}/{name}.pt2", any_length=name in ANY_LENGTH)
        if name in DYNAMIC:
            tokens = torch.export.Dim("tokens", min=2, max=DYNAMIC[name])
            save(model, inputs, f"{folder}/{name}_dyn.pt2", dynamic_shapes=({1: tokens},))
        if name in GOOD:
            outputs = exact(model, ids)
            outputs = outputs[0] if isinstance(outputs, tuple) else outputs
            save_arrays(f"{folder}/{name}", ids, outputs)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
