# SPDX-License-Identifier: Apache-2.0
"""The decoder in numpy, from model.safetensors and tokenizer.json, independent of PyTorch.

    python3 reference.py "dim the bedroom lamp to thirty percent"
All arithmetic is float64 unless another type is asked for; the weights are the file's float32.
"""

import argparse
import json
import pathlib
import struct
import sys

import numpy as np

import tokenizer as bpe

ACTION_TOKENS_MAX = 32     # the longest action of the grammar has 22


def read_safetensors(path, dtype):
    """The F32 tensors of a safetensors file as arrays of dtype."""
    file = path.read_bytes()
    (header_bytes,) = struct.unpack_from("<Q", file)
    header = json.loads(file[8:8 + header_bytes])
    header.pop("__metadata__", None)
    data = file[8 + header_bytes:]
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            sys.exit(f"{path}: tensor {name} is {entry['dtype']}, expected F32; run train.py")
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[begin:end], "<f4").astype(dtype)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


class Reference:
    """The trained decoder: batches of ids in, logits or actions out."""

    def __init__(self, folder, dtype=np.float64):
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = read_safetensors(folder / "model.safetensors", dtype)
        self.tokenizer = bpe.Tokenizer.load(folder / "tokenizer.json")
        self.dtype = dtype

    def _linear(self, x, name):
        """x [..., columns] times a weight [rows, columns]: as one product, which is quicker."""
        flat = x.reshape(-1, x.shape[-1]) @ self.tensors[name].T
        return flat.reshape(*x.shape[:-1], -1)

    def _norm(self, x, name):
        mean_square = np.mean(x * x, axis=-1, keepdims=True)
        return x / np.sqrt(mean_square + self.dtype(self.config["rms_norm_eps"])) * \
            self.tensors[name]

    def _rope(self, x):
        """Turns x [sequences, heads, tokens, head_dim] by its positions, halves apart."""
        tokens, head_dim = x.shape[-2:]
        half = head_dim // 2
        frequencies = self.config["rope_theta"] ** (-np.arange(half) / half)
        angles = np.outer(np.arange(tokens), frequencies)
        cos, sin = np.cos(angles).astype(self.dtype), np.sin(angles).astype(self.dtype)
        low, high = x[..., :half], x[..., half:]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)

    def _attention(self, x, prefix):
        config = self.config
        sequences, tokens, _ = x.shape
        head_dim = config["head_dim"]
        shared = config["num_attention_heads"] // config["num_key_value_heads"]

        def heads_of(name):
            projected = self._linear(x, f"{prefix}{name}.weight")
            return projected.reshape(sequences, tokens, -1, head_dim).swapaxes(1, 2)

        query, key = self._rope(heads_of("q_proj")), self._rope(heads_of("k_proj"))
        key, value = np.repeat(key, shared, axis=1), np.repeat(heads_of("v_proj"), shared, axis=1)
        scores = query @ key.swapaxes(-2, -1) / self.dtype(np.sqrt(head_dim))
        scores[..., np.triu(np.ones((tokens, tokens), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        context = (weights @ value).swapaxes(1, 2).reshape(sequences, tokens, -1)
        return self._linear(context, f"{prefix}o_proj.weight")

    def _feed_forward(self, x, prefix):
        gate = self._linear(x, f"{prefix}gate_proj.weight")
        up = self._linear(x, f"{prefix}up_proj.weight")
        return self._linear(gate / (1 + np.exp(-gate)) * up, f"{prefix}down_proj.weight")

    def logits(self, ids):
        """ids [sequences, tokens] -> [sequences, tokens, vocab_size]."""
        x = self.tensors["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            x = x + self._attention(self._norm(x, prefix + "input_layernorm.weight"),
                                    prefix + "self_attn.")
            x = x + self._feed_forward(self._norm(x, prefix + "post_attention_layernorm.weight"),
                                       prefix + "mlp.")
        return self._linear(self._norm(x, "model.norm.weight"), "model.embed_tokens.weight")

    def prompt(self, command):
        return self.tokenizer.encode(command) + [self.tokenizer.do_id]

    def greedy(self, prompt):
        """The ids that a prompt goes on with, up to and with the end token."""
        ids = list(prompt)
        while len(ids) < len(prompt) + ACTION_TOKENS_MAX and ids[-1] != self.tokenizer.end_id:
            ids.append(int(self.logits(np.array([ids]))[0, -1].argmax()))
        return ids[len(prompt):]

    def greedy_gives(self, prompts, answers):
        """Whether greedy decoding of each prompt gives exactly its answer, bool [prompts].

        It does if and only if every id of the answer has the largest logit after what precedes it,
        so one pass over prompt and answer tells. Pairs of one length share a pass.
        """
        gives = np.zeros(len(prompts), bool)
        by_length = {}
        for i, (prompt, answer) in enumerate(zip(prompts, answers)):
            by_length.setdefault(len(prompt) + len(answer), []).append(i)
        for rows in by_length.values():
            ids = np.array([prompts[i] + answers[i] for i in rows])
            likeliest = self.logits(ids[:, :-1]).argmax(axis=-1)
            for i, row, found in zip(rows, ids, likeliest):
                first = len(prompts[i])
                gives[i] = (found[first - 1:] == row[first:]).all()
        return gives


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="+", help="what to do in the house")
    parser.add_argument("--folder", type=pathlib.Path, default=here, help="where the files are")
    options = parser.parse_args()
    reference = Reference(options.folder)
    for command in options.commands:
        answer = reference.tokenizer.decode(reference.greedy(reference.prompt(command)))
        print(f"{command}  ->  {answer}")


if __name__ == "__main__":
    main()
