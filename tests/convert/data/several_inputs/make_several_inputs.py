# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models with several inputs of this folder with PyTorch 2.14 and
transformers 5: make_several_inputs.py FOLDER [NAME...].

Each is NAME.pt2, or NAME_encoder.pt2 and NAME_decoder.pt2, with numbers in NAME_*.npy: for
example I its inputs iI_0 and iI_1, what PyTorch gives in float64 as eI, and in float32 as fI.
Archives, mostly traces, are compressed.
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save_program  # noqa: E402

WIDTH, HEADS, VOCAB = 8, 2, 19
WIDE = 32  # of the one whose weights may be int4


class Wrapped(nn.Module):
    """A model of transformers as one function of tokens, or features, of its two inputs."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, x, y):
        return self.call(self.model, x, y)


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    config = T5Config(
        vocab_size=VOCAB, d_model=WIDTH, d_kv=4, d_ff=12, num_layers=2, num_heads=HEADS,
        relative_attention_num_buckets=6, relative_attention_max_distance=9,
        decoder_start_token_id=0)
    return Wrapped(T5ForConditionalGeneration(config),
                   lambda m, x, y: m(input_ids=x, decoder_input_ids=y, use_cache=False).logits)


def bart():
    from transformers import BartConfig, BartForConditionalGeneration
    config = BartConfig(
        vocab_size=VOCAB, d_model=WIDTH, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=12,
        decoder_ffn_dim=12, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        max_position_embeddings=24)
    return Wrapped(BartForConditionalGeneration(config),
                   lambda m, x, y: m(input_ids=x, decoder_input_ids=y, use_cache=False).logits)


def marian():
    from transformers import MarianConfig, MarianMTModel
    config = MarianConfig(
        vocab_size=VOCAB, d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=12,
        decoder_ffn_dim=12, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        max_position_embeddings=24, pad_token_id=0, decoder_start_token_id=0)
    return Wrapped(MarianMTModel(config),
                   lambda m, x, y: m(input_ids=x, decoder_input_ids=y, use_cache=False).logits)


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    config = WhisperConfig(
        vocab_size=VOCAB, num_mel_bins=6, d_model=WIDTH, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=12,
        decoder_ffn_dim=12, max_source_positions=10, max_target_positions=14, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return Wrapped(
        WhisperForConditionalGeneration(config),
        lambda m, x, y: m(input_features=x, decoder_input_ids=y, use_cache=False).logits)


def moonshine():
    from transformers import MoonshineConfig, MoonshineForConditionalGeneration
    config = MoonshineConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=12, encoder_num_hidden_layers=1,
        decoder_num_hidden_layers=1, encoder_num_attention_heads=HEADS,
        decoder_num_attention_heads=HEADS, max_position_embeddings=40, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return Wrapped(
        MoonshineForConditionalGeneration(config),
        lambda m, x, y: m(input_values=x, decoder_input_ids=y, use_cache=False).logits)


class Translation(nn.Module):
    """nn.Transformer between embeddings with positions, and a layer of logits."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCAB, WIDTH), nn.Embedding(VOCAB - 2, WIDTH)
        self.positions = nn.Parameter(torch.randn(24, WIDTH))
        self.transformer = nn.Transformer(WIDTH, HEADS, 1, 2, 12, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB - 2)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        x = self.source(source) + self.positions[: source.size(1)]
        y = self.target(target) + self.positions[: target.size(1)]
        return self.head(self.transformer(x, y, tgt_mask=mask, tgt_is_causal=True))


