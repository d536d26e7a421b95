#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny models as transformers 5 saves them, and its results, into FOLDER/decoders and
FOLDER/heads: decoders, and encoders with the heads of their classes.

Each has random weights; expected.json holds token ids and, for each of them, what the model gives
out: the logits, or of a model without a head the last hidden state; of a head on a whole sequence
one row. Needs torch and transformers.

Usage: make_decoders.py FOLDER [NAME...]   (without names all of them)
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

SLIDING, FULL = "sliding_attention", "full_attention"
LONG = {"short_factor": [1.0, 1.25], "long_factor": [2.0, 3.0], "rope_type": "longrope", **TURNS}
BIASED = {"attention_bias": True}
SIX_HEADS = {"num_attention_heads": 6, "num_key_value_heads": 2}
GPTJ_SIZES = {**GPT2_SIZES, "n_embd": 12, "n_head": 2}
NEO_SIZES = {"num_layers": 2, "num_heads": 3, "hidden_size": 12, "max_position_embeddings": 32}

# As MODELS, of sizes that differ more.
MORE = [
    (
        "gemma2",
        "gemma2",
        False,
        {
            "head_dim": 6,
            "sliding_window": 4,
            "query_pre_attn_scalar": 11,
            "attn_logit_softcapping": 1.5,
            "final_logit_softcapping": 2.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
    ),
    (
        "gemma2-types",
        "gemma2",
        False,
        {
            "head_dim": 4,
            **SIX_HEADS,
            "sliding_window": 3,
            "layer_types": [FULL, SLIDING],
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
            "rms_norm_eps": 0.01,
            **BIASED,
        },
    ),
    (
        "gemma3",
        "gemma3_text",
        False,
        {"head_dim": 6, "sliding_window": 4, "sliding_window_pattern": 2,
         "query_pre_attn_scalar": 9, "final_logit_softcapping": 3.0},
    ),
    (
        "gemma3-thetas-bare",
        "gemma3_text",
        True,
        {
            "head_dim": 4,
            **SIX_HEADS,
            "sliding_window": 5,
            "layer_types": [SLIDING, FULL],
            "rope_parameters": {
                SLIDING: {"rope_type": "default", "rope_theta": 50.0},
                FULL: {"rope_type": "linear", "factor": 3.0, "rope_theta": 700.0},
            },
            "rms_norm_eps": 0.01,
        },
    ),
    ("smollm3", "smollm3", False, {"no_rope_layer_interval": 2}),
    (
        "smollm3-windows",
        "smollm3",
        False,
        {
            "no_rope_layers": [0, 1],
            "num_key_value_heads": 3,
            "use_sliding_window": True,
            "sliding_window": 4,
            "layer_types": [SLIDING, FULL],
            "tie_word_embeddings": False,
            "mlp_bias": True,
            **BIASED,
        },
    ),
    (
        "granite",
        "granite",
        False,
        {
            "embedding_multiplier": 3.0,
            "logits_scaling": 2.5,
            "residual_multiplier": 0.3,
            "attention_multiplier": 0.2,
        },
    ),
    (
        "granite-tied",
        "granite",
        False,
        {
            **SIX_HEADS,
            "tie_word_embeddings": True,
            "logits_scaling": 0.7,
            "residual_multiplier": 1.5,
            "mlp_bias": True,
            **BIASED,
        },
    ),
    ("phi3", "phi3", False, {"sliding_window": 5, "rms_norm_eps": 0.01}),
    (
        "phi3-longrope",
        "phi3",
        False,
        {
            "original_max_position_embeddings": 16,
            "num_key_value_heads": 3,
            "rope_parameters": LONG,
        },
    ),
    (
        "phi3-partial-bare",
        "phi3",
        True,
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5, **TURNS}},
    ),
    ("olmo2", "olmo2", False, {"rms_norm_eps": 0.01}),
    ("olmo2-biased", "olmo2", False, {**SIX_HEADS, **BIASED}),
    ("olmo", "olmo", False, {"clip_qkv": 0.5}),
    ("olmo-tied", "olmo", False, {"num_key_value_heads": 3, "tie_word_embeddings": True, **BIASED}),
    ("opt", "opt", False, {"ffn_dim": 10}),
    (
        "opt-norms-last",
        "opt",
        False,
        {
            "ffn_dim": 10,
            "do_layer_norm_before": False,
            "word_embed_proj_dim": 10,
            "activation_function": "gelu",
        },
    ),
    (
        "opt-plain-bare",
        "opt",
        True,
        {"ffn_dim": 10, "enable_bias": False, "layer_norm_elementwise_affine": False,
         "word_embed_proj_dim": 14},
    ),
    ("gpt_neo", "gpt_neo", False, {"attention_types": [[["global", "local"], 1]],
                                   "window_size": 4, "intermediate_size": 20}),
    (
        "gpt_neo-local",
        "gpt_neo",
        False,
        {"attention_types": [[["local"], 2]], "window_size": 6, "tie_word_embeddings": False,
         "activation_function": "relu"},
    ),
    ("gptj", "gptj", False, {"rotary_dim": 4}),
    (
        "gptj-whole-bare",
        "gptj",
        True,
        {"rotary_dim": 6, "n_inner": 20, "activation_function": "relu"},
    ),
    ("stablelm", "stablelm", False, {"hidden_size": 24}),
    (
        "stablelm-parallel",
        "stablelm",
        False,
        {
            "use_parallel_residual": True,
            "use_qkv_bias": True,
            "partial_rotary_factor": 0.5,
            "tie_word_embeddings": True,
            "layer_norm_eps": 0.01,
        },
    ),
    ("starcoder2", "starcoder2", False, {"sliding_window": 5}),
    (
        "starcoder2-plain",
        "starcoder2",
        False,
        {"use_bias": False, "norm_epsilon": 0.01, "tie_word_embeddings": False},
    ),
    ("gpt_bigcode", "gpt_bigcode", False, {"n_head": 4}),
    (
        "gpt_bigcode-heads",
        "gpt_bigcode",
        False,
        {"multi_query": False, "scale_attn_weights": False, "n_head": 2, "n_inner": 20},
    ),
    ("falcon", "falcon", False, {}),
    ("falcon-new", "falcon", False,
     {"new_decoder_architecture": True, "num_attention_heads": 6, "num_kv_heads": 2, "bias": True}),
    ("falcon-one-norm-bare", "falcon", True, {"new_decoder_architecture": True, "num_kv_heads": 3,
                                         "num_ln_in_parallel_attn": 1}),
    (
        "falcon-alibi",
        "falcon",
        False,
        {
            "alibi": True,
            "multi_query": False,
            "parallel_attn": False,
            "num_attention_heads": 4,
            "bias": True,
            "tie_word_embeddings": False,
        },
    ),
    ("cohere", "cohere", False, {"logit_scale": 0.3}),
    (
        "cohere-biased-bare",
        "cohere",
        True,
        {"num_key_value_heads": 3, "layer_norm_eps": 0.01, **BIASED},
    ),
    ("cohere2", "cohere2", False, {"logit_scale": 0.4, "sliding_window": 4,
                                   "layer_types": [SLIDING, FULL]}),
    (
        "cohere2-biased",
        "cohere2",
        False,
        {**SIX_HEADS, "sliding_window": 6, "layer_types": [FULL, SLIDING], **BIASED},
    ),
    ("ernie4_5", "ernie4_5", False, {"head_dim": 6}),
    (
        "ernie4_5-biased",
        "ernie4_5",
        False,
        {"head_dim": 4, "num_key_value_heads": 3, "use_bias": True, "tie_word_embeddings": False},
    ),
    ("helium", "helium", False, {"head_dim": 4}),
    ("helium-biased", "helium", False, {"head_dim": 4, "mlp_bias": True, "rms_norm_eps": 0.01,
                                        "num_key_value_heads": 3, **BIASED}),
    ("glm", "glm", False, {"head_dim": 8}),
    (
        "glm-plain",
        "glm",
        False,
        {
            "head_dim": 6,
            "num_key_value_heads": 3,
            "attention_bias": False,
            "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0, **TURNS},
        },
    ),
    ("glm4", "glm4", False, {"head_dim": 8, "rms_norm_eps": 0.01}),
    ("glm4-plain", "glm4", False, {"head_dim": 4, "attention_bias": False,
                                   "num_key_value_heads": 3, "tie_word_embeddings": True}),
    ("exaone4", "exaone4", False, {"sliding_window": 4, "sliding_window_pattern": 2}),
    (
        "exaone4-full",
        "exaone4",
        False,
        {"sliding_window": None, "layer_types": [FULL] * 2, "num_key_value_heads": 3,
         "head_dim": 6, "tie_word_embeddings": True},
    ),
    ("nemotron", "nemotron", False, {}),
    (
        "nemotron-biased",
        "nemotron",
        False,
        {
            "head_dim": 6,
            "norm_eps": 0.01,
            "partial_rotary_factor": 0.34,
            "hidden_act": "silu",
            "mlp_bias": True,
            **BIASED,
        },
    ),
    (
        "mixtral",
        "mixtral",
        False,
        {"num_local_experts": 5, "num_experts_per_tok": 3, "sliding_window": 5},
    ),
    (
        "mixtral-one",
        "mixtral",
        False,
        {"num_local_experts": 3, "num_experts_per_tok": 1, "head_dim": 6,
         "tie_word_embeddings": True},
    ),
    (
        "qwen2_moe",
        "qwen2_moe",
        False,
        {
            "num_experts": 5,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 7,
            "shared_expert_intermediate_size": 9,
            "mlp_only_layers": [1],
        },
    ),
    (
        "qwen2_moe-windows",
        "qwen2_moe",
        False,
        {
            "num_experts": 4,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 5,
            "shared_expert_intermediate_size": 3,
            "norm_topk_prob": True,
            "qkv_bias": False,
            "use_sliding_window": True,
            "sliding_window": 3,
            "layer_types": [FULL, SLIDING],
        },
    ),
    (
        "qwen3_moe",
        "qwen3_moe",
        False,
        {"head_dim": 6, "num_experts": 6, "num_experts_per_tok": 4, "moe_intermediate_size": 5,
         "norm_topk_prob": True},
    ),
    (
        "qwen3_moe-steps-bare",
        "qwen3_moe",
        True,
        {"head_dim": 4, "num_experts": 7, "num_experts_per_tok": 2, "moe_intermediate_size": 9,
         "decoder_sparse_step": 2, "rms_norm_eps": 0.01, **BIASED},
    ),
    (
        "olmoe",
        "olmoe",
        False,
        {"num_experts": 5, "num_experts_per_tok": 2, "clip_qkv": 0.5},
    ),
    (
        "olmoe-weights-of-1",
        "olmoe",
        False,
        {"num_experts": 3, "num_experts_per_tok": 2, "norm_topk_prob": True,
         "num_key_value_heads": 3, "tie_word_embeddings": True, **BIASED},
    ),
    (
        "granitemoe",
        "granitemoe",
        False,
        {
            "num_local_experts": 5,
            "num_experts_per_tok": 3,
            "embedding_multiplier": 3.0,
            "logits_scaling": 2.5,
            "residual_multiplier": 0.3,
            "attention_multiplier": 0.2,
        },
    ),
    (
        "granitemoe-tied",
        "granitemoe",
        False,
        {"num_local_experts": 3, "num_experts_per_tok": 1, **SIX_HEADS,
         "tie_word_embeddings": True, **BIASED},
    ),
    (
        "gpt_oss",
        "gpt_oss",
        False,
        {"head_dim": 6, "num_local_experts": 4, "num_experts_per_tok": 3, "sliding_window": 4,
         "rope_parameters": {"rope_type": "default", "rope_theta": 200.0}},
    ),
    (
        "gpt_oss-yarn",
        "gpt_oss",
        False,
        {
            "head_dim": 4,
            **SIX_HEADS,
            "num_local_experts": 3,
            "num_experts_per_tok": 2,
            "attention_bias": False,
            "sliding_window": 6,
            "layer_types": [FULL, SLIDING],
            "rope_parameters": {**YARN, **YARN_IN_FULL},
        },
    ),
]
SMALL = {**SIZES, "hidden_size": 12, "intermediate_size": 10, "num_attention_heads": 3,
         "num_key_value_heads": 1}
