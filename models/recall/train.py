# SPDX-License-Identifier: Apache-2.0
"""Trains the recall module and writes its weights, its config and a reference input and output.

Run it with a Python that has numpy and PyTorch; the files are written beside this script:
    python3 train.py
"""

import argparse
import json
import math
import pathlib
import struct

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import task

HEADS = 2
STEPS = 10000
BATCH_SEQUENCES = 128
LEARNING_RATE = 0.03   # the peak of the one-cycle schedule
LOGIT_SCALE = 8.0      # sharpens dot products of unit vectors into logits
WEIGHT_SEED = 0
TRAINING_SEED = 1
EXAMPLE_SEED = 2
HELD_OUT_SEED = 3
HELD_OUT_SEQUENCES = 20000
EXAMPLE_SEQUENCES = 4


class CausalSelfAttention(nn.Module):
    """GPT-style causal attention: [sequences, tokens, features] -> the same shape."""

    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(task.FEATURES, 3 * task.FEATURES)
        self.c_proj = nn.Linear(task.FEATURES, task.FEATURES)
        visible = torch.tril(torch.ones(task.CONTEXT, task.CONTEXT))
        self.register_buffer("bias", visible.view(1, 1, task.CONTEXT, task.CONTEXT))

    def forward(self, x):
        sequences, tokens, width = x.shape
        head_dim = width // HEADS
        heads = [part.view(sequences, tokens, HEADS, head_dim).transpose(1, 2)
                 for part in self.c_attn(x).split(width, dim=2)]
        query, key, value = heads
        scores = query @ key.transpose(-2, -1) / math.sqrt(head_dim)
        hidden = self.bias[:, :, :tokens, :tokens] == 0
        weights = functional.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        context = (weights @ value).transpose(1, 2).reshape(sequences, tokens, width)
        return self.c_proj(context)


def answer_loss(outputs, answers, value_table):
    """Right nearest embedding (cross entropy) and right place (squared error), at queries only."""
    asked = answers >= 0
    outputs, answers = outputs[asked], answers[asked]
    logits = LOGIT_SCALE * outputs @ value_table.T
    distance = (outputs - value_table[answers]).pow(2).sum(dim=-1).mean()
    return functional.cross_entropy(logits, answers) + distance


def train(module, steps):
    rng = np.random.default_rng(TRAINING_SEED)
    value_table = torch.from_numpy(task.embedding_tables()["value"])
    optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    for step in range(1, steps + 1):
        keys, values, answers = task.sample_tokens(rng, BATCH_SEQUENCES)
        x = torch.from_numpy(task.features(rng, keys, values))
        loss = answer_loss(module(x), torch.from_numpy(answers), value_table)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 1000 == 0 or step == steps:
            print(f"step {step:5d} of {steps}  loss {loss.item():.4f}", flush=True)


def held_out_accuracy(module):
    """Share of right answers over all queries of sequences that training never saw."""
    rng = np.random.default_rng(HELD_OUT_SEED)
    keys, values, answers = task.sample_tokens(rng, HELD_OUT_SEQUENCES)
    with torch.no_grad():
        outputs = module(torch.from_numpy(task.features(rng, keys, values))).numpy()
    asked = answers >= 0
    return float((task.decode(outputs[asked]) == answers[asked]).mean())


def write_safetensors(path, tensors):
    """Writes float32 arrays: header bytes as little-endian u64, JSON header, then the data."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name], dtype="<f4")
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # keeps the data aligned to 8 bytes
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def to_json(value, indent=""):
    """JSON with one line per table row, so that a person can read the tables."""
    inner = indent + "  "
    if isinstance(value, dict):
        items = [f"{inner}{json.dumps(k)}: {to_json(v, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + indent + "}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        rows = [inner + json.dumps(row) for row in value]
        return "[\n" + ",\n".join(rows) + "\n" + indent + "]"
    return json.dumps(value)


def write_example(folder, module):
    """Writes input.npy and expected_output.npy, float32; returns what config.json says of them.

    The output is computed in float64 from the float32 weights and inputs, then rounded.
    """
    rng = np.random.default_rng(EXAMPLE_SEED)
    keys, values, answers = task.sample_tokens(rng, EXAMPLE_SEQUENCES)
    x = task.features(rng, keys, values)
    with torch.no_grad():
        in_float32 = module(torch.from_numpy(x)).numpy()
        exact = module.double()(torch.from_numpy(x).double()).numpy()
    module.float()
    np.save(folder / "input.npy", x)
    np.save(folder / "expected_output.npy", exact.astype(np.float32))
    return {"max_abs_error_of_torch_float32": float(np.abs(in_float32 - exact).max()),
            "max_abs_output": float(np.abs(exact).max()),
            "example": {"keys": keys.tolist(), "values": values.tolist(),
                        "answers": answers.tolist()}}


def write_config(folder, example, accuracy):
    config = {"module": "CausalSelfAttention", "heads": HEADS, "context_length": task.CONTEXT,
              "causal": True, "out_proj": True, "feature_dim": task.FEATURES,
              "noise": task.NOISE, "held_out_sequences": HELD_OUT_SEQUENCES,
              "held_out_accuracy": round(accuracy, 5)}
    config.update(example)
    config["embeddings"] = {name: table.tolist()
                            for name, table in task.embedding_tables().items()}
    (folder / "config.json").write_text(to_json(config) + "\n")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", type=pathlib.Path, default=here, help="folder to write to")
    options = parser.parse_args()
    torch.manual_seed(WEIGHT_SEED)
    torch.set_num_threads(1)  # the module is too small to share; one thread keeps sums in order
    module = CausalSelfAttention()
    train(module, options.steps)
    accuracy = held_out_accuracy(module)
    print(f"held-out accuracy {accuracy:.5f} over {HELD_OUT_SEQUENCES} sequences")
    options.out.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    write_safetensors(options.out / "recall.safetensors", tensors)
    write_config(options.out, write_example(options.out, module), accuracy)


if __name__ == "__main__":
    main()
