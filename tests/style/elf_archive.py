# SPDX-License-Identifier: Apache-2.0
"""Reads sections and symbols of static archives through readelf, which knows every architecture."""

import re
import subprocess
from dataclasses import dataclass


@dataclass
class Section:
    member: str
    name: str
    size_bytes: int
    is_shared: bool  # with those of the same name: the linker keeps one


def readelf(option, archive):
    command = ["readelf", "-W", option, str(archive)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def sections(archive):
    """Yields the sections of all members of the archive."""
    member = ""
    row = re.compile(
        r"\s*\[\s*\d+\] (\S+)\s+\S+\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +([A-Zalopx]*)"
    )
    for line in readelf("-S", archive):
        if line.startswith("File: "):
            member = line.rsplit("(", 1)[-1].rstrip(")")
        match = row.match(line)
        if match:
            name, size_bytes, flags = match.groups()
            yield Section(member, name, int(size_bytes, 16), "G" in flags)


def symbols(archive):
    """The global symbols of the archive: (defined names, undefined names)."""
    defined, undefined = set(), set()
    for line in readelf("-s", archive):
        # Columns: number, value, size, type, binding, visibility, section, name.
        columns = line.split()
        if len(columns) < 8 or columns[4] not in ("GLOBAL", "WEAK", "UNIQUE"):
            continue
        (undefined if columns[6] == "UND" else defined).add(columns[-1])
    return defined, undefined - defined