NO_KV_HEADS = {name: size for name, size in SMALL.items() if name != "num_key_value_heads"}
OWN_SIZES = {
    "gpt2": GPT2_SIZES,
    "bloom": BLOOM_SIZES,
    "mpt": MPT_SIZES,
    "gptj": GPTJ_SIZES,
    "gpt_bigcode": GPTJ_SIZES,
    "gpt_neo": {**NEO_SIZES, "vocab_size": 19},
    "opt": {name: size for name, size in NO_KV_HEADS.items() if name != "intermediate_size"},
    "falcon": {
        **{name: size for name, size in NO_KV_HEADS.items() if name != "intermediate_size"},
        "ffn_hidden_size": 10,
    },
}

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
    *MORE,
]


# Classes of encoders, or with other heads than logits, that the other scripts do not write, and
# what their configs say.
OF_ELECTRA = {"embedding_size": 12, "hidden_act": "relu"}
OF_DISTILBERT = {"dim": 16, "hidden_dim": 20, "n_layers": 2, "n_heads": 4}
OF_ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1}
OF_MPNET = {"pad_token_id": 1}
OF_GEMMA = {"head_dim": 6, "num_key_value_heads": 2, "query_pre_attn_scalar": 5}
HEADS = [
    ("BertForMultipleChoice", {}),
    ("BertForNextSentencePrediction", {}),
    ("DistilBertForMultipleChoice", OF_DISTILBERT),
    ("DistilBertForQuestionAnswering", OF_DISTILBERT),
    ("ElectraForMultipleChoice", OF_ELECTRA),
    ("ElectraForPreTraining", OF_ELECTRA),
    ("RobertaForMultipleChoice", OF_ROBERTA),
    ("MPNetModel", {**OF_MPNET, "tokens": 40, "max_position_embeddings": 44}),
    ("MPNetForMaskedLM", {**OF_MPNET, "hidden_act": "relu", "layer_norm_eps": 0.01}),
    ("MPNetForSequenceClassification", {**OF_MPNET, "num_labels": 3}),
    (
        "ModernBertModel",
        {"local_attention": 6, "global_attn_every_n_layers": 2, "num_hidden_layers": 3},
    ),
    (
        "ModernBertForSequenceClassification",
        {
            "classifier_pooling": "mean",
            "num_labels": 3,
            "layer_types": [SLIDING, FULL],
            "local_attention": 4,
            "rope_parameters": {
                SLIDING: {"rope_type": "default", "rope_theta": 20.0},
                FULL: {"rope_type": "default", "rope_theta": 300.0},
            },
            "norm_bias": True,
            "norm_eps": 0.01,
            "classifier_bias": True,
            "mlp_bias": True,
            **BIASED,
        },
    ),
    ("ModernBertForMaskedLM", {"hidden_activation": "silu", "tie_word_embeddings": False}),
    ("ModernBertForTokenClassification", {"num_labels": 3, "num_hidden_layers": 3}),
    ("NomicBertModel", {"rope_parameters": {"rope_type": "default", "rope_theta": 30.0}}),
    ("NomicBertForMaskedLM", {"type_vocab_size": 1, "hidden_act": "gelu"}),
    ("NomicBertForSequenceClassification", {"num_labels": 3, "layer_norm_eps": 0.01}),
    ("AlbertModel", {"embedding_size": 10, "num_hidden_layers": 3}),
    (
        "AlbertForMaskedLM",
        {
            "embedding_size": 6,
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "inner_group_num": 2,
            "hidden_act": "relu",
        },
    ),
    ("AlbertForSequenceClassification", {"embedding_size": 16, "num_labels": 3}),
    ("CamembertForTokenClassification", {**OF_ROBERTA, "num_labels": 3}),
    ("CamembertForMaskedLM", {**OF_ROBERTA, "type_vocab_size": 2}),
    ("RobertaPreLayerNormModel", {**OF_ROBERTA, "layer_norm_eps": 0.01}),
    ("RobertaPreLayerNormForMaskedLM", OF_ROBERTA),
    ("XLMRobertaXLModel", {**OF_ROBERTA, "type_vocab_size": 2}),
    ("XLMRobertaXLForSequenceClassification", {**OF_ROBERTA, "num_labels": 3}),
    (
        "Gemma3TextModel",
        {
            **OF_GEMMA,
            "sliding_window": 7,
            "layer_types": [SLIDING, FULL],
            "use_bidirectional_attention": True,
        },
    ),
    ("LlamaForSequenceClassification", {"num_key_value_heads": 2, "num_labels": 3}),
    ("Qwen3ForTokenClassification", {"num_key_value_heads": 2, "head_dim": 6, "num_labels": 3}),
    ("GPT2ForSequenceClassification", {**GPT2_SIZES, "num_labels": 3}),
    (
        "OPTForSequenceClassification",
        {"ffn_dim": 20, "word_embed_proj_dim": 10, "do_layer_norm_before": False, "num_labels": 3},
    ),
]


