#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a shard of damage_every counted is kept, gone on with, and added up once.

Usage: shards_test.py DAMAGE_EVERY MAKE_DAMAGED_MODELS
"""

import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import add_shards

PROGRAM, MAKER = sys.argv[1:3]
SHARDS = 9973  # many, so that one is small
REPAIRED = "checksums and formulas right"


def taken(model):
    """Variants that are counted, without those made of others by repair."""
    return sum(sum(fates.values()) for kind, fates in model["counts"].items() if kind != REPAIRED)


class Shards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.state = cls.folder / f"shard-3-of-{SHARDS}.json"
        subprocess.run([MAKER, cls.folder], check=True)
        cls.first = cls.run_shard()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def run_shard(cls):
        subprocess.run([PROGRAM, cls.folder, f"3/{SHARDS}"], check=True, capture_output=True)
        return json.loads(cls.state.read_text())

    def test_takes_each_nth_variant_of_three_models(self):
        self.assertEqual(sorted(self.first["models"]),
                         ["attention", "decoder", "encoder", "experts", "functions", "image"])
        for model in self.first["models"].values():
            self.assertEqual(taken(model), len(range(3, model["variants"], SHARDS)))

    def test_is_through_once(self):
        self.assertEqual(self.run_shard()["models"], self.first["models"])

    def test_goes_on_where_it_was_stopped(self):
        stopped = copy.deepcopy(self.first)
        stopped["models"]["encoder"]["next"] -= 5 * SHARDS
        self.state.write_text(json.dumps(stopped))
        after = self.run_shard()["models"]
        self.assertEqual(taken(after["encoder"]), taken(self.first["models"]["encoder"]) + 5)
        self.assertEqual(after["decoder"], self.first["models"]["decoder"])
        self.state.write_text(json.dumps(self.first))

    def test_begins_anew_for_another_program_and_from_a_broken_file(self):
        other = copy.deepcopy(self.first)
        other["program"] ^= 1
        for text in (json.dumps(other), json.dumps(self.first)[:100], ""):
            self.state.write_text(text)
            self.assertEqual(self.run_shard()["models"], self.first["models"])

    def test_refuses_a_shard_that_is_none(self):
        for shard in ("4/4", "1", "x/y"):
            result = subprocess.run([PROGRAM, self.folder, shard], capture_output=True, check=False)
            self.assertEqual(result.returncode, 2)

    def test_shards_are_added_up(self):
        one = add_shards.figures([self.first])
        two = add_shards.figures([self.first, self.first])
        self.assertEqual(one["variants"], sum(
            sum(sum(fates.values()) for fates in model["counts"].values())
            for model in self.first["models"].values()))
        self.assertEqual(two["variants"], 2 * one["variants"])
        self.assertFalse(two["complete"])

    def test_is_complete_when_all_are_taken(self):
        few = copy.deepcopy(self.first)
        for model in few["models"].values():
            model["variants"] = taken(model)
        self.assertTrue(add_shards.figures([few])["complete"])

    def test_shards_of_different_programs_are_not_added_up(self):
        other = copy.deepcopy(self.first)
        other["program"] ^= 1
        with self.assertRaises(SystemExit):
            add_shards.figures([self.first, other])
        other = copy.deepcopy(self.first)
        other["models"]["decoder"]["crc"] ^= 1
        with self.assertRaises(SystemExit):
            add_shards.figures([self.first, other])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
