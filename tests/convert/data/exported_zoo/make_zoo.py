# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of this folder with PyTorch 2.14: make_zoo.py FOLDER [NAME...].

Transformers as people write them: each NAME.pt2 has an input and the outputs in float64, and its
parts are spelled in ways of their own.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import made, save, save_arrays  # noqa: E402

VOCABULARY, WIDTH, HEADS, DIM, TOKENS = 13, 12, 3, 4, 7


def heads_of(x, heads=HEADS):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def later(tokens):
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)


class Attention(nn.Module):
    """Queries, keys and values as layers; `attend` has the rest."""

    def __init__(self, attend=None, kv_heads=HEADS):
        super().__init__()
        self.query, self.output = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, kv_heads * DIM)
        self.value = nn.Linear(WIDTH, kv_heads * DIM)
        self.temperature = nn.Parameter(torch.ones(HEADS, 1, 1))
        self.kv_heads, self.attend = kv_heads, attend or causal

    def forward(self, x):
        q, k, v = heads_of(self.query(x)), self.key(x), self.value(x)
        k, v = heads_of(k, self.kv_heads), heads_of(v, self.kv_heads)
        return self.output(self.attend(self, q, k, v).transpose(1, 2).flatten(2))


def causal(self, q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def multiplied_mask(self, q, k, v):
    seen = torch.tril(torch.ones(q.shape[2], q.shape[2]))
    return ((q @ k.mT) * seen - 1e4 * (1 - seen)).softmax(-1) @ v


def keys_first(self, q, k, v):
    scores = (k @ q.transpose(-2, -1)).transpose(-2, -1) * DIM**-0.5
    return scores.masked_fill(later(q.shape[2]), torch.finfo(scores.dtype).min).softmax(-1) @ v


def queries_first(self, q, k, v):
    scores = torch.einsum("bhqd,bhkd->bqhk", q, k) * DIM**-0.5
    weights = scores.masked_fill(later(q.shape[2])[:, None], float("-inf")).softmax(-1)
    return torch.einsum("bqhk,bhkd->bhqd", weights, v)


def heads_last(self, q, k, v):
    scores = torch.einsum("bhqd,bhkd->bqkh", q, k)
    weights = (scores - 1e4 * later(q.shape[2])[None, :, :, None].to(q.dtype)).softmax(2)
    return torch.einsum("bqkh,bhkd->bhqd", weights, v)


def temperature(self, q, k, v):
    scores = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT) * self.temperature.exp()
    return scores.masked_fill(later(q.shape[2]), -1e9).softmax(-1) @ v


def exponential(self, q, k, v):
    scores = (q @ k.mT / 2).masked_fill(later(q.shape[2]), -1e9)
    return torch.exp(F.log_softmax(scores, -1)) @ v


def grouped_einsum(self, q, k, v):
    batch, heads, tokens, dim = q.shape
    q = q.view(batch, self.kv_heads, -1, tokens, dim)
    scores = torch.einsum("bkgtd,bksd->bkgts", q, k) / dim**0.5
    weights = scores.masked_fill(later(tokens), -torch.inf).softmax(-1)
    return torch.einsum("bkgts,bksd->bkgtd", weights, v).reshape(batch, heads, tokens, dim)


def added_into(self, q, k, v):
    size = (q.shape[0] * HEADS, q.shape[2], DIM)
    q, k, v = q.reshape(size), k.reshape(size), v.reshape(size)
    mask = torch.zeros(later(size[1]).shape).masked_fill(later(size[1]), -1e9)
    scores = torch.baddbmm(mask.expand(size[0], -1, -1), q, k.mT, alpha=DIM**-0.5)
    return (scores.softmax(-1) @ v).view(-1, HEADS, size[1], DIM)


def stepwise_rotation(self, q, k, v):
    frequencies = 100.0 ** (-torch.arange(0, DIM, 2).float() / DIM)
    angles = torch.outer(torch.arange(q.shape[2]).float(), frequencies)
    turned = []
    for x in (q, k):
        y = torch.empty_like(x)
        y[..., 0::2] = x[..., 0::2] * angles.cos() - x[..., 1::2] * angles.sin()
        y[..., 1::2] = x[..., 0::2] * angles.sin() + x[..., 1::2] * angles.cos()
        turned.append(y)
    return causal(self, *turned, v)


