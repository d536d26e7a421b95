#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny decoders whose linear layers are quantized, into the folder quantized, each in the
form of another program, and what transformers makes of the numbers that they stand for.

The forms are those of AutoGPTQ and GPTQModel, of compressed-tensors and of bitsandbytes, written
here by their definitions. Weights are rounded, in groups or by row. expected.json holds token ids
and the logits of each. Needs torch, transformers and safetensors.

Usage: make_quantized.py FOLDER [NAME...]   (without names all of them)
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

TOKENS = 14
VOCAB = 19
LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}


def rounded(weight, bits, group):
    """Integers around zero, and the scales of groups of inputs as float16."""
    parts = weight.unflatten(1, (-1, group or weight.shape[1]))
    most = 2 ** (bits - 1) - 1
    scales = (parts.abs().amax(2, keepdim=True) / most).to(torch.float16)
    integers = (parts / scales.float()).round().clamp(-most - 1, most)
    return integers.flatten(1).to(torch.int64), scales.squeeze(2)


def words(unsigned, bits):
    """Integers side by side in each row of 32-bit words, the first one lowest."""
    parts = unsigned.unflatten(1, (-1, 32 // bits))
    total = (parts << (torch.arange(32 // bits) * bits)).sum(2)
    return torch.where(total >= 2**31, total - 2**32, total).to(torch.int32)


def gptq(bits, group, is_second, has_bias=False):
    def write(name, weight, tensors):
        integers, scales = rounded(weight, bits, group)
        middle = 2 ** (bits - 1)
        zeros = torch.full((scales.shape[1], len(weight)), middle - (0 if is_second else 1))
        tensors[name + ".qweight"] = words(integers + middle, bits).T.contiguous()
        tensors[name + ".qzeros"] = words(zeros, bits)
        tensors[name + ".scales"] = scales.T.contiguous()
        tensors[name + ".g_idx"] = (
            torch.arange(weight.shape[1]) // (group or weight.shape[1])
        ).to(torch.int32)
        if has_bias:
            tensors[name + ".bias"] = torch.zeros(len(weight), dtype=torch.float16)
        return integers, scales

    config = {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": group or -1,
        "desc_act": False,
        "sym": True,
        "damp_percent": 0.01,
        "true_sequential": True,
        "lm_head": False,
    }
    if is_second:
        config |= {"checkpoint_format": "gptq_v2", "pack_dtype": "int32", "meta": {"mse": 0.0}}
    return write, config


def gptq_by_activations(group):
    """As GPTQ with desc_act, whose groups are columns of any places, and with zero points."""

    def write(name, weight, tensors):
        columns = weight.shape[1]
        order = torch.randperm(columns)
        g_idx = torch.empty(columns, dtype=torch.int64)
        g_idx[order] = torch.arange(columns) // group
        parts = weight[:, order].unflatten(1, (-1, group))
        least = parts.amin(2).clamp(max=0.0)
        scales = ((parts.amax(2).clamp(min=0.0) - least) / 15).to(torch.float16)
        zeros = (-least / scales.float()).round().clamp(1, 15).to(torch.int64)
        own_scales, own_zeros = scales[:, g_idx], zeros[:, g_idx]
        unsigned = ((weight / own_scales.float()).round().to(torch.int64) + own_zeros).clamp(0, 15)
        tensors[name + ".qweight"] = words(unsigned, 4).T.contiguous()
        tensors[name + ".qzeros"] = words(zeros.T.contiguous() - 1, 4)
        tensors[name + ".scales"] = scales.T.contiguous()
        tensors[name + ".g_idx"] = g_idx.to(torch.int32)
        return unsigned - own_zeros, own_scales

    config = {"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": True,
              "sym": False}
    return write, config


def compressed(bits, group, is_packed):
    def write(name, weight, tensors):
        integers, scales = rounded(weight, bits, group)
        if is_packed:
            tensors[name + ".weight_packed"] = words(integers + 2 ** (bits - 1), bits)
            tensors[name + ".weight_shape"] = torch.tensor(weight.shape)
        else:
            tensors[name + ".weight"] = integers.to(torch.int8)
        scales = scales.to(torch.bfloat16)
        tensors[name + ".weight_scale"] = scales
        return integers, scales

    weights = {
        "num_bits": bits,
        "type": "int",
        "symmetric": True,
        "strategy": "group" if group else "channel",
        "group_size": group or None,
        "dynamic": False,
        "actorder": None,
        "block_structure": None,
        "observer": "minmax",
        "observer_kwargs": {},
    }
    tokens = {**weights, "num_bits": 8, "strategy": "token", "group_size": None, "dynamic": True}
    config = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized" if is_packed else "int-quantized",
        "quantization_status": "compressed",
        "global_compression_ratio": 1.5,
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": weights,
                "input_activations": None if is_packed else tokens,
                "output_activations": None,
            }
        },
    }
    return write, config


def bitsandbytes():
    def write(name, weight, tensors):
        largest = weight.abs().amax(1)
        integers = (weight * 127 / largest[:, None]).round().to(torch.int64)
        tensors[name + ".weight"] = integers.to(torch.int8)
        tensors[name + ".SCB"] = largest
        tensors[name + ".weight_format"] = torch.tensor(0, dtype=torch.uint8)
        return integers, (largest.double() / 127)[:, None]

    config = {
        "quant_method": "bitsandbytes",
        "load_in_8bit": True,
        "load_in_4bit": False,
        "_load_in_8bit": True,
        "_load_in_4bit": False,
        "llm_int8_threshold": 6.0,
        "llm_int8_skip_modules": None,
        "llm_int8_has_fp16_weight": False,
        "bnb_4bit_compute_dtype": "float32",
        "bnb_4bit_quant_type": "fp4",
        "bnb_4bit_use_double_quant": False,
    }
    return write, config


MODELS = {
    "gptq": ("llama", LLAMA, gptq(4, 64, is_second=False, has_bias=True)),
    "gptq-v2-rows": ("llama", LLAMA, gptq(4, 0, is_second=True)),
    "gptq-8-rows": ("llama", LLAMA, gptq(8, 0, is_second=False)),
    "gptq-conv1d": ("gpt2", GPT2, gptq(4, 32, is_second=False)),
    "gptq-act-order": ("gpt2", GPT2, gptq_by_activations(32)),
    "int-quantized": ("llama", LLAMA, compressed(8, 0, is_packed=False)),
    "pack-quantized": ("llama", LLAMA, compressed(4, 32, is_packed=True)),
    "bitsandbytes": ("llama", LLAMA, bitsandbytes()),
}


def main():
    for name, (model_type, sizes, (write, quantization)) in MODELS.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch.manual_seed(1)
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **sizes))
        tensors = {}
        exact = {}
        with torch.no_grad():
            for tensor, weight in model.named_parameters():
                is_gain = weight.ndim == 1 and tensor.endswith("weight")
                weight.normal_(1.0 if is_gain else 0.0, 0.3)
                layer = tensor.removesuffix(".weight")
                is_quantized = weight.ndim == 2 and (".layers." in tensor or ".h." in tensor)
                if is_quantized:
                    by_outputs = weight.T if model_type == "gpt2" else weight
                    integers, scales = write(layer, by_outputs, tensors)
                    groups = integers.double().unflatten(1, (scales.shape[1], -1))
                    numbers = (groups * scales.double()[:, :, None]).flatten(1)
                    exact[tensor] = numbers.T if model_type == "gpt2" else numbers
                else:
                    tensors[tensor] = weight.detach().to(torch.float16)
                    exact[tensor] = tensors[tensor].double()
            model = model.double().eval()
            for tensor, weight in model.named_parameters():
                weight.copy_(exact[tensor])
            ids = (torch.arange(TOKENS) * 7 + 3) % VOCAB
            logits = model(ids[None]).logits[0]
        tensors = {tensor: part.contiguous() for tensor, part in tensors.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        config = model.config.to_dict() | {"dtype": "float16"}
        config["quantization_config"] = quantization
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        rows = [[float(f"{value:.9g}") for value in row] for row in logits.tolist()]
        expected = {"ids": ids.tolist(), "results": rows}
        (folder / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


main()
