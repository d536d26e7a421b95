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
SECTIONS = ["targets", "arena", "masks", "bytes", "tensors", "weights"]
FEW_BITS = ["conversion", "outputs", "layers", "quantization"]


def shown_by(chromium, page):
    """The page as HTML after its script has run."""
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
             "--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}",
             "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True).stdout


def problems_of(html, sections):
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
        for model, options, sections in [
                ("models/vibration", ["--target", "all"], SECTIONS + ["conversion"]),
                ("models/home-intent", ["--weights", "q4"], SECTIONS + FEW_BITS),
                ("examples/translate/dates.pt2", [], SECTIONS + ["conversion"])]:
            subprocess.run(
                [program, "convert", PROJECT / model, "-o", Path(name) / "m.arn", "--report", page,
                 "--name", HOSTILE] + options, stdout=subprocess.DEVNULL, check=True)
            problems += [f"{model}: {text}" for text in
                         problems_of(shown_by(chromium, page), sections)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
