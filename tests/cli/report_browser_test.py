#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens pages of --report in Chromium, where it is installed, and looks at what they show.

Usage: report_browser_test.py PROGRAM
Exit code 77: there is no Chromium.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SKIPPED = 77
HOSTILE = "</script><b id=broken>&amp;\u202e</b>" + "x" * 100
SECTIONS = ["conversion", "targets", "arena", "masks", "bytes", "tensors"]
QUANTIZED = ["outputs", "quantization", "notes"]
FEW_BITS = ["outputs", "layers", "quantization"]
# Each kind of model: its file, options, sections besides, and what the head says that it reads.
DATA = "tests/convert/data"
MATRIX = "tests/cli/matrix/data"
PAGES = [
    ("models/vibration", ["--target", "all"], [], "[tokens, 16]"),
    ("models/home-intent", ["--weights", "q4"], FEW_BITS, "tokens of a vocabulary of 400"),
    ("models/recall", ["--weights", "q8"], QUANTIZED, "[tokens, 18]"),
    ("models/wake/wake.pt2", ["--weights", "q4"], QUANTIZED, "[tokens, 80]"),
    ("examples/translate/dates.pt2", [], [], "target: tokens of a vocabulary of 128"),
    ("examples/speech/words.pt2", [], [], "[tokens, 32]"),
    (f"{MATRIX}/image.pt2", [], [], "images [2, 8, 8]"),
    (f"{MATRIX}/sentence", [], [], "tokens of a vocabulary of "),
    (f"{MATRIX}/classifier", [], [], "tokens of a vocabulary of "),
    (f"{MATRIX}/sensors.pt2", [], [], "[tokens, "),
    (f"{DATA}/several_inputs/image_text.pt2", [], [], "patches: [tokens, 5]"),
    (f"{DATA}/several_inputs/joined.pt2", [], [], "[tokens, "),
    (f"{DATA}/several_inputs/whisper.pt2", [], [], "[tokens, "),
]


def shown_by(chromium, page):
    """The page as HTML after its script has run, and the errors that the browser met."""
    with tempfile.TemporaryDirectory() as profile:
        shown = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--enable-logging=stderr", f"--user-data-dir={profile}",
             "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True)
    return shown.stdout, re.findall(r"CONSOLE.*", shown.stderr)


def problems_of(html, errors, sections, reads):
    yield from errors
    if reads not in html.replace(re.search(r"<script.*</script>", html, re.S)[0], ""):
        yield f"it does not say that the model reads {reads}"
    found = re.findall(r'<section id="(\w+)"', html)
    if sorted(found) != sorted(sections):
        yield f"sections {found}, expected {sections}"
    if not re.search(r"<h1>&lt;/script&gt;&lt;b id=broken&gt;&amp;amp;\?[^<]*\u2026x+</h1>", html):
        yield "the name of the model is not shown as it is"
    for part in ['id="broken"', "undefined", "NaN", "[object"]:
        if part in html.replace(re.search(r"<script.*</script>", html, re.S)[0], ""):
            yield f"it has {part}"


def main():
    program = sys.argv[1]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("skipped: there is no Chromium")
        return SKIPPED
    problems = []
    with tempfile.TemporaryDirectory() as name:
        page = Path(name) / "m.html"
        for model, options, sections, reads in PAGES:
            subprocess.run(
                [program, "convert", PROJECT / model, "-o", Path(name) / "m.arn", "--report", page,
                 "--name", HOSTILE] + options, stdout=subprocess.DEVNULL, check=True)
            problems += [f"{model}: {text}" for text in
                         problems_of(*shown_by(chromium, page), SECTIONS + sections, reads)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
