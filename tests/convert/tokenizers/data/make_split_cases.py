#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes split_cases.json: pre-tokenizers with the steps of published tokenizers, and how Hugging
Face's library splits texts with them.

    python3 make_split_cases.py [RANDOM_TEXTS] >split_cases.json

Made with tokenizers 0.23.1. The pieces of a text are their lengths in bytes; lengths of what is
dropped are negative.
"""
import json
import random
import sys

from tokenizers import Regex, Tokenizer, models
from tokenizers import pre_tokenizers as p

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def llama3(digits, letters=r"\p{L}"):
    other = letters.replace("[", "").replace("]", "")
    return (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?" + letters + r"+|\p{N}" + digits + r"| ?[^\s"
            + other + r"\p{N}]+[\r\n]*|" + SPACES)


def cased(digits, ending, slash, without=""):
    """Words that begin with capitals, as in o200k."""
    upper, lower = f"[{UPPER}{without}]", f"[{LOWER}{without}]"
    begin = r"|[^\r\n\p{L}\p{N}]?"
    return (f"{begin}{upper}*{lower}+{ending}{begin}{upper}+{lower}*{ending}"
            rf"|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n{slash}]*|{SPACES}")[1:]


CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
          r"|\s*[\r\n]|\s+(?!\S)|\s+")
KIMI = r"[\p{Han}]+|" + cased("{1,3}", CONTRACTION + "?", "", r"&&[^\p{Han}]")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
            r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + SPACES)
CLIP = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|"
        r"[^\s\p{L}\p{N}]+")
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"


def split(expression, behavior="isolated", invert=False):
    return p.Split(Regex(expression), behavior, invert=invert)


def byte_level(use_regex=False):
    return p.ByteLevel(add_prefix_space=False, use_regex=use_regex)


STEPS = {
    "gpt2_whisper": [byte_level(True)],
    "llama3_glm4": [split(llama3("{1,3}")), byte_level()],
    "cl100k": [split(CL100K), byte_level()],
    "qwen2": [split(llama3("")), byte_level()],
    "qwen3_5": [split(llama3("", r"[\p{L}\p{M}]")), byte_level()],
    "o200k": [split(cased("{1,3}", CONTRACTION + "?", "/")), byte_level()],
    "tekken": [split(cased("", "", "/")), byte_level()],
    "kimi": [split(KIMI), byte_level()],
    "deepseek_v3": [split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                    split(DEEPSEEK), byte_level()],
    "deepseek_coder": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK),
                       p.Digits(True), byte_level()],
    "deepseek_llm": [split("[\r\n]"), split("\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6]+"),
                     split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
                     split(r"\s+$"), split(CJK), p.Digits(True), byte_level()],
    "bloom": [split(BLOOM), byte_level()],
    "falcon": [p.Punctuation("contiguous"), byte_level(True), p.Digits(False),
               split("[0-9][0-9][0-9]")],
    "starcoder": [p.Digits(True), byte_level(True)],
    "clip": [split(CLIP, "removed", True), byte_level(True)],
    "whitespace": [p.Whitespace(), byte_level()],
    "whitespace_split": [p.WhitespaceSplit(), byte_level()],
    "bert": [p.BertPreTokenizer(), byte_level()],
    "delimiter": [p.CharDelimiterSplit("."), p.Punctuation(), byte_level()],
    "with_next": [p.Split("a", "merged_with_next"), byte_level()],
    "with_previous": [split("[ab]", "merged_with_previous"), byte_level()],
    "removed": [split(r"\s+", "removed"), p.Split(".*", "removed"), byte_level()],
    "contiguous": [split(r"[\d\W]", "contiguous"), byte_level()],
    "lazy": [split(r"[d-f]{2,3}?|\d{2}x??|ab??c|\h{4,}"), byte_level()],
    "behind": [split(r"(?<=\d)\p{L}+|(?<!\S)\d+|^[ab]|\A\s"), split(r"\b\w+\b|\B\W"), byte_level()],
    "runs": [split(r"\s+", "merged_with_previous"), split(r"\d+", "merged_with_next"),
             p.FixedLength(7), byte_level()],
    "ahead": [split(r"\d+(?=[!.])"), split(r"[A-Z](?![a-z])"), byte_level()],
}

FIXED = [
    "Hello world! I'm he's they'll WE'LL it'S don'T 'tis o'clock ''s 're'",
    "12 123 1234 1234567 3.14159 x86_64 2nd \u00b2\u00b3 \u2167 \u0663\u0664\u0665 \u00bd",
    "  two  spaces   three \t tab\t\ttabs ",
    "line\nbreak\r\nwindows\n\n\nthree\n  indented\n \n end  \n",
    "def f(x):\n    return x ** 2  # done\n\n\nprint(f'{1:>10}')\n",
    "na\u00efve caf\u00e9 e\u0301 Z\u0351\u0336 \u0395\u03bb\u03bb\u03b7 \u0420\u0443\u0441 "
    "\u65e5\u672c\u8a9e\u30c6\u30b9\u30c8 \u6771\u4eac2020 \ud55c\uad6d\uc5b4 \u0928\u092e\u0938",
    "\U0001f642\U0001f642 \U0001f469\u200d\U0001f680 a\U0001f642b \u2026\u2014\u201cquoted\u201d",
    "\u00a0nbsp\u00a0\u00a0two\u2003em\u3000wide\u2028line\u0085next\ufeffbom",
    "it\u2019s '\u017f 'S \u017f'm \u212a",
    "!!!\n\n???\r\n. . .\n.*",
    "CamelCaseWORD HTTPServer's XMLHttp \u01c5abc \u02b0x A\u00c9 \u00c9a iPhone's I'VE\n/path//to",
    "a\n\n\n      b\n\n   \t\n",
    "$a+b<=c ^~`|x` [y](z) a_b__c 12! 34",
    " ", "\n", " \n", "\n ", "  a", "\t\n\t a", "'", "' s", "'r", "'v e", "a'", "",
]
ALPHABET = (
    list("aZ\u00e9bcdx\u65e5\u00df\u0301\u01c4\u02b0\ud55c\u306e") + list("019\u00b2\u0663")
    + list("'''!.-_#/$[]") + list("   \n\n\r\t\u00a0\u3000") + list("stmdrevlSTLE")
    + ["\U0001f642", "\u017f", "\u2581", "\u200d", "\u0bcd", "\uff0c", "\u212a", "\u2460"]
)


def lengths(pre_tokenizer, name, text):
    found, at = [], 0
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    for piece, (begin, end) in pre_tokenizer.pre_tokenize_str(text):
        begin, end = starts[begin], starts[end]
        if name == "falcon":  # pieces within characters
            begin, end = at, at + len(piece)
        found += [at - begin] * (begin > at) + [end - begin]
        at = end
    return found + [at - starts[-1]] * (at < starts[-1])


def main():
    source = random.Random(7)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    texts = FIXED + [
        "".join(source.choice(ALPHABET) for _ in range(source.randint(1, 30)))
        for _ in range(count)]
    tokenizers = []
    for name, steps in STEPS.items():
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = p.Sequence(steps)
        pieces = [lengths(tokenizer.pre_tokenizer, name, text) for text in texts]
        own = json.loads(tokenizer.to_str())["pre_tokenizer"]
        tokenizers.append({"name": name, "pre_tokenizer": own, "pieces": pieces})
    rows = ",\n".join(json.dumps(t, separators=(",", ":")) for t in tokenizers)
    print(f'{{"texts":{json.dumps(texts)},\n"tokenizers":[\n{rows}\n]}}')


main()
