# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of this folder with PyTorch 2.14: make_latents.py FOLDER [NAME...].

Rows of constants that attend to tokens, and keys that are fewer or more than tokens: each is
NAME.pt2 with an input, and outputs in float64.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch
import torch.nn as nn
import torch.nn.functional as F
from save_cases import exact, made, save, save_arrays  # noqa: E402

COLUMNS, WIDTH, HEADS, TOKENS, QUERIES = 5, 8, 2, 7, 3
DIM = WIDTH // HEADS
PREFIXED = ("stacked_token", "sliced_token", "causal_registers", "biased_token", "counted_token",
            "turns_after_token")


def attention(**options):
    return nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)


def heads(x):
    return x.unflatten(-1, (HEADS, DIM)).transpose(1, 2)


def mlp():
    return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH))


class Rows(nn.Module):
    """Features, or the pixels of an image, as rows."""

    def __init__(self, queries=QUERIES, outputs=4):
        super().__init__()
        self.rows, self.out = nn.Linear(COLUMNS, WIDTH), nn.Linear(WIDTH, outputs)
        self.queries = nn.Parameter(torch.randn(1, queries, WIDTH))

    def given(self, x):
        return self.queries.expand(x.size(0), -1, -1)


class Block(nn.Module):
    """Rows attend to others, and are changed by what they find."""

    def __init__(self):
        super().__init__()
        self.attention, self.mlp, self.norm = attention(), mlp(), nn.LayerNorm(WIDTH)

    def forward(self, x, keys):
        x = x + self.attention(self.norm(x), keys, keys, need_weights=False)[0]
        return x + self.mlp(x)


class Decoder(Rows):
    """Object queries of a decoder as PyTorch has it."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 12, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)

    def forward(self, x):
        return self.out(self.decoder(self.given(x), self.rows(x)))


class DetrLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.cross, self.mlp = attention(), attention(), mlp()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x, position, memory, place):
        rows = x + position
        x = self.norms[0](x + self.own(rows, rows, x)[0])
        found = self.cross(x + position, memory + place, memory)[0]
        return x + self.mlp(self.norms[1](x + found))


class Detr(Rows):
    """Patches of an image, and queries with positions that are added to all queries and keys."""

    def __init__(self):
        super().__init__(4)
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.place = nn.Parameter(torch.randn(6, WIDTH))
        self.encoder = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, batch_first=True)
        self.layers = nn.ModuleList(DetrLayer() for _ in range(2))
        self.box = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))

    def forward(self, x):
        memory = self.encoder(self.patches(x).flatten(2).transpose(1, 2) + self.place)
        position = self.given(x)
        rows = torch.zeros_like(position)
        for layer in self.layers:
            rows = layer(rows, position, memory, self.place)
        return torch.cat([self.out(rows), self.box(rows).sigmoid()], -1)


class Perceiver(Rows):
    """Latents that read the tokens twice, with attention of their own between."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        rows, latents = self.rows(x), self.given(x)
        for i, block in enumerate(self.blocks):
            latents = block(latents, latents if i % 2 else rows)
        return self.out(latents.mean(1))


