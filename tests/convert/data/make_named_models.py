#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny random transformers with the names of published programs.

Needs PyTorch. For each case of this folder's `named/`:
  model.safetensors   the state dict, float32
  x.npy, y.npy        what `arenite convert --expect` takes: token ids [batch, tokens], and the
                      outputs in double precision
And named/characters.pt, a checkpoint with a config, stoi and itos beside the weights.
"""
import math
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from make_torch_modules import DTYPES, randomised, save_safetensors

FOLDER = pathlib.Path(__file__).parent / "named"
DTYPES[torch.int64] = "I64"
VOCAB, DIM, HEADS, LAYERS, POSITIONS, TOKENS = 11, 8, 2, 2, 9, 7
HEAD_DIM = DIM // HEADS


def attend(q, k, v, is_causal, scale=None):
    """Heads of [batch, tokens, heads * dim]; keys may have fewer."""
    q, k, v = (part.unflatten(2, (-1, HEAD_DIM)).transpose(1, 2) for part in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = (part.repeat_interleave(groups, dim=1) for part in (k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=scale)
    return y.transpose(1, 2).flatten(2)


def modules(**parts):
    module = nn.Module()
    for name, part in parts.items():
        module.add_module(name, part)
    return module


# ---- the GPT of Karpathy's lecture ----

class LectureHead(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.key = nn.Linear(DIM, HEAD_DIM, bias=False)
        self.query = nn.Linear(DIM, HEAD_DIM, bias=False)
        self.value = nn.Linear(DIM, HEAD_DIM, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(POSITIONS, POSITIONS)))
        self.scale = scale

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) * self.scale
        length = x.shape[1]
        scores = scores.masked_fill(self.tril[:length, :length] == 0, -torch.inf)
        return F.softmax(scores, dim=-1) @ self.value(x)


class LectureBlock(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.sa = modules(heads=nn.ModuleList(LectureHead(scale) for _ in range(HEADS)),
                          proj=nn.Linear(DIM, DIM))
        self.ffwd = modules(net=nn.Sequential(
            nn.Linear(DIM, 12), nn.ReLU(), nn.Linear(12, DIM), nn.Dropout(0.0)))
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)

    def forward(self, x):
        inner = self.ln1(x)
        x = x + self.sa.proj(torch.cat([head(inner) for head in self.sa.heads], dim=-1))
        return x + self.ffwd.net(self.ln2(x))


class Lecture(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.token_embedding_table = nn.Embedding(VOCAB, DIM)
        self.position_embedding_table = nn.Embedding(POSITIONS, DIM)
        self.blocks = nn.Sequential(*[LectureBlock(scale) for _ in range(LAYERS)])
        self.ln_f, self.lm_head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.token_embedding_table(ids)
        x = x + self.position_embedding_table(torch.arange(ids.shape[1]))
        return self.lm_head(self.ln_f(self.blocks(x)))


# ---- Llamas ----

class RmsNorm(nn.Module):
    def __init__(self, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(DIM)), epsilon

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * self.weight


def rotate(x, theta, pairs):
    """Of [batch, tokens, heads * dim]."""
    heads = x.unflatten(2, (-1, HEAD_DIM))
    frequencies = theta ** (-torch.arange(0, HEAD_DIM, 2, dtype=x.dtype) / HEAD_DIM)
    angles = (torch.arange(x.shape[1])[:, None] * frequencies)[:, None]
    a, b = (heads[..., 0::2], heads[..., 1::2]) if pairs else heads.chunk(2, dim=-1)
    turned = (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())
    return (torch.stack(turned, dim=-1).flatten(3) if pairs else torch.cat(turned, -1)).flatten(2)


def no_bias(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class MetaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = modules(wq=no_bias(DIM, DIM), wk=no_bias(DIM, HEAD_DIM),
                                 wv=no_bias(DIM, HEAD_DIM), wo=no_bias(DIM, DIM))
        self.feed_forward = modules(w1=no_bias(DIM, 12), w2=no_bias(12, DIM), w3=no_bias(DIM, 12))
        self.attention_norm, self.ffn_norm = RmsNorm(1e-5), RmsNorm(1e-5)

    def forward(self, x):
        inner, parts = self.attention_norm(x), self.attention
        q, k = (rotate(part(inner), 10000.0, True) for part in (parts.wq, parts.wk))
        x = x + parts.wo(attend(q, k, parts.wv(inner), True))
        inner, parts = self.ffn_norm(x), self.feed_forward
        return x + parts.w2(F.silu(parts.w1(inner)) * parts.w3(inner))


class MetaLlama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(MetaBlock() for _ in range(LAYERS))
        self.norm, self.output = RmsNorm(1e-5), no_bias(DIM, VOCAB)

    def forward(self, ids):
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


class BookLlamaBlock(nn.Module):
    """fc3 goes back, as in "Build a Large Language Model (From Scratch)"."""

    def __init__(self):
        super().__init__()
        self.att = modules(W_query=no_bias(DIM, DIM), W_key=no_bias(DIM, DIM),
                           W_value=no_bias(DIM, DIM), out_proj=no_bias(DIM, DIM))
        self.ff = modules(fc1=no_bias(DIM, 12), fc2=no_bias(DIM, 12), fc3=no_bias(12, DIM))
        self.norm1, self.norm2 = RmsNorm(1e-6), RmsNorm(1e-6)

    def forward(self, x):
        inner, parts = self.norm1(x), self.att
        q, k = (rotate(part(inner), 500000.0, False) for part in (parts.W_query, parts.W_key))
        x = x + parts.out_proj(attend(q, k, parts.W_value(inner), True))
        inner, parts = self.norm2(x), self.ff
        return x + parts.fc3(F.silu(parts.fc1(inner)) * parts.fc2(inner))


class BookLlama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_emb = nn.Embedding(VOCAB, DIM)
        self.trf_blocks = nn.ModuleList(BookLlamaBlock() for _ in range(LAYERS))
        self.final_norm, self.out_head = RmsNorm(1e-6), no_bias(DIM, VOCAB)

    def forward(self, ids):
        x = self.tok_emb(ids)
        for block in self.trf_blocks:
            x = block(x)
        return self.out_head(self.final_norm(x))


# ---- encoders ----

class SampleNorm(nn.Module):
    """The LayerNorm of The Annotated Transformer."""

    def __init__(self):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(DIM)), nn.Parameter(torch.zeros(DIM))

    def forward(self, x):
        mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (deviation + 1e-6) + self.b_2


class AnnotatedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = modules(linears=nn.ModuleList(nn.Linear(DIM, DIM) for _ in range(4)))
        self.feed_forward = modules(w_1=nn.Linear(DIM, 12), w_2=nn.Linear(12, DIM))
        self.sublayer = nn.ModuleList(modules(norm=SampleNorm()) for _ in range(2))

    def forward(self, x):
        inner = self.sublayer[0].norm(x)
        q, k, v, output = self.self_attn.linears
        x = x + output(attend(q(inner), k(inner), v(inner), False))
        parts = self.feed_forward
        return x + parts.w_2(F.relu(parts.w_1(self.sublayer[1].norm(x))))


class Annotated(nn.Module):
    def __init__(self):
        super().__init__()
        angles = torch.arange(POSITIONS)[:, None] * torch.exp(
            torch.arange(0, DIM, 2) * (-math.log(10000.0) / DIM))
        pe = torch.stack([angles.sin(), angles.cos()], dim=2).reshape(1, POSITIONS, DIM)
        position = nn.Module()
        position.register_buffer("pe", pe)
        self.src_embed = nn.Sequential(modules(lut=nn.Embedding(VOCAB, DIM)), position)
        self.encoder = modules(layers=nn.ModuleList(AnnotatedLayer() for _ in range(LAYERS)),
                               norm=SampleNorm())

    def forward(self, ids):
        x = self.src_embed[0].lut(ids) * math.sqrt(DIM) + self.src_embed[1].pe[:, :ids.shape[1]]
        for layer in self.encoder.layers:
            x = layer(x)
        return self.encoder.norm(x)


class BertNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(DIM)), nn.Parameter(torch.zeros(DIM))

    def forward(self, x):
        return F.layer_norm(x, (DIM,), self.gamma, self.beta, 1e-12)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        own = modules(query=nn.Linear(DIM, DIM), key=nn.Linear(DIM, DIM), value=nn.Linear(DIM, DIM))
        self.attention = modules(output=modules(dense=nn.Linear(DIM, DIM), LayerNorm=BertNorm()))
        self.attention.add_module("self", own)
        self.intermediate = modules(dense=nn.Linear(DIM, 12))
        self.output = modules(dense=nn.Linear(12, DIM), LayerNorm=BertNorm())

    def forward(self, x):
        own = getattr(self.attention, "self")
        y = self.attention.output.dense(attend(own.query(x), own.key(x), own.value(x), False))
        x = self.attention.output.LayerNorm(x + y)
        return self.output.LayerNorm(x + self.output.dense(F.gelu(self.intermediate.dense(x))))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        embeddings = modules(word_embeddings=nn.Embedding(VOCAB, DIM),
                             position_embeddings=nn.Embedding(POSITIONS, DIM),
                             token_type_embeddings=nn.Embedding(2, DIM), LayerNorm=BertNorm())
        encoder = modules(layer=nn.ModuleList(BertLayer() for _ in range(LAYERS)))
        self.backbone = modules(embeddings=embeddings, encoder=encoder,
                                pooler=modules(dense=nn.Linear(DIM, DIM)))
        self.classifier = nn.Linear(DIM, 3)

    def forward(self, ids):
        parts = self.backbone.embeddings
        x = parts.word_embeddings(ids) + parts.position_embeddings(torch.arange(ids.shape[1]))
        x = parts.LayerNorm(x + parts.token_type_embeddings.weight[0])
        for layer in self.backbone.encoder.layer:
            x = layer(x)
        return self.classifier(torch.tanh(self.backbone.pooler.dense(x[:, 0])))


def prepared(model):
    model = randomised(model)
    with torch.no_grad():  # so that norms are not all small
        for module in model.modules():
            for gain in ("weight", "gamma", "a_2"):
                if isinstance(module, (nn.LayerNorm, RmsNorm, SampleNorm, BertNorm)) and hasattr(
                        module, gain):
                    getattr(module, gain).add_(1.0)
    return model


def save(name, model, ids):
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    model = prepared(model)
    save_safetensors(folder / "model.safetensors",
                     {key: tensor.clone() for key, tensor in model.state_dict().items()})
    with torch.no_grad():
        y = model.double()(ids)
    numpy.save(folder / "x.npy", ids.numpy())
    numpy.save(folder / "y.npy", y.float().numpy())


def main():
    torch.manual_seed(5)
    ids = torch.randint(VOCAB, (2, TOKENS))
    save("lecture", Lecture(HEAD_DIM ** -0.5), ids)
    save("lecture_by_width", Lecture(DIM ** -0.5), ids)
    save("meta_llama", MetaLlama(), ids)
    save("book_llama", BookLlama(), ids)
    save("annotated", Annotated(), ids)
    save("bert", Bert(), ids)
    model = prepared(Lecture(HEAD_DIM ** -0.5))
    characters = "\n abcdefgh."[:VOCAB - 1] + "ü"
    torch.save({"model": model.state_dict(),
                "config": {"n_head": HEADS, "block_size": POSITIONS, "n_embd": DIM,
                           "activation": "relu", "norm_first": True, "dropout": 0.0},
                "stoi": {c: i for i, c in enumerate(characters)},
                "itos": {i: c for i, c in enumerate(characters)},
                "step": 12}, FOLDER / "characters.pt")


if __name__ == "__main__":
    main()
