# SPDX-License-Identifier: Apache-2.0
"""Draws household commands with their action lines, and says which are held out from training.

    python3 grammar.py --count 20      prints some
A combination is an action line (device, room, property, value) with one phrasing. A hash of it
decides where it belongs, so that the split needs no list and never changes with a seed.
"""

import argparse
import dataclasses
import hashlib
import random
import re

import noise
import offtopic
import phrasings
import words

TRAINING_PAIRS = 400000
DATA_SEED = 1
NONE = "none"
NONE_SHARE = 0.14
TYPO_SHARE = 0.2
HELD_OUT_PHRASING_PERCENT = 10   # of the combinations of a line and a phrasing
HELD_OUT_ACTION_PERCENT = 5      # of the lines with a drawn value and a room: never in training
DRAWN_WEIGHT = 4                 # a group with drawn values is taken so often, to a fixed value's 1

HOUSEWIDE = {"light", "heat", "blinds", "music", "vacuum"}       # may be told "everywhere"
ROOMED = HOUSEWIDE | {"tv", "plug", "fan", "timer", "alarm"}
CHOICE = re.compile(r"\[([^\]]*)\]")
SLOT = re.compile(r"\{(\w+)\}")


@dataclasses.dataclass(frozen=True)
class Pair:
    """A command and what it means."""
    command: str
    line: str       # "light.bedroom.brightness=30" or "none"
    split: str      # "train", "phrasing" (held out), "action" (held out) or "idiom" (in training)
    typo: bool


@dataclasses.dataclass(frozen=True)
class Group:
    """The phrasings of one property with one value or class of values."""
    device: str
    prop: str
    value: str
    texts: tuple
    weight: float


def _groups():
    """All groups; every device has a weight of its own by the number of things it can do."""
    found = []
    for device, props in phrasings.INTENTS.items():
        for prop, values in props.items():
            for value, texts in values.items():
                weight = DRAWN_WEIGHT if "<" in value else 1
                if value in ("<clock>", "<duration>"):
                    weight *= 2
                if device in ("scene", "coffee", "guard"):
                    weight *= 0.5
                found.append(Group(device, prop, value, tuple(texts), weight))
    return found


GROUPS = _groups()
GROUP_WEIGHTS = [group.weight for group in GROUPS]


