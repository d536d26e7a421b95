#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every kind of model by tools/python/arenite.py, beside what PyTorch computes, and compares
its structures and the symbols of the shared library with the C headers.

Usage: python_test.py ROOT ARENITE LIBRARY FOLDER CC
ROOT is the source tree, ARENITE the program, LIBRARY libarenite.so; FOLDER gets the models.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest

ROOT, ARENITE, LIBRARY, FOLDER, CC = sys.argv[1:6]
ROOT, FOLDER = pathlib.Path(ROOT).resolve(), pathlib.Path(FOLDER).resolve()
INCLUDE = ROOT / "runtime/include"
HEADERS = ["arenite.h", "arenite_sound.h", "arenite_text.h", "arenite_tick_profile.h"]
os.environ["ARENITE_LIBRARY"] = LIBRARY = os.path.abspath(LIBRARY)
sys.path[:0] = [str(ROOT / "tools/python"), str(ROOT / "tests/cli/matrix")]
sys.dont_write_bytecode = True
import numpy  # noqa: E402
import arenite  # noqa: E402
import table  # noqa: E402

# Members of the C++ classes whose names differ in C, or which C has as a member of a structure.
IN_C = {"of": "init", "tokens_min": None, "file": None, "hook": None, "size": None}
DATA = ROOT / "tests/cli/matrix/data"
TOLERANCE = 1e-5  # of the largest element
INTENT = ("dim the bedroom lamp to thirty percent<|do|>", "light.bedroom.brightness=30")


def metadata_and_arrays(path):
    data = path.read_bytes()
    size = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:size])
    metadata = header.pop("__metadata__", {})
    types = {"F32": "f4", "I64": "i8", "U8": "u1"}
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[size + begin:size + end], types[entry["dtype"]])
        arrays[name] = values.reshape(entry["shape"])
    return metadata, arrays


def convert(source, name, *options):
    path = FOLDER / f"{name}.arn"
    if not path.exists():
        subprocess.run([ARENITE, "convert", source, "-o", path, *options], check=True,
                       stdout=subprocess.DEVNULL)
    return path


def model_of(kind):
    return arenite.Model(convert(DATA / table.KINDS[kind].file, kind, *table.KINDS[kind].options))


def session_of(model, kind, arrays, **options):
    """A session for two sequences, and the two inputs where there are so many."""
    tokens = [arrays[name].shape[1] for name in ("input", "input2") if name in arrays]
    if not table.KINDS[kind].pixels:
        options["positions_max"] = tokens[0]
    if table.KINDS[kind].gives == "tokens":
        options["outputs"] = "all"
    return model.session(sequences_max=2, others=[(n, 2 * n) for n in tokens[1:]], **options)


