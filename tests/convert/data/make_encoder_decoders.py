#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny encoder-decoders as transformers 5 saves them, and its results, into
FOLDER/encoder_decoders.

Each has random weights. expected.json holds a padded batch of what the encoder reads, with the
length of each sequence, what the decoder reads, the logits or the last hidden states in float64,
and the tokens that greedy generation writes. Needs torch and transformers.

Usage: make_encoder_decoders.py FOLDER [NAME...]   (without names all of them)
"""
import json
import pathlib
import sys

import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq

T5 = {"vocab_size": 23, "d_model": 12, "d_kv": 6, "d_ff": 20, "num_layers": 2, "num_heads": 3}
BART = {
    "vocab_size": 23,
    "d_model": 12,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 10,
    "max_position_embeddings": 40,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
OTHER = {
    **BART,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 6,
    "activation_function": "relu",
    "scale_embedding": True,
}
WHISPER = {
    **{name: size for name, size in BART.items() if name != "max_position_embeddings"},
    "num_mel_bins": 6,
    "max_source_positions": 9,
    "max_target_positions": 20,
    "begin_suppress_tokens": None,
}
# Name, model type, what its config says, and whether it is saved without a head.
MODELS = [
    ("t5", "t5", {**T5, "num_decoder_layers": 1, "decoder_start_token_id": 0}, False),
    (
        "t5-gated",
        "t5",
        {
            **T5,
            "num_heads": 2,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 20,
            "decoder_start_token_id": 0,
        },
        False,
    ),
    ("mt5", "mt5", {**T5, "layer_norm_epsilon": 0.01, "feed_forward_proj": "gated-silu"}, False),
    ("mt5-bare", "mt5", {**T5, "num_decoder_layers": 3}, True),
    ("umt5", "umt5", T5, False),
    ("umt5-relu", "umt5", {**T5, "feed_forward_proj": "relu", "num_decoder_layers": 1}, False),
    ("bart", "bart", BART, False),
    ("bart-scaled-bare", "bart", OTHER, True),
    ("mbart", "mbart", BART, False),
    ("mbart-scaled", "mbart", {**OTHER, "tie_word_embeddings": False}, False),
    ("marian", "marian", {**BART, "decoder_vocab_size": 19}, False),  # shared: not read
    ("marian-apart", "marian",
     {**OTHER, "decoder_vocab_size": 19, "share_encoder_decoder_embeddings": False,
      "tie_word_embeddings": False, "activation_function": "swish"}, False),
    ("pegasus", "pegasus", BART, False),
    ("pegasus-scaled", "pegasus", OTHER, False),
    ("m2m_100", "m2m_100", BART, False),
    ("m2m_100-scaled", "m2m_100", {**OTHER, "pad_token_id": 4, "scale_embedding": False}, False),
    ("blenderbot", "blenderbot", BART, False),
    ("blenderbot-scaled", "blenderbot", OTHER, False),
    ("blenderbot-small", "blenderbot-small", BART, False),
    ("blenderbot-small-scaled", "blenderbot-small", OTHER, False),
    ("whisper", "whisper", WHISPER, False),
    (
        "whisper-relu",
        "whisper",
        {**WHISPER, "encoder_layers": 2, "decoder_attention_heads": 4, "num_mel_bins": 4,
         "activation_function": "relu"},
        False,
    ),
]


def fill(model):
    with torch.no_grad():
        tensors = [*model.named_parameters(), *model.named_buffers()]
        for name, weight in tensors:
            if "embed_positions" in name and not weight.requires_grad:
                continue  # sines and cosines
            is_gain = weight.ndim == 1 and name.endswith("weight")
            weight.normal_(1.0 if is_gain else 0.0, 0.4)


def rounded(rows):
    return [float(f"{value:.9g}") for value in rows.flatten().tolist()]


def encoder_inputs(config):
    """Two sequences, the second of which is shorter, but for sounds."""
    if config.model_type == "whisper":
        frames = torch.randn(2, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": (frames * 64).round() / 64}, [frames.shape[2]] * 2
    ids = 5 + (torch.arange(26).reshape(2, 13) * 7) % (config.vocab_size - 5)
    mask = torch.ones_like(ids)
    ids[1, 9:], mask[1, 9:] = config.pad_token_id, 0
    return {"input_ids": ids, "attention_mask": mask}, [13, 9]


def results(folder, model_type, is_bare):
    loader = AutoModelForSpeechSeq2Seq if model_type == "whisper" else AutoModelForSeq2SeqLM
    loader = AutoModel if is_bare else loader
    model = loader.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model = model.double().eval()
    torch.manual_seed(3)
    given, lengths = encoder_inputs(model.config)
    decoder_ids = 5 + (torch.arange(14).reshape(2, 7) * 5) % 14
    decoder_ids[:, 0] = model.config.decoder_start_token_id or 0
    if "input_features" in given:
        given["input_features"] = given["input_features"].double()
    with torch.no_grad():
        output = model(**given, decoder_input_ids=decoder_ids, use_cache=False)
    rows = output.last_hidden_state if is_bare else output.logits
    name = "input_features" if "input_features" in given else "input_ids"
    expected = {
        "lengths": lengths,
        "encoder": given[name].tolist(),
        "decoder": decoder_ids.tolist(),
        "results": rounded(rows),
    }
    if is_bare:
        return expected
    start = model.config.decoder_start_token_id or 0
    written = []
    for row in range(2):
        own = {key: value[row:row + 1] for key, value in given.items()}
        if name == "input_ids":
            own = {key: value[:, :lengths[row]] for key, value in own.items()}
        ids = [start]
        with torch.no_grad():
            if model_type == "whisper":  # whose own generate() adds tokens of languages
                for _ in range(9):
                    logits = model(**own, decoder_input_ids=torch.tensor([ids])).logits
                    ids.append(int(logits[0, -1].argmax()))
            else:
                ids = model.generate(**own, decoder_start_token_id=start, max_new_tokens=9,
                                     do_sample=False, num_beams=1, eos_token_id=[])[0].tolist()
        written.append(ids)
    expected["greedy"] = written
    return expected


def main():
    chosen = sys.argv[2:]
    for name, model_type, settings, is_bare in MODELS:
        if chosen and name not in chosen:
            continue
        torch.manual_seed(1)
        folder = pathlib.Path(sys.argv[1]) / "encoder_decoders" / name
        config = AutoConfig.for_model(model_type, **settings)
        loader = AutoModelForSpeechSeq2Seq if model_type == "whisper" else AutoModelForSeq2SeqLM
        model = (AutoModel if is_bare else loader).from_config(config)
        if settings.get("tie_word_embeddings") is False and model_type == "t5":
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
        fill(model)
        model.to(torch.bfloat16).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        expected = results(folder, model_type, is_bare)
        (folder / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
