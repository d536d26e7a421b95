# SPDX-License-Identifier: Apache-2.0
"""Makes the mistakes of this folder with PyTorch 2.14: make_mistakes.py FOLDER.

Each NAME.pt2 is a small model of which one line cannot be what an attention model of the runtime
does. The line of code that a refusal must show is marked with "# here".
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save  # noqa: E402

VOCABULARY, WIDTH, TOKENS = 11, 8, 6


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / WIDTH**0.5
        return scores.softmax(-1) @ self.value(x)


class Model(nn.Module):
    """Ids to logits, with what `make` gives after the attention."""

    def __init__(self, make=nn.Identity):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.attention = Attention()
        self.part = make()
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.attention(x)
        return self.head(self.part(x))


class ActiveDropout(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.1, True)  # here


class Nonzero(nn.Module):
    def forward(self, x):
        return x * x.nonzero().sum()  # here


class MaskedSelect(nn.Module):
    def forward(self, x):
        return x * x.masked_select(x > 0).sum()  # here


class UnknownFunction(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)  # here


class OddFunction(nn.Module):
    def forward(self, x):
        return x * torch.cos(x)  # here


class Sort(nn.Module):
    def forward(self, x):
        return x.sort(-1).values  # here


class Topk(nn.Module):
    def forward(self, x):
        return x.topk(WIDTH, -1).values  # here


class Cumsum(nn.Module):
    def forward(self, x):
        return x.cumsum(1)  # here


class Random(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)  # here


class Fft(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x, dim=2).real[..., :1] + x  # here


class ScalarOutput(Model):
    def forward(self, ids):
        return super().forward(ids).mean()  # here


class ArgmaxOutput(Model):
    def forward(self, ids):
        return super().forward(ids).argmax(-1)  # here


class ComplexOutput(Model):
    def forward(self, ids):
        return torch.view_as_complex(super().forward(ids)[..., :2].contiguous())  # here


class FloatIds(Model):
    def forward(self, ids):
        return super().forward(ids.long())  # here


class BatchNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)  # here


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]  # here


class LinearAttention(Attention):
    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return scores @ self.value(x)  # here


class WrongAxis(Attention):
    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return scores.softmax(1) @ self.value(x)  # here


class BatchAxis(Attention):
    """As nn.MultiheadAttention without batch_first, fed [sequences, tokens, width]."""

    def forward(self, x):
        x = x.transpose(0, 1)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / WIDTH**0.5
        x = scores.softmax(-1) @ self.value(x)  # here
        return x.transpose(0, 1)


class Forgotten(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]  # here


class OffByOne(Attention):
    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        weights = weights / (1 + weights.sum(-1, keepdim=True))  # here
        return weights @ self.value(x)


class MaskOfIds(Model):
    def forward(self, ids):
        hidden = ids == 0  # here
        x = self.embedding(ids)
        scores = self.attention.query(x) @ self.attention.key(x).transpose(1, 2)
        scores = scores.masked_fill(hidden[:, None], -1e9)
        return self.head(scores.softmax(-1) @ self.attention.value(x))


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.join = nn.Linear(2 * WIDTH, WIDTH)


class PaddedShift(Joined):
    def forward(self, x):
        before = torch.cat([x, F.pad(x, (0, 0, 1, -1))], -1)  # here
        return self.join(before)


class TwoRows(nn.Module):
    def forward(self, x):
        rows = torch.stack([x, 2 * x.tanh()], 2).flatten(1, 2)  # here
        return F.layer_norm(rows, (WIDTH,))[:, 1::2]


class PatchSine(nn.Module):
    def __init__(self):
        super().__init__()
        self.cut = nn.Conv2d(1, WIDTH, 2, 2)

    def forward(self, x):
        x = self.cut(x[:, None]).flatten(2).transpose(1, 2)
        return torch.sin(x)  # here


class WrongMask(Attention):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(TOKENS, TOKENS).tril())

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        scores = scores.masked_fill(self.mask == 0, 0.0)  # here
        return scores.softmax(-1) @ self.value(x)


class QuadraticScores(Attention):
    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        weights = scores.square()  # here
        return weights / weights.sum(-1, keepdim=True) @ self.value(x)


class CrossAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, ids, memory):
        x = self.embedding(ids)
        scores = self.query(x) @ self.key(memory).transpose(1, 2)
        return scores.softmax(-1) @ self.value(memory)


class TwoTexts(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Model()

    def forward(self, question, answer):
        return self.model(question) * self.model(answer)


class PairMask(Model):
    def forward(self, ids, mask):
        x = self.embedding(ids)
        scores = self.attention.query(x) @ self.attention.key(x).transpose(1, 2) + mask
        return self.head(scores.softmax(-1) @ self.attention.value(x))


class Translation(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Model(), CrossAttention()
        self.encoder.head = nn.Identity()

    def forward(self, source, target):
        return self.decoder(target, self.encoder(source))


def training(make):
    return lambda: make().train()


MISTAKES = {
    "active_dropout": training(lambda: Model(ActiveDropout)),
    "training_batch_norm": training(lambda: Model(BatchNorm)),
    "nonzero": lambda: Model(Nonzero),
    "masked_select": lambda: Model(MaskedSelect),
    "unknown_function": lambda: Model(UnknownFunction),
    "odd_function": lambda: Model(OddFunction),
    "wrong_mask": lambda: of_attention(WrongMask),
    "sort": lambda: Model(Sort),
    "topk": lambda: Model(Topk),
    "cumsum": lambda: Model(Cumsum),
    "random": lambda: Model(Random),
    "lstm": lambda: Model(Lstm),
    "fft": lambda: Model(Fft),
    "wrong_axis": lambda: of_attention(WrongAxis),
    "linear_attention": lambda: of_attention(LinearAttention),
    "quadratic_scores": lambda: of_attention(QuadraticScores),
    "batch_axis": lambda: of_attention(BatchAxis),
    "scalar_output": ScalarOutput,
    "argmax_output": ArgmaxOutput,
    "complex_output": ComplexOutput,
    "forgotten": lambda: Model(Forgotten),
    "off_by_one": lambda: Model(OffByOne),
    "mask_of_ids": MaskOfIds,
    "padded_shift": lambda: Model(PaddedShift),
    "two_rows": lambda: Model(TwoRows),
    "patch_sine": PatchSine,
    "float_ids": FloatIds,
    "cross_attention": CrossAttention,
    "two_texts": TwoTexts,
    "pair_mask": PairMask,
    "translation": Translation,
}


def of_attention(kind):
    model = Model()
    model.attention = kind()
    return model


def example(name):
    generator = torch.Generator().manual_seed(1)
    rows = 3 if name == "batch_axis" else 1
    ids = torch.randint(0, VOCABULARY, (rows, TOKENS), generator=generator)
    if name == "float_ids":
        return (ids.float(),)
    if name == "cross_attention":
        return (ids, torch.randn(1, 4, WIDTH, generator=generator))
    if name == "patch_sine":
        return (torch.randn(1, 4, TOKENS, generator=generator),)
    if name == "pair_mask":
        return (ids, torch.full((TOKENS, TOKENS), -torch.inf).triu(1))
    if name == "translation":
        return (ids, ids[:, :4])
    return (ids, ids.flip(1)) if name == "two_texts" else (ids,)


def main(folder):
    for name, make in MISTAKES.items():
        torch.manual_seed(len(name))
        model = make()
        if name not in ("active_dropout", "training_batch_norm"):
            model.eval()
        try:
            save(model, example(name), os.path.join(folder, name + ".pt2"))
        except Exception as error:  # which PyTorch refuses itself
            print(name, "is refused by torch.export:", str(error).splitlines()[0])


main(sys.argv[1])
