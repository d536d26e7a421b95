# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE as in GPT-2: trains the merges, reads and writes tokenizer.json, encodes, decodes.

The file has the form of the Hugging Face tokenizers library. Only the Python standard library is
needed here, so the reference does not depend on that library either.
"""

import collections
import json
import re
import unicodedata

DO = "<|do|>"       # ends the command, starts the action
END = "<|end|>"     # ends the action
SPECIALS = (DO, END)
MERGES = 142        # 256 bytes + 142 merges + 2 specials = 400 tokens

# GPT-2's pattern: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
# Here it runs over text in which ASCII stands for each other character (see _ascii_classes).
PIECES = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+",
                    re.ASCII)
UNICODE_SPACES = set("\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | \
    {chr(code) for code in range(0x2000, 0x200b)}


def _ascii_classes(text):
    """The text with x for letters, 0 for numbers, a tab for spaces, # for others outside ASCII."""
    def mapped(char):
        if char < "\x80":
            return char
        if char in UNICODE_SPACES:
            return "\t"
        return {"L": "x", "N": "0"}.get(unicodedata.category(char)[0], "#")
    return text if text.isascii() else "".join(map(mapped, text))


def split_pieces(text):
    """The pieces within which merges happen."""
    return [text[match.start():match.end()] for match in PIECES.finditer(_ascii_classes(text))]


def byte_letters():
    """GPT-2's printable character for each byte: itself, or from U+0100 on where it is not visible.

    Ordered as the vocabulary is: visible bytes first.
    """
    visible = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    letters = {byte: chr(byte) for byte in visible}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(0x100 + len(letters) - len(visible))
    return letters


LETTERS = byte_letters()
BYTES = {letter: byte for byte, letter in LETTERS.items()}


def _to_letters(piece):
    return tuple(LETTERS[byte] for byte in piece.encode("utf-8"))


def _merge(symbols, pair):
    """The symbols with each occurrence of the pair, from the left, made one."""
    merged, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def train_merges(texts, count=MERGES):
    """The most frequent pairs one after another; of equals the first in the order of characters.

    A pair with a digit is never merged: a number then has the same tokens in command and action,
    and copying it is copying digits.
    """
    counts = collections.Counter(piece for text in texts for piece in split_pieces(text))
    pieces = {_to_letters(piece): n for piece, n in counts.items()}
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for symbols, n in pieces.items():
            for pair in zip(symbols, symbols[1:]):
                if not any(char.isdigit() for char in "".join(pair)):
                    pairs[pair] += n
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        joined = collections.Counter()
        for symbols, n in pieces.items():
            joined[_merge(symbols, best)] += n
        pieces = joined
    return merges


class Tokenizer:
    """Text to ids and back. Special tokens in the text itself are read as such."""

    def __init__(self, merges):
        tokens = list(LETTERS.values()) + [a + b for a, b in merges] + list(SPECIALS)
        self.merges = merges
        self.vocab = {token: i for i, token in enumerate(tokens)}
        self.tokens = tokens
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.do_id, self.end_id = self.vocab[DO], self.vocab[END]
        self._cache = {}

    def _encode_piece(self, piece):
        """Merges the pair of the lowest rank until there is none left."""
        if piece not in self._cache:
            symbols = _to_letters(piece)
            while len(symbols) > 1:
                pair = min(zip(symbols, symbols[1:]),
                           key=lambda pair: self.ranks.get(pair, len(self.ranks)))
                if pair not in self.ranks:
                    break
                symbols = _merge(symbols, pair)
            self._cache[piece] = [self.vocab[symbol] for symbol in symbols]
        return self._cache[piece]

    def encode(self, text):
        ids = []
        for part in re.split("(" + "|".join(map(re.escape, SPECIALS)) + ")", text):
            if part in SPECIALS:
                ids.append(self.vocab[part])
            else:
                for piece in split_pieces(part):
                    ids += self._encode_piece(piece)
        return ids

    def decode(self, ids):
        """Text of the ids; special tokens leave none."""
        letters = "".join(self.tokens[i] for i in ids if self.tokens[i] not in SPECIALS)
        return bytes(BYTES[letter] for letter in letters).decode("utf-8", "replace")

    def save(self, path):
        added = [{"id": self.vocab[token], "content": token, "single_word": False,
                  "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                 for token in SPECIALS]
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                      "use_regex": True}
        model = {"type": "BPE", "dropout": None, "unk_token": None,
                 "continuing_subword_prefix": None, "end_of_word_suffix": None,
                 "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                 "vocab": {token: i for token, i in self.vocab.items() if token not in SPECIALS},
                 "merges": [f"{a} {b}" for a, b in self.merges]}
        file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
                "decoder": byte_level, "model": model}
        path.write_text(json.dumps(file, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path):
        file = json.loads(path.read_text(encoding="utf-8"))
        tokenizer = cls([tuple(pair.split(" ")) for pair in file["model"]["merges"]])
        vocab = dict(file["model"]["vocab"])
        vocab.update({token["content"]: token["id"] for token in file["added_tokens"]})
        if vocab != tokenizer.vocab:
            raise ValueError(f"{path}: vocab does not follow from its merges; run train.py")
        return tokenizer
