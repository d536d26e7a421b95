# SPDX-License-Identifier: Apache-2.0
"""Runs the lines of Python that `arenite convert` prints for folders of families that it does not
read, with PyTorch 2.14 and transformers 5: export_recipes.py ARENITE [MODEL...].

For small models with random weights PyTorch has to take the lines as they are printed, and the
program has to convert and to give the model's numbers, but for models that are EXPORTED_ALONE. So
have the lines in documents and help for a model of one's own, here a GPT of the best-known book.
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
import transformers

TEXT = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 32}
GPT = {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
IMAGE = {"image_size": 16, "patch_size": 4, "hidden_size": 16, "intermediate_size": 24,
         "num_hidden_layers": 2, "num_attention_heads": 2}
MODELS = {
    "GPTNeoForCausalLM": {
        "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_layers": 2,
        "num_heads": 2, "max_position_embeddings": 32, "window_size": 8,
        "attention_types": [[["global", "local"], 1]]},
    "OpenAIGPTLMHeadModel": GPT,
    "GPTJForCausalLM": GPT | {"rotary_dim": 4},
    "OPTForCausalLM": TEXT | {"ffn_dim": 24, "word_embed_proj_dim": 16},
    "StableLmForCausalLM": TEXT | {"num_key_value_heads": 2},
    "AlbertForSequenceClassification": TEXT | {"embedding_size": 8},
    "MobileBertForSequenceClassification": TEXT | {
        "embedding_size": 8, "true_hidden_size": 16, "intra_bottleneck_size": 16},
    "MPNetForMaskedLM": TEXT,
    "LayoutLMForTokenClassification": TEXT,
    "RoFormerForMaskedLM": TEXT | {"embedding_size": 16},
    "ViTForImageClassification": IMAGE,
    "DeiTForImageClassification": IMAGE,
}
EXPORTED_ALONE = {"GPTJForCausalLM", "LayoutLMForTokenClassification", "RoFormerForMaskedLM"}


def run(arenite, *words, folder):
    return subprocess.run([arenite, *words], capture_output=True, text=True, cwd=folder)


def recipe(model, arenite, folder):
    """What is printed for the model: the lines of Python, and the command."""
    model.save_pretrained(folder / "model")
    refused = run(arenite, "convert", str(folder / "model"), "-o", "model.arn", folder=folder)
    assert refused.returncode == 1 and "and convert the program:" in refused.stderr, refused.stderr
    lines, command = refused.stderr.split("export it with PyTorch:")[1].split(
        "and convert the program:")
    return lines, command.strip().splitlines()[0].split()


def check(name, settings, arenite, folder):
    kind = getattr(transformers, name)
    torch.manual_seed(len(name))
    model = kind(kind.config_class(**settings)).eval()
    lines, command = recipe(model, arenite, folder)
    (folder / "recipe.py").write_text(lines)
    exported = subprocess.run([sys.executable, "recipe.py"], capture_output=True, text=True,
                              cwd=folder)
    assert exported.returncode == 0, exported.stderr[-800:]
    if name in EXPORTED_ALONE:
        return "exported"
    converted = run(arenite, *command[1:], folder=folder)
    assert converted.returncode == 0, converted.stderr
    given = (torch.rand(1, 3, 16, 16) if settings is IMAGE
             else torch.randint(3, settings["vocab_size"], (1, 11)))
    np.save(folder / "x.npy", given.numpy())
    ran = run(arenite, "run", "model.arn", "--input", "x.npy", "--output", "y.npy", folder=folder)
    assert ran.returncode == 0, ran.stderr
    with torch.no_grad():
        wide = given.double() if given.is_floating_point() else given
        expected = model.double()(wide, return_dict=False)[0].numpy()
    error = np.abs(np.load(folder / "y.npy") - expected).max() / np.abs(expected).max()
    assert error < 1e-4, error
    return f"converted, off by {error:.1e}"


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


def main(arenite, names):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        print("Book", check_lines(arenite, pathlib.Path(folder)), flush=True)
    for name, settings in MODELS.items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(name, check(name, settings, arenite, pathlib.Path(folder)), flush=True)
            except AssertionError as error:
                failed += 1
                print(name, "FAILED", error, flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
