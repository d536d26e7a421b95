#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints of PyTorch's own attention modules, and what PyTorch computes with them.

Needs PyTorch (Debian 12: apt install python3-torch). For each case of this folder's `torch/`:
  CASE.pt, CASE.safetensors    the same float32 weights
  CASE.expected.safetensors    `input` (float32) and outputs computed in double precision
"""
import collections
import json
import pathlib
import struct

import torch

FOLDER = pathlib.Path(__file__).parent / "torch"
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.uint8: "U8"}


def save_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        stored = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(stored)],
        }
        data += stored
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def save_case(name, weights, expected):
    weights = collections.OrderedDict((k, v.detach().clone()) for k, v in weights.items())
    torch.save(weights, FOLDER / f"{name}.pt")
    save_safetensors(FOLDER / f"{name}.safetensors", weights)
    save_safetensors(FOLDER / f"{name}.expected.safetensors", expected)


def randomised(module):
    """Biases start at zero in PyTorch, where mistakes would not show."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape) * parameter.shape[-1] ** -0.5)
    return module.eval()


def attend(module, inputs, mask=None):
    """The module in double precision on (query, key, value)."""
    exact = torch.nn.MultiheadAttention(
        module.embed_dim, module.num_heads, bias=module.in_proj_bias is not None,
        kdim=module.kdim, vdim=module.vdim, batch_first=True)
    exact.load_state_dict(module.state_dict())
    exact = exact.double().eval()
    with torch.no_grad():
        return exact(*[x.double() for x in inputs], attn_mask=mask)[0].contiguous()


def expected_outputs(module, inputs):
    """All inputs the same tensor: one input. Else their columns side by side."""
    one = all(x is inputs[0] for x in inputs)
    tokens = inputs[0].shape[1]
    later = torch.ones(tokens, tokens).triu(1).bool()
    far = torch.ones(tokens, tokens).tril(-3).bool()
    return {
        "input": inputs[0] if one else torch.cat(inputs, dim=2),
        "bidirectional": attend(module, inputs),
        "causal": attend(module, inputs, later),
        "window3": attend(module, inputs, later | far),
    }


def save_attention(name, module, inputs):
    save_case(name, module.state_dict(), expected_outputs(module, inputs))


def split_weights(module):
    """The fused weights under the names of separate ones, widths all equal."""
    weights = module.state_dict()
    fused = weights.pop("in_proj_weight").chunk(3)
    for letter, part in zip("qkv", fused):
        weights[f"{letter}_proj_weight"] = part
    return weights


class Conv1D(torch.nn.Module):
    """A linear layer whose weight is [inputs, outputs], as the first GPT models have it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(inputs, outputs))
        self.bias = torch.nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class GptAttention(torch.nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)
        mask = torch.ones(context, context, dtype=torch.uint8).tril()
        self.register_buffer("bias", mask.view(1, 1, context, context))
        self.register_buffer("masked_bias", torch.tensor(-1e4))

    def forward(self, x):
        batch, tokens, width = x.shape
        shape = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=2))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        visible = self.bias[:, :, :tokens, :tokens].bool()
        weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
        return self.c_proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class GptBlock(torch.nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(width)
        self.attn = GptAttention(width, heads, context)


def gpt():
    """Two layers of a larger checkpoint; the outputs are those of the second one's attention."""
    layers = torch.nn.ModuleList([randomised(GptBlock(12, 3, 16)) for _ in range(2)])
    weights = collections.OrderedDict({"transformer.wte.weight": torch.randn(5, 12)})
    weights.update((f"transformer.h.{k}", v) for k, v in layers.state_dict().items())
    x = torch.randn(2, 10, 12)
    with torch.no_grad():
        output = layers[1].attn.double()(x.double()).contiguous()
    save_case("gpt_conv1d", weights, {"input": x, "causal": output})


def main():
    torch.manual_seed(0)
    FOLDER.mkdir(exist_ok=True)
    attention = torch.nn.MultiheadAttention
    x = torch.randn(2, 9, 12)
    fused = randomised(attention(12, 3))
    save_attention("mha", fused, (x, x, x))
    save_case("mha_split", split_weights(fused), expected_outputs(fused, (x, x, x)))
    save_attention("mha_no_bias", randomised(attention(12, 2, bias=False)), (x, x, x))
    key, value = torch.randn(2, 9, 5), torch.randn(2, 9, 7)
    save_attention("mha_kdim_vdim", randomised(attention(12, 4, kdim=5, vdim=7)), (x, key, value))
    no_bias = randomised(attention(12, 3, kdim=12, vdim=7, bias=False))
    save_attention("mha_vdim_no_bias", no_bias, (x, torch.randn(2, 9, 12), value))
    encoder = torch.nn.TransformerEncoderLayer(12, 6, dim_feedforward=4)
    randomised(encoder)
    save_case("encoder_layer", encoder.state_dict(),
              expected_outputs(encoder.self_attn, (x, x, x)))
    gpt()


if __name__ == "__main__":
    main()