class Latents(nn.Module):
    """Words that attend to what three learned queries found in an image, as Flamingo's."""

    def __init__(self):
        super().__init__()
        self.rows, self.words = nn.Linear(5, WIDTH), nn.Embedding(VOCAB, WIDTH)
        self.queries = nn.Parameter(torch.randn(1, 3, WIDTH))
        self.read, self.own, self.cross = (
            nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, image, ids):
        rows, latents = self.rows(image), self.queries.expand(image.size(0), -1, -1)
        latents = self.norm(latents + self.read(latents, rows, rows, need_weights=False)[0])
        y = self.words(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        y = y + self.own(y, y, y, attn_mask=mask, need_weights=False, is_causal=True)[0]
        return self.head(y + self.cross(y, latents, latents, need_weights=False)[0])


class ImageText(nn.Module):
    """Words that attend to the patches of an image, as BLIP's text model does; by hand."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH), nn.Linear(5, WIDTH), nn.Linear(5, WIDTH))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, ids, patches):
        b, n = ids.shape
        x = self.words(ids)
        split = lambda t: t.view(b, -1, HEADS, WIDTH // HEADS).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(patches)), split(self.v(patches))
        a = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).softmax(-1) @ v
        return self.head(self.norm(x + a.transpose(1, 2).reshape(b, n, WIDTH)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), nn.MultiheadAttention(
            WIDTH, HEADS, batch_first=True)
        self.norm2, self.up, self.down = (
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Speech(nn.Module):
    """As wide as weights in int4 need: two convolutions, and a layer that attends to their rows."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(6, WIDE, 3, padding=1)
        self.second = nn.Conv1d(WIDE, WIDE, 3, stride=2, padding=1)
        self.words = nn.Embedding(VOCAB, WIDE)
        self.layer = nn.TransformerDecoderLayer(WIDE, 4, WIDE, batch_first=True)
        self.head = nn.Linear(WIDE, VOCAB)

    def forward(self, mels, ids):
        x = F.gelu(self.second(F.gelu(self.first(mels)))).transpose(1, 2)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        return self.head(self.layer(self.words(ids), x, tgt_mask=mask, tgt_is_causal=True))


class Joined(nn.Module):
    """Two sensors whose rows are joined along the tokens."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.block, self.head = (
            nn.Linear(3, WIDTH), nn.Linear(5, WIDTH), Block(), nn.Linear(WIDTH, 4))

    def forward(self, a, b):
        return self.head(self.block(torch.cat([self.a(a), self.b(b)], 1)).mean(1))


class Pooled(nn.Module):
    """Two sensors that are pooled each, and put together."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.block, self.head = (
            nn.Linear(3, WIDTH), nn.Linear(5, WIDTH), Block(), nn.Linear(2 * WIDTH, 4))

    def forward(self, a, b):
        a, b = self.block(self.a(a)).mean(1), self.block(self.b(b)).amax(1)
        return self.head(torch.cat([a, b], 1)) * (a * b).sum(-1, keepdim=True)


class Similarity(nn.Module):
    """How near two texts are."""

    def __init__(self):
        super().__init__()
        self.words, self.block = nn.Embedding(VOCAB, WIDTH), Block()

    def embed(self, ids):
        return self.block(self.words(ids)).mean(1)

    def forward(self, a, b):
        return F.cosine_similarity(self.embed(a), self.embed(b))


