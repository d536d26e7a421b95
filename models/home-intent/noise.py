# SPDX-License-Identifier: Apache-2.0
"""What people put around a command, and the mistakes they make when they type it."""

BEFORE = ["please", "hey house", "ok house", "could you please", "can you", "could you",
          "would you", "would you please", "i would like you to", "uh", "um", "hey", "ok",
          "hello", "now", "listen", "computer", "well", "so", "just", "quickly", "be so kind and",
          "go ahead and", "the guests are here so", "it is already late so",
          "we have {n} guests so", "there are {n} of us today so",
          "my phone is at {n} percent but", "it is nearly {n} o'clock so",
          "i just came back from work so"]
AFTER = ["please", "thanks", "thank you", "now", "right now", "for me", "if you can", "will you",
         "when you get a chance", "as soon as possible", "would you", "quickly", "again", "today",
         "because we have guests", "because {n} people are coming", "it is nearly {n} o'clock",
         "i have only {n} hands", "before the film starts", "and be quick", "my friend"]
# Commands that start like a question or a statement do not take "please" and the like in front.
BEFORE_ANY = ["hey house", "ok house", "uh", "um", "hey", "ok", "hello", "listen", "well", "so",
              "computer", "the guests are here so", "it is already late so"]
STATEMENTS = {"is", "are", "did", "what", "how", "where", "which", "when", "who", "i", "it", "we",
              "can", "could", "check", "tell", "good", "let", "the", "in", "there", "do", "don't",
              "you", "never", "please", "thank", "hello"}

NEIGHBORS = {"a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj",
             "i": "uo", "j": "hk", "k": "jl", "l": "k", "m": "n", "n": "bm", "o": "ip", "p": "o",
             "q": "wa", "r": "et", "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe", "x": "zc",
             "y": "tu", "z": "x"}
TYPO_WORD_LETTERS_MIN = 4   # shorter words carry too little to be told apart with a letter wrong


def surround(rng, command, say_number):
    """The command with courtesy, hesitation or an aside around it; the meaning stays."""
    if rng.random() < 0.4:
        ahead = BEFORE_ANY if command.split()[0] in STATEMENTS else BEFORE
        command = _fill(rng, rng.choice(ahead), say_number) + " " + command
    if rng.random() < 0.25:
        command = command + " " + _fill(rng, rng.choice(AFTER), say_number)
    return command


def _fill(rng, text, say_number):
    return text.replace("{n}", say_number(rng, rng.randrange(2, 13)))


def punctuate(rng, command):
    """Sometimes a capital in front and a mark at the end, as a keyboard writes it."""
    if rng.random() < 0.12:
        command = command[0].upper() + command[1:]
    if rng.random() < 0.12:
        command += rng.choice([".", "!", "?"])
    return command


def misspell(rng, word, known_words):
    """One slip of the finger: a letter lost, doubled, swapped with the next, or its neighbour.

    Never ends at another word of the grammar, which would be another command, not a typo.
    """
    for _ in range(10):
        at = rng.randrange(len(word))
        kind = rng.randrange(4)
        if kind == 0:
            slip = word[:at] + word[at + 1:]
        elif kind == 1:
            slip = word[:at] + word[at] + word[at:]
        elif kind == 2 and at + 1 < len(word):
            slip = word[:at] + word[at + 1] + word[at] + word[at + 2:]
        else:
            slip = word[:at] + rng.choice(NEIGHBORS[word[at]]) + word[at + 1:]
        if slip != word and slip not in known_words:
            return slip
    return word


def add_typos(rng, command, known_words):
    """One slip, or two, in the long words of a command; None where it has no long word."""
    words = command.split(" ")
    long = [i for i, word in enumerate(words)
            if len(word) >= TYPO_WORD_LETTERS_MIN and word.isascii() and word.isalpha()
            and word.islower()]
    if not long:
        return None
    for i in rng.sample(long, min(len(long), 1 if rng.random() < 0.75 else 2)):
        words[i] = misspell(rng, words[i], known_words)
    spoiled = " ".join(words)
    return None if spoiled == command else spoiled