def _hash_percent(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % 100


def _tidy(text):
    return " ".join(text.split())


def _choose(rng, text):
    return CHOICE.sub(lambda match: rng.choice(match.group(1).split("|")), text)


def _noun_phrase(rng, device, room):
    """The device with its room, as in "the bedroom lamp"; for a lock, the door."""
    if device == "lock":
        return rng.choice(["the ", "the ", "my ", ""]) + rng.choice(words.DOORS[room]) + " door"
    noun = rng.choice(words.DEVICES[device])
    if room == "here":
        return rng.choice(["the ", "the ", "my ", "this ", ""]) + noun
    if room == "all":
        return rng.choice([f"all the {noun}", f"all {noun}", f"every {noun}",
                           f"the {noun} everywhere", f"the {noun} in every room",
                           f"the {noun} in the whole house"])
    name = rng.choice(words.ROOMS[room])
    return rng.choice([f"the {name} {noun}", f"{name} {noun}", f"the {noun} in the {name}",
                       f"my {name} {noun}", f"{noun} in the {name}"])


def _adverb(rng, room):
    if room == "here":
        return rng.choice(["", "", "here", "in here"])
    if room == "all":
        return rng.choice(["everywhere", "in the whole house", "in every room", "in all rooms"])
    return "in the " + rng.choice(words.ROOMS[room])


def _place(rng, room):
    if room == "here":
        return rng.choice(["this room", "the room"])
    if room == "all":
        return rng.choice(["the whole house", "every room", "all rooms", "the house"])
    return "the " + rng.choice(words.ROOMS[room])


def _draw_room(rng, device):
    if device == "lock":
        return rng.choice(list(words.DOORS))
    if device not in ROOMED:
        return "kitchen" if device == "coffee" else "home"
    chance = rng.random()
    if chance < (0.6 if device in ("timer", "alarm") else 0.12):
        return "here"
    if device in HOUSEWIDE and chance < 0.2:
        return "all"
    return rng.choice(list(words.ROOMS))


def _fill(rng, text, device, room, spoken):
    """The phrasing as a sentence. Now and then the room comes first: "in the hall, lights on"."""
    text = _choose(rng, text)
    front = ""
    if "{np}" in text and device != "lock" and room not in ("here", "all") and rng.random() < 0.12:
        front, room = f"in the {rng.choice(words.ROOMS[room])} ", "here"
    parts = {"np": lambda: _noun_phrase(rng, device, room), "in": lambda: _adverb(rng, room),
             "place": lambda: _place(rng, room), "v": lambda: spoken}
    return _tidy(front + SLOT.sub(lambda match: parts[match.group(1)](), text))


def _draw_action(rng):
    """A plain command, its line, and the split it belongs to."""
    group = rng.choices(GROUPS, GROUP_WEIGHTS)[0]
    room = _draw_room(rng, group.device)
    sign, _, name = group.value.rstrip(">").partition("<")
    value, spoken = group.value, ""
    if name:
        draw, say = words.VALUE_CLASSES[name]
        drawn = draw(rng)
        value, spoken = sign + drawn, say(rng, drawn)
    line = f"{group.device}.{room}.{group.prop}={value}"
    index = rng.randrange(len(group.texts))
    command = _fill(rng, group.texts[index], group.device, room, spoken)
    if group.device not in ROOMED and not name and group.device != "lock":
        return command, line, "idiom"     # each such phrasing is its own meaning: none to spare
    if name and group.device in ROOMED and _hash_percent(line) < HELD_OUT_ACTION_PERCENT:
        return command, line, "action"
    key = f"{line} {group.value} {index}"
    return command, line, "phrasing" if _hash_percent(key) < HELD_OUT_PHRASING_PERCENT else "train"


def _offtopic_slot(rng, slot):
    if slot in offtopic.TABLES:
        return rng.choice(offtopic.TABLES[slot])
    if slot in words.VALUE_CLASSES:
        draw, say = words.VALUE_CLASSES[slot]
        return say(rng, draw(rng))
    device = rng.choice(list(words.DEVICES))
    room = _draw_room(rng, device)
    ways = {
        "number": lambda: words.say_number(rng, rng.randrange(101)),
        "np": lambda: _noun_phrase(rng, device, room),
        "device": lambda: rng.choice(words.DEVICES[device]),
        "percent_device": lambda: rng.choice(words.DEVICES[rng.choice(["light", "blinds"])]),
        "sound_device": lambda: rng.choice(words.DEVICES[rng.choice(["music", "tv"])]),
        "in": lambda: _adverb(rng, _draw_room(rng, "light")),
        "place": lambda: _place(rng, _draw_room(rng, "plug")),
        "command": lambda: _draw_imperative(rng),
    }
    return ways[slot]()


def _draw_imperative(rng):
    while True:
        command, _, _ = _draw_action(rng)
        if command.split()[0] in ("turn", "switch", "set", "put", "open", "close", "lock", "play",
                                  "dim", "make", "start", "stop", "unlock", "vacuum", "wake"):
            return command


def _draw_offtopic(rng):
    """A sentence that is no command; it is held out by a hash of its words."""
    table = rng.choices([offtopic.OFF_TOPIC, offtopic.UNSUPPORTED, offtopic.OUT_OF_RANGE,
                         offtopic.HALF, offtopic.TAKEN_BACK], [40, 20, 14, 12, 14])[0]
    text = _choose(rng, rng.choice(table))
    command = _tidy(SLOT.sub(lambda match: _offtopic_slot(rng, match.group(1)), text))
    if table is offtopic.HALF and "{" not in text:
        return command, NONE, "idiom"
    held_out = _hash_percent(command) < HELD_OUT_PHRASING_PERCENT
    return command, NONE, "phrasing" if held_out else "train"


def _known_words():
    """Every word the grammar can say, so that a typo never makes another one of them."""
    sources = [phrasings.INTENTS, offtopic.TABLES, words.ROOMS, words.DOORS, words.DEVICES,
               words.COLORS, words.GENRES, words.SPEEDS, words.SMALL, words.TENS, noise.BEFORE,
               noise.AFTER, offtopic.OFF_TOPIC, offtopic.UNSUPPORTED, offtopic.OUT_OF_RANGE]
    return set(re.findall(r"[a-z]+", repr(sources)))


KNOWN_WORDS = _known_words()


def draw_pair(rng):
    """One command with everything around it. `split` says what it may be used for."""
    draw = _draw_offtopic if rng.random() < NONE_SHARE else _draw_action
    command, line, split = draw(rng)
    taken_back = line == NONE and command.split()[0] in ("do", "don't", "please", "never", "you")
    if not taken_back:
        command = noise.surround(rng, command, words.say_number)
    spoiled = noise.add_typos(rng, command, KNOWN_WORDS) if rng.random() < TYPO_SHARE else None
    command = noise.punctuate(rng, spoiled or command)
    return Pair(command, line, split, spoiled is not None)


def draw_pairs(seed, count, accept):
    """The first `count` pairs of this seed that `accept` takes."""
    rng = random.Random(seed)
    pairs = []
    while len(pairs) < count:
        pair = draw_pair(rng)
        if accept(pair):
            pairs.append(pair)
    return pairs


def may_train(pair):
    return pair.split in ("train", "idiom")


def training_pairs():
    """All that the decoder is trained on."""
    return draw_pairs(DATA_SEED, TRAINING_PAIRS, may_train)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for pair in draw_pairs(options.seed, options.count, lambda pair: True):
        print(f"{pair.split:9s}{'typo ' if pair.typo else '     '}{pair.command}  ->  {pair.line}")


if __name__ == "__main__":
    main()
