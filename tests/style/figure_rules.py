# SPDX-License-Identifier: Apache-2.0
"""Rules about measured figures: that pages show those that were measured last.

A rule takes the list of files and returns its findings, each a string "path:line: what is wrong".
"""

import re
import sys

from file_rules import prose_of
from source_tree import ROOT

sys.path.append(str(ROOT / "tests/figures"))
import write_figures  # noqa: E402, what makes the pages

# A numeral and what makes it a measured figure: its unit, or thousands.
FIGURE = re.compile(r"\b\d[\d,.]*\s*(%|[KMG]i?B\b|bytes\b|[mun]?s\b|seconds\b|times\b|tokens/s\b"
                    r"|[KMG]?FLOP|instructions\b|million\b)|\b\d{1,3}(,\d{3})+\b")


def figures_are_those_that_were_measured(files):
    """The pages of figures, and the table in README.md, are as write_figures.py makes them."""
    texts = {file.path: file.text for file in files}
    return [f"{path}:1: is not what tests/figures/write_figures.py makes of the figures"
            for path, text in write_figures.pages().items() if texts.get(path) != text]


def readme_has_no_other_figures(files):
    """Figures of README.md are in the table that write_figures.py makes, in code, or beside a link
    to the page of the web that gives them."""
    findings = []
    for file in (f for f in files if f.path == "README.md"):
        first, last = write_figures.README_MARKS
        made = re.compile(re.escape(first) + ".*?" + re.escape(last), re.S)
        text = made.sub(lambda block: "\n" * block.group().count("\n"), file.text)
        for number, line in enumerate(prose_of(text).splitlines(), 1):
            cells = re.split(r"(?<!\\)\|", line)
            for cell in (c for c in cells if not re.search(r"\]\[|\]\(https?:", c)):
                found = FIGURE.search(cell)
                if found:
                    findings.append(f"README.md:{number}: '{found.group()}' is typed by hand; let "
                                    "tests/figures/write_figures.py write it")
    return findings
