#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes unicode_digests.json: what Hugging Face's library `tokenizers` makes of every character.

Each code point but the surrogates stands in a text of its own, which the library cuts. A digest,
the 64-bit FNV-1a of all cuts of a plane of 65,536 code points, is what the test compares. Run it
where the library is installed; the file in the repository is from version 0.23.1.

  words     BertNormalizer and BertPreTokenizer on "a?b ?". A word with a character beyond plane 1
            counts as [UNK], as in the test's vocabulary. All sixteen settings for the planes that
            have characters, and the usual one for all.
  patterns  Split by the expressions of GPT-2, Llama 3, Qwen 2, o200k and DeepSeek on
            "a?b1?2 ?x?\\n": the bytes of each piece.
  changes   Lowercase; StripAccents; NFD and NFKD, both with StripAccents, but for the syllables of
            Hangul, which count as they are.
"""

import json
from itertools import product
from pathlib import Path

import tokenizers
from tokenizers import Regex
from tokenizers.normalizers import NFD, NFKD, BertNormalizer, Lowercase, Sequence, StripAccents
from tokenizers.pre_tokenizers import BertPreTokenizer, Split

EXPRESSIONS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek": r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+|\w+",
}
PLANES = range(17)
PLANES_WITH_CHARACTERS = (0, 1, 2, 14)
RULES = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")


def digest_of_plane(plane, cut):
    digest = 0xCBF29CE484222325
    for code_point in range(plane << 16, (plane + 1) << 16):
        if 0xD800 <= code_point <= 0xDFFF:
            continue
        for byte in (cut(chr(code_point)) + "\n").encode():
            digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return f"{digest:016x}"


def word_cut(rules):
    normalizer = BertNormalizer(**rules)
    pre_tokenizer = BertPreTokenizer()

    def cut(character):
        text = normalizer.normalize_str(f"a{character}b {character}")
        words = [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]
        return " ".join("[UNK]" if max(map(ord, word)) > 0x1FFFF else word for word in words)

    return cut


def pattern_cut(expression):
    split = Split(Regex(expression), "isolated")

    def cut(character):
        text = f"a{character}b1{character}2 {character}x{character}\n"
        return " ".join(str(len(piece.encode())) for piece, _ in split.pre_tokenize_str(text))

    return cut


CHANGES = {
    "lowercase": Lowercase(),
    "strip": StripAccents(),
    "nfd": Sequence([NFD(), StripAccents()]),
    "nfkd": Sequence([NFKD(), StripAccents()]),
}


def changer(name):
    def change(character):
        is_syllable = 0xAC00 <= ord(character) <= 0xD7A3
        return character if is_syllable else CHANGES[name].normalize_str(character)

    return change


def main():
    words = {}
    for flags in product((True, False), repeat=len(RULES)):
        cut = word_cut(dict(zip(RULES, flags)))
        planes = PLANES if all(flags) else PLANES_WITH_CHARACTERS
        name = "".join("1" if flag else "0" for flag in flags)
        words[name] = {str(plane): digest_of_plane(plane, cut) for plane in planes}
    patterns = {
        name: {
            "expression": expression,
            "planes": {
                str(plane): digest_of_plane(plane, pattern_cut(expression))
                for plane in PLANES_WITH_CHARACTERS
            },
        }
        for name, expression in EXPRESSIONS.items()
    }
    changes = {
        name: {
            str(plane): digest_of_plane(plane, changer(name)) for plane in PLANES_WITH_CHARACTERS
        }
        for name in CHANGES
    }
    found = {"library": tokenizers.__version__, "words": words, "patterns": patterns,
             "changes": changes}
    path = Path(__file__).with_name("unicode_digests.json")
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
