#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a C++ header with Unicode's letters and numbers as Python knows them.

Usage: unicode_classes.py HEADER
Tests compare it with the converter's tables, and use it where the converter has none.
"""

import sys
import unicodedata
from pathlib import Path


def ranges(accepts):
    found = []
    for code_point in range(0x80, 0x110000):
        if not accepts(unicodedata.category(chr(code_point))):
            continue
        if found and found[-1][1] == code_point - 1:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point])
    return found


def table(name, accepts):
    rows = "\n".join(f"    {first:#x}, {last:#x}," for first, last in ranges(accepts))
    return f"inline constexpr uint32_t {name}[] = {{\n{rows}\n}};\n"


def main():
    text = (
        "// SPDX-License-Identifier: Apache-2.0\n"
        "// Written by unicode_classes.py.\n#pragma once\n\n#include <cstdint>\n\n"
        "namespace arenite::test {\n\n"
        + table("kLetters", lambda category: category[0] == "L")
        + table("kNumbers", lambda category: category[0] == "N")
        + table("kUnassigned", lambda category: category == "Cn")
        + "\n}  // namespace arenite::test\n"
    )
    Path(sys.argv[1]).write_text(text)


if __name__ == "__main__":
    main()
