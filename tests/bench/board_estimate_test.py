# SPDX-License-Identifier: Apache-2.0
"""Compares what `arenite inspect --board` says of instructions with what QEMU counts."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from count_cortex_m import count, convert, MODELS, TYPES

TOOL = pathlib.Path(os.environ["ARENITE_TOOL"])
PROGRAM = os.environ["ARENITE_PROGRAM"]
MACHINE = os.environ["ARENITE_MACHINE"]  # QEMU's
BOARD = os.environ["ARENITE_BOARD"]  # with the same CPU
TARGET = os.environ["ARENITE_TARGET"]
ROOT = pathlib.Path(__file__).resolve().parents[2]

OFF_BY_AT_MOST = 0.1
# Most weights of its attention are zero, and products with zero are quick without an FPU.
OFF_WITHOUT_FPU = {"recall": 0.25} if TARGET == "portable" else {}


def estimated(file, tokens):
    """{rows: instructions}, at the sizes of the counted sessions."""
    most = json.loads(subprocess.run([TOOL, "inspect", file, "--json"], check=True,
                                     stdout=subprocess.PIPE).stdout)["model"]["positions_max"]
    positions = min(tokens + 1, most or tokens + 1)
    facts = json.loads(subprocess.run(
        [TOOL, "inspect", file, "--json", "--board", BOARD, "--positions", str(positions),
         "--tokens", str(tokens)], check=True, stdout=subprocess.PIPE).stdout)
    return {call["rows"]: call["instructions"] for call in facts["board"]["calls"]}


class BoardEstimate(unittest.TestCase):
    def test_instructions_are_what_qemu_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            files = convert(TOOL, ROOT, pathlib.Path(folder), MODELS, [TARGET])
            counted = count(PROGRAM, MACHINE, [f"{model},{weights}={file}:{MODELS[model][1]}"
                                               for (model, weights, _), file in files.items()],
                            "models")
            found = {key[:2]: estimated(file, MODELS[key[0]][1]) for key, file in files.items()}
        self.assertGreaterEqual(len(counted), len(MODELS) * len(TYPES))
        off = {}
        for line in counted:
            key = line["what"], line["type"], line["rows"]
            off[key] = found[key[:2]][line["rows"]] / line["instructions"] - 1
            print(*key, f"{line['instructions']:,.0f} counted, off by {off[key]:+.1%}")
        for key, share in off.items():
            self.assertLessEqual(abs(share), OFF_WITHOUT_FPU.get(key[0], OFF_BY_AT_MOST), key)


if __name__ == "__main__":
    unittest.main()