class Kinds(unittest.TestCase):
    def expect(self, found, expected, rows=None):
        expected = expected.reshape(-1, expected.shape[-1])
        if rows is not None:
            found, expected = found[rows], expected[rows]
        self.assertEqual(found.shape, expected.shape)
        self.assertLess(abs(found - expected).max(), TOLERANCE * abs(expected).max())

    def run_all(self, session, arrays, **batch):
        """Runs both sequences in one call, in an encoder and a decoder one after the other."""
        if "input2" not in arrays:
            return session.run(arrays["input"], **batch)
        if len(session._model.functions) == 1:
            pairs = {key: (value, arrays["lengths2"]) for key, value in batch.items()}
            return session.run(arrays["input"], arrays["input2"], **pairs)
        session.run(arrays["input"], function="encode", **batch)
        second = {"lengths": arrays["lengths2"]} if "lengths" in batch else {}
        return session.step(arrays["input2"], function="step", **second)

    def test_run_gives_what_pytorch_computes(self):
        for kind in table.KINDS:
            with self.subTest(kind):
                _, arrays = metadata_and_arrays(DATA / f"{kind}.expected.safetensors")
                session = session_of(model_of(kind), kind, arrays)
                self.expect(self.run_all(session, arrays), arrays["output"])
                if "lengths" not in arrays:
                    continue
                found = self.run_all(session, arrays, lengths=arrays["lengths"])
                expected = arrays["lengths_output"]
                if table.KINDS[kind].gives == "tokens":
                    lengths = arrays["lengths2" if "lengths2" in arrays else "lengths"]
                    expected = numpy.concatenate([row[:n] for row, n in zip(expected, lengths)])
                self.expect(found, expected)

    def test_masks_and_types_are_those_of_the_call(self):
        for kind in ("encoder", "classifier", "sentence", "tagger"):
            with self.subTest(kind):
                _, arrays = metadata_and_arrays(DATA / f"{kind}.expected.safetensors")
                session = session_of(model_of(kind), kind, arrays)
                self.expect(session.run(arrays["input"], types=arrays["types"]),
                            arrays["types_output"])
                expected = arrays["mask_output"]
                if table.KINDS[kind].gives == "tokens":
                    expected = expected[arrays["mask"] != 0]
                self.expect(session.run(arrays["input"], visible=arrays["mask"]), expected)

    def test_steps_give_the_bits_of_one_call(self):
        for kind in ("features", "tokens", "decoder"):
            with self.subTest(kind):
                _, arrays = metadata_and_arrays(DATA / f"{kind}.expected.safetensors")
                session = session_of(model_of(kind), kind, arrays)
                sequence = arrays["input"][0]
                whole = session.run(sequence)
                session.reset()
                steps = [session.step(sequence[i:i + 1]) for i in range(len(sequence))]
                self.assertTrue(numpy.array_equal(numpy.concatenate(steps), whole))
                session.rewind(3)
                self.assertEqual(session.positions(), 3)
                self.assertTrue(numpy.array_equal(session.step(sequence[3:5]), whole[3:5]))

    def test_texts_become_what_transformers_computes(self):
        for kind in ("classifier", "sentence", "tagger"):
            with self.subTest(kind):
                metadata, arrays = metadata_and_arrays(DATA / f"{kind}.expected.safetensors")
                texts, pair = json.loads(metadata["texts"]), tuple(metadata["pair"].split("\t"))
                model, expected = model_of(kind), arrays["text_output"]
                if kind == "sentence":
                    self.expect(model.embed(texts), expected)
                    self.expect(model.embed([pair]), arrays["pair_output"])
                    continue
                found = model.classify(texts)
                shares = numpy.exp(expected) / numpy.exp(expected).sum(1, keepdims=True)
                self.expect(numpy.concatenate([row.reshape(-1, row.shape[-1]) for row in found]),
                            shares)
                self.assertEqual(len(model.labels), shares.shape[1])

    def test_generate_continues_a_prompt(self):
        model = arenite.Model(convert(ROOT / "models/home-intent", "intent"))
        prompt, answer = INTENT
        self.assertEqual("".join(model.generate(prompt, read_specials=True)).strip(), answer)
        self.assertEqual(model.tokenizer.decode(model.tokenizer.encode(answer)).strip(), answer)
        drawn = ["".join(model.generate(prompt, read_specials=True, temperature=2.0, seed=seed))
                 for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_arrays_are_read_where_they_lie_and_rows_are_views_on_demand(self):
        model = model_of("features")
        session = model.session(outputs="all")
        window = numpy.ones((4, model.input_features), numpy.float32)
        view = session.run(window, copy=False)
        kept = session.run(window)
        session.run(2 * window)
        self.assertFalse(numpy.array_equal(view, kept))
        self.assertEqual(session.arena_bytes, model.plan(outputs="all")["total_bytes"])


class Page(unittest.TestCase):
    """examples/python/README.md, followed to its end."""

    def test_programs_print_what_the_page_shows(self):
        page = (ROOT / "examples/python/README.md").read_text(encoding="utf-8")
        convert(ROOT / "models/vibration", "vibration")
        convert(ROOT / "models/home-intent", "intent")
        shutil.copy(convert(DATA / "sentence", "sentence"), FOLDER / "sentences.arn")
        (FOLDER / "models").unlink(missing_ok=True)
        (FOLDER / "models").symlink_to(ROOT / "models")
        blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", page, flags=re.S)
        self.assertEqual(len(blocks), 3)
        for code, expected in blocks:
            printed = subprocess.run(
                [sys.executable, "-B", "-c", code], cwd=FOLDER, text=True, check=True,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT / "tools/python")}).stdout
            if expected:
                self.assertEqual(printed.strip(), expected.strip())
            else:  # the three nearest sentences, by a model of a test
                self.assertRegex(printed, r"^(\d\.\d{3} the pump number \d+ is loud\n){3}$")


