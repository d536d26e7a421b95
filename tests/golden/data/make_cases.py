#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny random models of Hugging Face, and what transformers computes with them.

Needs transformers 5 with PyTorch, and numpy. The models are transformers' own classes, saved by
transformers itself, so the folders look as a user's do. For each case of `decoders/` and
`encoders/` beside this file:
  config.json, model.safetensors   the model
  input_ids.npy                    [sequences, tokens]
  attention_mask.npy               the same, of encoders: 0 where a token is padding
  token_type_ids.npy               the same, where the model tells the texts of a pair apart
  hidden_states.npy                [layers + 1, sequences, tokens, dim]
  logits.npy                       of decoders: [sequences, tokens, vocabulary]
  greedy.json                      of decoders: the first sequence and its greedy continuation
  output.npy                       of encoders: the last state, or the logits of the head
Everything is computed in double precision from the stored weights, and rounded to float32 once.
Sizes differ from each other wherever a family lets them, so that no two can be mixed up.
"""
import json
import pathlib
import shutil

import numpy
import torch
import transformers

FOLDER = pathlib.Path(__file__).parent
TOKENS = 12      # beyond the windows below
CONTINUED = 8    # tokens of the greedy continuation
LENGTHS = (10, 4, 7)  # of an encoder's texts, padded to the longest
COMMON = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
DECODER = {**COMMON, "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 20,
           "max_position_embeddings": 24, "num_attention_heads": 4}
ENCODER = {"num_hidden_layers": 2, "hidden_size": 12, "intermediate_size": 20,
           "max_position_embeddings": 16, "num_attention_heads": 3}
LABELS = {"id2label": {0: "low", 1: "middle", 2: "high"},
          "label2id": {"low": 0, "middle": 1, "high": 2}}

# name: (class, config, type of the stored numbers)
DECODERS = {
    "gpt2": ("GPT2LMHeadModel", {
        **COMMON, "vocab_size": 41, "n_positions": 24, "n_embd": 12, "n_head": 3, "n_layer": 2,
        "n_inner": 20, "layer_norm_epsilon": 1e-3}, torch.float32),
    # Frequencies on both sides of what Llama 3's scaling changes, and between.
    "llama": ("LlamaForCausalLM", {
        **DECODER, "vocab_size": 43, "num_key_value_heads": 2, "head_dim": 6,
        "attention_bias": True, "mlp_bias": True, "rms_norm_eps": 1e-3,
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 0.25,
            "high_freq_factor": 2.0, "original_max_position_embeddings": 16}}, torch.bfloat16),
    "mistral": ("MistralForCausalLM", {
        **DECODER, "vocab_size": 37, "num_key_value_heads": 1, "sliding_window": 5},
        torch.float16),
    "qwen2": ("Qwen2ForCausalLM", {
        **DECODER, "vocab_size": 39, "num_key_value_heads": 2, "tie_word_embeddings": True,
        "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
        torch.bfloat16),
    "qwen3": ("Qwen3ForCausalLM", {
        **DECODER, "vocab_size": 47, "num_key_value_heads": 2, "head_dim": 6,
        "attention_bias": True, "tie_word_embeddings": False, "use_sliding_window": False,
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}},
        torch.bfloat16),
    "gpt_neox": ("GPTNeoXForCausalLM", {
        **DECODER, "vocab_size": 45, "num_attention_heads": 2, "use_parallel_residual": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                            "partial_rotary_factor": 0.25}}, torch.float16),
    "gpt_neox_serial": ("GPTNeoXForCausalLM", {
        **DECODER, "vocab_size": 35, "num_attention_heads": 2, "use_parallel_residual": False,
        "attention_bias": False, "hidden_act": "relu", "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 300.0,
                            "partial_rotary_factor": 0.75}}, torch.bfloat16),
    "phi": ("PhiForCausalLM", {
        **DECODER, "vocab_size": 42, "num_attention_heads": 2, "num_key_value_heads": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                            "partial_rotary_factor": 0.5}}, torch.float32),
    "gemma": ("GemmaForCausalLM", {
        **DECODER, "vocab_size": 38, "num_attention_heads": 3, "num_key_value_heads": 1,
        "head_dim": 10, "hidden_activation": "gelu_pytorch_tanh"}, torch.bfloat16),
}

# The same, and on which side the padding is.
ENCODERS = {
    "bert": ("BertForSequenceClassification", {
        **ENCODER, "vocab_size": 33, "pad_token_id": 0, **LABELS}, torch.float32, "right"),
    "distilbert": ("DistilBertForTokenClassification", {
        "vocab_size": 31, "dim": 12, "hidden_dim": 20, "n_heads": 3, "n_layers": 2,
        "max_position_embeddings": 16, "pad_token_id": 0, **LABELS}, torch.bfloat16, "right"),
    "roberta": ("RobertaForSequenceClassification", {
        **ENCODER, "vocab_size": 34, "pad_token_id": 1, "type_vocab_size": 1, **LABELS},
        torch.float32, "right"),
    # Positions are counted over the tokens that are no padding, wherever it stands.
    "roberta_left": ("RobertaModel", {
        **ENCODER, "vocab_size": 29, "pad_token_id": 1, "type_vocab_size": 1},
        torch.bfloat16, "left"),
    "xlm_roberta": ("XLMRobertaModel", {
        **ENCODER, "vocab_size": 36, "pad_token_id": 1, "type_vocab_size": 1,
        "hidden_act": "gelu_new", "layer_norm_eps": 1e-3}, torch.float16, "right"),
    "electra": ("ElectraForSequenceClassification", {
        **ENCODER, "vocab_size": 32, "embedding_size": 8, "pad_token_id": 0, **LABELS},
        torch.bfloat16, "right"),
}


def randomize(model, gain_is_plus_one):
    """Every number random: gains around 1, biases and embeddings around 0, matrices such that
    attention differs from a mean and no activation stays in its linear part."""
    for name, tensor in model.named_parameters():
        drawn = torch.randn(tensor.shape)
        if "norm" in name.lower() or ".ln_" in name:
            is_gain = name.endswith("weight") and not gain_is_plus_one
            drawn = 0.3 * drawn + (1.0 if is_gain else 0.0)
        elif tensor.dim() == 1:
            drawn = 0.3 * drawn
        elif "emb" in name or ".wte." in name or ".wpe." in name:
            drawn = 0.8 * drawn
        else:
            drawn = 1.2 * drawn / tensor.shape[1] ** 0.5
        tensor.data.copy_(drawn)


def make_model(folder, kind, config, dtype):
    """Saves a model with weights of `dtype`, and returns them in double precision."""
    cls = getattr(transformers, kind)
    model = cls(cls.config_class(**config)).eval()
    randomize(model, kind.startswith("Gemma"))
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    # Read back, as frequencies that no file holds must not be rounded to `dtype`.
    return cls.from_pretrained(folder, dtype=torch.float64).eval()


def save(folder, **arrays):
    for name, array in arrays.items():
        if array is not None:
            numpy.save(folder / f"{name}.npy", array.numpy())


def make_decoder(name, kind, config, dtype):
    folder = FOLDER / "decoders" / name
    model = make_model(folder, kind, config, dtype)
    ids = torch.randint(3, config["vocab_size"], (2, TOKENS))
    out = model(input_ids=ids, output_hidden_states=True, use_cache=False)
    save(folder, input_ids=ids, logits=out.logits.float(),
         hidden_states=torch.stack(out.hidden_states).float())
    greedy = ids[:1]
    for _ in range(CONTINUED):
        best = model(input_ids=greedy, use_cache=False).logits[0, -1].topk(2)
        assert best.values[0] - best.values[1] > 1e-3, f"{name}: rounding decides a token"
        greedy = torch.cat((greedy, best.indices[:1, None]), dim=1)
    (folder / "greedy.json").write_text(json.dumps(greedy[0].tolist()) + "\n")


def make_encoder(name, kind, config, dtype, padding):
    folder = FOLDER / "encoders" / name
    model = make_model(folder, kind, config, dtype)
    pad, tokens = config["pad_token_id"], max(LENGTHS)
    place = torch.arange(tokens)[None, :]
    lengths = torch.tensor(LENGTHS)[:, None]
    mask = (place < lengths if padding == "right" else place >= tokens - lengths).long()
    ids = torch.randint(3, config["vocab_size"], mask.shape) * mask + pad * (1 - mask)
    # The second text of a pair begins in the middle of each sequence.
    is_typed = "token_type_ids" in model.forward.__code__.co_varnames
    is_pair = is_typed and model.config.type_vocab_size > 1
    types = (place >= lengths // 2).long() * mask if is_pair else None
    given = {"token_type_ids": types} if is_pair else {}
    out = model(input_ids=ids, attention_mask=mask, output_hidden_states=True, **given)
    output = out.logits if "logits" in out else out.last_hidden_state
    save(folder, input_ids=ids, attention_mask=mask, token_type_ids=types,
         hidden_states=torch.stack(out.hidden_states).float(), output=output.float())


def main():
    transformers.set_seed(1)
    torch.set_grad_enabled(False)
    for name, case in DECODERS.items():
        make_decoder(name, *case)
    for name, case in ENCODERS.items():
        make_encoder(name, *case)


if __name__ == "__main__":
    main()
