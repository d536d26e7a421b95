# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of this folder with PyTorch 2.14.

    make_other_lengths.py FOLDER [NAME...]

Each NAME.pt2 is a model of any length, of those of DYNAMIC up to so many tokens. NAME_input.npy is
the example, and NAME_other_input.npy has another length; the outputs are in float64.
"""
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch
import torch.nn as nn
import torch.nn.functional as F
from save_cases import exact, made, save, save_arrays  # noqa: E402

VOCABULARY, WIDTH, HEADS, COLUMNS, TOKENS, OTHER = 13, 12, 3, 5, 14, 37


def heads_of(x):
    return x.view(x.shape[0], x.shape[1], HEADS, -1).transpose(1, 2)


def together(x):
    return x.transpose(1, 2).flatten(2)


class Ids(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.randn(64, WIDTH))
        self.heads = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 4)
        self.mixed = nn.Parameter(torch.rand(WIDTH))
        self.bias = nn.Linear(WIDTH, HEADS)
        self.scale = 2.3

    def embedded(self, ids):
        return self.embed(ids) + self.places[: ids.shape[1]]


class Shifts(Ids):
    """Rows of the token before, mixed in as RWKV does, put beside, and added."""

    def forward(self, ids):
        x = self.embedded(ids)
        x = self.qkv(x * self.mixed + F.pad(x, (0, 0, 1, -1)) * (1 - self.mixed))[..., :WIDTH]
        first, second = x.chunk(2, -1)
        x = torch.cat([torch.cat([torch.zeros_like(first[:, :1]), first[:, :-1]], 1), second], -1)
        x = F.gelu(x)
        return self.out(x + F.pad(x, (0, 0, 1, 0))[:, :-1] + F.pad(x[:, 2:], (0, 0, 0, 2)))


class PaddedIds(Ids):
    """A mask of padding that is made of the ids."""

    def forward(self, ids):
        padding = ids == 0
        x = self.embedded(ids)
        x = x + self.heads(x, x, x, key_padding_mask=padding, need_weights=False)[0]
        kept = (~padding).unsqueeze(-1).to(x.dtype)
        return self.out((x * kept).sum(1) / kept.sum(1).clamp(min=1))


class ZeroedIds(Ids):
    """Rows of padding are zeros, as in SASRec, or the least of all, for a maximum."""

    def forward(self, ids):
        x = self.embedded(ids) * (ids > 0).float().unsqueeze(-1)
        hidden = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        x = x + self.heads(x, x, x, attn_mask=hidden, need_weights=False)[0]
        return self.out(x.masked_fill((ids == 0).unsqueeze(-1), -1e9).amax(1))


class KeyTerms(Ids):
    """What is added to scores is a number of each key, and numbers are written in the line."""

    def forward(self, ids):
        x = self.embedded(ids)
        q, k, v = [heads_of(part) for part in self.qkv(x).chunk(3, -1)]
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * 8
        scores = scores / self.scale
        scores = scores + self.bias(x).transpose(1, 2).unsqueeze(2)
        hidden = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
        temperature = torch.clamp(self.mixed[0], max=math.log(100.0)).exp()
        return self.out(together((scores * temperature).softmax(-1) @ v))


class Steps(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.up = nn.Linear(COLUMNS, width)
        self.layer = nn.TransformerEncoderLayer(width, HEADS, 9, dropout=0.0, batch_first=True)
        self.out, self.wide = nn.Linear(width, 4), nn.Linear(3 * width, 4)

    def encoded(self, x):
        return self.layer(self.up(x))


class Waves(Steps):
    def forward(self, x):
        first, rest = x[..., :2], x[..., 2:]
        x = torch.cat([torch.sin(first), torch.log1p(rest.abs())], -1)
        return self.out(torch.cos(self.encoded(x) * 3) + torch.log(self.up(x).square() + 0.01))


class Pools(Steps):
    def forward(self, x):
        y = self.encoded(x)
        return self.out(torch.logsumexp(y, 1) + y.norm(dim=1) + y.abs().mean(1).pow(1.5))


class LastRows(Steps):
    """A layer of the last three tokens, and the mean of them."""

    def forward(self, x):
        y = self.encoded(x)
        return self.wide(y[:, -3:].flatten(1)) + self.out(y[:, -3:].mean(1)) + self.out(y[:, -2])


class SomeRows(Steps):
    def forward(self, x):
        return self.out(self.encoded(x)[:, -3:])


class AsWideAsLong(Steps):
    """As many columns as the example has tokens."""

    def __init__(self):
        super().__init__(TOKENS - 2)
        self.out = nn.Linear(TOKENS - 2, TOKENS - 2)

    def forward(self, x):
        y = self.encoded(x).reshape(x.shape[0], x.shape[1], HEADS, -1)
        return self.out(y.flatten(2)[:, -1]).view(-1, 4, HEADS)


class LessTheLargest(Ids):
    """Scores less the largest of them, times a number, as CogView has it; and xIELU."""

    def forward(self, ids):
        x = self.embedded(ids)
        q, k, v = (heads_of(part) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) / 32
        scores = (scores - scores.amax(-1).unsqueeze(-1)) * 32
        x = x + together(scores.softmax(-1) @ v)
        negative = (torch.expm1(x.clamp(max=-1e-6)) - x) * 0.9
        return self.out(torch.where(x > 0, 0.7 * x * x, negative) + 0.5 * x)


class InTurn(nn.Module):
    """Returns, states and actions as inputs of their own, whose rows come in turn."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(n, WIDTH) for n in (1, 3, 2))
        self.steps, self.norm = nn.Embedding(64, WIDTH), nn.LayerNorm(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.actions, self.returns = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 1)

    def forward(self, states, actions, returns, timesteps):
        b, n, _ = states.shape
        step = self.steps(timesteps)
        rows = zip(self.parts, (returns, states, actions))
        rows = torch.stack([part(x) + step for part, x in rows], 1)
        rows = self.norm(rows.permute(0, 2, 1, 3).reshape(b, 3 * n, WIDTH))
        mask = nn.Transformer.generate_square_subsequent_mask(3 * n)
        rows = self.blocks(rows, mask, is_causal=True).reshape(b, n, 3, WIDTH).permute(0, 2, 1, 3)
        return torch.cat([torch.tanh(self.actions(rows[:, 1])), self.returns(rows[:, 2])], -1)


