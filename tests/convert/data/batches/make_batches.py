# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of this folder with PyTorch 2.14: make_batches.py FOLDER [NAME...].

Each is NAME.pt2, of any number of sequences, with numbers in NAME_*.npy: for example I its inputs
iI_0, iI_1, and what PyTorch gives in float64 as eI. Archives, mostly traces, are compressed.
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save  # noqa: E402

WIDTH, HEADS, VOCAB, TOKENS = 8, 2, 17, 6
BATCH, AUTO = torch.export.Dim("batch"), torch.export.Dim.AUTO


def encoder(batch_first=True):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, 0.0, batch_first=batch_first)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


class Classifier(nn.Module):
    """Of ids or features, whose positions are a table."""

    def __init__(self, read, batch_first=True):
        super().__init__()
        self.read, self.tokens = read, 1 if batch_first else 0
        self.positions = nn.Parameter(torch.randn(2 * TOKENS, WIDTH))
        self.encoder, self.head = encoder(batch_first), nn.Linear(WIDTH, 3)

    def forward(self, x):
        positions = self.positions[: x.shape[self.tokens]]
        h = self.read(x) + (positions if self.tokens == 1 else positions[:, None])
        return self.head(self.encoder(h).mean(self.tokens))


class Crossed(nn.Module):
    """Rows that attend to those of another input, of another length."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys = nn.Linear(5, WIDTH), nn.Linear(4, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x, y):
        keys = self.keys(y)
        return self.attention(self.queries(x), keys, keys, need_weights=False)[0]


class Row(nn.Module):
    """A table's row is a sequence of one token."""

    def __init__(self):
        super().__init__()
        self.read, self.encoder, self.head = nn.Linear(5, WIDTH), encoder(), nn.Linear(WIDTH, 3)

    def forward(self, x):
        h = self.read(x)
        return self.head(self.encoder(h if h.dim() == 3 else h.unsqueeze(1))[:, 0])


