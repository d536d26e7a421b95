#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes more tiny random encoders, as make_encoders.py does: padding that is counted out of the
positions, heads that guess tokens, and a folder as sentence-transformers writes it since version 6.
"""
import json

import numpy
import torch
from torch.nn import functional as F

from make_encoders import (
    DIM, FFN, FOLDER, HEADS, LAYERS, LENGTHS, POSITIONS, TOKENS, VOCAB, BertNames, DistilBertNames,
    Weights, bert_config, embed, embedding_shapes, layer_shapes, linear_shapes, norm_shapes,
    random_ids, random_tensors, run_layers, save)
from make_torch_modules import save_safetensors


def roberta_masked():
    """Padding on the left, gaps, and the padding token itself within texts. Positions are counted
    in the ids, whatever the mask hides; those of the padding token are its id."""
    padding = 1
    tensors = random_tensors({
        **embedding_shapes("", types=1), **layer_shapes("", BertNames)})
    ids, _ = random_ids()
    ids[0, :2], ids[1, 3], ids[1, 5] = padding, padding, padding
    mask = torch.ones(2, TOKENS, dtype=torch.int64)
    mask[0, :2], mask[0, 4], mask[1, 0], mask[1, 5] = 0, 0, 0, 0
    counted = (ids != padding).long()
    rows = counted.cumsum(1) * counted + padding
    w = Weights(tensors)
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][rows]
    x = w.norm("embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    states = run_layers(w, "", BertNames, x, mask.bool())
    config = bert_config("roberta", "RobertaModel")
    config.update(type_vocab_size=1, pad_token_id=padding, bos_token_id=0, eos_token_id=2)
    folder = FOLDER / "roberta_masked"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_safetensors(folder / "model.safetensors", tensors)
    numpy.save(folder / "input_ids.npy", ids.numpy())
    numpy.save(folder / "attention_mask.npy", mask.numpy())
    numpy.save(folder / "hidden_states.npy", states.float().numpy())


def language_head(w, x, dense, norm, decoder, bias):
    x = w.norm(norm, F.gelu(w.linear(dense, x)))
    return F.linear(x, w[decoder], w[bias])


def bert_masked_lm():
    head = "cls.predictions."
    tensors = random_tensors({
        **embedding_shapes("bert."), **layer_shapes("bert.", BertNames),
        **linear_shapes(f"{head}transform.dense", DIM, DIM),
        **norm_shapes(f"{head}transform.LayerNorm", DIM), f"{head}bias": (VOCAB,)})
    ids, types = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "bert.", BertNames, embed(w, "bert.", ids, types))
    values = language_head(w, states[-1], f"{head}transform.dense", f"{head}transform.LayerNorm",
                           "bert.embeddings.word_embeddings.weight", f"{head}bias")
    # The same twice, as files before version 5 have it.
    tensors[f"{head}decoder.bias"] = tensors[f"{head}bias"].clone()
    save("bert_masked_lm", bert_config("bert", "BertForMaskedLM"), tensors,
         {"input": ids, "types": types, "states": states, "values": values})


def distilbert_masked_lm():
    tensors = random_tensors({
        **embedding_shapes("distilbert.", types=0), **layer_shapes("distilbert.", DistilBertNames),
        **linear_shapes("vocab_transform", DIM, DIM), **norm_shapes("vocab_layer_norm", DIM),
        "vocab_projector.bias": (VOCAB,)})
    ids, _ = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "distilbert.", DistilBertNames, embed(w, "distilbert.", ids, None))
    values = language_head(w, states[-1], "vocab_transform", "vocab_layer_norm",
                           "distilbert.embeddings.word_embeddings.weight", "vocab_projector.bias")
    # All that this family's class has no default for, and nothing else.
    config = {"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"],
              "vocab_size": VOCAB, "dim": DIM, "hidden_dim": FFN, "n_heads": HEADS,
              "n_layers": LAYERS, "max_position_embeddings": POSITIONS}
    save("distilbert_masked_lm", config, tensors,
         {"input": ids, "states": states, "values": values})


def roberta_masked_lm():
    """With a matrix of its own, and the bias that belongs to it."""
    tensors = random_tensors({
        **embedding_shapes("roberta."), **layer_shapes("roberta.", BertNames),
        **linear_shapes("lm_head.dense", DIM, DIM), **norm_shapes("lm_head.layer_norm", DIM),
        **linear_shapes("lm_head.decoder", VOCAB, DIM), "lm_head.bias": (VOCAB,)})
    ids, types = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "roberta.", BertNames, embed(w, "roberta.", ids, types, offset=2))
    values = language_head(w, states[-1], "lm_head.dense", "lm_head.layer_norm",
                           "lm_head.decoder.weight", "lm_head.decoder.bias")
    config = bert_config("roberta", "RobertaForMaskedLM", tie_word_embeddings=False)
    config.update(pad_token_id=1, bos_token_id=0, eos_token_id=2)
    save("roberta_masked_lm", config, tensors,
         {"input": ids, "types": types, "states": states, "values": values})


def electra_masked_lm():
    width = 8
    tensors = random_tensors({
        **embedding_shapes("electra.", width=width),
        **linear_shapes("electra.embeddings_project", DIM, width),
        **layer_shapes("electra.", BertNames),
        **linear_shapes("generator_predictions.dense", width, DIM),
        **norm_shapes("generator_predictions.LayerNorm", width),
        "generator_lm_head.bias": (VOCAB,)})
    ids, types = random_ids()
    w = Weights(tensors)
    x = w.linear("electra.embeddings_project", embed(w, "electra.", ids, types))
    states = run_layers(w, "electra.", BertNames, x)
    values = language_head(w, states[-1], "generator_predictions.dense",
                           "generator_predictions.LayerNorm",
                           "electra.embeddings.word_embeddings.weight", "generator_lm_head.bias")
    config = bert_config("electra", "ElectraForMaskedLM", embedding_size=width)
    save("electra_masked_lm", config, tensors,
         {"input": ids, "types": types, "states": states, "values": values})


def sentence_concatenated():
    """A folder as version 6 of sentence-transformers writes it, with all that it can pool."""
    tensors = random_tensors({**embedding_shapes("bert."), **layer_shapes("bert.", BertNames)})
    ids, types = random_ids()
    w = Weights(tensors)
    states = run_layers(w, "bert.", BertNames, embed(w, "bert.", ids, types))
    modes = ["max", "cls", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", "mean"]
    rows = []
    for x, length in zip(states[-1], LENGTHS):
        x = x[:length]
        weights = torch.arange(1, len(x) + 1).double()[:, None]
        pooled = {"cls": x[0], "lasttoken": x[-1], "max": x.max(0).values, "mean": x.mean(0),
                  "mean_sqrt_len_tokens": x.sum(0) / len(x) ** 0.5,
                  "weightedmean": (x * weights).sum(0) / weights.sum()}
        rows.append(torch.cat([pooled[mode] for mode in modes]))
    values = torch.stack(rows)
    modules = [("base.modules.transformer.Transformer", ""),
               ("sentence_transformer.modules.pooling.Pooling", "1_Pooling"),
               ("base.modules.normalize.Normalize", "2_Normalize"),
               ("base.modules.dense.Dense", "3_Dense"),
               ("sentence_transformer.modules.dropout.Dropout", "4_Dropout"),
               ("base.modules.dense.Dense", "5_Dense"),
               ("sentence_transformer.modules.layer_norm.LayerNorm", "6_LayerNorm"),
               ("base.modules.dense.Dense", "7_Dense"),
               ("base.modules.normalize.Normalize", "8_Normalize")]
    names = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
    folder = FOLDER / "sentence_concatenated"
    configs = {
        "modules.json": [{"idx": i, "name": str(i), "path": path,
                          "type": f"sentence_transformers.{kind}"}
                         for i, (kind, path) in enumerate(modules)],
        "sentence_bert_config.json": {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": {"method": "forward",
                                         "method_output_name": "last_hidden_state"}},
            "module_output_name": "token_embeddings"},
        "tokenizer_config.json": {"model_max_length": TOKENS},
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "__version__": {"sentence_transformers": "6.0.0", "transformers": "5.0.0",
                            "pytorch": "2.9.0"},
            "prompts": {"query": "query: ", "document": ""}, "default_prompt_name": None,
            "similarity_fn_name": "cosine"},
        "1_Pooling/config.json": {"embedding_dimension": DIM, "pooling_mode": modes,
                                  "include_prompt": True},
        "2_Normalize/config.json": names, "4_Dropout/config.json": {"dropout": 0.2},
        "6_LayerNorm/config.json": {"dimension": 7}}
    values = F.normalize(values)
    width = len(modes) * DIM
    layers = (("3_Dense", 11, "activation.ReLU", F.relu),
              ("5_Dense", 7, "activation.GELU", F.gelu), ("6_LayerNorm", 0, "", None),
              ("7_Dense", 5, "activation.Sigmoid", torch.sigmoid))
    folder.mkdir(parents=True, exist_ok=True)
    for path, outputs, activation, function in layers:
        (folder / path).mkdir(exist_ok=True)
        if function is None:
            module = random_tensors(norm_shapes("norm", width))
            values = Weights(module).norm("norm", values, epsilon=1e-5)
        else:
            module = random_tensors(linear_shapes("linear", outputs, width))
            values = function(Weights(module).linear("linear", values))
            configs[f"{path}/config.json"] = {
                "in_features": width, "out_features": outputs, "bias": True,
                "activation_function": f"torch.nn.modules.{activation}", **names}
            width = outputs
        save_safetensors(folder / path / "model.safetensors", module)
    config = bert_config("bert", "BertForMaskedLM")
    save("sentence_concatenated", config, tensors,
         {"input": ids, "types": types, "states": states, "values": F.normalize(values)})
    for name, content in configs.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")


def main():
    torch.manual_seed(2)
    roberta_masked()
    bert_masked_lm()
    distilbert_masked_lm()
    roberta_masked_lm()
    electra_masked_lm()
    sentence_concatenated()


if __name__ == "__main__":
    main()
