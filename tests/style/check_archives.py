#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the archives may ask of the system: no heap, no start-up code, no global state.

Usage: check_archives.py contents|imports|exports|constructors|state TARGET ARCHIVE[:SYMBOL]...
TARGET is a name in allowed_imports.txt; the archives are those of the runtime and its microkernels.
SYMBOL is a regular expression for a symbol that the archive must define. Before any check, each
archive must have members, and all of them symbols and machine code: one that cannot be looked into
would pass every check.
"""

import re
import sys
from pathlib import Path

from elf_archive import sections, symbol_rows, symbols, unreadable_members

ALLOWED = Path(__file__).with_name("allowed_imports.txt")


def allowed_imports(target):
    lines = (line.split("#")[0].split() for line in ALLOWED.read_text().splitlines())
    return {words[0] for words in lines if words and (len(words) == 1 or target in words[1:])}


def contents(_target, archives, expected):
    """What is wrong with the archives themselves."""
    findings = [f"{archive}: {problem}" for archive in archives
                for problem in unreadable_members(archive)]
    if findings:
        return findings
    for archive, symbol in zip(archives, expected):
        defined, _undefined = symbols(archive)
        if symbol and not any(re.fullmatch(symbol, name) for name in defined):
            findings.append(f"{archive}: it defines no symbol {symbol}")
    return findings


def imports(target, archives):
    defined, undefined = set(), set()
    for archive in archives:
        archive_defined, archive_undefined = symbols(archive)
        defined |= archive_defined
        undefined |= archive_undefined
    return [
        f"undefined symbol {name} is not in {ALLOWED.name} for {target}"
        for name in sorted(undefined - defined - allowed_imports(target))
    ]


def exports(_target, archives):
    """What a shared object that links them would give out beside its own."""
    return [
        f"{member}: {name} would be exported from a shared object"
        for archive in archives
        for member, binding, visibility, section, name in symbol_rows(archive)
        if binding != "LOCAL" and visibility == "DEFAULT" and section != "UND"
    ]


def constructors(_target, archives):
    return [
        f"{section.member}: {section.name} runs code before main"
        for archive in archives
        for section in sections(archive)
        if section.name.startswith((".init_array", ".ctors", ".preinit_array"))
    ]


def state(_target, archives):
    """Writable data. Constant tables of pointers (.data.rel.ro) are read-only after loading."""
    return [
        f"{section.member}: {section.name} holds {section.size_bytes} bytes of global state"
        for archive in archives
        for section in sections(archive)
        if section.size_bytes
        and section.name.startswith((".data", ".bss", ".tdata", ".tbss"))
        and not section.name.startswith(".data.rel.ro")
    ]


CHECKS = {check.__name__: check for check in (imports, exports, constructors, state)}


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("contents", *CHECKS):
        print(__doc__, file=sys.stderr)
        return 2
    words = [word.partition(":") for word in sys.argv[3:]]
    archives = [word[0] for word in words]
    findings = contents(sys.argv[2], archives, [word[2] for word in words])
    if not findings and sys.argv[1] in CHECKS:
        findings = CHECKS[sys.argv[1]](sys.argv[2], archives)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