def heads_first(self, q, k, v):
    q, k = F.layer_norm(q, (DIM,)), F.normalize(k, dim=-1)
    return causal(self, q, k, v + k / 2) * torch.sigmoid(q[..., :1])


def assigned_masks(self, q, k, v):
    hidden = later(q.shape[2])
    scores = q @ k.mT * DIM**-0.5
    scores[..., hidden] = -torch.inf
    mask = torch.ones(hidden.shape).tril()
    mask[mask == 0] = -1e9
    return (scores + mask - 1).softmax(-1) @ v


def factors_of_positions(self, q, k, v):
    order = torch.arange(q.shape[2]).float()
    scores = q * torch.log(order + 2)[:, None] @ k.mT / torch.sqrt(order + 1)[:, None]
    return scores.masked_fill(later(q.shape[2]), -1e9).softmax(-1) @ v


def turned(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def growing_rotation(self, q, k, v):
    """xPos: queries grow with their position as keys shrink."""
    order = torch.arange(q.shape[2]).float()[:, None]
    angles = order * torch.tensor([1.0, 0.1]).repeat(2)
    growth = torch.tensor([0.4, 0.9]).repeat(2) ** (order / 8)
    q, k = (turned(x, angles.cos(), angles.sin()) for x in (q, k))
    return causal(self, q * growth, k / growth, v)


def rotation_of_two_axes(self, q, k, v):
    """Rows turn one half of a head, columns the other one; the first token stays, as in DINOv3."""
    angles = torch.stack([torch.arange(6) // 3 + 0.5, torch.arange(6) % 3 - 0.5], -1)
    cosine, sine = angles.repeat(1, 2).cos(), angles.repeat(1, 2).sin()
    q, k = (torch.cat([x[:, :, :1], turned(x[:, :, 1:], cosine, sine)], 2) for x in (q, k))
    return causal(self, q, k, torch.cat([rotated_pairs(v[..., :2]), v[..., 2:]], -1))


def rotated_pairs(x):
    """The angles of neighbours, by small matrices."""
    angles = torch.arange(1, x.shape[2] + 1).float() ** 0.5
    cosine, sine = angles.cos(), angles.sin()
    rows = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)
    return (rows * x[..., None, :]).sum(-1)


def difference(self, q, k, v):
    """Of the weights of two heads each, in two spellings."""
    q, k = torch.cat([q, q.flip(1)], 1), torch.cat([k, k * 0.5], 1)
    weights = torch.nan_to_num(q @ k.mT + torch.full((7, 7), -torch.inf).triu(1)).softmax(-1)
    first, second = weights.unflatten(1, (2, HEADS)).unbind(1)
    whole = weights[:, :HEADS] - self.temperature.sigmoid() * weights[:, HEADS:]
    return (first - 0.3 * second) @ v + torch.einsum("bhqk,bhkd->bhqd", whole, v)


class SharedHeads(nn.Module):
    """Layers that all heads share, before and after they change places."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM) for _ in range(4))
        self.up, self.down = nn.Linear(DIM, 6), nn.Linear(3, DIM)

    def forward(self, x):
        heads = x.view(x.shape[0], x.shape[1], HEADS, DIM)
        q, k, v = self.q(heads), self.k(heads), heads @ self.v.weight.T
        scores = torch.einsum("nqhd,nkhd->nhqk", q.softmax(-1), k)
        weights = scores.masked_fill(later(x.shape[1]), -1e20).softmax(3)
        made = self.o(torch.einsum("nhql,nlhd->nhqd", weights, v)).transpose(1, 2)
        return (made + self.down(F.glu(self.up(made)))).flatten(2)


class ValueResidual(nn.Module):
    """Values are mixed with those of the layer before, by a number of each token and head."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.mix, self.share = nn.Linear(WIDTH, HEADS), nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        size = (x.shape[0], x.shape[1], 3, HEADS, DIM)
        q, k, before = self.first(x).reshape(size).permute(2, 0, 3, 1, 4).unbind(0)
        x = causal(self, q, k, before).transpose(1, 2).flatten(2)
        q, k, v = self.second(x).reshape(size).permute(2, 0, 3, 1, 4).unbind(0)
        mix = self.mix(x).sigmoid().transpose(1, 2).unsqueeze(-1)
        v = v.lerp(before, mix).lerp(before, self.share)
        q = q * torch.sigmoid(q.mean(-1, keepdim=True))
        return causal(self, q, k, v).transpose(1, 2).flatten(2)


class MatrixHeads(nn.Module):
    """Heads have matrices of their own in one tensor."""

    def __init__(self, spelling):
        super().__init__()
        self.q, self.k, self.v = (nn.Parameter(torch.zeros(HEADS, WIDTH, DIM)) for _ in range(3))
        self.o, self.spelling = nn.Parameter(torch.zeros(HEADS, DIM, WIDTH)), spelling

    def forward(self, x):
        mask = later(x.shape[1])
        if self.spelling == "matmul":
            q, k, v = (x[:, None] @ w for w in (self.q, self.k, self.v))
            weights = (q @ k.mT).masked_fill(mask, -torch.inf).softmax(-1)
            return ((weights @ v) @ self.o).sum(1)
        q, k, v = (torch.einsum("...td,hde->...hte", x, w) for w in (self.q, self.k, self.v))
        weights = torch.einsum("bhqe,bhke->bhqk", q, k).masked_fill(mask, -torch.inf).softmax(-1)
        return torch.einsum("bhqk,bhke,hed->bqd", weights, v, self.o)


class ManyHeads(nn.Module):
    """torch's own, which also gives out the mean of its weights."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS)

    def forward(self, x):
        x = x.transpose(0, 1)
        return self.attention(x, x, x, attn_mask=later(x.shape[0]))[0].transpose(0, 1)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 9), nn.Linear(9, WIDTH)
        self.slope, self.function = nn.Parameter(torch.tensor(0.2)), function

    def forward(self, x):
        return self.down(self.function(self, self.up(x)))


class Gate(nn.Module):
    def __init__(self, function, order):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 18), nn.Linear(9, WIDTH)
        self.function, self.order = function, order

    def forward(self, x):
        a, b = self.up(x).chunk(2, -1)
        if self.order == "second":
            return self.down(a * self.function(b))
        if self.order == "neighbours":
            h = self.up(x)
            return self.down(h[..., 1::2] * self.function(h[..., ::2]))
        return self.down(self.function(a) * b) + self.down(F.glu(self.up(x)))


class Pointwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Conv1d(WIDTH, 9, 1), nn.Conv1d(9, WIDTH, 1)
        self.last = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        return self.last(self.down(F.relu(self.up(x.transpose(1, 2)))).transpose(1, 2))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 2), nn.ModuleList([nn.Linear(WIDTH, WIDTH)] * 2)

    def forward(self, x):
        first, second = self.gate(x).softmax(-1).split(1, -1)
        return first * self.experts[0](x) + second * self.experts[1](torch.tanh(x))


class Norm(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.factor, self.kind = nn.Parameter(torch.tensor(0.5)), kind

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        if self.kind == "deviation":
            return self.gain * centred / (x.std(-1, keepdim=True) + 0.02) + self.bias
        if self.kind == "variance":
            return self.gain * centred / torch.sqrt(x.var(-1, keepdim=True) + 1e-3) + self.bias
        if self.kind == "root":
            return self.gain * x / (x.norm(2, -1, keepdim=True) * WIDTH**-0.5 + 0.01)
        if self.kind == "length":
            return self.factor * x / torch.norm(x, dim=-1, keepdim=True).clamp(min=1e-5)
        return self.gain * torch.tanh(self.factor * x) + self.bias


class SinkAttention(Attention):
    """A score of no key takes part in the softmax of each head."""

    def __init__(self, attend):
        super().__init__(attend)
        self.sinks = nn.Parameter(torch.zeros(HEADS))


def causal_scores(q, k):
    return (q @ k.mT * DIM**-0.5).masked_fill(later(q.shape[2]), float("-inf"))


# As gpt-oss writes it in the library transformers.
def learned_sinks(self, q, k, v):
    sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[-2], -1)
    scores = torch.cat([causal_scores(q, k), sinks], dim=-1)
    scores = scores - scores.max(dim=-1, keepdim=True).values
    return F.dropout(F.softmax(scores, dim=-1)[..., :-1], 0.1, self.training) @ v


# Softmax plus one: exp(x - m) / (exp(-m) + sum of exp(x - m)).
def plus_one(self, q, k, v):
    scores = causal_scores(q, k)
    largest = scores.max(dim=-1, keepdim=True).values.clamp(min=0)
    exponentials = torch.exp(scores - largest)
    return exponentials / (torch.exp(-largest) + exponentials.sum(-1, keepdim=True)) @ v


def plus_one_plain(self, q, k, v):
    exponentials = causal_scores(q, k).exp()
    return exponentials / (1 + exponentials.sum(-1, keepdim=True)) @ v


def padded_scores(self, q, k, v):
    return F.pad(causal_scores(q, k), (0, 1)).softmax(-1)[..., :-1] @ v


def learned_sum(self, q, k, v):
    scores = causal_scores(q, k)
    sinks = self.sinks.view(-1, 1, 1)
    largest = torch.maximum(scores.amax(-1, keepdim=True), torch.zeros(()))
    exponentials = torch.exp(scores - largest)
    total = exponentials.sum(-1, keepdim=True) + torch.exp(sinks - largest)
    return exponentials / total @ v


# A key and a value of zeros, which all tokens see.
def zero_key(self, q, k, v):
    mask = F.pad(later(q.shape[2]).logical_not(), (0, 1), value=True)
    k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


# Tokens see what came before them, and the first one nothing but zeros.
def zero_key_first(self, q, k, v):
    zeros = torch.zeros(q.shape[0], HEADS, 1, DIM)
    k, v = torch.cat([zeros, k], 2), torch.cat([zeros, v], 2)
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
    return ((q @ k.mT) / 2).masked_fill(mask, float("-inf")).softmax(-1) @ v


class ZeroAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, add_zero_attn=True, batch_first=True)

    def forward(self, x):
        mask = later(x.shape[1])
        return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


class Beside(nn.Module):
    """Numbers of each position beside the columns of each head, and others beside all of them."""

    def __init__(self):
        super().__init__()
        self.rows, self.same = nn.Parameter(torch.ones(16, 2)), nn.Parameter(torch.ones(3))
        self.down = nn.Linear(HEADS * (DIM + 2) + 3, WIDTH)

    def forward(self, x):
        b, n, _ = x.shape
        rows = self.rows[:n, None].expand(b, n, HEADS, 2)
        heads = torch.cat([x.view(b, n, HEADS, DIM), rows], -1).flatten(2)
        return self.down(torch.cat([heads, self.same.expand(b, n, 3)], -1))


class OtherNames(nn.Module):
    """Ops that have two names, and constants of the type of what they meet."""

    def forward(self, x):
        columns = torch.arange(WIDTH).type_as(x)
        gate = torch.multiply(torch.sigmoid(x), torch.subtract(x, columns))
        return torch.divide(gate, 4.0) + torch.min(x, torch.zeros_like(columns))


class Fourier(nn.Module):
    """Of all tokens and columns, as FNet has it."""

    def forward(self, x):
        return torch.fft.fft2(x, norm="ortho").real + torch.fft.fft(x, dim=1).imag / TOKENS


class TokenMixer(nn.Module):
    """Layers over tokens, as those of an MLP-Mixer."""

    def __init__(self, hidden):
        super().__init__()
        self.hidden, self.output = nn.Linear(TOKENS, hidden), nn.Linear(hidden, TOKENS)

    def forward(self, x):
        return self.output(F.gelu(self.hidden(x.mT))).mT


class LightConvolution(nn.Module):
    """A kernel of each token and head, as ConvBERT makes it, and one of each head."""

    def __init__(self):
        super().__init__()
        self.kernel, self.value = nn.Linear(WIDTH, HEADS * 3), nn.Linear(WIDTH, WIDTH)
        self.of_heads = nn.Conv2d(HEADS, HEADS, (5, 1), padding=(2, 0), groups=HEADS)

    def forward(self, x):
        value = self.value(x)
        seen = F.unfold(value.mT.unsqueeze(-1), (3, 1), padding=(1, 0)).mT
        kernel = self.kernel(x).reshape(-1, 3, 1).softmax(1)
        made = seen.reshape(-1, DIM, 3) @ kernel
        beside = self.of_heads(heads_of(value)).transpose(1, 2).flatten(2)
        return made.reshape(x.shape) + beside


class TwoProducts(nn.Module):
    """Scores that are the sum of two products, as those of text and of places."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (heads_of(part) for part in self.first(x).chunk(3, -1))
        a, b = heads_of(self.second(x)).chunk(2, -1)
        scores = 0.5 * (q @ k.mT) - a @ b.mT / 3
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def key_terms(self, q, k, v):
    terms = torch.exp(0.5 * v.sum(-1)).unsqueeze(2).expand(-1, -1, q.shape[2], -1)
    mask = terms.masked_fill(later(q.shape[2]), torch.finfo(q.dtype).min)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def local_blocks(self, q, k, v):
    """Blocks of 4 that see themselves and those beside, as LongT5 and local attention have it."""
    around = []
    for x in (k, v):
        blocks = F.pad(x.unflatten(2, (-1, 4)), (0, 0, 0, 0, 1, 1))
        count = blocks.shape[2] - 2
        around.append(torch.cat([blocks[:, :, i : i + count] for i in range(3)], 3))
    scores = q.unflatten(2, (-1, 4)) @ around[0].mT
    distance = torch.arange(12) - 4 - torch.arange(4)[:, None]
    place = torch.arange(-4, 8) + 4 * torch.arange(scores.shape[2])[:, None, None]
    seen = (distance.abs() < 4) & (place >= 0) & (place < q.shape[2])
    weights = (scores - 0.1 * distance.abs()).masked_fill(~seen, -1e10).softmax(-1)
    return (weights @ around[1]).flatten(2, 3)


class Model(nn.Module):
    def __init__(self, *layers, norm=nn.LayerNorm, give=None, embed=None):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions, self.types = nn.Embedding(16, WIDTH), nn.Embedding(2, WIDTH)
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList([norm(WIDTH) for _ in layers])
        self.head, self.give, self.embed = nn.Linear(WIDTH, VOCABULARY), give, embed

    def forward(self, ids):
        if self.embed == "padding":
            mask = ids.ne(1).int()
            x = self.embedding(ids) + self.positions((torch.cumsum(mask, 1) * mask).long() + 1)
            x = x + self.types(torch.zeros_like(ids))
        elif self.embed == "scaled_padding":
            mask = ids.ne(1).int()
            positions = (torch.cumsum(mask, 1) * mask).long() + 1
            assert positions.max().item() < 16  # of no interest to the result
            x = self.embedding(ids) * WIDTH**0.5 + self.positions(positions)
        elif self.embed == "codebooks":  # several ids of each token, in one table
            offsets = torch.arange(3) * 4
            x = F.embedding(ids + offsets, self.embedding.weight).sum(2)
        elif self.embed == "apart":
            mask = ids.ne(1).int()
            x = self.embedding(ids) + torch.tanh(self.positions((mask.cumsum(1) * mask).long() + 1))
        elif self.embed == "expanded":
            positions = torch.arange(ids.shape[1]).expand(ids.shape)
            x = self.embedding.weight[ids] + self.positions(positions)
        elif self.embed == "resampled":
            table = self.positions.weight.T.reshape(1, WIDTH, 4, 4)
            table = F.interpolate(table, size=(1, 7), mode="bicubic", antialias=True)
            x = self.embedding(ids) + table.flatten(2).mT
        else:
            x = self.embedding(ids) + self.positions.weight[: ids.shape[1]]
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        if self.give == "pooled":
            return self.head(F.adaptive_avg_pool1d(x.transpose(1, 2), 1).squeeze(-1)).softmax(-1)
        if self.give == "span":
            start, end = self.head(x)[..., :2].split(1, -1)
            return start.squeeze(-1), end.squeeze(-1)
        if self.give == "blocks":
            return self.head(x)[..., 1:].unflatten(-1, (4, 3)).softmax(-2).transpose(2, 3)
        if self.give == "ends":
            ends = torch.cat([x[:, 0] - x[:, -1], x[:, -1], x.mean(1)], -1)
            return torch.tanh(ends @ self.head.weight.T.repeat(3, 1)) * 2 - 1
        if self.give == "columns":
            return self.head(x).transpose(1, 2)
        if self.give == "scaled":
            return self.head((x + self.norms[0].weight * torch.tanh(x))[:, 0])
        if self.give == "errors":
            made = self.head(x)[..., :WIDTH]
            return F.mse_loss(made, x, reduction="none").mean((1, 2)) + (
                F.l1_loss(made, x, reduction="none").sum(-1).max(-1).values)
        if self.give == "logarithm":
            return F.log_softmax(self.head(x), -1)
        return self.head(x)


def functions():
    kinds = [
        lambda s, x: F.mish(x),
        lambda s, x: x * torch.tanh(torch.log(1 + torch.exp(x))),
        lambda s, x: F.leaky_relu(x, 0.1),
        lambda s, x: torch.where(x > 0, x, s.slope * x),
        lambda s, x: F.elu(x, 0.5),
        lambda s, x: F.selu(x),
        lambda s, x: F.celu(x, 2.0),
        lambda s, x: F.softplus(x, 2.0),
        lambda s, x: F.logsigmoid(x),
        lambda s, x: x * F.relu6(x + 3) / 6,
        lambda s, x: F.hardsigmoid(x),
        lambda s, x: F.relu6(2 * x),
        lambda s, x: F.tanhshrink(x),
        lambda s, x: torch.abs(x),
        lambda s, x: F.relu(x) ** 3,
        lambda s, x: x * torch.sigmoid(s.slope * x),
        lambda s, x: F.prelu(x, s.slope.view(1)),
        lambda s, x: x - x.mean(-1, keepdim=True),
    ]
    return Model(Attention(), *[Function(kind) for kind in kinds])


def norms(*kinds):
    made = iter(kinds)
    return Model(Attention(), *[nn.Linear(WIDTH, WIDTH) for _ in kinds[1:]],
                 norm=lambda _: Norm(next(made)))


def gates():
    kinds = [(F.gelu, "first"), (F.relu, "second"), (F.silu, "neighbours"), (F.mish, "second")]
    return Model(Attention(), *[Gate(*kind) for kind in kinds])


def log_sum(self, q, k, v):
    scores = (q @ k.mT * DIM**-0.5).masked_fill(later(q.shape[2]), -1e9)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() @ v


def turned_by_matrices(self, q, k, v):
    """Each position has a matrix of its own that turns pairs of columns of all heads."""
    angle = torch.outer(torch.arange(16.0), 0.7 ** torch.arange(WIDTH // 2)).to(q.dtype)
    pairs = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1)
    matrices = torch.zeros(16, WIDTH, WIDTH, dtype=q.dtype)
    for i in range(WIDTH // 2):
        matrices[:, 2 * i:2 * i + 2, 2 * i:2 * i + 2] = pairs[:, i].view(16, 2, 2)

    def turned(x):
        rows = x.permute(2, 0, 1, 3).flatten(2)
        return heads_of(torch.bmm(rows, matrices[:x.shape[2]]).transpose(0, 1))

    return causal(self, turned(q), turned(k), v)


def pairs_by_einsum(self, q, k, v):
    """Each position has a matrix of its own for each pair of a head's columns."""
    angle = torch.outer(torch.arange(16.0), 0.7 ** torch.arange(DIM // 2)).to(q.dtype)
    rows = [torch.stack([angle.cos(), -angle.sin()], -1),
            torch.stack([angle.sin(), angle.cos()], -1)]
    matrices = torch.stack(rows, -2)[:q.shape[2]]

    def turned(x):
        return torch.einsum("bhnpc,npdc->bhnpd", x.unflatten(-1, (-1, 2)), matrices).flatten(-2)

    return causal(self, turned(q), turned(k), v)


class TorchLayer(nn.Module):
    """What run_decompositions() makes parts of: attention, a batch norm, a norm of groups."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True)
        self.groups = nn.GroupNorm(2, WIDTH)

    def forward(self, x):
        x = self.layer(self.norm(x.mT).mT, src_mask=later(x.shape[1]), is_causal=True)
        return self.groups(x.flatten(0, 1)).view(x.shape)


class PaddedRows(nn.Module):
    """Rows before the first one and after the last that are copies of others."""

    def __init__(self):
        super().__init__()
        self.around = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, padding_mode="circular", bias=False)
        self.mirrored = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, padding_mode="reflect")
        self.ends = nn.ReplicationPad1d((2, 1))
        self.short, self.slopes = nn.Conv1d(WIDTH, WIDTH, 4, groups=WIDTH), nn.PReLU(WIDTH)

    def forward(self, x):
        x = self.slopes(self.around(x.mT)) + self.mirrored(x.mT)
        first, second = torch.tensor_split(self.short(self.ends(x)).mT, 2, -1)
        return torch.cat([second.cumsum(-1), first], -1)


class Series(nn.Module):
    """A moving average with the ends repeated, what differs from it, and from the row before."""

    def __init__(self):
        super().__init__()
        self.output = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        padded = torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], 1)
        trend = F.avg_pool1d(padded.mT, 5, 1).mT
        steps = torch.diff(x, dim=1, prepend=x[:, :1])
        return self.output(torch.cat([x - trend, steps, trend + x.roll(1, 1)], -1))


class CountedMean(nn.Module):
    """The mean of tokens that are no padding, of which there may be none."""

    def __init__(self):
        super().__init__()
        self.embed, self.output = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 5)
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True)

    def forward(self, ids):
        x = self.layer(self.embed(ids))
        kept = (ids != 1).unsqueeze(-1).to(x.dtype)
        return self.output((x * kept).sum(1) / kept.sum(1).clamp(min=1e-9))


class RepeatedEnds(nn.Module):
    """What is left of a sum without its moving mean, whose first and last rows are repeated."""

    def forward(self, x):
        x = x + torch.tanh(x)
        rows = torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], 1)
        return x - F.avg_pool1d(rows.permute(0, 2, 1), 5, 1).permute(0, 2, 1)


class OneHot(nn.Module):
    """Ids times a matrix, and a power mean of the tokens."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(VOCABULARY, WIDTH), nn.Linear(WIDTH, 5)
        self.table = nn.Parameter(torch.randn(VOCABULARY, WIDTH))
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True)
        self.power = nn.Parameter(torch.tensor(3.0))

    def forward(self, ids):
        rows = F.one_hot(ids, VOCABULARY).to(self.table.dtype)
        x = self.layer(rows @ self.table + self.first(rows))
        return self.second(x.clamp(min=1e-6).pow(self.power).mean(1).pow(1 / self.power))


ZOO = {
    "functions": functions,
    "norms": lambda: norms("deviation", "variance", "root", "length", "tanh"),
    "gates": gates,
    "multiplied_mask": lambda: Model(Attention(multiplied_mask)),
    "keys_first": lambda: Model(Attention(keys_first)),
    "temperature": lambda: Model(Attention(temperature)),
    "exponential": lambda: Model(Attention(exponential), give="logarithm"),
    "grouped_einsum": lambda: Model(Attention(grouped_einsum, kv_heads=1)),
    "added_into": lambda: Model(Attention(added_into)),
    "stepwise_rotation": lambda: Model(Attention(stepwise_rotation)),
    "heads_first": lambda: Model(Attention(heads_first)),
    "matrix_heads": lambda: Model(MatrixHeads("matmul"), MatrixHeads("einsum")),
    "many_heads": lambda: Model(ManyHeads(), Pointwise()),
    "padding": lambda: Model(nn.TransformerEncoderLayer(WIDTH, HEADS, 9, batch_first=True),
                             embed="padding", give="pooled"),
    "scaled_padding": lambda: Model(Attention(), Beside(), OtherNames(), embed="scaled_padding"),
    "experts": lambda: Model(Attention(), Experts(), give="span"),
    # As many sequences, tokens, and elements of a head.
    "all_alike": lambda: Model(Attention(), Gate(F.silu, "first"), embed="expanded"),
    "one_vocabulary": lambda: Model(Attention(kv_heads=HEADS), ManyHeads()),
    "columns_first": lambda: Model(Attention(), give="columns"),
    "scaled_first": lambda: Model(Attention(), give="scaled"),
    "assigned_masks": lambda: Model(Attention(assigned_masks), give="blocks"),
    "factors_of_positions": lambda: Model(Attention(factors_of_positions)),
    "growing_rotation": lambda: Model(Attention(growing_rotation)),
    "rotation_of_two_axes": lambda: Model(Attention(rotation_of_two_axes)),
    "difference": lambda: Model(Attention(difference), embed="resampled"),
    "shared_heads": lambda: Model(SharedHeads(), give="ends"),
    "value_residual": lambda: Model(ValueResidual(), give="errors"),
    "sinks": lambda: Model(SinkAttention(learned_sinks), SinkAttention(learned_sum)),
    "plus_one": lambda: Model(Attention(plus_one), Attention(plus_one_plain),
                              Attention(padded_scores)),
    "zero_keys": lambda: Model(Attention(zero_key), Attention(zero_key_first), ZeroAttention()),
    "fourier": lambda: Model(Fourier(), Attention()),
    "token_mixer": lambda: Model(TokenMixer(10), TokenMixer(3)),
    "light_convolution": lambda: Model(LightConvolution()),
    "two_products": lambda: Model(TwoProducts()),
    "key_terms": lambda: Model(Attention(key_terms)),
    "local_blocks": lambda: Model(Attention(local_blocks)),
    "apart_from_padding": lambda: Model(Attention(), embed="apart"),
    "codebooks": lambda: Model(Attention(), embed="codebooks"),
    "log_sum": lambda: Model(Attention(log_sum)),
    "turned_by_matrices": lambda: Model(Attention(turned_by_matrices)),
    "pairs_by_einsum": lambda: Model(Attention(pairs_by_einsum)),
    "decomposed": lambda: Model(TorchLayer()),
    "padded_rows": lambda: nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), PaddedRows(),
        nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True), nn.Linear(WIDTH, 5)),
    "series_trend": lambda: nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), Series(),
        nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True), nn.Linear(WIDTH, 5)),
    "one_hot": OneHot,
    "queries_first": lambda: Model(Attention(queries_first), Attention(heads_last)),
    "counted_mean": CountedMean,
    "repeated_ends": lambda: nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), RepeatedEnds(),
        nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True), nn.Linear(WIDTH, 5)),
}
SHAPES = {"all_alike": (DIM, DIM), "one_vocabulary": (1, WIDTH), "local_blocks": (1, 8),
          "codebooks": (1, TOKENS, 3), "decomposed": (2, TOKENS)}
