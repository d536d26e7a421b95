#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny decoders as llama.cpp's own converter stores them, and the logits that transformers
computes of the same weights: FOLDER/NAME.gguf and FOLDER/NAME.json.

Needs torch, transformers, gguf, and the folder `conversion` of llama.cpp's convert_hf_to_gguf.py in
PYTHONPATH.

Usage: make_gguf_decoders.py FOLDER [NAME...]   (without names all of them)
"""

import json
import pathlib
import sys
import tempfile

import conversion
import gguf
import torch
from conversion import ModelBase
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

VOCABULARY = 23
TOKENS = 9
IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LLAMA = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    **IDS,
}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, **IDS}
FALCON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "bias": False,
    "alibi": False,
    **IDS,
}
WIDE = {"head_dim": 8, "query_pre_attn_scalar": 8}
FULL, SLIDING = "full_attention", "sliding_attention"
LINEAR = {"rope_type": "linear", "factor": 8.0, "rope_theta": 900.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "rope_theta": 900.0, "factor": 4.0,
        "original_max_position_embeddings": 8}
LONG = {"rope_type": "longrope", "rope_theta": 900.0, "short_factor": [1.0, 1.25],
        "long_factor": [2.0, 3.0], "original_max_position_embeddings": 16}
LAYER_NORM = {"layer_norm_eps": 1e-5}

# Name, model_type, and settings.
MODELS = [
    ("llama", "llama", {**LLAMA, "attention_bias": True}),
    ("llama3", "llama", {**LLAMA, "rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    ("llama-yarn", "llama", {**LLAMA, "rope_parameters": YARN}),
    ("mistral", "mistral", {**LLAMA, "head_dim": 8, "sliding_window": None}),
    ("qwen2", "qwen2", {**LLAMA, "tie_word_embeddings": True}),
    ("qwen3", "qwen3", {**LLAMA, "head_dim": 8}),
    ("gemma", "gemma", {**LLAMA, "head_dim": 8, "num_key_value_heads": 1}),
    ("gemma2", "gemma2", {**LLAMA, **WIDE, "sliding_window": 5}),
    ("gemma3", "gemma3_text", {**LLAMA, **WIDE, "sliding_window": 5, "num_hidden_layers": 6}),
    ("gemma3-linear", "gemma3_text",
     {**LLAMA, **WIDE, "sliding_window": 5, "num_hidden_layers": 6,
      "rope_parameters": {FULL: LINEAR, SLIDING: {"rope_type": "default", "rope_theta": 50.0}}}),
    ("smollm3", "smollm3", {**LLAMA, "num_hidden_layers": 4}),
    ("granite", "granite", {**LLAMA, "embedding_multiplier": 3.0, "residual_multiplier": 0.3,
                            "attention_multiplier": 0.2, "logits_scaling": 2.0}),
    ("phi2", "phi", {**LLAMA, **LAYER_NORM, "intermediate_size": 64,
                     "num_attention_heads": 2, "num_key_value_heads": 2,
                     "partial_rotary_factor": 0.5}),
    ("phi3", "phi3", {**LLAMA, "sliding_window": 6, "original_max_position_embeddings": 32}),
    ("phi3-long", "phi3", {**LLAMA, "sliding_window": None, "rope_parameters": LONG,
                           "original_max_position_embeddings": 16}),
    ("olmo", "olmo", {**LLAMA, "clip_qkv": 0.4}),
    ("olmo2", "olmo2", LLAMA),
    ("stablelm", "stablelm", {**LLAMA, **LAYER_NORM, "num_attention_heads": 2,
                              "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
                              "use_qkv_bias": True}),
    ("stablelm-parallel", "stablelm",
     {**LLAMA, **LAYER_NORM, "num_attention_heads": 2, "num_key_value_heads": 2,
      "partial_rotary_factor": 0.5, "use_parallel_residual": True}),
    ("starcoder", "gpt_bigcode", {**GPT2, "multi_query": True}),
    ("starcoder2", "starcoder2", {**LLAMA, "norm_epsilon": 1e-5, "sliding_window": None}),
    ("falcon", "falcon", {**FALCON, "num_kv_heads": 1, "multi_query": True}),
    ("falcon-new", "falcon", {**FALCON, "num_kv_heads": 2, "new_decoder_architecture": True}),
    ("gpt2", "gpt2", GPT2),
    ("gptneox", "gpt_neox", {**LLAMA, **LAYER_NORM, "num_attention_heads": 2,
                             "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                                 "partial_rotary_factor": 0.5}}),
    ("gptneox-sequential", "gpt_neox",
     {**LLAMA, **LAYER_NORM, "use_parallel_residual": False,
      "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                          "partial_rotary_factor": 1.0}}),
    ("bloom", "bloom", {"vocab_size": VOCABULARY, "hidden_size": 20, "n_layer": 2, "n_head": 5,
                        "seq_length": 32, **IDS}),
    ("mpt", "mpt", {"vocab_size": VOCABULARY, "d_model": 24, "n_layers": 2, "n_heads": 6,
                    "max_seq_len": 32, **IDS}),
    ("command-r", "cohere", {**LLAMA, **LAYER_NORM, "logit_scale": 0.3}),
    ("cohere2", "cohere2", {**LLAMA, **LAYER_NORM, "logit_scale": 0.3, "sliding_window": 5,
                            "num_hidden_layers": 4}),
    ("exaone4", "exaone4", {**LLAMA, "sliding_window": 5, "num_hidden_layers": 4}),
    ("exaone4-full", "exaone4", {**LLAMA, "sliding_window": None, "sliding_window_pattern": 4,
                                 "layer_types": [FULL, FULL]}),
    ("glm4", "glm4", {**LLAMA, "head_dim": 8, "partial_rotary_factor": 0.5,
                      "attention_bias": True}),
    ("ernie4_5", "ernie4_5", {**LLAMA, "head_dim": 8}),
    ("nemotron", "nemotron", {**LLAMA, "head_dim": 4, "partial_rotary_factor": 0.5}),
]
# Config fields that the converter reads and transformers does not save.
MORE_FIELDS = {
    "gpt2": {"n_ctx": 32},
    "cohere": {"model_max_length": 32},
    "cohere2": {"rotary_pct": 1.0},
}


def fill(model):
    """Random weights that float16 holds; gains around 1, or around 0 where 1 is added."""
    has_gains_less_1 = model.config.model_type.startswith(("gemma", "nemotron"))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_gain = weight.ndim == 1 and name.endswith("weight")
            weight.normal_(1.0 if is_gain and not has_gains_less_1 else 0.0, 0.3)
            weight.copy_(weight.half().float())


def set_vocabulary(model):
    """Instead of the tokenizers that the converter knows by their hashes."""
    letters = list(bytes_to_unicode().values())[: VOCABULARY - 3]
    model.gguf_writer.add_tokenizer_model("gpt2")
    model.gguf_writer.add_tokenizer_pre("gpt-2")
    model.gguf_writer.add_token_list(["<unk>", "<s>", "</s>", *letters])
    model.gguf_writer.add_token_types([3, 3, 3] + [1] * len(letters))
    model.gguf_writer.add_token_merges([])
    model.gguf_writer.add_bos_token_id(1)
    model.gguf_writer.add_eos_token_id(2)


def convert(folder, file):
    """What convert_hf_to_gguf.py does with a folder."""
    (folder / "tokenizer.json").write_text(
        json.dumps({"model": {"vocab": {str(i): i for i in range(VOCABULARY)}},
                    "added_tokens": []}))
    fields = ModelBase.load_hparams(folder, False)
    rope = fields.get("rope_parameters") or {}
    fields.setdefault("rotary_pct", rope.get("partial_rotary_factor", 1.0))
    if "attn_config" in fields:
        fields["attn_config"] = {"clip_qkv": None, **fields["attn_config"]}
    name = fields["architectures"][0].replace("Mpt", "MPT")
    of_class = conversion.get_model_class(name)
    of_class.set_vocab = set_vocabulary
    with torch.inference_mode():
        of_class(folder, gguf.LlamaFileType.MOSTLY_F16, file, hparams=fields).write()


def main():
    target = pathlib.Path(sys.argv[1])
    for name, model_type, settings in MODELS:
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch.manual_seed(1)
        config = AutoConfig.for_model(model_type, **settings)
        way = "sdpa" if model_type == "falcon" else "eager"
        model = AutoModelForCausalLM.from_config(config, attn_implementation=way)
        fill(model)
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder)
            model.save_pretrained(saved)
            fields = json.loads((saved / "config.json").read_text())
            fields.update(MORE_FIELDS.get(model_type, {}))
            (saved / "config.json").write_text(json.dumps(fields))
            convert(saved, target / f"{name}.gguf")
        ids = (torch.arange(TOKENS) * 7 + 3) % VOCABULARY
        with torch.no_grad():
            rows = model.double().eval()(ids[None]).logits[0].tolist()
        expected = {"ids": ids.tolist(),
                    "results": [[float(f"{value:.9g}") for value in row] for row in rows]}
        (target / f"{name}.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


main()
