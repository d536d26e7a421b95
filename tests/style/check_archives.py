#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the archives may ask of the system: no heap, no start-up code, no global state.

Usage: check_archives.py imports|constructors|state libarenite.a libarenite_xnnpack.a
"""

import sys
from pathlib import Path

from elf_archive import sections, symbols

ALLOWED = Path(__file__).with_name("allowed_imports.txt")


def allowed_imports():
    lines = (line.split("#")[0].strip() for line in ALLOWED.read_text().splitlines())
    return {line for line in lines if line}


def imports(archives):
    defined, undefined = set(), set()
    for archive in archives:
        archive_defined, archive_undefined = symbols(archive)
        defined |= archive_defined
        undefined |= archive_undefined
    return [
        f"undefined symbol {name} is not in {ALLOWED.name}"
        for name in sorted(undefined - defined - allowed_imports())
    ]


def constructors(archives):
    return [
        f"{section.member}: {section.name} runs code before main"
        for archive in archives
        for section in sections(archive)
        if section.name.startswith((".init_array", ".ctors", ".preinit_array"))
    ]


def state(archives):
    """Writable data. Constant tables of pointers (.data.rel.ro) are read-only after loading."""
    return [
        f"{section.member}: {section.name} holds {section.size_bytes} bytes of global state"
        for archive in archives
        for section in sections(archive)
        if section.size_bytes
        and section.name.startswith((".data", ".bss", ".tdata", ".tbss"))
        and not section.name.startswith(".data.rel.ro")
    ]


def main():
    checks = {check.__name__: check for check in (imports, constructors, state)}
    if len(sys.argv) < 3 or sys.argv[1] not in checks:
        print(__doc__, file=sys.stderr)
        return 2
    findings = checks[sys.argv[1]](sys.argv[2:])
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
