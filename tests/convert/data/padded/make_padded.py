# SPDX-License-Identifier: Apache-2.0
"""Makes the models of this folder with PyTorch 2.14 and transformers 5: make_padded.py FOLDER.

Models that are told by a second input which tokens are padding. NAME_input.npy is one sequence
without its padding, NAME_expected.npy what the model gives for it in float64 as a part of a batch
that has padding.
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import in_float64, save_program  # noqa: E402

VOCABULARY, WIDTH, TOKENS, SEQUENCES, LENGTH = 11, 8, 6, 2, 4


class Masked(nn.Module):
    """Bidirectional attention with a mask of what is kept, and the mean of what is kept."""

    def __init__(self, pools=True):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 3)
        self.pools = pools

    def forward(self, ids, attention_mask):
        x = self.embedding(ids)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / WIDTH**0.5
        scores = scores.masked_fill(attention_mask[:, None, :] == 0, float("-inf"))
        x = x + scores.softmax(-1) @ self.value(x)
        if not self.pools:
            return self.head(x)
        kept = attention_mask[:, :, None].to(x.dtype)
        return self.head((x * kept).sum(1) / kept.sum(1).clamp(min=1e-9))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x, src_key_padding_mask):
        return self.encoder(x, src_key_padding_mask=src_key_padding_mask)


class TokensFirst(nn.Module):
    """[tokens, sequences, width], as nn.TransformerEncoder has it without batch_first."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


class ByLengths(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x, n):
        kept = torch.arange(x.shape[1])[None] < n[:, None]
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        scores = scores + torch.where(kept, 0.0, -1e9)[:, None]
        return scores.softmax(-1) @ self.value(x)


class Added(nn.Module):
    """A float mask [sequences, 1, 1, tokens] that is added to scores."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x, mask):
        q, k, v = (
            part(x).view(*x.shape[:2], 2, 4).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        x = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x.transpose(1, 2).flatten(2)


class Maximum(Masked):
    """The largest of what is kept."""

    def forward(self, ids, attention_mask):
        x = self.embedding(ids)
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        scores = scores.masked_fill(attention_mask[:, None, :] == 0, float("-inf"))
        x = x + scores.softmax(-1) @ self.value(x)
        return self.head(x.masked_fill(attention_mask[..., None] == 0, -1e9).amax(1))


class Misused(Masked):
    """The mask changes more than which keys are seen."""

    def forward(self, ids, attention_mask):
        return super().forward(ids, attention_mask) * attention_mask.sum()


class Partly(nn.Module):
    """Hides keys, but takes the mean of all rows, those of padding too."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = Encoder()

    def forward(self, x, padding_mask):
        if not x.is_floating_point():
            x = self.embedding(x)
        return self.encoder(x, padding_mask).mean(1)


def bert():
    from transformers import BertConfig, BertModel

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            config = BertConfig(
                vocab_size=VOCABULARY,
                hidden_size=WIDTH,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=16,
                max_position_embeddings=16,
            )
            self.bert = BertModel(config, add_pooling_layer=False)

        def forward(self, input_ids, attention_mask, token_type_ids, position_ids):
            return self.bert(input_ids, attention_mask, token_type_ids, position_ids)[0]

    return Bert()


MODELS = {
    "kept": Masked,
    "kept_rows": lambda: Masked(pools=False),
    "encoder": Encoder,
    "lengths": ByLengths,
    "added": Added,
    "bert": bert,
    "misused": Misused,
    "maximum": Maximum,
    "partly": Partly,
    "partly_features": Partly,
    "tokens_first": TokensFirst,
    "tokens_first_two": TokensFirst,
}


def inputs_of(name):
    ids = torch.randint(0, VOCABULARY, (SEQUENCES, TOKENS))
    x = torch.randn(SEQUENCES, TOKENS, WIDTH)
    kept = torch.arange(TOKENS)[None] < torch.tensor([[TOKENS], [LENGTH]])
    if name in ("kept", "kept_rows", "misused", "maximum"):
        return (ids, kept.long())
    if name == "tokens_first":
        return (x[:1].transpose(0, 1).contiguous(),)
    if name == "tokens_first_two":
        return (x.transpose(0, 1).contiguous(),)
    if name == "partly":
        return (ids, ~kept)
    if name in ("encoder", "partly_features"):
        return (x, ~kept)
    if name == "lengths":
        return (x, kept.sum(1))
    if name == "added":
        return (x, torch.where(kept, 0.0, float("-inf"))[:, None, None])
    positions = torch.arange(TOKENS).expand(SEQUENCES, TOKENS).contiguous()
    return (ids, kept.long(), torch.zeros_like(ids), positions)


def main(folder):
    for name, make in MODELS.items():
        torch.manual_seed(len(name))
        model = make().eval()
        inputs = inputs_of(name)
        path = os.path.join(folder, name)
        save_program(torch.export.export(model, inputs), path + ".pt2")
        if name == "kept_rows":
            tokens = torch.export.Dim("tokens", min=2, max=16)
            dynamic = ({1: tokens}, {1: tokens})
            program = torch.export.export(model, inputs, dynamic_shapes=dynamic)
            save_program(program, path + "_dyn.pt2")
        if name in ("misused", "partly_features"):
            continue
        with torch.no_grad():
            outputs = model.double()(*in_float64(inputs))
        if name == "tokens_first":
            np.save(path + "_input.npy", inputs[0].numpy())
            np.save(path + "_expected.npy", outputs.numpy())
            x = torch.randn(TOKENS, SEQUENCES, WIDTH)
            with torch.no_grad():
                outputs = model(x.double())
            np.save(path + "_batch_input.npy", x.numpy())
            np.save(path + "_batch_expected.npy", outputs.numpy())
            continue
        if name == "partly":
            np.save(path + "_mask.npy", inputs[1].numpy())
        if name in ("partly", "tokens_first_two"):
            np.save(path + "_input.npy", inputs[0].numpy())
            np.save(path + "_expected.npy", outputs.numpy())
            continue
        rows = outputs[1:, :LENGTH] if outputs.dim() == 3 else outputs[1:]
        np.save(path + "_input.npy", inputs[0][1:, :LENGTH].numpy())
        np.save(path + "_expected.npy", rows.numpy())


main(sys.argv[1])
