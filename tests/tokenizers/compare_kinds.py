#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `arenite tokenize` with Hugging Face's library, for the kinds that make_kinds.py wrote.

    python3 compare_kinds.py FOLDER ARENITE [--refused FILE] [NAME ...]

Prints for each kind whether ids and decoded texts are the same, or why it is refused. Fails if one
differs.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def tokenize(arenite, model, texts, mode):
    """Texts with line breaks go on the command line, all others into a file."""
    in_file = [i for i, t in enumerate(texts) if "\n" not in t and "\r" not in t]
    on_line = [i for i in range(len(texts)) if i not in set(in_file)]
    special = ["--special"] if mode == "special" else []
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.txt"
        lines.write_text("".join(texts[i] + "\n" for i in in_file), newline="")
        given = [(in_file, ["--file", str(lines)])]
        given.append((on_line, [f"--text={texts[i]}" for i in on_line]))
        for places, arguments in given:
            if not places:
                continue
            run = subprocess.run([arenite, "tokenize", model, "--json", *special, *arguments],
                                 capture_output=True, check=False)
            if run.returncode != 0:
                raise RuntimeError(run.stderr.decode(errors="replace").strip())
            results = json.loads(run.stdout.decode(errors="replace"))["texts"]
            found.update(zip(places, results, strict=True))
    return [found[i] for i in range(len(texts))]


# Kinds whose special tokens get a prefix by the normalizer: version 0.23 writes these as text,
# earlier ones and the runtime leave them out. Their ids are compared alone.
IDS_ALONE = {"llama_2_normalized"}


def as_written(text):
    """Runs of U+FFFD count as one: how many stand for broken bytes is no one's rule."""
    while "\ufffd\ufffd" in text:
        text = text.replace("\ufffd\ufffd", "\ufffd")
    return text


def compare(arenite, folder, show):
    cases = json.loads((folder / "cases.json").read_text())
    with tempfile.TemporaryDirectory() as temporary:
        model = f"{temporary}/model.arn"
        run = subprocess.run([arenite, "convert", folder, "-o", model], capture_output=True,
                             text=True, check=False)
        if run.returncode != 0:
            return "refused", run.stderr.strip().replace(str(folder) + "/", "")
        differ = []
        for mode, expected in cases.items():
            try:
                results = tokenize(arenite, model, expected["texts"], mode)
            except RuntimeError as error:
                return "differ", f"{mode}: {error}"
            for text, result, ids, decoded in zip(expected["texts"], results, expected["ids"],
                                                  expected["decoded"], strict=True):
                if result["ids"] != ids:
                    differ.append((len(text), f"{mode} ids {text!r}: {result['ids']}, not {ids}"))
                elif folder.name in IDS_ALONE or decoded is None:
                    continue
                elif as_written(result["decoded"]) != as_written(decoded):
                    differ.append((len(text), f"{mode} text of {ids}: {result['decoded']!r}, not "
                                   f"{decoded!r}"))
    if not differ:
        return "same", ""
    differ.sort()
    return "differ", "\n    ".join([f"{len(differ)} cases"] + [d[1] for d in differ[:show]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("arenite")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--show", type=int, default=2, help="differences of a kind")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    folders = [f for f in sorted(arguments.folder.iterdir())
               if not arguments.names or f.name in arguments.names]
    counts = {"same": 0, "refused": 0, "differ": 0}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(lambda f: compare(arguments.arenite, f, arguments.show), folders)
        for folder, (verdict, why) in zip(folders, results, strict=True):
            counts[verdict] += 1
            print(f"{verdict:8} {folder.name:28} {why}".rstrip(), flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return counts["differ"] != 0


if __name__ == "__main__":
    sys.exit(main())
