# SPDX-License-Identifier: Apache-2.0
"""Synthetic speech: who says which words, and scenes of them in rooms and noise.

Needs NumPy, and the programs espeak-ng and flite. All drawing is by a random.Random or a
numpy.random.Generator that the caller seeds.
"""
import pathlib
import pickle
import random
import struct
import subprocess
import tempfile

import numpy as np

RATE = 16000
COMMANDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
NAMES = ["silence", "unknown", *COMMANDS]  # the classes, in the order of the logits

OTHER_WORDS = """
house seven hello window table music water people never morning garden before yellow tree under
again four dog simple now nine above lift not gone note top night light rest best dawn goat own
cup yet shop stock crop often awful known town nose gold red green blue black white one two three
five six eight ten zero hundred bird cat bed happy marvin wow sheila visual follow learn backward
forward please thank sorry maybe good bad big small open close start end begin fast slow warm cold
heat fan lamp kitchen door television radio volume channel timer alarm clock today tomorrow Monday
Friday summer winter mother father child friend money paper coffee tea sugar bread cheese apple
banana orange lemon number letter question answer river mountain city country street bicycle train
airplane computer telephone camera picture movie story power button signal engine battery sensor
machine robot science history nothing something everything because although between together
around against during without another number possible important different
""".split()
# Nobody says these in training.
TEST_OTHER_WORDS = """
step stuff nope yesterday upper downtown leather writer honest offer goal spot ghost nods chess less
cough stomp bright drown south brown phone bone guess press cut done lost laughed height song
doctor pencil market bottle flower silver wonder finger honey dinner ticket planet basket tunnel
window's thirteen eleven twenty purple elephant umbrella holiday mirror candle pepper shadow whisper
""".split()
SENTENCES = ["the weather is nice this afternoon", "we had fish for dinner",
             "she is reading a book", "my brother works at the bank", "where did you put the keys",
             "it rained all day long", "the children are playing in the park",
             "can you tell me the time"]
TEST_SENTENCES = ["the train was late this morning", "he bought a pair of shoes",
                  "there is milk in the fridge", "what are we having for lunch",
                  "the cat sleeps under the chair", "I will call you back in an hour"]

ESPEAK_ACCENTS = ["en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbcwmd",
                  "en-gb-x-gbclan"]
ESPEAK_VARIANTS = """
m1 m2 m3 m4 m5 m6 m8 f1 f2 f3 f5 Andy Annie Lee Michael steph linda robert Alex Alicia Denis Diogo
Gene Henrique Hugo Jacky Marco Mario Mike Nguyen Reed adam anika antonio belinda benjamin boris
caleb david ed gustave ian max michel miguel norbert pablo paul pedro quincy rob sandro travis klatt
klatt2 klatt3 grandpa
""".split()
FLITE_VOICES = ["kal", "kal16", "rms", "awb"]
# Voices of the two sets that training does not hear.
VALIDATION_VOICES = ["espeak:en-us+edward", "espeak:en-gb+shelby", "espeak:en-gb-x-rp+grandma"]
TEST_VOICES = [*(f"espeak:{accent}+{variant}" for accent in ["en-us-nyc", "en-029"]
                 for variant in ["m7", "f4", "Andrea", "john"]), "flite:slt"]


def trained_voices():
    return [*(f"espeak:{accent}+{variant}" for accent in ESPEAK_ACCENTS
              for variant in ESPEAK_VARIANTS), *(f"flite:{voice}" for voice in FLITE_VOICES)]


