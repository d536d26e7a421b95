#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the checks of archives refuse what they cannot look into.

Usage: archive_test.py C++-COMPILER
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from check_archives import contents

COMPILER = ""
CALLS_MALLOC = "extern \"C\" void* malloc(unsigned long); void* take() { return malloc(16); }\n"
TAKES_NOTHING = "int twice(int x) { return 2 * x; }\n"


class Contents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compile(self, name, source, *flags):
        path = self.folder / name
        path.with_suffix(".cc").write_text(source)
        subprocess.run([COMPILER, "-O2", *flags, "-c", path.with_suffix(".cc"), "-o", path],
                       check=True)
        return path

    def findings(self, members, symbol=""):
        archive = self.folder / "test.a"
        archive.unlink(missing_ok=True)
        subprocess.run(["ar", "crS", archive, *members], check=True)
        return "\n".join(contents("", [archive], [symbol]))

    def test_a_plain_archive_is_sound(self):
        members = [self.compile("a.o", TAKES_NOTHING), self.compile("b.o", CALLS_MALLOC)]
        self.assertEqual(self.findings(members, "_Z5twicei"), "")

    def test_an_empty_archive_is_refused(self):
        self.assertIn("it has no members", self.findings([]))

    def test_the_wrong_archive_is_refused(self):
        members = [self.compile("a.o", TAKES_NOTHING)]
        self.assertIn("it defines no symbol _Z6thricei", self.findings(members, "_Z6thricei"))
        # What it asks of others is not its own.
        asking = [self.compile("b.o", CALLS_MALLOC)]
        self.assertIn("it defines no symbol malloc", self.findings(asking, "malloc"))

    def test_bytecode_alone_is_refused(self):
        try:
            slim = self.compile("slim.o", CALLS_MALLOC, "-flto", "-fno-fat-lto-objects")
        except subprocess.CalledProcessError:
            self.skipTest("the compiler makes no bytecode")
        found = self.findings([self.compile("a.o", TAKES_NOTHING), slim])
        self.assertRegex(found, "slim.o (holds bytecode|is no ELF object)")
        self.assertNotIn("a.o ", found.replace("slim.o ", ""))

    def test_bytecode_beside_machine_code_is_accepted(self):
        try:
            fat = self.compile("fat.o", CALLS_MALLOC, "-flto", "-ffat-lto-objects")
        except subprocess.CalledProcessError:
            self.skipTest("the compiler makes no bytecode")
        if not fat.read_bytes().startswith(b"\x7fELF"):
            self.skipTest("the compiler makes no bytecode beside machine code")
        self.assertEqual(self.findings([fat]), "")

    def test_members_without_symbols_are_refused(self):
        hidden = self.compile("hidden.o", "static int x; int* f() { return &x; }\n")
        tool = "objcopy" if not COMPILER.endswith("-g++") else COMPILER[:-3] + "objcopy"
        subprocess.run([tool, "--strip-all", hidden], check=True)
        self.assertIn("hidden.o has no table of global symbols", self.findings([hidden]))

    def test_other_files_are_refused(self):
        text = self.folder / "notes.o"
        text.write_text("not an object file")
        found = self.findings([self.compile("a.o", TAKES_NOTHING), text])
        self.assertIn("notes.o is no ELF object file", found)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    COMPILER = sys.argv.pop(1)
    unittest.main()