class Columns(nn.Module):
    """Each column of a table is a token, of numbers or of categories."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.randn(4, WIDTH)) for _ in range(2))
        self.summary = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.categories = nn.Embedding(3 + 5, WIDTH)
        self.register_buffer("first", torch.tensor([0, 3]))
        self.encoder, self.head = encoder(), nn.Linear(WIDTH, 3)

    def forward(self, numbers, categories):
        h = torch.cat([self.summary.expand(numbers.shape[0], -1, -1),
                       numbers[..., None] * self.weight + self.bias,
                       self.categories(categories + self.first)], 1)
        return self.head(self.encoder(h)[:, 0])


class FlatColumns(nn.Module):
    """Each number of a table is a token, and the head reads all of them."""

    def __init__(self):
        super().__init__()
        self.read, self.table = nn.Linear(1, WIDTH), nn.Parameter(torch.randn(12, WIDTH))
        self.encoder, self.head = encoder(), nn.Linear(12 * WIDTH, 3)

    def forward(self, x):
        return self.head(self.encoder(self.read(x.unsqueeze(2)) + self.table).flatten(1))


class FilledWithZeros(Classifier):
    """Sums the rows of ids that are not 0; a tensor of zeros takes the place of the others."""

    def forward(self, x):
        h = self.encoder(self.read(x))
        return self.head(torch.where((x != 0)[..., None], h, torch.zeros_like(h)).sum(1))


class AnyAndAll(Classifier):
    """Adds 1 where some id of the sequence is above 14, and none is 0."""

    def forward(self, x):
        h = self.encoder(self.read(x)).mean(1)
        some = (x > 14).any(1, keepdim=True).to(h.dtype)
        return self.head(h + some * (x > 0).all(1, keepdim=True))


class Unread(Classifier):
    """Its first and its last input change nothing."""

    def forward(self, mask, x, user):
        return super().forward(x)


class EndsByIds(nn.Module):
    """A decoder that gives out the row of the last token, which `end` finds by the ids."""

    def __init__(self, end):
        super().__init__()
        self.end, self.read, self.encoder, self.head = end, words(), encoder(), nn.Linear(WIDTH, 3)

    def forward(self, x, mask=None):
        later = torch.full((x.shape[1],) * 2, -torch.inf, dtype=self.head.weight.dtype).triu(1)
        padding = None if mask is None else mask == 0
        h = self.encoder(self.read(x), later, padding, is_causal=True)
        last = self.end(x)
        if last.dim() == 3:
            return self.head(h.gather(1, last)).squeeze(1)
        return self.head(h[torch.arange(x.shape[0]), last])


class EndsInMiddle(EndsByIds):
    """The same, whose tokens see those after the last one, too."""

    def forward(self, x):
        h = self.encoder(self.read(x))
        return self.head(h[torch.arange(x.shape[0]), self.end(x)])


class ByBatch(Classifier):
    """What it computes for a sequence depends on how many there are."""

    def forward(self, x):
        return super().forward(x) / x.shape[0]


def ids(*shape):
    return torch.randint(VOCAB, shape)


def ended(b, rest):
    """Ids of sequences of other lengths, and what follows."""
    x = torch.randint(1, VOCAB - 1, (b, TOKENS + b % 3))
    for i, row in enumerate(x):
        rest(row, 2 + 3 * i % (x.shape[1] - 1))
    return x


def pad(row, length):
    row[length:] = 0


def largest(row, length):
    row[length - 1] = VOCAB - 1


def first(row, length):
    row[row == 5] = 6
    row[length - 1] = 5


def padded(b):
    x = ended(b, pad)
    return x, (x != 0).long()


def categories(b):
    return torch.stack([torch.randint(n, (b,)) for n in (3, 5)], 1)


def words():
    return nn.Embedding(VOCAB, WIDTH)


# The model, its inputs of a batch of so many, and its dynamic shapes.
MODELS = {
    "ids": (lambda: Classifier(words()), lambda b: (ids(b, TOKENS),), ({0: BATCH},)),
    "features_both": (lambda: Classifier(nn.Linear(5, WIDTH)),
                      lambda b: (torch.randn(b, TOKENS + b % 3, 5),), ({0: AUTO, 1: AUTO},)),
    "tokens_first": (lambda: Classifier(words(), False),
                     lambda b: (ids(TOKENS, b),), ({1: BATCH},)),
    "tokens_first_both": (lambda: Classifier(nn.Linear(5, WIDTH), False),
                          lambda b: (torch.randn(TOKENS + b % 3, b, 5),),
                          ({0: AUTO, 1: AUTO},)),
    "eight_fold": (lambda: Classifier(words()), lambda b: (ids(8 * b, TOKENS),),
                   ({0: 8 * torch.export.Dim("eighth", max=64)},)),
    "crossed": (Crossed, lambda b: (torch.randn(b, TOKENS, 5), torch.randn(b, 3, 4)),
                ({0: BATCH}, {0: BATCH})),
    "row": (Row, lambda b: (torch.randn(b, 5),), ({0: BATCH},)),
    "row_fixed": (Row, lambda b: (torch.randn(b, 5),), None),
    "row_of_three": (Row, lambda b: (torch.randn(b, 1, 5),), None),
    "columns": (Columns, lambda b: (torch.randn(b, 4), categories(b)), ({0: BATCH}, {0: BATCH})),
    "flat_columns": (FlatColumns, lambda b: (torch.randn(b, 12),), ({0: BATCH},)),
    "filled": (lambda: FilledWithZeros(words()), lambda b: (ended(b, pad),),
               ({0: AUTO, 1: AUTO},)),
    "any_and_all": (lambda: AnyAndAll(words()), lambda b: (ids(b, TOKENS + b % 3),),
                    ({0: AUTO, 1: AUTO},)),
    "unread": (lambda: Unread(words()),
               lambda b: (torch.ones(b, TOKENS), ids(b, TOKENS), torch.zeros(b, dtype=torch.int64)),
               ({0: BATCH},) * 3),
    "ends_count": (lambda: EndsByIds(lambda x: (x != 0).sum(-1) - 1),
                   lambda b: (ended(b, pad),), ({0: AUTO, 1: AUTO},)),
    "ends_before": (lambda: EndsByIds(lambda x: ((x == 0).int().argmax(-1) - 1) % x.shape[-1]),
                    lambda b: (ended(b, pad),), ({0: AUTO, 1: AUTO},)),
    "ends_last": (lambda: EndsByIds(lambda x: (torch.arange(x.shape[1]) * (x != 0)).argmax(-1)),
                  padded, ({0: AUTO, 1: AUTO},) * 2),
    "ends_first": (lambda: EndsByIds(lambda x: (x == 5).int().argmax(-1)),
                   lambda b: (ended(b, first),), ({0: AUTO, 1: AUTO},)),
    "ends_largest": (lambda: EndsByIds(lambda x: x.argmax(-1)[:, None, None].expand(-1, 1, WIDTH)),
                     lambda b: (ended(b, largest),), ({0: AUTO, 1: AUTO},)),
    "ends_last_id": (lambda: EndsByIds(lambda x: (x == VOCAB - 1).int().argmax(-1)),
                     lambda b: (ended(b, largest),),
                     ({0: AUTO, 1: torch.export.Dim("tokens", max=128)},)),
    "ends_in_middle": (lambda: EndsInMiddle(lambda x: (x != 0).sum(-1) - 1),
                       lambda b: (ended(b, pad),), ({0: AUTO, 1: AUTO},)),
    "by_batch": (lambda: ByBatch(words()), lambda b: (ids(b, TOKENS),), ({0: BATCH},)),
}


def main(folder, names):
    for name, (build, inputs, dynamic) in MODELS.items():
        if names and name not in names:
            continue
        torch.manual_seed(len(name))
        model = build().eval()
        path = os.path.join(folder, name)
        for i, batch in enumerate((4, 1, 3)):
            given = inputs(batch)
            if i == 0:
                save(model, given, path + ".pt2", dynamic_shapes=dynamic)
                model.double()
            wide = [x.double() if x.is_floating_point() else x for x in given]
            for j, each in enumerate(given):
                np.save(f"{path}_i{i}_{j}.npy", each.numpy())
            with torch.no_grad():
                np.save(f"{path}_e{i}.npy", model(*wide).numpy())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