class Refusals(unittest.TestCase):
    def refused(self, words, call, *arguments, **options):
        with self.assertRaisesRegex(arenite.Error, words):
            call(*arguments, **options)

    def test_arrays_that_do_not_fit_are_named(self):
        session = model_of("features").session()
        self.refused(r"found shape \[6\], expected \[tokens, 6\]", session.run, numpy.ones(6))
        self.refused("found 5 features a token, expected 6", session.run, numpy.ones((3, 5)))
        self.refused("found complex128, expected float32", session.run, numpy.ones((3, 6), complex))
        self.refused("found <U1, expected float32", session.run, [["a"] * 6])
        tokens = model_of("tokens").session()
        self.refused("found float64, expected integers", tokens.run, [1.5])
        self.refused("found -1 to 3, expected 0 to 4294967295", tokens.run, [3, -1])
        self.refused("vocabulary", tokens.run, [1000])
        self.refused(r"lengths: found shape \[2\], expected \[1\]", tokens.run, [1], lengths=[1, 1])
        self.refused("found 2 inputs; the function takes 1", tokens.run, [1], [2])
        self.refused("the model has run", tokens.run, [1], function="encode")
        self.refused("no pair mask", tokens.run, [1], pairs=[[1]])
        self.refused("a vector for each token", model_of("encoder").embed, ["a"])

    def test_files_that_are_no_models_are_refused(self):
        self.refused("", arenite.Model, b"")
        self.refused("identifier|magic|model file|not a", arenite.Model, bytes(4096))
        sound = (FOLDER / "features.arn").read_bytes() if (FOLDER / "features.arn").exists() else \
            convert(DATA / "features.pt2", "features").read_bytes()
        self.refused("", arenite.Model, sound[:-1])
        arenite.Model(sound)

    def test_a_library_of_another_version_is_refused(self):
        folder = FOLDER / "another"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        source = (ROOT / "tools/python/arenite.py").read_text(encoding="utf-8")
        changed = re.sub(r'^VERSION = "\d+\.\d+', 'VERSION = "0.999', source, flags=re.M)
        (folder / "arenite.py").write_text(changed, encoding="utf-8")
        told = subprocess.run([sys.executable, "-c", "import arenite"], cwd=folder, text=True,
                              stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(told.returncode, 0)
        self.assertRegex(told.stderr, r"is version 0\.\d+\.\d+, arenite.py is for 0\.999")


def functions_of_c():
    text = "".join((INCLUDE / "arenite" / name).read_text(encoding="utf-8") for name in HEADERS)
    text = re.sub(r"//[^\n]*", "", re.sub(r"#define(\\\n|[^\n])*", "", text))
    return set(re.findall(r"\b(arenite_\w+)\s*\((?!\*)[^;{]*\)\s*;", text))


class Library(unittest.TestCase):
    def test_c_has_what_the_classes_have(self):
        declared, classes = functions_of_c(), 0
        for header in sorted((INCLUDE / "arenite").glob("[!a]*.h")):
            text = re.sub(r"//[^\n]*", "", header.read_text(encoding="utf-8"))
            for found in re.finditer(r"^class (\w+) \{\n public:\n(.*?)(?= private:)", text,
                                     re.S | re.M):
                snake = re.sub(r"(?<!^)(?=[A-Z])", "_", found[1]).lower()
                names = re.findall(r"\b([a-z]\w*[a-z])\([^;{]*\)[ \w=]*[;{]", found[2])
                classes += 1
                if snake == "checked":
                    continue
                for name in (IN_C.get(name, name) for name in names):
                    if name == "create" and snake == "sampler":
                        name = "init"
                    if name is not None:
                        self.assertIn(f"arenite_{snake}_{name}", declared)
        self.assertGreaterEqual(classes, 8)

    def test_exports_what_the_headers_declare_and_nothing_else(self):
        declared = functions_of_c()
        symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout.split("\n")
        version = ".".join(arenite.VERSION.split(".")[:2])
        exported = {line.split()[2] for line in symbols if line.split()[1:2] == ["T"]}
        self.assertEqual(exported, {f"{name}@@ARENITE_{version}" for name in declared})
        others = [line for line in symbols if line and line.split()[1] not in "TA"]
        self.assertEqual(others, [])
        self.assertEqual(arenite._c.arenite_version().decode(), arenite.VERSION)

    def test_structures_are_those_of_the_headers(self):
        lines = [f'#include "arenite/{name}"' for name in HEADERS] + ["#include <stddef.h>"]
        structures = [value for value in vars(arenite).values() if isinstance(value, type)
                      and issubclass(value, ctypes.Structure)]
        self.assertGreater(len(structures), 20)
        for structure in structures:
            name = structure.__name__
            lines.append(f"_Static_assert(sizeof({name}) == {ctypes.sizeof(structure)}, \"\");")
            for field, _ in structure._fields_:
                at = getattr(structure, field)
                lines.append(f"_Static_assert(offsetof({name}, {field}) == {at.offset} && "
                             f"sizeof((({name}*)0)->{field}) == {at.size}, \"\");")
        subprocess.run([CC, "-std=c11", "-fsyntax-only", "-I", INCLUDE, "-x", "c", "-"],
                       input="\n".join(lines) + "\n", text=True, check=True)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])