class PerceiverIo(Rows):
    """Other queries read the latents, and by hand."""

    def __init__(self):
        super().__init__()
        self.read, self.process, self.write = Block(), Block(), nn.Linear(WIDTH, 2 * WIDTH)
        self.asked = nn.Parameter(torch.randn(HEADS, 5, DIM))

    def forward(self, x):
        latents = self.read(self.given(x), self.rows(x))
        latents = self.process(latents, latents)
        k, v = map(heads, self.write(latents).chunk(2, -1))
        weights = (self.asked @ k.transpose(-1, -2) / DIM**0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Resampler(Rows):
    """Latents attend to tokens and to themselves, which stand after these."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        rows, latents = self.rows(x), self.given(x)
        for block in self.blocks:
            latents = block(latents, torch.cat([rows, latents], 1))
        return self.out(latents)


class SetTransformer(Rows):
    """Inducing points, and pooling by two seeds."""

    def __init__(self):
        super().__init__()
        self.points = nn.ModuleList(Block() for _ in range(2))
        self.seeds = nn.Parameter(torch.randn(1, 2, WIDTH))
        self.pool, self.last = Block(), Block()

    def forward(self, x):
        rows, b = self.rows(x), x.size(0)
        rows = self.points[1](rows, self.points[0](self.given(x), rows))
        seeds = self.pool(self.seeds.repeat(b, 1, 1), rows)
        return self.out(self.last(seeds, seeds))


class QFormer(Rows):
    """As BLIP-2's: norms after sums, self attention in each layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(WIDTH)
        self.own = nn.ModuleList(attention() for _ in range(2))
        self.cross = nn.ModuleList(attention() for _ in range(2))
        self.mlp = nn.ModuleList(mlp() for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(6))

    def forward(self, x):
        memory, rows = self.rows(x), self.first(self.given(x))
        for i in range(2):
            rows = self.norms[3 * i](rows + self.own[i](rows, rows, rows)[0])
            rows = self.norms[3 * i + 1](rows + self.cross[i](rows, memory, memory)[0])
            rows = self.norms[3 * i + 2](rows + self.mlp[i](rows))
        return self.out(rows)


class PooledByQueries(Rows):
    """What three queries find, side by side, with sums beside."""

    def __init__(self):
        super().__init__()
        self.block, self.side = Block(), nn.Linear(QUERIES * WIDTH, 4)

    def forward(self, x):
        found = self.block(self.given(x), self.rows(x))
        return self.side(found.flatten(1)) + self.out(found[:, 0])


class OneSeed(Rows):
    """A single query, which reads twice, and attends to itself between."""

    def __init__(self):
        super().__init__(1)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        rows, seed = self.rows(x), self.given(x)
        seed = self.blocks[0](seed, rows)
        seed = self.blocks[1](seed, seed)
        return self.out(self.blocks[2](seed, rows).squeeze(1))


class BackToTokens(Rows):
    """As many tokens as before read from the latents, and are pooled."""

    def __init__(self):
        super().__init__()
        self.read, self.back = Block(), Block()

    def forward(self, x):
        rows = self.rows(x)
        return self.out(self.back(rows, self.read(self.given(x), rows)))


class BiasKeys(Rows):
    """A key and a value that are constants after those of tokens; with zero, one more of zeros."""

    def __init__(self, **options):
        super().__init__()
        self.attention, self.norm = attention(add_bias_kv=True, **options), nn.LayerNorm(WIDTH)

    def forward(self, x):
        y = self.rows(x)
        return self.out(self.norm(y + self.attention(y, y, y, need_weights=False)[0]))


class MemoryKeys(Rows):
    """Keys and values of a memory before those of tokens, in each head."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.memory = nn.Parameter(torch.randn(2, HEADS, QUERIES, DIM))

    def forward(self, x):
        y = self.rows(x)
        q, k, v = map(heads, self.qkv(y).chunk(3, -1))
        k, v = (torch.cat([m.expand(x.size(0), -1, -1, -1), t], 2)
                for m, t in zip(self.memory, (k, v)))
        return self.out(y + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class ZeroValue(MemoryKeys):
    """A learned key whose value is zero, before the others."""

    def forward(self, x):
        y = self.rows(x)
        q, k, v = map(heads, self.qkv(y).chunk(3, -1))
        k = torch.cat([self.memory[0, :, :1].expand(x.size(0), -1, -1, -1), k], 2)
        seen = F.scaled_dot_product_attention(q, k, F.pad(v, (0, 0, 1, 0)))
        return self.out(y + seen.transpose(1, 2).flatten(2))


class Prefixed(nn.Module):
    """A token before the others, put there in several ways, with positions of all rows."""

    def __init__(self, way):
        super().__init__()
        self.way, self.causal = way, way in ("causal_registers", "turns_after_token")
        self.rows, self.out = nn.Linear(COLUMNS, WIDTH), nn.Linear(WIDTH, 4)
        self.actions = nn.Linear(COLUMNS, WIDTH)
        self.token, self.registers = (nn.Parameter(torch.randn(1, n, WIDTH)) for n in (1, 2))
        self.place = nn.Embedding(24, WIDTH)
        self.bias = nn.Parameter(torch.randn(HEADS, 24, 24))
        self.qkv, self.mlp = nn.Linear(WIDTH, 3 * WIDTH), mlp()

    def joined(self, x):
        y, token = self.rows(x), self.token.expand(x.size(0), -1, -1)
        if self.way == "stacked_token":
            return torch.stack([token[:, 0], *y.unbind(1)], 1)
        if self.way == "sliced_token":
            z = torch.zeros(x.size(0), x.size(1) + 1, WIDTH)
            z[:, 1:] = y
            z[:, 0] = token[:, 0]
            return z
        if self.way == "causal_registers":
            return torch.cat([token, self.registers.expand(x.size(0), -1, -1), y], 1)
        if self.way == "turns_after_token":
            y = torch.stack([y, self.actions(x)], 2).flatten(1, 2)
        return torch.cat([token, y], 1)

    def forward(self, x):
        y = self.joined(x)
        n = y.size(1)
        y = y + (self.place.weight[:n] if self.way != "counted_token" else
                 self.place(torch.arange(n)))
        q, k, v = map(heads, self.qkv(y).chunk(3, -1))
        bias = self.bias[:, :n, :n] if self.way == "biased_token" else None
        seen = F.scaled_dot_product_attention(q, k, v, bias, is_causal=self.causal)
        y = y + seen.transpose(1, 2).flatten(2)
        y = y + self.mlp(y)
        if self.way == "stacked_token":
            return self.out(y[:, 1:] + y[:, :1])
        return self.out(y if self.causal else y[:, 0])


class Reduced(nn.Module):
    """Attention to rows of a strided convolution, and a mixing of neighbours after it."""

    def __init__(self, ratio, width):
        super().__init__()
        self.norm, self.q = nn.LayerNorm(width), nn.Linear(width, width)
        self.reduce = nn.Conv2d(width, width, ratio, ratio) if ratio > 1 else None
        self.reduced, self.kv = nn.LayerNorm(width), nn.Linear(width, 2 * width)
        self.after, self.up = nn.LayerNorm(width), nn.Linear(width, 12)
        self.mix = nn.Conv2d(12, 12, 3, 1, 1, groups=12)
        self.down, self.width = nn.Linear(12, width), width

    def attend(self, x, height, width):
        b, n, c = x.shape
        split = lambda t: t.reshape(b, -1, HEADS, c // HEADS).transpose(1, 2)
        rows = x
        if self.reduce is not None:
            rows = self.reduce(x.transpose(1, 2).reshape(b, c, height, width))
            rows = self.reduced(rows.flatten(2).transpose(1, 2))
        k, v = map(split, self.kv(rows).chunk(2, -1))
        mixed = F.scaled_dot_product_attention(split(self.q(x)), k, v)
        return mixed.transpose(1, 2).reshape(b, n, c)

    def forward(self, x, height, width):
        x = x + self.attend(self.norm(x), height, width)
        y = self.up(self.after(x))
        b, n, c = y.shape
        y = self.mix(y.transpose(1, 2).reshape(b, c, height, width)).flatten(2).transpose(1, 2)
        return x + self.down(F.gelu(y))


class Segformer(nn.Module):
    """Two stages of overlapping patches, and the mean of the last one's."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, WIDTH, 3, 2, 1)
        self.norms = nn.ModuleList([nn.LayerNorm(6), nn.LayerNorm(WIDTH)])
        self.blocks = nn.ModuleList([Reduced(4, 6), Reduced(2, WIDTH)])
        self.out = nn.Linear(WIDTH, 4)

    def forward(self, x):
        b = x.size(0)
        y = self.first(x)
        height, width = y.shape[2:]
        y = self.norms[0](y.flatten(2).transpose(1, 2))
        y = self.blocks[0](y, height, width)
        y = self.second(y.transpose(1, 2).reshape(b, 6, height, width))
        height, width = y.shape[2:]
        y = self.norms[1](y.flatten(2).transpose(1, 2))
        return self.out(self.blocks[1](y, height, width).mean(1))


class Pvt(nn.Module):
    """Patches with positions and reduced keys, and a class token that then attends to all."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.place = nn.Parameter(torch.randn(1, 12, WIDTH))
        self.block, self.last = Reduced(2, WIDTH), Block()
        self.token, self.out = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Linear(WIDTH, 4)

    def forward(self, x):
        y = self.patches(x)
        height, width = y.shape[2:]
        y = self.block(y.flatten(2).transpose(1, 2) + self.place, height, width)
        y = torch.cat([self.token.expand(x.size(0), -1, -1), y], 1)
        return self.out(self.last(y[:, :1], y)[:, 0])


class ReducedTokens(Rows):
    """Keys and values of every second token, of a series of any length."""

    def __init__(self):
        super().__init__()
        self.reduce = nn.Conv1d(WIDTH, WIDTH, 2, 2)
        self.block, self.norm = attention(), nn.LayerNorm(WIDTH)

    def forward(self, x):
        y = self.rows(x)
        keys = self.norm(self.reduce(y.transpose(1, 2)).transpose(1, 2))
        return self.out(y + self.block(y, keys, keys, need_weights=False)[0])


class InTurn(nn.Module):
    """A return, a state and an action of each step in turn, as a decision transformer has them."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(n, WIDTH) for n in (1, 2, 2))
        self.steps, self.norm = nn.Embedding(64, WIDTH), nn.LayerNorm(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, x):
        b, n, _ = x.shape
        step = self.steps(torch.arange(n))
        rows = [part(y) + step for part, y in zip(self.parts, x.split([1, 2, 2], -1))]
        rows = torch.stack(rows, 1).permute(0, 2, 1, 3).reshape(b, 3 * n, WIDTH)
        mask = nn.Transformer.generate_square_subsequent_mask(3 * n)
        rows = self.encoder(self.norm(rows), mask, is_causal=True)
        return self.out(rows.reshape(b, n, 3, WIDTH).permute(0, 2, 1, 3)[:, 1])


class Inverted(nn.Module):
    """Variables attend to each other, as iTransformer's, with their mean and deviation outside."""

    def __init__(self):
        super().__init__()
        self.rows, self.out = nn.Linear(TOKENS, WIDTH), nn.Linear(WIDTH, 4)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        mean = x.mean(1, keepdim=True).detach()
        x = x - mean
        deviation = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5)
        y = self.encoder(self.rows((x / deviation).permute(0, 2, 1)))
        return self.out(y).permute(0, 2, 1) * deviation + mean


