# SPDX-License-Identifier: Apache-2.0
"""A row of table.py: a model file, the program that runs it, and what is expected of it."""

import array
import json
import os
import subprocess
from pathlib import Path

import table
from arrays import Array, read_npy, read_safetensors, stacked, write_npy

DATA = Path(__file__).parent / "data"
# What nobody wrote in an arena is NaN, and help has a width of its own.
ENVIRONMENT = {**os.environ, "ARENITE_FILL_ARENA": "1", "COLUMNS": "100"}


class Refused(Exception):
    """The program says why it does not do what it was asked for."""

    def __init__(self, code, message):
        super().__init__(f"exit code {code}: {message.strip()}")
        self.code, self.message = code, message


class Wrong(Exception):
    """The program does what it should not do."""


def require(condition, *what):
    if not condition:
        raise Wrong(" ".join(str(part) for part in what))


def arenite(program, words, **options):
    """What the program prints. Raises Refused."""
    result = subprocess.run([*program, *(str(word) for word in words)], text=True,
                            capture_output=True, env=ENVIRONMENT, check=False, **options)
    if result.returncode in (1, 2):
        raise Refused(result.returncode, result.stderr)
    require(result.returncode == 0, "exit code", result.returncode, result.stderr)
    return result.stdout


def with_last(options, others):
    """Both, where an option that is in both counts as the others have it."""
    words = [str(word) for word in others]
    kept, skip = [], False
    for word in options:
        if word.startswith("--"):
            skip = word in words
        if not skip:
            kept.append(word)
    return [*kept, *words]


class Row:
    """A kind of model whose weights and cache are of some type. Its files lie in `folder`."""

    def __init__(self, program, kind, variant, folder, targets="native,portable"):
        self.program, self.name, self.folder = program, f"{kind}_{variant}", folder
        self.kind, self.variant = table.KINDS[kind], table.VARIANTS[variant]
        self.arrays, self.texts = read_safetensors(DATA / f"{kind}.expected.safetensors")
        self.checkpoint = DATA / self.kind.file
        self.model, self.other = folder / f"{self.name}.arn", folder / "other.arn"
        self.input = self.file("input")
        self.convert("--target", targets, output=self.model)

    def arenite(self, *words):
        return arenite(self.program, words)

    def json(self, *words):
        return json.loads(self.arenite(*words, "--json"))

    def options(self):
        return [*self.kind.options, *self.variant.options]

    def convert(self, *options, output=None):
        """The report of a conversion to `other`."""
        return self.json("convert", self.checkpoint, "-o", output or self.other,
                         *with_last(self.options(), options))

    def run(self, *options, model=None, source=None):
        """The array that `arenite run` writes."""
        output = self.folder / "output.npy"
        output.unlink(missing_ok=True)
        try:
            facts = self.json("run", model or self.model, "--input", source or self.input,
                              "--output", output, *options)
        except Refused:
            require(not output.exists(), "a file was left behind")
            raise
        written = read_npy(output)
        require(facts["finite"], "not all of it is finite")
        require(facts["output"]["shape"] == written.shape, "--json says another shape")
        return written

    def array(self, name):
        require(name in self.arrays, "the fixture has no", name, "to compare with")
        return self.arrays[name]

    def file(self, name):
        """The array as a .npy file."""
        return write_npy(self.folder / f"{name}.npy", self.array(name))

    def tokens_file(self, name):
        """The same of an array with a number for each token; if there is none, ones and then zeros
        from the lengths on."""
        if name in self.arrays:
            return self.file(name)
        sequences, tokens = self.arrays["input"].shape[:2]
        whole = [tokens] * sequences
        lengths = self.arrays["lengths"].values if "lengths" in self.arrays else whole
        ones = [int(t < length) for length in lengths for t in range(tokens)]
        return write_npy(self.folder / f"{name}.npy",
                         Array([sequences, tokens], array.array("B", ones), "B"))

    def short(self):
        """The second sequence alone, cut where it may be shorter, and what comes of it."""
        given, wanted = self.array("input").at(1), self.array("output").at(1)
        if "lengths" in self.arrays:
            length = self.arrays["lengths"].values[1]
            given, wanted = given.first(length), self.array("lengths_output").at(1)
            wanted = wanted.first(length) if len(wanted.shape) == 2 else wanted
        return stacked([given]), stacked([wanted])

    def sizes(self):
        """For all of the input in one call."""
        shape = self.array("input").shape
        tokens = self.kind.pixels or shape[1]
        return ["--positions", tokens, "--tokens", shape[0] * tokens, "--sequences", shape[0]]

    def tolerance_with(self, cache):
        """Where the cache, or weights, are of this type, too."""
        return self.variant.tolerance + (table.IN_INT8 if cache == "int8" else 0)

    def expect(self, found, expected, tolerance=None, are_rows_unlike=True):
        """Raises Wrong unless shapes are the same and numbers nearly so, and unless a row in
        another's place would be noticed. In few bits that is asked of the whole output alone,
        which fixtures are chosen for."""
        require(found.shape == expected.shape, "shape is", found.shape, "expected", expected.shape)
        largest = expected.largest()
        if expected.shape[-1] == self.array("output").shape[-1]:  # a part of the outputs
            largest = max(largest, self.array("output").largest())
        tolerance = tolerance or self.variant.tolerance
        allowed = tolerance * largest
        is_chosen = tolerance < table.IN_INT8 or expected is self.array("output")
        closest = expected.closest_rows() if are_rows_unlike and is_chosen else None
        require(closest is None or closest > 2 * allowed,
                f"two rows of the fixture are {closest} apart: {allowed} would not tell them")
        off = found.difference(expected)
        require(off <= allowed, f"off by {off:.3g}: at most {allowed:.3g}")
