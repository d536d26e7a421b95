#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a dictionary for libFuzzer: the words that sources compare with.

  dictionary.py OUT SOURCE...
"""

import re
import sys
from pathlib import Path

WORD = re.compile(r'"([A-Za-z_<#\[|][A-Za-z0-9_.<>#|/\]\[-]{1,40})"')


def main():
    out, *sources = map(Path, sys.argv[1:])
    words = set()
    for source in sources:
        for line in source.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#include"):
                words.update(WORD.findall(line))
    out.write_text("".join(f'"{word}"\n' for word in sorted(words)), encoding="utf-8")


main()
