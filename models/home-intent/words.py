# SPDX-License-Identifier: Apache-2.0
"""The words of household commands: rooms, devices, and ways to say a value.

A value class is a pair of functions: one draws a canonical value ("30", "21.5", "06:45"), the other
says it in words or digits. Both take the random generator, so that a seed fixes every command.
"""

ROOMS = {
    "kitchen": ["kitchen"],
    "bedroom": ["bedroom"],
    "bathroom": ["bathroom", "bath"],
    "hall": ["hall", "hallway", "corridor"],
    "living": ["living room", "lounge", "sitting room"],
    "dining": ["dining room"],
    "office": ["office", "study"],
    "nursery": ["nursery", "kids room", "children's room"],
    "garage": ["garage"],
    "garden": ["garden", "patio", "terrace"],
    "attic": ["attic", "loft"],
    "cellar": ["cellar", "basement"],
}

DOORS = {"front": ["front", "main", "entrance"], "back": ["back", "rear"], "side": ["side"],
         "garage": ["garage"], "cellar": ["cellar", "basement"], "balcony": ["balcony"]}

DEVICES = {
    "light": ["light", "lights", "lamp", "lamps"],
    "heat": ["heating", "thermostat", "radiator", "heater"],
    "blinds": ["blinds", "shutters", "curtains", "shades"],
    "music": ["music", "speaker", "speakers", "stereo", "radio"],
    "tv": ["tv", "television", "telly"],
    "plug": ["plug", "socket", "outlet"],
    "fan": ["fan", "ventilator"],
    "vacuum": ["vacuum", "robot", "hoover", "vacuum cleaner", "robot vacuum"],
    "lock": ["door"],
}

COLORS = {"red": ["red"], "green": ["green"], "blue": ["blue"], "yellow": ["yellow"],
          "orange": ["orange"], "purple": ["purple", "violet"], "pink": ["pink"],
          "white": ["white"], "warm": ["warm white", "warm"], "cold": ["cold white", "cold",
                                                                       "cool white"]}
GENRES = {name: [name] for name in ("jazz", "rock", "pop", "classical", "metal", "folk", "soul",
                                    "techno", "reggae", "country")}
SPEEDS = {"low": ["low", "slow"], "medium": ["medium"], "high": ["high", "fast"]}