def spoken(voice, text, dice):
    """What a voice says, at some speed and pitch: float32 samples at RATE, without silence around
    them."""
    engine, name = voice.split(":")
    if engine == "espeak":
        command = ["espeak-ng", "-v", name, "-s", str(dice.randint(110, 210)),
                   "-p", str(dice.randint(20, 80)), "--stdout", text]
        wav = subprocess.run(command, check=True, capture_output=True).stdout
    else:
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run(["flite", "-voice", name, "-t", text, "-o", file.name,
                            "--setf", f"duration_stretch={dice.uniform(0.8, 1.3)}",
                            "--setf", f"int_f0_target_mean={dice.uniform(80, 220)}"], check=True)
            wav = pathlib.Path(file.name).read_bytes()
    (rate,) = struct.unpack_from("<I", wav, 24)
    samples = np.frombuffer(wav[44:44 + (len(wav) - 44) // 2 * 2], "<i2") / 32768.0
    spectrum = np.fft.rfft(samples)
    length = len(samples) * RATE // rate
    samples = np.fft.irfft(spectrum[:length // 2 + 1], length)
    loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
    samples = samples[loud[0]:loud[-1] + 1]
    return (samples / np.abs(samples).max()).astype(np.float32)


class Clips:
    """Words and sentences by voices: int16 samples, by class, kept in a file."""

    def __init__(self, path, voices, words, sentences, takes, others, seed):
        """Each voice says each command `takes` times, and so many of the others."""
        path = pathlib.Path(path)
        if not path.exists():
            path.write_bytes(pickle.dumps(self.made(voices, words, sentences, takes, others, seed)))
        self.of_class = pickle.loads(path.read_bytes())

    @staticmethod
    def made(voices, words, sentences, takes, others, seed):
        dice, of_class = random.Random(seed), [[] for _ in NAMES]
        for voice in voices:
            more = 12 if voice.startswith("flite") and len(voices) > 20 else 1
            said = [(NAMES.index(word), word) for word in COMMANDS] * (takes * more)
            said += [(1, dice.choice(words)) for _ in range(others * more)]
            said += [(1, dice.choice(sentences)) for _ in range(more)]
            for label, text in said:
                samples = np.rint(spoken(voice, text, dice) * 32767).astype(np.int16)
                of_class[label].append((voice, text, samples))
        return of_class

    def of_voice(self, voice):
        """Those of one voice."""
        own = object.__new__(Clips)
        own.of_class = [[clip for clip in clips if clip[0] == voice] for clips in self.of_class]
        return own

    def draw(self, label, dice, wide=False):
        """(voice, text, samples), slower and lower, or faster and higher, than they were; `wide` is
        more so, and a third of them are by flite."""
        voice, text, samples = dice.choice(self.of_class[label])
        while wide and voice.startswith("espeak") and dice.random() < 0.7:
            voice, text, samples = dice.choice(self.of_class[label])
        length = int(len(samples) * (dice.uniform(0.8, 1.25) if wide else dice.uniform(0.88, 1.14)))
        places = np.linspace(0, len(samples) - 1, length)
        return voice, text, np.interp(places, np.arange(len(samples)), samples / 32768.0)


def noise(count, clips, dice, random_numbers):
    """Some noise with a mean square of 1: hiss to rumble, hum, or people who speak elsewhere."""
    kind = dice.random()
    if kind < 0.2:
        made = np.zeros(count)
        for _ in range(5 * count // RATE):
            _, _, word = clips.draw(1, dice)
            begin = dice.randrange(count)
            made[begin:begin + len(word)] += word[:count - begin] * dice.uniform(0.2, 1)
    else:
        spectrum = np.fft.rfft(random_numbers.standard_normal(count))
        hertz = np.fft.rfftfreq(count, 1 / RATE)
        made = np.fft.irfft(spectrum / np.maximum(hertz, 30) ** dice.uniform(0, 1.2), count)
        if kind < 0.35:
            place = np.arange(count) * (2 * np.pi * dice.uniform(45, 130) / RATE)
            loud = made.std() * dice.uniform(0.5, 3)
            made += loud * sum(np.sin(place * k + dice.uniform(0, 6)) / k for k in range(1, 7))
    return made / (np.sqrt(np.mean(made ** 2)) + 1e-9)


def colour(count, dice, random_numbers):
    """The transfer function of a room and a microphone, for a transform of `count` samples."""
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    octaves = np.log2(np.maximum(hertz, 50) / 1000)
    decibels = dice.uniform(-4, 4) * octaves + dice.uniform(-6, 6) * np.cos(
        octaves * dice.uniform(0.5, 2) + dice.uniform(0, 6))
    gain = 10 ** (np.clip(decibels, -18, 18) / 20)
    if dice.random() < 0.4:
        return gain
    seconds = dice.uniform(0.1, 0.6)  # until the echo is 60 dB lower
    echo = random_numbers.standard_normal(RATE // 2)
    echo *= 10 ** (-3 * np.arange(RATE // 2) / RATE / seconds)
    echo *= dice.uniform(0.05, 0.6) / np.sqrt(np.sum(echo ** 2))
    echo[0] = 1
    return gain * np.fft.rfft(echo, count)


def scene(clips, seconds, dice, random_numbers, commands=0.55, snr=(3, 40), wide=False):
    """Words with pauses, in a room, with noise: (float32 samples, [(label, voice, text, begin,
    end)])."""
    count = int(seconds * RATE)
    samples, said = np.zeros(count), []
    begin = dice.randint(0, RATE)
    while True:
        label = dice.randrange(2, len(NAMES)) if dice.random() < commands else 1
        voice, text, word = clips.draw(label, dice, wide)
        if begin + len(word) + RATE // 2 > count:
            break
        samples[begin:begin + len(word)] = word * 10 ** dice.uniform(-0.3, 0)
        said.append((label, voice, text, begin, begin + len(word)))
        begin += len(word) + dice.randint(RATE // 4, RATE)
    size = count + RATE // 2
    heard = np.fft.irfft(np.fft.rfft(samples, size) * colour(size, dice, random_numbers), size)
    heard = heard[:count]
    loud = np.sqrt(np.mean(samples ** 2)) if said else 0.05
    heard *= loud / max(np.sqrt(np.mean(heard ** 2)), 1e-9)
    heard = heard + noise(count, clips, dice, random_numbers) * loud * 10 ** (
        -dice.uniform(*snr) / 20)
    heard *= 10 ** dice.uniform(-1.7, 0) / np.abs(heard).max()
    return (np.rint(np.clip(heard, -1, 1) * 32767) / 32768).astype(np.float32), said
