# SPDX-License-Identifier: Apache-2.0
"""Makes the models of this folder with PyTorch 2.14: make_masks.py FOLDER.

Models with masks of padding, as inputs and made of the ids. NAME_xI_J.npy is input J of example I,
and NAME_yI.npy what the model gives in float64: NaN where a row sees no key.
"""
import math
import os
import sys

import numpy as np
import torch
import torch.nn as nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save_program  # noqa: E402

VOCABULARY, WIDTH, HEADS = 11, 8, 2
ANY = torch.export.Dim.AUTO
INFINITY = float("inf")


class Attention(nn.Module):
    """Hides keys where the mask is true."""

    def __init__(self, value=-INFINITY):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.value = value

    def forward(self, x, y, hidden):
        def heads(z):
            return z.view(z.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(y)), heads(self.v(y))
        scores = (q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)).masked_fill(hidden, self.value)
        return x + self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def later(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), 1)


class Translation(nn.Module):
    def __init__(self, value=-INFINITY):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.encoder, self.decoder, self.cross = (Attention(value) for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def layers(self, source, target, source_hidden, target_hidden):
        x, y = self.source(source), self.target(target)
        x = self.encoder(x, x, source_hidden)
        return self.head(self.cross(self.decoder(y, y, target_hidden), x, source_hidden))


class GivenMasks(Translation):
    """As a tutorial's translation has them: all masks are inputs."""

    def forward(self, source, target, source_mask, target_mask, source_padding_mask,
                target_padding_mask, memory_key_padding_mask):
        x, y = self.source(source), self.target(target)
        source_hidden = source_padding_mask[:, None, None] | source_mask
        target_hidden = target_padding_mask[:, None, None] | target_mask
        x = self.encoder(x, x, source_hidden)
        y = self.decoder(y, y, target_hidden)
        return self.head(self.cross(y, x, memory_key_padding_mask[:, None, None]))


class MadeMasks(Translation):
    def forward(self, source, target):
        target_hidden = (target == 0)[:, None, None] | later(target.shape[1])
        return self.layers(source, target, (source == 0)[:, None, None], target_hidden)


class Causal(nn.Module):
    """Sequences may begin with padding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(VOCABULARY, WIDTH), Attention()
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embedding(ids)
        hidden = (ids == 0)[:, None, None] | later(ids.shape[1])
        return self.head(self.attention(x, x, hidden))


class LastId(nn.Module):
    """The last one of few ids is padding."""

    def __init__(self, ids):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(ids, WIDTH), Attention()
        self.head, self.ids = nn.Linear(WIDTH, 3), ids

    def hides(self, ids):
        return ids == self.ids - 1

    def forward(self, ids):
        x, hidden = self.embedding(ids), self.hides(ids)
        x = self.attention(x, x, hidden[:, None, None])
        kept = (~hidden)[..., None].to(x.dtype)
        return self.head((x * kept).sum(1) / kept.sum(1))


class AnyOf(LastId):
    def hides(self, ids):
        classes = nn.functional.one_hot(ids, self.ids)[..., :-1]
        return ~(classes != 0).any(-1)


class IsIn(LastId):
    """A set of ids, of a vocabulary that is too large to be tried, is padding."""

    def hides(self, ids):
        return torch.isin(ids, torch.tensor([4, 70, 90]))


class AnyEqual(LastId):
    def hides(self, ids):
        return (ids[..., None] == torch.tensor([4, 70, 90])).any(-1)


class Chosen(nn.Module):
    """Ids choose between two values, each for itself or all of a sequence together."""

    def __init__(self, over_tokens):
        super().__init__()
        self.embedding, self.over_tokens = nn.Embedding(VOCABULARY, WIDTH), over_tokens
        self.first, self.second = nn.Linear(WIDTH, 3), nn.Linear(WIDTH, 3)

    def forward(self, ids):
        x = self.embedding(ids)
        chosen = (ids[..., None] == torch.tensor([4, 7])).any(-1, keepdim=True)
        if self.over_tokens:
            chosen = (ids == 4).any(-1, keepdim=True)[..., None]
        return torch.where(chosen, self.first(x), self.second(x))


class Partly(nn.Module):
    """The encoder's attention hides padding, which the decoder and the pooling read."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Linear(4, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.encoder, self.cross = Attention(), Attention()

    def forward(self, source, hidden, target=None):
        x = self.source(source)
        x = self.encoder(x, x, hidden[:, None, None])
        if target is None:
            return x.mean(1)
        return self.cross(self.target(target), x, torch.zeros((), dtype=torch.bool))


class Kept(Partly):
    """The mask is 1 where a token counts, and a factor of rows, too."""

    def forward(self, source, kept):
        x = self.source(source)
        x = self.encoder(x, x, (kept == 0)[:, None, None])
        return (x * kept[..., None]).mean(1)


class Features(nn.Module):
    """The mask is made of features."""

    def __init__(self, hides):
        super().__init__()
        self.layer, self.attention, self.hides = nn.Linear(4, WIDTH), Attention(), hides

    def forward(self, x):
        y = self.layer(x)
        return self.attention(y, y, self.hides(x)[:, None, None])


class Weighted(Features):
    """The mask is none of attention."""

    def forward(self, x):
        y = self.layer(x)
        y = self.attention(y, y, later(x.shape[1])[None, None] & False)
        kept = (~self.hides(x))[..., None].to(y.dtype)
        return (y * kept).sum(1) / kept.sum(1)


def padded(tokens, lengths, vocabulary=VOCABULARY, padding=0):
    ids = torch.randint(1, vocabulary, (len(lengths), tokens))
    if padding != 0:
        ids = ids - 1
    return ids.masked_fill(beyond(tokens, lengths), padding)


def beyond(tokens, lengths):
    return torch.arange(tokens)[None] >= torch.tensor(lengths)[:, None]


def all_masks(source, target, lengths):
    hidden, none = beyond(source, lengths), beyond(target, [target] * len(lengths))
    return (padded(source, lengths), padded(target, [target] * len(lengths)),
            torch.zeros(source, source, dtype=torch.bool), later(target), hidden, none,
            hidden.clone())


def left_padded(tokens, padding):
    ids = padded(tokens, [tokens])
    ids[:, :padding] = 0
    return (ids,)


def models():
    both = {0: ANY, 1: ANY}
    yield "given", GivenMasks(), ({1: ANY}, {1: ANY}, both, both, {1: ANY}, {1: ANY}, {1: ANY}), [
        all_masks(6, 5, [6, 3]), all_masks(4, 7, [2, 4])]
    for name, value in ("made", -1e9), ("made_infinite", -INFINITY):
        yield name, MadeMasks(value), ({1: ANY}, {1: ANY}), [
            (padded(6, [6, 3]), padded(5, [5, 5])), (padded(4, [2, 4]), padded(7, [7, 4]))]
    yield "left", Causal(), ({1: ANY},), [left_padded(6, 2), left_padded(5, 0), left_padded(4, 1)]
    for name, model in ("last_id", LastId(5)), ("any_of", AnyOf(5)):
        yield name, model, ({1: ANY},), [
            (padded(n, [length], 5, 4),) for n, length in ((6, 4), (3, 3))]
    for name, model in ("is_in", IsIn(100)), ("any_equal", AnyEqual(100)):
        yield name, model, ({1: ANY},), [
            (torch.tensor(ids),) for ids in ([[2, 4, 99, 70, 5, 91]], [[3, 90, 4]])]
    for name, over_tokens in ("chosen", False), ("chosen_together", True):
        yield name, Chosen(over_tokens), ({1: ANY},), [
            (torch.tensor(ids),) for ids in ([[2, 4, 9, 7, 5, 1], [1, 2, 3, 5, 6, 7]], [[3, 8, 1]])]
    partly = [(torch.randn(2, 6, 4), beyond(6, [6, 4])), (torch.randn(2, 4, 4), beyond(4, [2, 3]))]
    partly[1][1][0, 3] = False
    yield "partly", Partly(), ({1: ANY}, {1: ANY}), partly
    yield "partly_kept", Kept(), ({1: ANY}, {1: ANY}), [
        (x, (~hidden).long()) for x, hidden in partly]
    yield "partly_source", Partly(), ({1: ANY}, {1: ANY}, {1: ANY}), [
        (*given, padded(n, [n, n])) for given, n in zip(partly, (5, 3))]
    features = [(torch.randn(1, 5, 4),)]
    for name, hides in ("first_feature", lambda x: x[..., 0] == -1000.0), (
            "zero_rows", lambda x: x.abs().sum(-1) == 0):
        yield name, Features(hides), ({1: ANY},), features
        yield name + "_weighted", Weighted(hides), ({1: ANY},), features


def main(folder):
    for name, model, dynamic, examples in models():
        torch.manual_seed(len(name))
        for parameter in model.parameters():
            nn.init.normal_(parameter, 0.0, 0.6)
        path = os.path.join(folder, name)
        program = torch.export.export(model.eval(), examples[0], dynamic_shapes=dynamic)
        save_program(program, path + ".pt2")
        exact = model.double()
        for i, given in enumerate(examples):
            wide = [x.double() if x.is_floating_point() else x for x in given]
            with torch.no_grad():
                np.save(f"{path}_y{i}.npy", exact(*wide).numpy())
            for j, each in enumerate(given):
                np.save(f"{path}_x{i}_{j}.npy", each.numpy())


if __name__ == "__main__":
    main(sys.argv[1])
