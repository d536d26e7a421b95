# SPDX-License-Identifier: Apache-2.0
"""Reads sections and symbols of static archives through readelf, which knows every architecture."""

import os
import re
import subprocess
from dataclasses import dataclass


@dataclass
class Section:
    member: str
    name: str
    size_bytes: int
    is_shared: bool  # with those of the same name: the linker keeps one


def output_of(*command, check=True):
    environment = {**os.environ, "LC_ALL": "C"}
    result = subprocess.run(command, capture_output=True, text=True, check=check, env=environment)
    return result.stdout.splitlines()


def readelf(option, archive):
    return output_of("readelf", "-W", option, str(archive))


def member_of(line):
    """The member that a line of readelf begins, or None: "File: libarenite.a(model.cc.o)"."""
    return line.rsplit("(", 1)[-1].rstrip(")") if line.startswith("File: ") else None


def sections(archive):
    """Yields the sections of all members of the archive."""
    member = ""
    row = re.compile(
        r"\s*\[\s*\d+\] (\S+)\s+\S+\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +([A-Zalopx]*)"
    )
    for line in readelf("-S", archive):
        member = member_of(line) or member
        match = row.match(line)
        if match:
            name, size_bytes, flags = match.groups()
            yield Section(member, name, int(size_bytes, 16), "G" in flags)


def symbol_rows(archive):
    """Yields (member, binding, visibility, section, name) of all symbols that have a name."""
    member = ""
    for line in readelf("-s", archive):
        member = member_of(line) or member
        # Columns: number, value, size, type, binding, visibility, section, name.
        columns = line.split()
        if len(columns) >= 8 and columns[0].rstrip(":").isdigit():
            yield member, columns[4], columns[5], columns[6], columns[-1]


def symbols(archive):
    """The global symbols of the archive: (defined names, undefined names)."""
    defined, undefined = set(), set()
    for _member, binding, _visibility, section, name in symbol_rows(archive):
        if binding in ("GLOBAL", "WEAK", "UNIQUE"):
            (undefined if section == "UND" else defined).add(name)
    return defined, undefined - defined


def unreadable_members(archive):
    """Yields what is wrong with members whose machine code and symbols cannot be seen.

    Bytecode of link-time optimization is one: its calls are in no symbol table before the link.
    """
    names = set(output_of("ar", "t", str(archive)))
    headers = output_of("readelf", "-W", "-h", str(archive), check=False)
    elf = {member_of(name) for name, start in zip(headers, headers[1:]) if start == "ELF Header:"}
    if not names:
        yield "it has no members"
    if names != elf:
        yield from (f"{name} is no ELF object file" for name in sorted(names - elf))
        return
    with_symbols = {row[0] for row in symbol_rows(archive)
                    if row[1] in ("GLOBAL", "WEAK", "UNIQUE")}
    bytecode, machine_code = set(), set()
    for section in sections(archive):
        if section.name.startswith(".gnu.lto_"):
            bytecode.add(section.member)
        elif section.size_bytes and section.name.startswith((".text", ".rodata", ".data.rel.ro")):
            machine_code.add(section.member)
    for name in sorted(elf):
        if name in bytecode - machine_code:
            yield f"{name} holds bytecode for link-time optimization and no machine code"
        elif name not in with_symbols:
            yield f"{name} has no table of global symbols"
