#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny models as transformers 5 saves them, and its results, into FOLDER/decoders and
FOLDER/heads: decoders, and encoders with the heads of their classes.

Each has random weights; expected.json holds token ids and, for each of them, what the model gives
out: the logits, or of a model without a head the last hidden state; of a head on a whole sequence
one row. Needs torch and transformers.

Usage: make_decoders.py FOLDER
"""

import copy
import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

TOKENS = 14
SIZES = {
    "vocab_size": 19,
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
BLOOM_SIZES = {"vocab_size": 19, "hidden_size": 20, "n_layer": 2, "n_head": 5}
MPT_SIZES = {"vocab_size": 19, "d_model": 24, "n_layers": 2, "n_heads": 6, "max_seq_len": 32}
GPT2_SIZES = {"vocab_size": 19, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}
TURNS = {"rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, **TURNS}
YARN_IN_FULL = {"beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.3, "truncate": False}

# Name, model type, whether it is saved without a head, and what the config says besides the sizes.
MODELS = [
    ("gpt2-bare", "gpt2", True, {"activation_function": "relu", "tie_word_embeddings": False}),
    ("llama-bare", "llama", True, {"num_key_value_heads": 2, "head_dim": 6, "mlp_bias": True}),
    ("llama-yarn", "llama", False, {"num_key_value_heads": 1, "rope_parameters": YARN}),
    ("llama-dynamic", "llama", False, {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}),
    ("mistral-window", "mistral", False, {"num_key_value_heads": 2, "sliding_window": 5}),
    ("qwen2-tied-bare", "qwen2", True, {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    (
        "qwen3-windows",
        "qwen3",
        False,
        {
            "num_key_value_heads": 2,
            "head_dim": 6,
            "use_sliding_window": True,
            "sliding_window": 3,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {**YARN, **YARN_IN_FULL},
        },
    ),
    ("gpt_neox-bare", "gpt_neox", True, {"rotary_pct": 0.5, "use_parallel_residual": False}),
    (
        "phi-two-shares",
        "phi",
        False,
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0, **TURNS}},
    ),
    ("phi-tied", "phi", False, {"head_dim": 8, "tie_word_embeddings": True}),
    ("bloom", "bloom", False, {}),
    ("bloom-bare", "bloom", True, {"tie_word_embeddings": False}),
    ("mpt", "mpt", False, {}),
    (
        "mpt-scale",
        "mpt",
        False,
        {
            "tie_word_embeddings": False,
            "expansion_ratio": 2,  # transformers takes 4
            "attn_config": {"softmax_scale": 0.3},
        },
    ),
    ("gemma-gelu", "gemma", False, {"num_key_value_heads": 1, "head_dim": 6, "hidden_act": "gelu"}),
]


# Classes of encoders whose heads the other scripts do not write, and what their configs say.
OF_ELECTRA = {"embedding_size": 12, "hidden_act": "relu"}
OF_DISTILBERT = {"dim": 16, "hidden_dim": 20, "n_layers": 2, "n_heads": 4}
OF_ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1}
HEADS = [
    ("BertForMultipleChoice", {}),
    ("BertForNextSentencePrediction", {}),
    ("DistilBertForMultipleChoice", OF_DISTILBERT),
    ("DistilBertForQuestionAnswering", OF_DISTILBERT),
    ("ElectraForMultipleChoice", OF_ELECTRA),
    ("ElectraForPreTraining", OF_ELECTRA),
    ("RobertaForMultipleChoice", OF_ROBERTA),
]


def fill(model, model_type):
    center = 0.0 if model_type == "gemma" else 1.0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_gain = weight.ndim == 1 and name.endswith("weight")
            weight.normal_(center if is_gain else 0.0, 0.3)


def shortened(rows):
    return [[float(f"{value:.9g}") for value in row] for row in rows.tolist()]


def results(folder, is_bare, **changes):
    """What transformers makes of the folder."""
    loader = AutoModel if is_bare else AutoModelForCausalLM
    model = loader.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **changes
    ).double()
    ids = (torch.arange(TOKENS) * 7 + 3) % SIZES["vocab_size"]
    with torch.no_grad():
        output = model(ids[None])
        rows = output.last_hidden_state if is_bare else output.logits
    return ids.tolist(), shortened(rows[0])


def write_head(folder, name, settings):
    """An encoder with the head of its class, and what that gives out."""
    torch.manual_seed(1)
    of_class = getattr(transformers, name)
    sizes = {**SIZES, **settings}
    if "hidden_dim" in sizes:  # as DistilBERT calls it
        del sizes["intermediate_size"]
    model = of_class(of_class.config_class(**sizes))
    fill(model, model.config.model_type)
    model.to(torch.bfloat16).save_pretrained(folder)
    model = of_class.from_pretrained(folder, dtype=torch.float32).double()
    ids = (torch.arange(TOKENS) * 7 + 3) % SIZES["vocab_size"]
    with torch.no_grad():
        output = model(ids[None, None] if name.endswith("Choice") else ids[None])
    if "start_logits" in output:
        rows = torch.stack([output.start_logits[0], output.end_logits[0]], -1)
    else:
        rows = output.logits.reshape(-1, 1 if name.endswith("PreTraining") else
                                     output.logits.shape[-1])
    expected = {"ids": ids.tolist(), "results": shortened(rows)}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


def main():
    for name, settings in HEADS:
        write_head(pathlib.Path(sys.argv[1]) / "heads" / name, name, settings)
    for name, model_type, is_bare, settings in MODELS:
        torch.manual_seed(1)
        folder = pathlib.Path(sys.argv[1]) / "decoders" / name
        sizes = {"gpt2": GPT2_SIZES, "bloom": BLOOM_SIZES, "mpt": MPT_SIZES}.get(model_type, SIZES)
        config = AutoConfig.for_model(model_type, **sizes, **copy.deepcopy(settings))
        model = (AutoModel if is_bare else AutoModelForCausalLM).from_config(config)
        fill(model, model_type)
        model.to(torch.bfloat16).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        ids, rows = results(folder, is_bare)
        expected = {"ids": ids, "results": rows}
        if model_type == "gemma":
            # What transformers 4.39 to 4.47 compute, as they replace "gelu" by the tanh form.
            tanh_form = {"hidden_act": "gelu_pytorch_tanh"}
            _, expected["results_of_4_39"] = results(folder, is_bare, **tanh_form)
        (folder / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


main()
