# SPDX-License-Identifier: Apache-2.0
"""The encoder in PyTorch, and its two files: config.json and model.safetensors."""

import json
import struct

import numpy as np
import torch
from torch import nn

import features
import machine

MODEL_DIM = 64
HEADS = 4
FEED_FORWARD_DIM = 128
LAYERS = 2
DROPOUT = 0.1


class Encoder(nn.Module):
    """Normalised frames [windows, 64, 16] -> logits [windows, 5]."""

    def __init__(self):
        super().__init__()
        self.input = nn.Linear(len(features.NAMES), MODEL_DIM)
        self.position = nn.Embedding(features.WINDOW_FRAMES, MODEL_DIM)
        layer = nn.TransformerEncoderLayer(MODEL_DIM, HEADS, FEED_FORWARD_DIM, DROPOUT,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, norm=nn.LayerNorm(MODEL_DIM))
        self.classifier = nn.Linear(MODEL_DIM, len(machine.CLASSES))
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, frames):
        hidden = self.input(frames) + self.position.weight
        return self.classifier(self.encoder(hidden).mean(dim=1))


def config_of(mean, scale):
    """config.json's content; a normalised feature is (feature - mean) / scale."""
    return {"architecture": "torch.nn.TransformerEncoder", "num_heads": HEADS, "norm_first": True,
            "activation": "gelu", "causal": False, "embedding_scale": 1, "pooling": "mean",
            "id2label": {str(i): name for i, name in enumerate(machine.CLASSES)},
            "features": {"sample_rate": machine.SAMPLE_RATE,
                         "frame_samples": features.FRAME_SAMPLES,
                         "hop_samples": features.HOP_SAMPLES,
                         "names": features.NAMES, "mean": mean, "scale": scale}}


def normalise(frames, config):
    """Float32 [..., 16], as the model wants them."""
    constants = config["features"]
    return ((frames - np.float32(constants["mean"])) /
            np.float32(constants["scale"])).astype(np.float32)


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


def read_safetensors(path):
    """What write_safetensors wrote: name -> float32 array."""
    content = path.read_bytes()
    length, = struct.unpack_from("<Q", content)
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
            for name, entry in header.items()}


def save(encoder, config, folder):
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = {name: tensor.numpy() for name, tensor in encoder.state_dict().items()}
    write_safetensors(folder / "model.safetensors", tensors)


def load(folder):
    """(encoder without dropout, config) from a folder with the two files."""
    encoder = Encoder()
    tensors = read_safetensors(folder / "model.safetensors")
    encoder.load_state_dict({name: torch.from_numpy(array.copy())
                             for name, array in tensors.items()})
    return encoder.eval(), json.loads((folder / "config.json").read_text())


def logits_of(encoder, frames, batch_windows=250):
    """Logits [windows, 5] of normalised frames, in the arithmetic of the encoder's weights."""
    dtype = encoder.input.weight.dtype
    with torch.no_grad():
        parts = [encoder(torch.from_numpy(frames[i:i + batch_windows]).to(dtype))
                 for i in range(0, len(frames), batch_windows)]
    return torch.cat(parts).numpy()
