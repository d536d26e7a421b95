#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes pattern_cases.json: texts, and how the regular expressions of tokenizers cut them.

Needs the module `regex`, which knows Unicode's categories and possessive matching. The texts use
characters that all Unicode versions of the last years classify alike.
"""

import json
import random
from pathlib import Path

import regex

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MODERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {
    "gpt2": GPT2,
    "llama3": MODERN.replace("DIGITS", "{1,3}"),
    "qwen2": MODERN.replace("DIGITS", ""),
}

FIXED = [
    "Hello world! I'm he's they'll WE'LL it'S don'T 'tis o'clock ''s 're'",
    "12 123 1234 1234567 3.14159 x86_64 2nd ²³ Ⅷ ٣٤٥ ½",
    "  two  spaces   three \t tab\t\ttabs ",
    "line\nbreak\r\nwindows\n\n\nthree\n  indented\n \n end  \n",
    "def f(x):\n    return x ** 2  # done\n\n\nprint(f'{1:>10}')\n",
    "naïve café e\u0301 Z\u0351\u0336 Ελληνικά Русский 日本語テスト 東京2020 한국어 नमस्ते שלום",
    "🙂🙂 👩\u200d🚀 🇩🇪! a🙂b 1🙂2 …—“quoted”",
    "\u00a0nbsp\u00a0\u00a0two\u2003em\u3000wide\u2028line\u0085next\ufeffbom",
    "it\u2019s 'ſ 'S \u017f'm",
    "!!!\n\n???\r\n. . .\n",
    " ", "\n", " \n", "\n ", "  a", "\t\n\t a", "'", "''", "' s", "'r", "'l", "'v e", "a'",
]

ALPHABET = (
    list("aZé日ß\u0301") + list("019²٣") + list("'''!.-_#") + list("   \n\n\r\t\u00a0\u3000")
    + list("stmdrevlSTLE") + ["🙂", "\u017f", "\u2581", "\x00", "\u200d"]
)


def cuts(pattern, text):
    pieces = [match.group() for match in regex.finditer(pattern, text)]
    assert "".join(pieces) == text
    return pieces


def digit_cuts(text):
    pieces = []
    for part in regex.findall(r"\p{N}|\P{N}+", text):
        pieces += [part] if regex.fullmatch(r"\p{N}", part) else cuts(GPT2, part)
    return pieces


def main():
    source = random.Random(7)
    texts = FIXED + [
        "".join(source.choice(ALPHABET) for _ in range(source.randint(1, 24))) for _ in range(300)
    ]
    cases = []
    for text in texts:
        case = {"text": text}
        found = {name: cuts(pattern, text) for name, pattern in PATTERNS.items()}
        found["digits"] = digit_cuts(text)
        for name, pieces in found.items():
            case[name] = [len(piece.encode()) for piece in pieces]
        cases.append(case)
    lines = ",\n".join(json.dumps(case) for case in cases)
    Path(__file__).with_name("pattern_cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
