# SPDX-License-Identifier: Apache-2.0
"""What a terminal of 80 columns is shown of each kind of model: no line is longer.

columns_test.py ARENITE
"""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/convert/data"
MODELS = {
    "module": [ROOT / "models/recall/recall.safetensors", "--heads", "2"],
    "language model": [ROOT / "models/home-intent", "--weights", "q4"],
    "classifier": [ROOT / "models/vibration", "--target", "portable"],
    "encoder-decoder": [ROOT / "examples/translate/dates.pt2"],
    "decoder": [ROOT / "examples/from_pytorch/rhymes.pt2", "--weights", "q8"],
    "sound": [DATA / "sound_programs/heard.pt2", "--sound", DATA / "sound_programs/whisper.json"],
    "names": [DATA / "several_inputs/bart.pt2"],
    "two functions": [DATA / "several_inputs/image_text.pt2"],
    "encoder": [DATA / "encoders/bert_sequence"],
}
TOPICS = ["formats", "state-dicts", "sound", "weights", "limits", "targets"]


def shown(arenite, folder, words):
    """The exit code, and all lines on a terminal, those that a carriage return replaces, too."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen([arenite, *map(str, words)], stdin=subprocess.DEVNULL, stdout=its,
                          stderr=its, cwd=folder,
                          env=os.environ | {"TERM": "xterm", "NO_COLOR": ""}) as program:
        os.close(its)
        text = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
    os.close(ours)
    plain = re.sub(r"\033\[[0-9;]*[A-Za-z]", "", text.decode())
    return program.returncode, re.split(r"[\r\n]+", plain)


def main(arenite):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        def check(what, words):
            nonlocal failed
            code, found = shown(arenite, folder, words)
            long = [line for line in found if len(line) > 80]
            if code != 0 or long or len(found) < 2:
                failed += 1
                print(what, words, "exit code", code, *(long or found), sep="\n  ")

        for what, options in MODELS.items():
            check(what, ["convert", *options, "-o", "model.arn"])
            check(what, ["inspect", "model.arn"])
            check(what, ["verify", "model.arn"])
        check("classifier", ["convert", *MODELS["classifier"], "-o", "model.arn"])
        check("classifier", ["inspect", "model.arn", "--board", "mps2-an500"])
        given = ROOT / "models/vibration/input.npy"
        check("classifier", ["run", "model.arn", "--input", given, "--output", "y.npy"])
        check("classifier", ["classify", "model.arn", "--input", given])
        commands = re.findall(r"^  ([a-z][a-z-]*)  ", subprocess.run(
            [arenite, "--help"], capture_output=True, text=True, check=True).stdout, re.M)
        assert "convert" in commands, commands
        check("help", ["--help"])
        for word in commands + TOPICS:
            check("help", ["help", word])
        for word in commands:
            check("help", [word, "--help"])
    sys.exit(failed != 0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
