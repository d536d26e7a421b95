#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the .pt files of this folder with PyTorch (Debian 12: apt install python3-torch).

All values are i / 4 - 1 for i = 0, 1, 2, ... in row-major order, so that tests need no second file.
"""
import collections
import pathlib

import torch

FOLDER = pathlib.Path(__file__).parent


def ramp(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count) / 4 - 1).reshape(shape).to(dtype)


def all_types():
    tensors = collections.OrderedDict()
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        tensors[str(dtype).removeprefix("torch.")] = ramp(2, 3, dtype=dtype)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        tensors[str(dtype).removeprefix("torch.")] = torch.arange(-3, 3).reshape(2, 3).to(dtype)
    tensors["uint8"] = torch.arange(250, 256).reshape(2, 3).to(torch.uint8)
    tensors["bool"] = torch.tril(torch.ones(3, 3)).bool()
    return tensors


def views():
    """Tensors that are not simply a whole storage."""
    tensors = collections.OrderedDict()
    whole = ramp(4, 3)
    tensors["whole"] = whole
    tensors["transposed"] = whole.t()
    tensors["row"] = whole[2]
    tensors["column"] = whole[:, 1]
    tensors["expanded"] = ramp(3).expand(2, 3)
    tensors["scalar"] = torch.tensor(0.5)
    tensors["empty"] = torch.zeros(0, 3)
    tensors["parameter"] = torch.nn.Parameter(ramp(2))
    return tensors


def training():
    """What a training loop saves: a state dict among other things."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(ramp(*parameter.shape))
    optimizer = torch.optim.Adam(model.parameters())
    model(ramp(1, 3)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(ramp(*parameter.shape))
    return {
        "epoch": 3,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
        "best_loss": torch.tensor(0.25),
        "history": [(1, 0.5), (2, None)],
        "config": {"name": "tiny", "bias": True, "shape": torch.Size([2, 3]), 7: -(2**70)},
        "dtype": torch.float32,
    }


class Scripted(torch.nn.Module):
    def forward(self, x):
        return x + 1


def main():
    torch.manual_seed(0)
    torch.save(all_types(), FOLDER / "all_types.pt")
    torch.save(views(), FOLDER / "views.pt")
    torch.save(training(), FOLDER / "training.pt")
    torch.save({"w": ramp(2, 2)}, FOLDER / "protocol4.pt", pickle_protocol=4)
    torch.save({"w": ramp(2, 2)}, FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 1), FOLDER / "whole_module.pt")
    torch.jit.script(Scripted()).save(str(FOLDER / "torchscript.pt"))


if __name__ == "__main__":
    main()