class QueryTerms(Ids):
    """Attention whose scores get terms that are made of queries, in a way of its own."""

    def forward(self, ids):
        x = self.embedded(ids)
        q, k, v = (heads_of(part) for part in self.qkv(x).chunk(3, -1))
        return self.out(x + together(self.scores(q, k, x).softmax(-1) @ v))


class ByDistance(QueryTerms):
    """Products of queries with embeddings of distances that are clamped (Shaw et al. 2018)."""

    def __init__(self):
        super().__init__()
        self.distances = nn.Embedding(9 + 4 + 1, WIDTH // HEADS)

    def scores(self, q, k, x):
        places = torch.arange(x.shape[1])
        distances = (places[None] - places[:, None]).clamp(-9, 4) + 9
        terms = torch.einsum("bhid,ijd->bhij", q, self.distances(distances))
        return (q @ k.mT + terms) / math.sqrt(WIDTH // HEADS)


class Shifted(QueryTerms):
    """Transformer-XL's: products with waves of all distances, which are shifted row by row."""

    def __init__(self):
        super().__init__()
        self.waves = nn.Linear(WIDTH, WIDTH, bias=False)
        self.content, self.place = (nn.Parameter(torch.zeros(HEADS, 1, WIDTH // HEADS))
                                    for _ in range(2))

    def scores(self, q, k, x):
        tokens = x.shape[1]
        angles = torch.arange(tokens - 1, -tokens, -1)[:, None] / 20 ** torch.linspace(0, 1, 6)
        rows = self.waves(torch.cat([angles.sin(), angles.cos()], -1)[None].to(x.dtype))
        terms = (q + self.place) @ heads_of(rows).mT
        terms = F.pad(terms, (1, 0)).flatten(2)[..., tokens:]
        terms = terms.view(1, HEADS, tokens, 2 * tokens - 1)[..., :tokens]
        return ((q + self.content) @ k.mT + terms) * 0.4


class Gated(QueryTerms):
    """Terms by distance, times a gate of each query and head, as WavLM has them."""

    def __init__(self):
        super().__init__()
        self.buckets = nn.Embedding(23, HEADS)
        self.gates = nn.Linear(WIDTH // HEADS, 2)

    def scores(self, q, k, x):
        places = torch.arange(x.shape[1])
        terms = self.buckets((places[None] - places[:, None]).clamp(-11, 11) + 11).permute(2, 0, 1)
        first, second = torch.sigmoid(self.gates(heads_of(x))).chunk(2, -1)
        return q @ k.mT + (first * (second * 0.7 - 1) + 2) * terms


class Skewed(QueryTerms):
    """The same of earlier tokens alone, by a shift of a table (Huang et al. 2018)."""

    def __init__(self):
        super().__init__()
        self.distances = nn.Parameter(torch.zeros(40, WIDTH // HEADS))

    def scores(self, q, k, x):
        tokens = x.shape[1]
        terms = F.pad(q @ self.distances[-tokens:].T, (1, 0)).flatten(2)[..., tokens:]
        terms = terms.view(1, HEADS, tokens, tokens)
        hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        return (q @ k.mT + terms).masked_fill(hidden, float("-inf"))


class OfKeys(QueryTerms):
    """Products of keys with embeddings of distances: DeBERTa's position-to-content scores."""

    BUCKETS = 6

    def __init__(self):
        super().__init__()
        self.of_keys = nn.Parameter(torch.zeros(HEADS, 2 * self.BUCKETS, WIDTH // HEADS))
        self.of_queries = nn.Parameter(torch.zeros(HEADS, 2 * self.BUCKETS, WIDTH // HEADS))

    def buckets(self, n):
        places = torch.arange(n)
        distances = (places[:, None] - places[None]).clamp(1 - self.BUCKETS, self.BUCKETS)
        return (distances + self.BUCKETS - 1).expand(1, HEADS, n, n)

    def of(self, rows, table, buckets):
        return (rows @ table.mT / 2.5).gather(-1, buckets)

    def scores(self, q, k, x):
        buckets = self.buckets(x.shape[1])
        return q @ k.mT + self.of(k, self.of_keys, buckets.mT).mT


class Disentangled(OfKeys):
    """Terms of queries and of keys, added to each other first."""

    def scores(self, q, k, x):
        buckets = self.buckets(x.shape[1])
        terms = 0 + self.of(q, self.of_queries, buckets)
        terms += self.of(k, self.of_keys, buckets.mT).mT
        return (q @ k.mT + terms) * 0.7


class NoneChosen(Ids):
    """Two attentions, the second for tokens that a mask of ids chooses, here none."""

    def forward(self, ids):
        x = self.embedded(ids)
        q, k, v = (heads_of(part) for part in self.qkv(x).chunk(3, -1))
        first, second = (q @ k.mT * 0.5).softmax(-1) @ v, (k @ q.mT).softmax(-1) @ v
        chosen = torch.zeros_like(ids).bool()[:, None, :, None]
        return self.out(together(first + (second - first) * chosen))


# The most tokens, where the export says it.
DYNAMIC = {"by_distance": 64, "shifted": 64, "gated": 64, "skewed": 40, "disentangled": 64,
           "of_keys": 64}
MODELS = {
    "by_distance": ByDistance,
    "shifted": Shifted,
    "gated": Gated,
    "skewed": Skewed,
    "disentangled": Disentangled,
    "of_keys": OfKeys,
    "in_turn": InTurn,
    "less_the_largest": LessTheLargest,
    "shifts": Shifts,
    "padded_ids": PaddedIds,
    "zeroed_ids": ZeroedIds,
    "key_terms": KeyTerms,
    "waves": Waves,
    "pools": Pools,
    "last_rows": LastRows,
    "some_rows": SomeRows,
    "as_wide_as_long": AsWideAsLong,
    "none_chosen": NoneChosen,
}


def example(model, name, tokens):
    if isinstance(model, InTurn):
        columns = [torch.randn(1, tokens, n) for n in (3, 2, 1)]
        return (*columns, torch.arange(tokens)[None])
    if not isinstance(model, Ids):
        return torch.randn(1, tokens, COLUMNS)
    ids = torch.randint(1, VOCABULARY, (1, tokens))
    ids[0, -2 if "ids" in name else tokens :] = 0
    return ids


def main(folder, names):
    for name, model in made(MODELS, names, 0.3):
        tokens = {"as_wide_as_long": TOKENS - 2, "shifts": TOKENS + 5}.get(name, TOKENS)
        inputs = {name: example(model, name, tokens), name + "_other": example(model, name, OTHER)}
        inputs = {stem: x if isinstance(x, tuple) else (x,) for stem, x in inputs.items()}
        options = {}
        if name in DYNAMIC:
            options["dynamic_shapes"] = ({1: torch.export.Dim("n", min=2, max=DYNAMIC[name])},)
        save(model, inputs[name], f"{folder}/{name}.pt2", any_length=not options, **options)
        for stem, arrays in inputs.items():
            features = [x for x in arrays if x.is_floating_point()]
            save_arrays(f"{folder}/{stem}", torch.cat(features, -1) if features else arrays[0],
                        exact(model, *arrays))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
