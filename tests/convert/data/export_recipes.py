# SPDX-License-Identifier: Apache-2.0
"""Runs the lines of Python that documents, help and a message of `arenite convert` give for a
model of one's own, here a GPT of the best-known book, with PyTorch 2.14: export_recipes.py ARENITE.
"""
import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import torch

def run(arenite, *words, folder):
    return subprocess.run([arenite, *words], capture_output=True, text=True, cwd=folder)


class Book(torch.nn.Module):
    """Positions are a table's first rows, and the mask a corner of a buffer. PyTorch leaves out
    the length at which that corner is all of it."""

    def __init__(self, context=24, width=16):
        super().__init__()
        self.tokens = torch.nn.Embedding(40, width)
        self.positions = torch.nn.Embedding(context, width)
        self.attention = torch.nn.Linear(width, 3 * width)
        self.register_buffer("mask", torch.triu(torch.ones(context, context), diagonal=1))

    def forward(self, ids):
        tokens = ids.shape[1]
        x = self.tokens(ids) + self.positions(torch.arange(tokens))
        q, k, v = self.attention(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2)
        scores.masked_fill_(self.mask.bool()[:tokens, :tokens], -torch.inf)
        return torch.softmax(scores / 4, -1) @ v


def check_lines(arenite, folder):
    root = pathlib.Path(__file__).resolve().parents[3]
    (folder / "module.pt").write_bytes((root / "tests/convert/data/whole_module.pt").read_bytes())
    texts = {name: (root / name).read_text() for name in ("README.md", "tools/convert/README.md")}
    texts["help formats"] = run(arenite, "help", "formats", folder=folder).stdout
    texts["a whole module"] = run(arenite, "convert", "module.pt", "-o", "m.arn",
                                  folder=folder).stderr
    torch.manual_seed(1)
    for where, text in texts.items():
        found = re.search(r"^ *\w+ = torch\.export\.Dim.*?export\.save\(.*?\)$", text,
                          re.M | re.S)
        assert found, f"{where}: no lines that export with dynamic shapes: {text}"
        model, ids = Book().eval(), torch.randint(40, (1, 23))
        names = {"torch": torch, "model": model, "example": ids[:, :9]}
        with contextlib.chdir(folder):
            exec(textwrap.dedent(found[0]), names)
        converted = run(arenite, "convert", "model.pt2", "-o", "model.arn", folder=folder)
        assert converted.returncode == 0, f"{where}: {converted.stderr}"
        np.save(folder / "x.npy", ids.numpy())
        ran = run(arenite, "run", "model.arn", "--input", "x.npy", "--output", "y.npy",
                  folder=folder)
        assert ran.returncode == 0, f"{where}: {ran.stderr}"
        with torch.no_grad():
            error = np.abs(np.load(folder / "y.npy") - model.double()(ids).numpy()).max()
        assert error < 1e-5, (where, error)
    return f"converted from {', '.join(texts)}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print("Book", check_lines(sys.argv[1], pathlib.Path(name)))
