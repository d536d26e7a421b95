# SPDX-License-Identifier: Apache-2.0
"""The decoder in PyTorch: Llama's architecture with the tensor names of its Hugging Face form."""

import math

import torch
from torch import nn
from torch.nn import functional

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 400,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "rms_norm_eps": 1e-05,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}
WEIGHT_DEVIATION = 0.05   # standard deviation of the first weights


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"])
        return self.weight * (x * scale)


def rope_tables(tokens):
    """cos and sin, [tokens, head_dim]: frequency i turns columns i and i + head_dim / 2."""
    half = torch.arange(0, CONFIG["head_dim"], 2).float() / CONFIG["head_dim"]
    angles = torch.outer(torch.arange(tokens).float(), CONFIG["rope_theta"] ** -half)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """x [..., tokens, head_dim] turned by its position, in the half-split form."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


class Attention(nn.Module):
    """Causal attention in which two query heads share one key/value head."""

    def __init__(self):
        super().__init__()
        width, head_dim = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.heads, self.kv_heads = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
        self.q_proj = nn.Linear(width, self.heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * head_dim, width, bias=False)

    def forward(self, x, cos, sin):
        sequences, tokens, _ = x.shape
        head_dim = CONFIG["head_dim"]

        def split(projected, heads):
            return projected.view(sequences, tokens, heads, head_dim).transpose(1, 2)

        query = rotate(split(self.q_proj(x), self.heads), cos, sin)
        key = rotate(split(self.k_proj(x), self.kv_heads), cos, sin)
        value = split(self.v_proj(x), self.kv_heads)
        shared = self.heads // self.kv_heads
        key, value = key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)
        scores = query @ key.transpose(-2, -1) / math.sqrt(head_dim)
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        weights = functional.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        context = (weights @ value).transpose(1, 2).reshape(sequences, tokens, -1)
        return self.o_proj(context)


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self):
        super().__init__()
        width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = Attention()
        self.mlp = FeedForward()
        self.input_layernorm = RmsNorm(CONFIG["hidden_size"])
        self.post_attention_layernorm = RmsNorm(CONFIG["hidden_size"])

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = RmsNorm(CONFIG["hidden_size"])

    def forward(self, ids):
        x = self.embed_tokens(ids)
        cos, sin = rope_tables(ids.shape[1])
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class Decoder(nn.Module):
    """ids [sequences, tokens] -> hidden states; `logits` turns chosen ones into scores."""

    def __init__(self):
        super().__init__()
        self.model = Body()
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=WEIGHT_DEVIATION)

    def forward(self, ids):
        return self.model(ids)

    def logits(self, hidden):
        """[..., hidden_size] -> [..., vocab_size]; the output layer is the embedding table."""
        return hidden @ self.model.embed_tokens.weight.T
