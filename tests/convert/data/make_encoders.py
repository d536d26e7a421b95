#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny random encoders, and what PyTorch computes with them in double precision.

Needs PyTorch (Debian 12: apt install python3-torch). The forward passes of Hugging Face's models
are written out here, in the words of their papers. For each case of this folder's `encoders/`:
  config.json, model.safetensors   the model, float32
  expected.safetensors             for a padded batch: `input` (token ids or features), `types`,
                                   `lengths`, `states` [layers + 1, batch, tokens, dim] and
                                   `values` [batch, ...] after pooling and head
"""
import json
import pathlib

import torch
from torch.nn import functional as F

from make_torch_modules import DTYPES, randomised, save_safetensors

FOLDER = pathlib.Path(__file__).parent / "encoders"
DTYPES[torch.int64] = "I64"
VOCAB, DIM, FFN, HEADS, LAYERS, POSITIONS = 13, 12, 20, 3, 2, 9
LENGTHS = torch.tensor([7, 4])  # of a batch of two, padded to 7
TOKENS = int(LENGTHS.max())
SEEN = torch.arange(TOKENS)[None, :] < LENGTHS[:, None]
LABELS = {"0": "low", "1": "middle", "2": "high"}


def random_tensors(shapes):
    """Values around 1 for gains, around 0 for the rest."""
    is_gain = ("norm.weight", "LayerNorm.weight", "LayerNorm.gamma")
    return {name: (1.0 if name.endswith(is_gain) else 0.0) + 0.4 * torch.randn(shape)
            for name, shape in shapes.items()}


def linear_shapes(name, outputs, inputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm_shapes(name, width, gain="weight", bias="bias"):
    return {f"{name}.{gain}": (width,), f"{name}.{bias}": (width,)}


class Weights:
    """Tensors in double precision, used by name."""

    def __init__(self, tensors):
        self.tensors = {name: tensor.double() for name, tensor in tensors.items()}

    def __getitem__(self, name):
        return self.tensors[name]

    def linear(self, name, x):
        return F.linear(x, self[f"{name}.weight"], self[f"{name}.bias"])

    def norm(self, name, x, epsilon=1e-12):
        gain, bias = (f"{name}.gamma", f"{name}.beta") if f"{name}.gamma" in self.tensors else (
            f"{name}.weight", f"{name}.bias")
        return F.layer_norm(x, x.shape[-1:], self[gain], self[bias], epsilon)


def attention(q, k, v, seen):
    split = (2, TOKENS, HEADS, DIM // HEADS)
    q, k, v = (x.view(split).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) / (DIM // HEADS) ** 0.5
    scores = scores.masked_fill(~seen[:, None, None, :], float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(2, TOKENS, DIM)


def mean(x):
    kept = SEEN[:, :, None].double()
    return (x * kept).sum(1) / kept.sum(1)


def save(name, config, tensors, expected):
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_safetensors(folder / "model.safetensors", tensors)
    save_safetensors(folder / "expected.safetensors", {"lengths": LENGTHS, **expected})


class BertNames:
    layer = "encoder.layer"
    query, key, value = (f"attention.self.{part}" for part in ("query", "key", "value"))
    output, attention_norm = "attention.output.dense", "attention.output.LayerNorm"
    up, down, mlp_norm = "intermediate.dense", "output.dense", "output.LayerNorm"


class DistilBertNames:
    layer = "transformer.layer"
    query, key, value = (f"attention.{letter}_lin" for letter in "qkv")
    output, attention_norm = "attention.out_lin", "sa_layer_norm"
    up, down, mlp_norm = "ffn.lin1", "ffn.lin2", "output_layer_norm"


def layer_shapes(prefix, names, **norm_names):
    shapes = {}
    for i in range(LAYERS):
        layer = f"{prefix}{names.layer}.{i}."
        for part in (names.query, names.key, names.value, names.output):
            shapes.update(linear_shapes(layer + part, DIM, DIM))
        shapes.update(norm_shapes(layer + names.attention_norm, DIM, **norm_names))
        shapes.update(linear_shapes(layer + names.up, FFN, DIM))
        shapes.update(linear_shapes(layer + names.down, DIM, FFN))
        shapes.update(norm_shapes(layer + names.mlp_norm, DIM, **norm_names))
    return shapes


def embedding_shapes(prefix, types=2, width=DIM, **norm_names):
    shapes = {
        f"{prefix}embeddings.word_embeddings.weight": (VOCAB, width),
        f"{prefix}embeddings.position_embeddings.weight": (POSITIONS, width),
    }
    if types:
        shapes[f"{prefix}embeddings.token_type_embeddings.weight"] = (types, width)
    return {**shapes, **norm_shapes(f"{prefix}embeddings.LayerNorm", width, **norm_names)}


def embed(w, prefix, ids, types, offset=0):
    x = w[f"{prefix}embeddings.word_embeddings.weight"][ids]
    x = x + w[f"{prefix}embeddings.position_embeddings.weight"][offset + torch.arange(TOKENS)]
    if types is not None:
        x = x + w[f"{prefix}embeddings.token_type_embeddings.weight"][types]
    return w.norm(f"{prefix}embeddings.LayerNorm", x)


def run_layers(w, prefix, names, x, seen=SEEN):
    states = [x]
    for i in range(LAYERS):
        layer = f"{prefix}{names.layer}.{i}."
        q, k, v = (w.linear(layer + part, x) for part in (names.query, names.key, names.value))
        x = w.norm(layer + names.attention_norm,
                   x + w.linear(layer + names.output, attention(q, k, v, seen)))
        hidden = F.gelu(w.linear(layer + names.up, x))
        x = w.norm(layer + names.mlp_norm, x + w.linear(layer + names.down, hidden))
        states.append(x)
    return torch.stack(states)


def bert_config(model_type, architecture, **more):
    return {
        "model_type": model_type, "architectures": [architecture], "vocab_size": VOCAB,
        "hidden_size": DIM, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "intermediate_size": FFN, "hidden_act": "gelu", "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "initializer_range": 0.02, "pad_token_id": 0,
        "position_embedding_type": "absolute", "transformers_version": "4.40.0", **more}


def random_ids():
    return torch.randint(3, VOCAB, (2, TOKENS)), torch.randint(0, 2, (2, TOKENS))


def bert_sequence():
    tensors = random_tensors({
        **embedding_shapes("bert."), **layer_shapes("bert.", BertNames),
        **linear_shapes("bert.pooler.dense", DIM, DIM), **linear_shapes("classifier", 3, DIM)})
    ids, types = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "bert.", BertNames, embed(w, "bert.", ids, types))
    values = w.linear("classifier", w.linear("bert.pooler.dense", states[-1][:, 0]).tanh())
    tensors["bert.embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    save("bert_sequence", bert_config("bert", "BertForSequenceClassification", id2label=LABELS),
         tensors, {"input": ids, "types": types, "states": states, "values": values})


def bert_tokens():
    """With the norms' names of BERT's first program."""
    old = {"gain": "gamma", "bias": "beta"}
    tensors = random_tensors({
        **embedding_shapes("bert.", **old), **layer_shapes("bert.", BertNames, **old),
        **linear_shapes("classifier", 3, DIM)})
    ids, types = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "bert.", BertNames, embed(w, "bert.", ids, types))
    save("bert_tokens", bert_config("bert", "BertForTokenClassification", id2label=LABELS),
         tensors, {"input": ids, "types": types, "states": states,
                   "values": w.linear("classifier", states[-1])})


def distilbert_sequence():
    tensors = random_tensors({
        **embedding_shapes("distilbert.", types=0), **layer_shapes("distilbert.", DistilBertNames),
        **linear_shapes("pre_classifier", DIM, DIM), **linear_shapes("classifier", 3, DIM)})
    ids, _ = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "distilbert.", DistilBertNames, embed(w, "distilbert.", ids, None))
    values = w.linear("classifier", w.linear("pre_classifier", states[-1][:, 0]).relu())
    config = {
        "model_type": "distilbert", "architectures": ["DistilBertForSequenceClassification"],
        "vocab_size": VOCAB, "dim": DIM, "hidden_dim": FFN, "n_heads": HEADS, "n_layers": LAYERS,
        "max_position_embeddings": POSITIONS, "activation": "gelu", "attention_dropout": 0.1,
        "dropout": 0.1, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "pad_token_id": 0,
        "sinusoidal_pos_embds": False, "tie_weights_": True, "id2label": LABELS}
    save("distilbert_sequence", config, tensors,
         {"input": ids, "states": states, "values": values})


def roberta_sequence():
    """Positions count from 2, after that of the padding token."""
    tensors = random_tensors({
        **embedding_shapes("roberta.", types=1), **layer_shapes("roberta.", BertNames),
        **linear_shapes("classifier.dense", DIM, DIM),
        **linear_shapes("classifier.out_proj", 3, DIM)})
    ids, _ = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "roberta.", BertNames,
                        embed(w, "roberta.", ids, torch.zeros_like(ids), offset=2))
    values = w.linear("classifier.out_proj", w.linear("classifier.dense", states[-1][:, 0]).tanh())
    config = bert_config("roberta", "RobertaForSequenceClassification", id2label=LABELS)
    config.update(type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    save("roberta_sequence", config, tensors, {"input": ids, "states": states, "values": values})


def electra_sequence():
    width = 8
    tensors = random_tensors({
        **embedding_shapes("electra.", width=width),
        **linear_shapes("electra.embeddings_project", DIM, width),
        **layer_shapes("electra.", BertNames), **linear_shapes("classifier.dense", DIM, DIM),
        **linear_shapes("classifier.out_proj", 3, DIM)})
    ids, types = random_ids()
    w = Weights(tensors)
    x = w.linear("electra.embeddings_project", embed(w, "electra.", ids, types))
    states = run_layers(w, "electra.", BertNames, x)
    dense = F.gelu(w.linear("classifier.dense", states[-1][:, 0]))
    config = bert_config("electra", "ElectraForSequenceClassification", embedding_size=width,
                         summary_type="first", summary_use_proj=True, id2label=LABELS)
    save("electra_sequence", config, tensors,
         {"input": ids, "types": types, "states": states,
          "values": w.linear("classifier.out_proj", dense)})


def sentence():
    """A folder of sentence-transformers; the pooler is in the file and not used."""
    tensors = random_tensors({
        **embedding_shapes(""), **layer_shapes("", BertNames),
        **linear_shapes("pooler.dense", DIM, DIM)})
    dense = random_tensors(linear_shapes("linear", 5, DIM))
    ids, types = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "", BertNames, embed(w, "", ids, types))
    values = F.normalize(Weights(dense).linear("linear", mean(states[-1])).tanh())
    save("sentence", bert_config("bert", "BertModel"), tensors,
         {"input": ids, "types": types, "states": states, "values": values})
    modes = {f"pooling_mode_{mode}": mode == "mean_tokens" for mode in
             ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")}
    activation = "torch.nn.modules.activation.Tanh"
    kinds = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"),
             ("Normalize", "3_Normalize"))
    files = {
        "modules.json": [{"idx": i, "name": str(i), "path": path,
                          "type": f"sentence_transformers.models.{kind}"}
                         for i, (kind, path) in enumerate(kinds)],
        "sentence_bert_config.json": {"max_seq_length": TOKENS, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": DIM, **modes},
        "2_Dense/config.json": {"in_features": DIM, "out_features": 5, "bias": True,
                                "activation_function": activation},
    }
    for name, content in files.items():
        path = FOLDER / "sentence" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")
    save_safetensors(FOLDER / "sentence" / "2_Dense" / "model.safetensors", dense)


class Positions(torch.nn.Module):
    """Sines and cosines in a buffer `pe`, as in PyTorch's tutorials."""

    def __init__(self):
        super().__init__()
        angles = torch.arange(POSITIONS)[:, None] / 100.0 ** (torch.arange(0, DIM, 2) / DIM)
        table = torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)
        self.register_buffer("pe", table[:, None])  # [positions, 1, dim]

    def forward(self, x):
        return x + self.pe[:x.shape[1], 0]