class HiddenIds(nn.Module):
    """Two texts with the same ids of padding, the second of which attends to the first."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, 4)
        self.norm = nn.LayerNorm(WIDTH)

    def own(self, x, ids):
        seen = (ids != 3)[:, None, None].expand(-1, -1, ids.size(1), -1)
        rows = x.view(x.size(0), -1, HEADS, WIDTH // HEADS).transpose(1, 2)
        rows = F.scaled_dot_product_attention(rows, rows, rows, attn_mask=seen)
        return x + rows.transpose(1, 2).reshape(x.shape)

    def forward(self, a, b):
        x, y = self.own(self.words(a), a), self.own(self.words(b), b)
        return self.head(self.norm(y + F.scaled_dot_product_attention(y, x, x)))


class Encoder(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.whole = whole

    def forward(self, source):
        x = self.whole.source(source) + self.whole.positions[: source.size(1)]
        return self.whole.transformer.encoder(x)


class Decoder(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.whole = whole

    def forward(self, target, memory):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        y = self.whole.target(target) + self.whole.positions[: target.size(1)]
        y = self.whole.transformer.decoder(y, memory, tgt_mask=mask, tgt_is_causal=True)
        return self.whole.head(y)


def ids(n, vocab=VOCAB):
    return torch.randint(0, vocab, (1, n))


def features(width):
    return lambda n: torch.randn(1, n, width)


def mels(n):
    return torch.randn(1, 6, n)


def samples(n):
    return torch.randn(1, n)


def words(n):
    return ids(n, VOCAB - 2)


ANY = torch.export.Dim.AUTO
# Name, model, what makes its inputs, lengths of the example, and of others, axes that may vary.
class User(nn.Module):
    """What is known of a user, in numbers and as an id, beside items."""

    def __init__(self):
        super().__init__()
        self.items, self.users = nn.Embedding(VOCAB, 8), nn.Embedding(5, 8)
        self.numbers = nn.Linear(3, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(11, 2)

    def forward(self, items, user):
        y = self.items(items) + self.numbers(user)[:, None]
        y = y + self.attention(y, y, y, need_weights=False)[0]
        return self.head(torch.cat([y.mean(1), user], -1))


class Marks(nn.Module):
    """Numbers beside whole numbers of the same tokens, such as hours."""

    def __init__(self):
        super().__init__()
        self.numbers, self.hours = nn.Linear(3, 8), nn.Embedding(7, 8)
        self.days = nn.Embedding(4, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x, marks):
        y = self.numbers(x) + self.hours(marks[..., 0]) + self.days(marks[..., 1])
        return self.head(y + self.attention(y, y, y, need_weights=False)[0])


MODELS = [
    ("t5", t5, (ids, ids), [(11, 5), (4, 9), (17, 1)], ({1: ANY}, {1: ANY})),
    ("t5_fixed", t5, (ids, ids), [(11, 5)], None),
    ("bart", bart, (ids, ids), [(7, 5), (12, 3)], ({1: ANY}, {1: ANY})),
    ("marian", marian, (ids, ids), [(7, 5), (3, 11)], ({1: ANY}, {1: ANY})),
    ("whisper", whisper, (mels, ids), [(20, 5), (20, 9)], (None, {1: ANY})),
    ("moonshine", moonshine, (samples, ids), [(2440, 7), (1700, 9)], ({1: ANY}, {1: ANY})),
    ("translation", Translation, (ids, words), [(10, 7), (3, 12)], ({1: ANY}, {1: ANY})),
    ("speech", Speech, (mels, ids), [(40, 9), (21, 5)], ({2: ANY}, {1: ANY})),
    ("image_text", ImageText, (ids, features(5)), [(6, 9), (11, 4)], ({1: ANY}, {1: ANY})),
    ("hidden_ids", HiddenIds, (ids, ids), [(10, 7), (6, 12)], ({1: ANY}, {1: ANY})),
    ("latents", Latents, (features(5), ids), [(7, 6), (12, 3)], ({1: ANY}, {1: ANY})),
    ("joined", Joined, (features(3), features(5)), [(6, 9), (11, 4)], ({1: ANY}, {1: ANY})),
    ("pooled", Pooled, (features(3), features(5)), [(6, 9), (11, 4)], ({1: ANY}, {1: ANY})),
    ("similarity", Similarity, (ids, ids), [(6, 9), (11, 4)], ({1: ANY}, {1: ANY})),
    ("user", User, (ids, lambda count: torch.randn(1, count)), [(6, 3), (11, 3)], ({1: ANY}, None)),
    ("marks", Marks, (features(3), lambda count: torch.randint(0, 4, (1, count, 2))),
     [(6, 6), (11, 11)], ({1: ANY}, {1: ANY})),
]


def save(path, model, example, dynamic):
    program = torch.export.export(model, example, dynamic_shapes=dynamic, strict=False)
    save_program(program, path, keeps=lambda member: "/sample_inputs/" not in member)


def spread(model):
    """Weights of a size that makes masks and terms matter; of a wide model few different ones,
    which are compressed well."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "position" not in name:
                parameter.normal_(0.0, 0.6)
            if isinstance(model, Speech):
                levels = (parameter * 8).round().clamp(-7, 7)
                parameter.copy_(levels * levels.abs().sqrt() / 32)


def main(folder, names):
    for name, build, makers, lengths, dynamic in MODELS:
        if names and name not in names:
            continue
        torch.manual_seed(len(name))
        model = build().eval()
        spread(model)
        inputs = [tuple(make(n) for make, n in zip(makers, of)) for of in lengths]
        path = os.path.join(folder, name)
        save(path + ".pt2", model, inputs[0], dynamic)
        if name == "translation":
            encoder, decoder = Encoder(model).eval(), Decoder(model).eval()
            memory = encoder(inputs[0][0])
            save(path + "_encoder.pt2", encoder, inputs[0][:1], dynamic[:1])
            save(path + "_decoder.pt2", decoder, (inputs[0][1], memory), ({1: ANY}, {1: ANY}))
        arrays = {}
        with torch.no_grad():
            for i, given in enumerate(inputs):
                arrays[f"f{i}"] = model(*given).numpy()
            exact = model.double()
            for i, given in enumerate(inputs):
                for j, each in enumerate(given):
                    arrays[f"i{i}_{j}"] = each.numpy()
                wide = [x.double() if x.is_floating_point() else x for x in given]
                arrays[f"e{i}"] = exact(*wide).numpy()
        for i in range(len(inputs)):
            error = np.abs(arrays[f"f{i}"] - arrays[f"e{i}"]).max() / np.abs(arrays[f"e{i}"]).max()
            print(f"{name} {lengths[i]}: float32 of PyTorch is off by {error:.1e}")
        for key, array in arrays.items():
            np.save(f"{path}_{key}.npy", array)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
