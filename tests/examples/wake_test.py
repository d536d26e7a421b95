# SPDX-License-Identifier: Apache-2.0
"""Tests of examples/wake, on this machine or on the emulated board: what it hears, and its bits."""

import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest
import wave
import zlib

PROGRAM = os.environ["ARENITE_PROGRAM"]
EMULATOR = os.environ["ARENITE_EMULATOR"].split()  # takes the program as its last argument
INTEGERS = os.environ["ARENITE_INTEGER_ROWS"] != ""  # without an FPU
COUNTS = os.environ["ARENITE_COUNTS"] != ""  # instructions
TOOL = os.environ["ARENITE_TOOL"]
MODEL = os.environ["ARENITE_MODEL"]
HEARD = pathlib.Path(os.environ["ARENITE_HEARD"])

SAID = [("yes", 0.78), ("stop", 1.59), ("left", 3.59), ("right", 4.47)]
INSTRUCTIONS_MAX, SLICE_MAX = 12_500_000, 120_000  # of a second; 0.25 ms at 480 MHz
if INTEGERS:
    INSTRUCTIONS_MAX, SLICE_MAX = 27_000_000, 250_000
TIMES = 5  # that the sound is played, until a page of keys and values is full


def run(sound, status=0):
    """The lines that the program says of a sound."""
    command = EMULATOR + [PROGRAM]
    if COUNTS:
        command[1:1] = ["-icount", "shift=0"]
    done = subprocess.run(command, input=sound, stdout=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == status, done
    return done.stdout.decode().splitlines()


def wav(samples, rate=16000, channels=1, bits=16, before=b""):
    parts = b"WAVE" + before + b"fmt " + struct.pack(
        "<IHHIIHH", 16, 1, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    parts += b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(parts)) + parts


def numbers(path):
    """The bytes of the floats in a .npy file."""
    content = path.read_bytes()
    return content[10 + struct.unpack_from("<H", content, 8)[0]:]


class Wake(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with wave.open(str(HEARD)) as file:
            cls.samples = file.readframes(file.getnframes())
        cls.lines = run(HEARD.read_bytes())

    def test_commands_are_heard_at_their_times(self):
        found = [line.split() for line in self.lines if re.fullmatch(r" +[\d.]+ s  [a-z]+", line)]
        self.assertEqual([word for _, _, word in found], [word for word, _ in SAID])
        for (time, _, _), (_, end) in zip(found, SAID):
            self.assertTrue(0 < float(time) - end < 0.5, (time, end))

    @unittest.skipIf(INTEGERS, "that program computes with floats")
    def test_logits_have_the_bits_of_the_program_arenite(self):
        with tempfile.TemporaryDirectory() as folder:
            model, logits = pathlib.Path(folder, "m.arn"), pathlib.Path(folder, "logits.npy")
            for words in (["repack", MODEL, "-o", model, "--target", "portable"],
                          ["run", model, "--input", HEARD, "--output", logits]):
                subprocess.run([TOOL, *words], check=True, stdout=subprocess.PIPE)
            digest = f"{zlib.crc32(numbers(logits)):08x}"
        self.assertIn(f"s  heard, logits {digest}, an arena of ", "\n".join(self.lines))

    def test_samples_by_themselves_give_the_same(self):
        self.assertEqual(run(self.samples)[:-1 if COUNTS else None],
                         self.lines[:-1 if COUNTS else None])

    def test_other_parts_of_a_wav_file_and_what_follows_are_passed_over(self):
        sound = wav(self.samples, before=b"LIST" + struct.pack("<I", 3) + b"abc\0")
        self.assertEqual(run(sound + b"LIST\1\0\0\0x\0"), self.lines)

    def test_sound_that_it_cannot_hear_is_refused(self):
        few = self.samples[:64000]
        self.assertRegex(run(wav(few, rate=8000), 1)[0],
                         "^error: .*the sample rate is not the model's: resample")
        for sound in (wav(few, channels=2), wav(few, bits=8), b"RIFF\0\0\0\0WAVE", b"RIFF\0\0\0\0"
                      b"WAVEdata\4\0\0\0abcd"):
            self.assertEqual(run(sound, 1),
                             ["error: samples of a WAV file must have 16 bits, and one channel"])

    def test_no_sound_is_heard_as_none(self):
        for sound in (b"", b"\0"):
            self.assertRegex(run(sound)[0], r"^   0\.00 s  heard, logits 00000000, an arena of ")

    @unittest.skipUnless(COUNTS, "counts instructions on the emulated board")
    def test_a_second_takes_no_more_instructions_than_a_microcontroller_has(self):
        lines = run(self.samples * TIMES)
        found = re.fullmatch(r"instructions: (\d+) a second, at most (\d+) in a slice", lines[-1])
        self.assertTrue(found, lines)
        self.assertLess(int(found[1]), INSTRUCTIONS_MAX)
        self.assertLess(int(found[2]), SLICE_MAX)


if __name__ == "__main__":
    unittest.main()