class TorchModel(torch.nn.Module):
    """TransformerEncoder with a class head, for tokens or for features."""

    def __init__(self, features, **layer_options):
        super().__init__()
        if features:
            self.input = torch.nn.Linear(features, DIM)
            self.position = torch.nn.Embedding(POSITIONS, DIM)
        else:
            self.embedding = torch.nn.Embedding(VOCAB, DIM)
            self.pos_encoder = Positions()
        layer = torch.nn.TransformerEncoderLayer(
            DIM, HEADS, FFN, batch_first=True, **layer_options)
        self.encoder = torch.nn.TransformerEncoder(
            layer, LAYERS, norm=torch.nn.LayerNorm(DIM) if features else None)
        self.classifier = torch.nn.Linear(DIM, 3)
        self.is_features = bool(features)

    def forward(self, x, pool):
        if self.is_features:
            x = self.input(x) + self.position(torch.arange(x.shape[1]))
        else:
            x = self.pos_encoder(self.embedding(x))
        states = [x]
        for layer in self.encoder.layers:
            x = layer(x, src_key_padding_mask=~SEEN)
            states.append(x)
        if self.encoder.norm is not None:
            states[-1] = self.encoder.norm(x)
        return torch.stack(states), self.classifier(pool(states[-1]))


def torch_case(name, features, pooling, pool, **layer_options):
    model = randomised(TorchModel(features, **layer_options))
    tensors = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    x = torch.randn(2, TOKENS, features) if features else random_ids()[0]
    # Training mode takes the plain path rather than a fused one; there is no dropout in it.
    with torch.no_grad():
        states, values = model.double().train()(x.double() if features else x, pool)
    config = {"num_heads": HEADS, "pooling": pooling, "causal": False, "embedding_scale": 1,
              "norm_first": False, "activation": "relu", "id2label": LABELS}
    config.update({key: value for key, value in layer_options.items() if key != "dropout"})
    save(name, config, tensors, {"input": x, "states": states, "values": values})


def main():
    torch.manual_seed(1)
    bert_sequence()
    bert_tokens()
    distilbert_sequence()
    roberta_sequence()
    electra_sequence()
    sentence()
    torch_case("torch_tokens", 0, "mean", mean, dropout=0.0)
    torch_case("torch_features", 5, "mean", mean, dropout=0.0, norm_first=True, activation="gelu")


if __name__ == "__main__":
    main()