SMALL = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
         "fifteen sixteen seventeen eighteen nineteen").split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def number_words(rng, n):
    """0 <= n <= 300 in words."""
    if n >= 100:
        hundreds = rng.choice(["a", "one"]) if n < 200 else SMALL[n // 100]
        rest = f" and {number_words(rng, n % 100)}" if n % 100 else ""
        return f"{hundreds} hundred{rest}"
    if n < 20:
        return SMALL[n]
    ones = rng.choice([" ", " ", "-"]) + SMALL[n % 10] if n % 10 else ""
    return TENS[n // 10] + ones


def say_number(rng, n):
    return str(n) if rng.random() < 0.55 else number_words(rng, n)


def draw_percent(rng):
    return str(rng.randrange(0, 101, 5) if rng.random() < 0.35 else rng.randrange(101))


def say_percent(rng, value):
    fractions = {"25": ["a quarter"], "50": ["half"], "75": ["three quarters"],
                 "100": ["full", "maximum", "the maximum"]}
    if value in fractions and rng.random() < 0.4:
        return rng.choice(fractions[value])
    spoken = say_number(rng, int(value))
    if spoken[0].isdigit():
        return spoken + rng.choice(["%", " percent", " per cent", ""])
    return spoken + rng.choice([" percent", " per cent", ""])


def draw_step(rng):
    return str(rng.randrange(1, 51))


def say_step(rng, value):
    spoken = say_number(rng, int(value))
    return spoken + rng.choice(["%"] if spoken[0].isdigit() else [""]) if rng.random() < 0.3 \
        else spoken + rng.choice([" percent", " percent", " points", ""])


def draw_degrees(rng):
    return f"{rng.randrange(5, 31)}" + (".5" if rng.random() < 0.25 else "")


def say_degrees(rng, value):
    unit = rng.choice([" degrees", " degrees", " degrees celsius", ""])
    whole, _, half = value.partition(".")
    spoken = say_number(rng, int(whole))
    if half:
        ways = [f"{spoken} and a half"]
        ways.append(f"{spoken}.5" if spoken[0].isdigit() else f"{spoken} point five")
        spoken = rng.choice(ways)
    return spoken + unit


def draw_degree_step(rng):
    return rng.choice(["0.5", "1", "1.5", "2", "2.5", "3", "4", "5"])


def say_degree_step(rng, value):
    short = {"0.5": ["half a degree", "0.5 degrees"], "1": ["a degree", "one degree", "1 degree"]}
    if value in short:
        return rng.choice(short[value])
    whole, _, half = value.partition(".")
    spoken = say_number(rng, int(whole))
    return f"{spoken} and a half degrees" if half else f"{spoken} degrees"


def draw_duration(rng):
    """Hours, minutes or seconds, or two neighbours of these: 10m, 45s, 1h20m, 2m30s."""
    kind = rng.random()
    if kind < 0.5:
        return f"{rng.randrange(1, 60)}m"
    if kind < 0.65:
        return f"{rng.randrange(5, 60)}s"
    if kind < 0.8:
        return f"{rng.randrange(1, 13)}h"
    if kind < 0.9:
        return f"{rng.randrange(1, 5)}h{rng.randrange(5, 60, 5)}m"
    return f"{rng.randrange(1, 11)}m30s"


def _say_unit(rng, n, unit):
    article = "an" if unit == "hour" else "a"
    if n == 1 and rng.random() < 0.5:
        return f"{article} {unit}"
    return f"{say_number(rng, n)} {unit}{'' if n == 1 else 's'}"


def say_duration(rng, value):
    short = {"30m": "half an hour", "15m": "a quarter of an hour", "30s": "half a minute"}
    if value in short and rng.random() < 0.5:
        return short[value]
    units = {"h": "hour", "m": "minute", "s": "second"}
    parts, digits = [], ""
    for letter in value:
        if letter.isdigit():
            digits += letter
        else:
            parts.append((int(digits), units[letter]))
            digits = ""
    if len(parts) == 2 and parts[1][0] == 30 and rng.random() < 0.6:
        n, unit = parts[0]
        return f"{_say_unit(rng, 1, unit)} and a half" if n == 1 else \
            f"{say_number(rng, n)} and a half {unit}s"
    return rng.choice([" and ", " "]).join(_say_unit(rng, n, unit) for n, unit in parts)


def draw_clock(rng):
    return f"{rng.randrange(24):02d}:{rng.randrange(0, 60, 5):02d}"


def _say_twelve_hours(rng, hour, minute):
    """The time on a clock face, hour 1 to 12, without the part of the day."""
    following = hour % 12 + 1
    name = say_number(rng, hour)
    if minute == 0:
        return rng.choice([name, f"{name} o'clock"])
    ways = [f"{hour}:{minute:02d}", f"{hour}:{minute:02d}"]
    if minute >= 10:
        ways.append(f"{SMALL[hour]} {number_words(rng, minute)}")
    if minute == 30:
        ways += [f"half past {name}"] * 2
    elif minute < 30:
        ways.append(f"{'quarter' if minute == 15 else say_number(rng, minute)} past {name}")
    else:
        left = "quarter" if minute == 45 else say_number(rng, 60 - minute)
        ways.append(f"{left} to {say_number(rng, following)}")
    return rng.choice(ways)


def say_clock(rng, value):
    """Hours of 1 to 12 may go without a part of the day; after noon one is said, or 24 hours."""
    hour, minute = int(value[:2]), int(value[3:])
    if value in ("00:00", "12:00") and rng.random() < 0.5:
        return "midnight" if hour == 0 else "noon"
    if hour == 0 or (hour > 12 and rng.random() < 0.4):
        return f"{hour:02d}:{minute:02d}" if rng.random() < 0.7 else f"{hour}:{minute:02d}"
    if hour == 12:
        return _say_twelve_hours(rng, 12, minute)
    if hour < 12:
        part = rng.choice(["", "", " am", " in the morning"])
        return _say_twelve_hours(rng, hour, minute) + part
    part = "in the afternoon" if hour < 18 else "in the evening" if hour < 22 else "at night"
    return f"{_say_twelve_hours(rng, hour - 12, minute)} {rng.choice(['pm', part])}"


def one_of(table):
    """The value class of a fixed table: canonical value to its names."""
    names = list(table)
    return (lambda rng: rng.choice(names)), (lambda rng, value: rng.choice(table[value]))


def plain_number(low, high):
    """The value class of the whole numbers low to high."""
    return (lambda rng: str(rng.randrange(low, high + 1))), \
        (lambda rng, value: say_number(rng, int(value)))


VALUE_CLASSES = {
    "percent": (draw_percent, say_percent),
    "step": (draw_step, say_step),
    "degrees": (draw_degrees, say_degrees),
    "degree_step": (draw_degree_step, say_degree_step),
    "duration": (draw_duration, say_duration),
    "clock": (draw_clock, say_clock),
    "channel": plain_number(1, 99),
    "cups": plain_number(1, 9),
    "level": plain_number(1, 5),
    "color": one_of(COLORS),
    "genre": one_of(GENRES),
    "speed": one_of(SPEEDS),
    "too_much": plain_number(101, 300),
    "too_hot": plain_number(31, 99),
}