def fill(model, model_type):
    has_gains_less_1 = model_type.startswith("gemma") or model_type == "nemotron"
    center = 0.0 if has_gains_less_1 else 1.0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_gain = weight.ndim == 1 and name.endswith("weight")
            # gpt-oss limits the gates.
            deviation = 3.0 if model_type == "gpt_oss" and "gate_up_proj" in name else 0.3
            weight.normal_(center if is_gain else 0.0, deviation)


def shortened(rows):
    return [[float(f"{value:.9g}") for value in row] for row in rows.tolist()]


def results(folder, is_bare, **changes):
    """What transformers makes of the folder."""
    loader = AutoModel if is_bare else AutoModelForCausalLM
    # Falcon's "eager" adds ALiBi twice.
    way = "sdpa" if folder.name.startswith("falcon") else "eager"
    model = loader.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=way, **changes
    ).double()
    model.config._experts_implementation = "eager"  # others have no float64
    ids = (torch.arange(TOKENS) * 7 + 3) % SIZES["vocab_size"]
    with torch.no_grad():
        output = model(ids[None])
        rows = output.last_hidden_state if is_bare else output.logits
    return ids.tolist(), shortened(rows[0])


def write_head(folder, name, settings):
    """An encoder with the head of its class, and what that gives out."""
    torch.manual_seed(1)
    of_class = getattr(transformers, name)
    sizes = {**SIZES, **copy.deepcopy(settings)}
    tokens = sizes.pop("tokens", TOKENS)
    if "hidden_dim" in sizes or "ffn_dim" in sizes:  # as DistilBERT and OPT call it
        del sizes["intermediate_size"]
    if "n_embd" in sizes:
        sizes = {"pad_token_id": 0, **settings}
    model = of_class(of_class.config_class(**sizes))
    fill(model, model.config.model_type)
    model.to(torch.bfloat16).save_pretrained(folder)
    model = of_class.from_pretrained(folder, dtype=torch.float32).double()
    ids = (torch.arange(tokens) * 7 + 3) % SIZES["vocab_size"]
    with torch.no_grad():
        output = model(ids[None, None] if name.endswith("Choice") else ids[None])
    if "start_logits" in output:
        rows = torch.stack([output.start_logits[0], output.end_logits[0]], -1)
    elif "logits" not in output:
        rows = output.last_hidden_state[0]
    else:
        rows = output.logits.reshape(-1, 1 if name.endswith("PreTraining") else
                                     output.logits.shape[-1])
    expected = {"ids": ids.tolist(), "results": shortened(rows)}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


def sizes_of(name, model_type):
    if model_type in OWN_SIZES:
        return OWN_SIZES[model_type]
    return SMALL if any(name == row[0] for row in MORE) else SIZES


def main():
    chosen = sys.argv[2:]
    for name, settings in HEADS:
        if not chosen or name in chosen:
            write_head(pathlib.Path(sys.argv[1]) / "heads" / name, name, settings)
    for name, model_type, is_bare, settings in MODELS:
        if chosen and name not in chosen:
            continue
        torch.manual_seed(1)
        folder = pathlib.Path(sys.argv[1]) / "decoders" / name
        sizes = {**sizes_of(name, model_type), **copy.deepcopy(settings)}
        config = AutoConfig.for_model(model_type, **sizes)
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
