# SPDX-License-Identifier: Apache-2.0
"""Measures the spotter with weights in q8, as the runtime computes it and examples/wake hears it,
on voices that training did not hear.

    python3 evaluate.py ../../build/arenite            measures
    python3 evaluate.py ../../build/arenite --write    writes accuracy.json and heard.wav, too

Needs NumPy, PyTorch, espeak-ng and flite. Exits with 1 if it hears less than LEAST of the commands.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import wave

import numpy as np

import speech
import train

LEAST = 0.65
SCENES, SECONDS = 24, 20      # for each voice
IN_A_ROW, MARGIN = 3, 1.0     # as in examples/wake/main.cc
EARLY, LATE = 0.25, 0.6       # seconds about the end of a word in which it may be heard
NOISES = [(30, 40), (20, 30), (10, 20), (3, 10)]  # decibels between speech and noise, by turns


def convert(arenite, model):
    sound = (f"rate={speech.RATE},window={train.WINDOW},hop={train.HOP},mels={train.MELS},"
             f"low={train.LOW},high={train.HIGH},add={train.ADDED}")
    subprocess.run([arenite, "convert", pathlib.Path(__file__).with_name("wake.pt2"), "-o", model,
                    "--target", "portable", "--weights", "q8", "--kv", "int8", "--sound", sound],
                   stdout=subprocess.PIPE, check=True)


def hears(arenite, model, samples):
    """[(seconds, word)] of samples from -1 to 1."""
    with tempfile.TemporaryDirectory() as folder:
        sound, logits = pathlib.Path(folder, "x.raw"), pathlib.Path(folder, "y.npy")
        sound.write_bytes(np.rint(samples * 32768).clip(-32768, 32767).astype("<i2").tobytes())
        subprocess.run([arenite, "run", model, "--input", sound, "--output", logits],
                       stdout=subprocess.PIPE, check=True)
        found = train.heard(np.load(logits), IN_A_ROW, MARGIN)
    before = train.WINDOW - train.HOP  # a token ends with the window of its last frame
    return [(((t + 1) * train.FRAMES * train.HOP + before) / speech.RATE, speech.NAMES[label])
            for label, t in found]


def compare(said, found):
    """(what was said, what was heard) of each word, and of silence what was heard besides."""
    pairs, left = [], list(found)
    for label, _, _, _, end in said:
        end /= speech.RATE
        near = [one for one in left if -EARLY < one[0] - end < LATE]
        right = [one for one in near if one[1] == speech.NAMES[label]]
        took = (right or near or [(0, "nothing")])[0]
        pairs.append((speech.NAMES[label], took[1]))
        if took in left:
            left.remove(took)
    return pairs + [("silence", word) for _, word in left]


def measure(arenite, model, clips):
    confusion = collections.defaultdict(collections.Counter)
    voices = collections.defaultdict(lambda: [0, 0])
    noises = collections.defaultdict(lambda: [0, 0])
    seconds = false = 0
    for voice in speech.TEST_VOICES:
        own = clips.of_voice(voice)
        dice, random_numbers = random.Random(voice), np.random.default_rng(len(voice))
        for number in range(SCENES):
            snr = NOISES[number % len(NOISES)]
            samples, said = speech.scene(own, SECONDS, dice, random_numbers, snr=snr)
            seconds += SECONDS
            for word, answer in compare(said, hears(arenite, model, samples)):
                confusion[word][answer] += 1
                if word in speech.COMMANDS:
                    for row in voices[voice], noises[f"{snr[0]} to {snr[1]} dB"]:
                        row[0] += answer == word
                        row[1] += 1
                false += answer in speech.COMMANDS and answer != word
    right = sum(row[0] for row in voices.values())
    total = sum(row[1] for row in voices.values())
    return {"commands": total, "right": right, "share": round(right / total, 4),
            "wrong_commands": false, "minutes": round(seconds / 60),
            "confusion": {word: dict(confusion[word].most_common())
                          for word in ["silence", "unknown", *speech.COMMANDS]},
            "by_voice": dict(voices), "by_noise": dict(noises)}


def print_table(report):
    columns = [*speech.COMMANDS, "nothing"]
    print("        said" + "".join(f"{name:>8}" for name in columns))
    for word, row in report["confusion"].items():
        print(f"{word:>12}" + "".join(f"{row.get(name, 0):8}" for name in columns))
    for kind in ("by_voice", "by_noise"):
        for name, (right, total) in report[kind].items():
            print(f"{name:>28}: {right} of {total}, {100 * right / total:.1f} %")
    print(f"{report['right']} of {report['commands']} commands, {100 * report['share']:.1f} %; "
          f"{report['wrong_commands']} that nobody said in {report['minutes']} minutes")


def write_example(clips, path):
    """A few seconds of voices that training did not hear: the sound of the tests."""
    samples = np.zeros(int(5.5 * speech.RATE))
    samples += 1e-3 * np.random.default_rng(1).standard_normal(len(samples))
    dice, begin, said = random.Random(1), speech.RATE // 4, []
    for voice, word in ((0, "yes"), (4, "stop"), (3, "seven"), (5, "left"), (7, "right")):
        text = speech.spoken(speech.TEST_VOICES[voice], word, dice)
        samples[begin:begin + len(text)] += 0.5 * text
        begin += len(text)
        said.append((word, round(begin / speech.RATE, 2)))
        begin += speech.RATE // 2
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(speech.RATE)
        file.writeframes(np.rint(samples[:begin] * 32767).astype("<i2").tobytes())
    print("said:", said)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arenite")
    parser.add_argument("--cache", type=pathlib.Path, default=here / "cache")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.cache.mkdir(exist_ok=True)
    clips = speech.Clips(options.cache / "test.pickle", speech.TEST_VOICES,
                         speech.TEST_OTHER_WORDS, speech.TEST_SENTENCES, takes=6, others=80,
                         seed=5)
    if options.write:
        write_example(clips, here / "heard.wav")
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "wake.arn")
        convert(options.arenite, model)
        report = measure(options.arenite, model, clips)
    print_table(report)
    if options.write:
        (here / "accuracy.json").write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(0 if report["share"] >= LEAST else 1)


if __name__ == "__main__":
    main()
