#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes word_cases.json: texts, and the words that BERT's normalizer and pre-tokenizer make.

The rules are those of Hugging Face's library: each character on its own, lower case without regard
to its neighbours, and of the category "other" only Cc, Cf and Co. Texts hold characters that have
been in Unicode since version 3.2, and a few emoji, which all versions in use know alike.
"""

import json
import random
import unicodedata
from pathlib import Path

SPACES = set("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(code) for code in range(0x2000, 0x200B)
}
IDEOGRAPHS = [
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
]  # fmt: skip

# Which rules are on: clean_text, tokenize_chinese_chars, strip_accents, do_lower_case.
SETTINGS = {
    "uncased": (True, True, True, True),
    "cased": (True, True, False, False),
    "lower_with_accents": (True, True, False, True),
    "cased_without_accents": (True, True, True, False),
    "ideographs_in_words": (True, False, True, True),
    "not_cleaned": (False, True, True, True),
}

FIXED = [
    "",
    " ",
    "Hello, World!",
    "don't stop-me now... (really?) $5.00 a+b=c x_y ~`^| <tag> {z}",
    "Caf\u00e9 NA\u00cfVE r\u00e9sum\u00e9 cafe\u0301 A\u030a\u00c5 \u212b \u1ec6 \u01d6",
    "\u0130stanbul I\u0131 \u0130I i\u0307",
    "Stra\u00dfe STRASSE \u1e9e \u017fein",
    "\u039f\u0394\u039f\u03a3 \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2 \u03a3 \u1f88 "
    "\u1fb3 \u0390 \u03f4",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u0401\u0436 "
    "\u0419\u043e\u0433\u0443\u0440\u0442 \u0490",
    "\u65e5\u672c\u8a9e\u30c6\u30b9\u30c8 \u6771\u4eac2020 abc\u4e2d\u6587def "
    "\u3400\u9fff \U00020000x\U0002a6d6",
    "\uf900\ufa0e\ufa10 \U0002f800\U0002fa1d \u304c\u30d7 \u304b\u3099 \uff76\uff9e "
    "\uff21\uff42\uff11",
    "\ud55c\uad6d\uc5b4 \uac00\uac01 \ud7a3 \u1112\u1161\u11ab \u3131",
    "\uc548\ub155 abc\uc138\uc694",
    "a\u0000b\u0001c\u007fd\u0080e\u00adf\u200bg\u200ch\u200di\u2060j\ufeffk\ufffdl\ue000m",
    "tab\tnew\nline\r\nfeed\fvert\vnel\u0085ls\u2028ps\u2029nbsp\u00a0em\u2003wide\u3000end",
    "\U0001f600 ok\U0001f600ok \U0001f468\u200d\U0001f469 \u2764\ufe0f "
    "\U0001f1e9\U0001f1ea 1\u20e3 \u2603",
    "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05d0\u05b7\u05be\u05d1 \u202b\u05d0\u202c",
    "\u0627\u0644\u0633\u0651\u0644\u0627\u0645\u060c \u0622\u0623 \u0640 \u0661\u0662 \u061f",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0915\u093c \u0958 \u0964 \u09cb \u0dda "
    "\u0ddd \u0dde",
    "\u0e01\u0e33 \u0e01\u0e48 \u0e5a \u1026 \u0f43 \u0f0b",
    "\u201cquoted\u201d \u2014 \u2026 \u00ab\u00bb \u00a1\u00bf \u00a7 \u00b6 \u00b7",
    "\u20ac5 \u00a35 \u00a9 \u00ae \u2122 \u00bd \u00b2 \u2160 \u2170 \u2460 \u24b6 \u24d0",
    "\u1fef \u037e \u0387 \u2000\u2001 \u2126 \u212a \u1f71 \u0340\u0341x",
    "\u0344a \u0308\u0301 \u0301 \u0489 \u20dd\u2460 \u0903\u093e",
    "\U00010400\U00010428 \U0001d400 \U0001d15e \U0001d1bb",
    "\u01c4\u01c5\u01c6 \u01f1 \ufb01 \u1e9b\u0323 \u0149 \u01f0",
    "x" * 100 + " " + "\u00e9" * 100,
]  # fmt: skip


def is_space(c):
    return c in SPACES


def is_other(c):
    return c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf", "Co")


def is_ideograph(c):
    return any(first <= ord(c) <= last for first, last in IDEOGRAPHS)


def is_punctuation(c):
    ascii_symbol = "!" <= c <= "/" or ":" <= c <= "@" or "[" <= c <= "`" or "{" <= c <= "~"
    return ascii_symbol or unicodedata.category(c).startswith("P")


def normalize(text, clean, ideographs, strip, lower):
    if clean:
        kept = (c for c in text if not (c == "\ufffd" or is_other(c)))
        text = "".join(" " if is_space(c) else c for c in kept)
    if ideographs:
        text = "".join(f" {c} " if is_ideograph(c) else c for c in text)
    if strip:
        decomposed = unicodedata.normalize("NFD", text)
        text = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    return "".join(c.lower() for c in text) if lower else text


def words(text, rules):
    found = [""]
    for c in normalize(text, *rules):
        if is_space(c):
            found.append("")
        elif is_punctuation(c):
            found += [c, ""]
        else:
            found[-1] += c
    return [word for word in found if word]


def alphabet():
    """Characters of Unicode 3.2, by what they are for the rules."""
    old = unicodedata.ucd_3_2_0
    kinds = {}
    for code in range(0x80, 0x30000):
        c = chr(code)
        if old.category(c) in ("Cn", "Cs", "Co") or unicodedata.category(c) != old.category(c):
            continue
        if c.lower() != c:
            kind = "upper"
        elif unicodedata.normalize("NFD", c) != c:
            kind = "composed"
        else:
            kind = unicodedata.category(c)
        if unicodedata.category(c) == "Mc" and unicodedata.combining(c):
            continue  # a mark that is kept and whose order the decomposition may change
        kinds.setdefault(kind, []).append(c)
    return list(kinds.values())


def main():
    source = random.Random(11)
    kinds = alphabet()
    texts = list(FIXED)
    for _ in range(120):
        length = source.randint(1, 24)
        texts.append(
            "".join(
                source.choice(source.choice(kinds) if source.random() < 0.7 else list("aZ09 '.-\n"))
                for _ in range(length)
            )
        )
    cases = [
        {"rules": name, "text": text, "words": words(text, rules)}
        for name, rules in SETTINGS.items()
        for text in texts
    ]
    lines = ",\n".join(json.dumps(case) for case in cases)
    Path(__file__).with_name("word_cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
