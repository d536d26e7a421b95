# SPDX-License-Identifier: Apache-2.0
"""Trains the decoder on the grammar and writes tokenizer.json, config.json and model.safetensors.

    /usr/bin/python3 train.py     then evaluate.py, which measures it and writes what is expected
"""

import argparse
import json
import math
import pathlib
import random
import struct
import time

import numpy as np
import torch
from torch.nn import functional

import grammar
import model
import tokenizer as bpe

WEIGHT_SEED = 2
ORDER_SEED = 3
MERGE_PAIRS = 60000        # the merges are learned from so many of the pairs
STEPS = 7000
BATCH_PAIRS = 128
LEARNING_RATE = 4e-3
WARMUP_STEPS = 200
WEIGHT_DECAY = 0.01
GRADIENT_NORM_MAX = 1.0
POOL_BATCHES = 32          # pairs of so many batches are sorted by length, to pad little
PADDING = 0                # never seen: it comes after the last token, and is no target
IGNORED = -100


def sequence(tokenizer, pair):
    """The ids of a pair, and how many of them are the command with its end."""
    prompt = tokenizer.encode(pair.command) + [tokenizer.do_id]
    return prompt + tokenizer.encode(pair.line) + [tokenizer.end_id], len(prompt)


def batches(sequences, rng):
    """Endless batches of ids [pairs, tokens] and targets, IGNORED within the command."""
    while True:
        order = list(range(len(sequences)))
        rng.shuffle(order)
        for start in range(0, len(order), BATCH_PAIRS * POOL_BATCHES):
            pool = sorted(order[start:start + BATCH_PAIRS * POOL_BATCHES],
                          key=lambda i: len(sequences[i][0]))
            chunks = [pool[i:i + BATCH_PAIRS] for i in range(0, len(pool), BATCH_PAIRS)]
            rng.shuffle(chunks)
            for chunk in chunks:
                yield make_batch([sequences[i] for i in chunk])


def make_batch(chunk):
    longest = max(len(ids) for ids, _ in chunk) - 1
    inputs = np.full((len(chunk), longest), PADDING)
    targets = np.full((len(chunk), longest), IGNORED)
    for row, (ids, prompt_tokens) in enumerate(chunk):
        inputs[row, :len(ids) - 1] = ids[:-1]
        targets[row, prompt_tokens - 1:len(ids) - 1] = ids[prompt_tokens:]
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def learning_rate(step, steps):
    """Linear up, then half a cosine down to a hundredth."""
    if step < WARMUP_STEPS:
        return LEARNING_RATE * (step + 1) / WARMUP_STEPS
    share = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    return LEARNING_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))


def train(decoder, sequences, steps):
    """Adam on the cross entropy of the action's tokens, the end token included."""
    matrices = [p for p in decoder.parameters() if p.dim() == 2]
    gains = [p for p in decoder.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": WEIGHT_DECAY},
                                   {"params": gains, "weight_decay": 0.0}], betas=(0.9, 0.98))
    source = batches(sequences, random.Random(ORDER_SEED))
    started, losses = time.time(), []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        inputs, targets = next(source)
        asked = targets != IGNORED
        loss = functional.cross_entropy(decoder.logits(decoder(inputs)[asked]), targets[asked])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), GRADIENT_NORM_MAX)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 100 == 0 or step + 1 == steps:
            print(f"step {step + 1:5d} of {steps}  loss {np.mean(losses[-100:]):.4f}  "
                  f"{time.time() - started:.0f} s", flush=True)


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


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=here, help="where to write")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(WEIGHT_SEED)

    pairs = grammar.training_pairs()
    sample = pairs[:MERGE_PAIRS]
    texts = [pair.command for pair in sample if not pair.typo] + [pair.line for pair in sample]
    tokenizer = bpe.Tokenizer(bpe.train_merges(texts))
    sequences = [sequence(tokenizer, pair) for pair in pairs]
    decoder = model.Decoder()
    parameters = sum(p.numel() for p in decoder.parameters())
    print(f"{parameters} parameters, {len(pairs)} pairs, "
          f"{max(len(ids) for ids, _ in sequences)} tokens at most", flush=True)
    train(decoder, sequences, options.steps)

    tokenizer.save(options.folder / "tokenizer.json")
    config = {**model.CONFIG, "bos_token_id": tokenizer.end_id, "eos_token_id": tokenizer.end_id}
    (options.folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = {name: value.numpy() for name, value in decoder.state_dict().items()}
    write_safetensors(options.folder / "model.safetensors", tensors)


if __name__ == "__main__":
    main()
