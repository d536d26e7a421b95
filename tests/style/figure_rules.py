# SPDX-License-Identifier: Apache-2.0
"""Rules about measured figures: that pages show those that were measured last.

A rule takes the list of files and returns its findings, each a string "path:line: what is wrong".
"""

import json
import re
import sys

from source_tree import ROOT

sys.path.append(str(ROOT / "tests/figures"))
import write_figures  # noqa: E402, what makes the pages


def figures_are_those_that_were_measured(files):
    """The pages of figures are as write_figures.py makes them."""
    texts = {file.path: file.text for file in files}
    return [f"tests/{path}:1: is not what tests/figures/write_figures.py makes of the figures"
            for path, text in write_figures.pages().items() if texts.get(f"tests/{path}") != text]


def quoted_figures(measured):
    """What README.md may say of `measured`, the figures by the names of their files."""
    runs = sum(row["executions"] for row in measured["fuzz"]["targets"].values())
    return [f"{measured['damage']['variants']:,} damaged files", f"{runs // 10**6} million inputs",
            f"all but {measured['coverage']['exceptions']} branches"]


def readme_quotes_the_figures(files):
    """README.md quotes three figures, in the words of quoted_figures."""
    texts = {file.path: file.text for file in files}
    measured = {name: json.loads(texts[f"tests/figures/{name}.json"])
                for name in ("fuzz", "damage", "coverage") if f"tests/figures/{name}.json" in texts}
    if len(measured) < 3:
        return ["tests/figures:1: figures are missing"]
    readme = re.sub(r"\s+", " ", texts.get("README.md", ""))
    return [f"README.md:1: does not say: {quoted}" for quoted in quoted_figures(measured)
            if quoted not in readme]