ANY_LENGTH = (
    "norms", "gates", "multiplied_mask", "keys_first", "temperature", "exponential",
    "grouped_einsum", "added_into", "heads_first", "matrix_heads", "many_heads", "padding",
    "experts", "one_vocabulary", "columns_first", "scaled_first", "assigned_masks",
    "factors_of_positions", "value_residual", "sinks", "plus_one", "key_terms",
    "apart_from_padding", "log_sum", "one_hot", "queries_first", "counted_mean")


def main(folder, names):
    for name, model in made(ZOO, names, 0.3):
        ids = torch.randint(0, 4 if name == "codebooks" else VOCABULARY,
                            SHAPES.get(name, (1, TOKENS)))
        if name.endswith("padding"):
            ids[0, -2:] = 1
        save(model, (ids,), f"{folder}/{name}.pt2", decompose=name == "decomposed",
             any_length=name in ANY_LENGTH)
        torch.set_default_dtype(torch.float64)
        with torch.no_grad():
            outputs = model.double()(ids)
        torch.set_default_dtype(torch.float32)
        first = outputs[0] if isinstance(outputs, tuple) else outputs
        # Columns of ids are features.
        given = ids.float() if ids.dim() == 3 else ids
        save_arrays(f"{folder}/{name}", given, first)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
