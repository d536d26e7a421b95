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
        names = [name for name in ("input", "input2") if name in self.arrays]
        self.inputs = [self.file(name) for name in names]
        self.input = ",".join(str(file) for file in self.inputs)  # as --expect takes them
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
            facts = self.json("run", model or self.model, *self.each("--input", source),
                              "--output", output, *options)
        except Refused:
            require(not output.exists(), "a file was left behind")
            raise
        written = read_npy(output)
        require(facts["finite"], "not all of it is finite")
        require(facts["output"]["shape"] == written.shape, "--json says another shape")
        return written

    def each(self, option, values=None):
        """The option for each input of the model, whose values are files if nothing is said."""
        return [word for value in values or self.inputs for word in (option, value)]

    def lengths(self):
        """Of each input those of its sequences."""
        found = [self.arrays[name].values for name in ("lengths", "lengths2")
                 if name in self.arrays]
        return [",".join(str(value) for value in values) for values in found or [[3, 3]]]

    def array(self, name):
        require(name in self.arrays, "the fixture has no", name, "to compare with")
        return self.arrays[name]

    def file(self, name):
        """The array as a .npy file."""
        return write_npy(self.folder / f"{name}.npy", self.array(name))

    def tokens_files(self, name):
        """The same of an array with a number for each token; if there is none, for each input ones
        and then zeros from the lengths on."""
        if name in self.arrays:
            return [self.file(name)]
        files = []
        for i in ("", "2")[:len(self.inputs)]:
            sequences, tokens = self.arrays["input" + i].shape[:2]
            has_lengths = "lengths" + i in self.arrays
            lengths = self.arrays["lengths" + i].values if has_lengths else [tokens] * sequences
            ones = [int(t < length) for length in lengths for t in range(tokens)]
            files.append(write_npy(self.folder / f"{name}{i}.npy",
                                   Array([sequences, tokens], array.array("B", ones), "B")))
        return files

    def short(self):
        """The second sequence alone, cut where it may be shorter, and what comes of it."""
        given = [self.arrays[name].at(1) for name in ("input", "input2") if name in self.arrays]
        wanted = self.array("output").at(1)
        if "lengths" in self.arrays:
            lengths = [self.arrays[name].values[1] for name in ("lengths", "lengths2")
                       if name in self.arrays]
            given = [array.first(length) for array, length in zip(given, lengths)]
            wanted = self.array("lengths_output").at(1)
            wanted = wanted.first(lengths[-1]) if len(wanted.shape) == 2 else wanted
        return [stacked([array]) for array in given], stacked([wanted])

    def sizes(self):
        """For all of the input in one call; of several inputs for a sequence of each."""
        shape = self.array("input").shape
        tokens = self.kind.pixels or shape[1]
        if len(self.inputs) > 1:
            return ["--positions", tokens, "--tokens", tokens]
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