class SeriesPatches(nn.Module):
    """Overlapping patches of each variable, as PatchTST's, each variable by itself."""

    def __init__(self, is_normalised, patches=5, around=None):
        super().__init__()
        self.is_normalised, self.patches = is_normalised, patches
        self.around = around or nn.Identity()
        self.rows, self.place = nn.Linear(4, WIDTH), nn.Parameter(torch.randn(patches, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(patches * WIDTH, 3)

    def forward(self, x):
        b, _, columns = x.shape
        if self.is_normalised:
            mean = x.mean(1, keepdim=True)
            deviation = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
            x = (x - mean) / deviation
        series = self.around(x.permute(0, 2, 1))
        patches = series.unfold(-1, 4, 2).reshape(b * columns, self.patches, 4)
        y = self.encoder(self.rows(patches) + self.place)
        y = self.out(y.flatten(1)).reshape(b, columns, -1).permute(0, 2, 1)
        return y * deviation + mean if self.is_normalised else y


class Numbers(nn.Module):
    """Each number of a row is a token, whose weights are its own (FT-Transformer)."""

    def __init__(self, has_layers, join=lambda parts: torch.cat(parts, 1)):
        super().__init__()
        self.join = join
        self.weight = nn.Parameter(torch.randn(COLUMNS, WIDTH))
        self.bias = nn.Parameter(torch.randn(COLUMNS, WIDTH))
        layers = COLUMNS if has_layers else 0
        self.layers = nn.ModuleList(nn.Linear(1, WIDTH) for _ in range(layers))
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.attention, self.head = attention(), nn.Linear(WIDTH, 2)

    def forward(self, x):
        if self.layers:
            tokens = [F.relu(layer(x[:, i:i + 1])) for i, layer in enumerate(self.layers)]
            y = torch.stack(tokens, 1)
        else:
            y = x[..., None] * self.weight + self.bias
        y = self.join([self.first.expand(x.size(0), -1, -1), y])
        return self.head((y + self.attention(y, y, y, need_weights=False)[0])[:, 0])


class Categories(nn.Module):
    """Ids that each column has a table for (TabTransformer), or a part of one table."""

    def __init__(self, sizes, is_one):
        super().__init__()
        ends = torch.tensor([0, *sizes]).cumsum(0)
        self.register_buffer("begins", ends[:-1])
        self.tables = nn.ModuleList(
            nn.Embedding(size, WIDTH) for size in ([int(ends[-1])] if is_one else sizes))
        self.attention, self.head = attention(), nn.Linear(WIDTH, 2)

    def forward(self, ids):
        if len(self.tables) == 1:
            y = self.tables[0](ids + self.begins)
        else:
            y = torch.stack([table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
        return self.head((y + self.attention(y, y, y, need_weights=False)[0]).mean(1))


class WholeNumbers(nn.Module):
    """A column that says which row of a table is added to the others' layer."""

    def __init__(self):
        super().__init__()
        self.input, self.table = nn.Linear(COLUMNS - 1, WIDTH), nn.Embedding(6, WIDTH)
        self.attention, self.head = attention(), nn.Linear(WIDTH, 2)

    def forward(self, x):
        y = self.input(x[..., 1:]) + self.table(x[..., 0].long())
        return self.head(y + self.attention(y, y, y, need_weights=False)[0])


MODELS = {
    "decoder": Decoder,
    "detr": Detr,
    "perceiver": Perceiver,
    "perceiver_io": PerceiverIo,
    "resampler": Resampler,
    "set_transformer": SetTransformer,
    "q_former": QFormer,
    "pooled_by_queries": PooledByQueries,
    "one_seed": OneSeed,
    "back_to_tokens": BackToTokens,
    "bias_keys": BiasKeys,
    "bias_and_zero": lambda: BiasKeys(add_zero_attn=True),
    "memory_keys": MemoryKeys,
    "segformer": Segformer,
    "pvt": Pvt,
    "reduced_tokens": ReducedTokens,
    "in_turn": InTurn,
    "inverted": Inverted,
    "zero_value": ZeroValue,
    **{way: lambda way=way: Prefixed(way) for way in PREFIXED},
    "series_patches": lambda: SeriesPatches(False),
    "normalised_patches": lambda: SeriesPatches(True),
    "padded_patches": lambda: SeriesPatches(True, 6, nn.ReplicationPad1d((0, 2))),
    "repeated_ends": lambda: SeriesPatches(False, 7, nn.ReplicationPad1d((2, 3))),
    "mirrored_ends": lambda: SeriesPatches(False, 8, nn.ReflectionPad1d((0, 6))),
    "circular_ends": lambda: SeriesPatches(False, 7, nn.CircularPad1d((2, 3))),
    "mirrored_patches": lambda: SeriesPatches(True, 6, nn.ReflectionPad1d((0, 2))),
    "zeros_around": lambda: SeriesPatches(False, 6, nn.ConstantPad1d((2, 1), 0.0)),
    "numbers": lambda: Numbers(False),
    "layers_of_numbers": lambda: Numbers(True),
    "stacked_numbers": lambda: Numbers(False, torch.hstack),
    "categories": lambda: Categories((3, 5, 4), False),
    "one_table": lambda: Categories((3, 5, 4), True),
    "whole_numbers": WholeNumbers,
}
SHAPES = {
    "detr": (3, 8, 12),
    "segformer": (3, 16, 24),
    "pvt": (3, 12, 16),
    "series_patches": (12, 3),
    "normalised_patches": (12, 3),
    "padded_patches": (12, 3),
    "repeated_ends": (12, 3),
    "mirrored_ends": (12, 3),
    "circular_ends": (12, 3),
    "mirrored_patches": (12, 3),
    "zeros_around": (12, 3),
    "numbers": (COLUMNS,),
    "layers_of_numbers": (COLUMNS,),
    "stacked_numbers": (COLUMNS,),
    "categories": (3,),
    "one_table": (3,),
}
# With fixed sizes.
FIXED = (*SHAPES, "stacked_token", "q_former", "bias_and_zero", "in_turn", "inverted")
ENDLESS = ("perceiver_io", "resampler")
TWO = ("decoder", "resampler", "bias_keys", "memory_keys", "segformer")  # sequences


def main(folder, names):
    for name, model in made(MODELS, names, 0.3):
        x = torch.randn(2 if name in TWO else 1, *SHAPES.get(name, (TOKENS, COLUMNS)))
        if name in ("categories", "one_table"):
            x = torch.tensor([[2, 4, 1]])
        if name == "whole_numbers":
            x[..., 0] = torch.arange(TOKENS) % 6
        options = {}
        if name not in FIXED:
            most = {} if name in ENDLESS else {"max": 20 if name in PREFIXED else 64}
            if name == "turns_after_token":
                most = {"max": 11}
            least = 2 if name in PREFIXED else 4
            options["dynamic_shapes"] = ({1: torch.export.Dim("tokens", min=least, **most)},)
        save(model, (x,), f"{folder}/{name}.pt2", **options)
        save_arrays(f"{folder}/{name}", x, exact(model, x))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
