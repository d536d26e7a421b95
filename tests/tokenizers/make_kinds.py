#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tokenizers of published families, and what Hugging Face's library makes of texts.

    python3 make_kinds.py FOLDER [NAME ...]     (tokenizers 0.23, sentencepiece 0.2)
    TEXTS=60 python3 make_kinds.py --cases NAME ... >kind_cases.json
    TEXTS=60 python3 make_kinds.py --pieces >piece_cases.json

Each kind is a folder: a model of random weights around the tokenizer.json or tokenizer.model, and
cases.json with the texts, ids and decoded texts, where names of special tokens in texts are read
and where they are not. TEXTS=N in the environment makes N texts of each kind instead of 2,000.
"""
import array
import json
import os
import random
import struct
import sys
import tempfile
from pathlib import Path

import kinds

WORDS = kinds.SYLLABLES + ["film", "isn't", "we've", "I'LL", "'Twas", "don''t", "İstanbul", "ǅ",
                           "ΑΣ", "ß", "ﬁ", "Ⅳ", "naïve", "café", "Å", "E\u0301", "Tokyo", "TOKA"]
DIGITS = ["1", "12", "345", "2024", "1234567", "3.14", "1,000,000", "①", "½", "²", "٣٤", "४५", "Ⅷ"]
SPACES = [" "] * 6 + ["  ", "   ", "     ", "\t", "\t\t", "\u00a0", "\u3000", "\u2581",
                      "\u2581\u2581", "\u200b", "\u2028", "\u0085", "\u000b", "\u000c", "\u001c"]
BREAKS = ["\n", "\n\n", "\r\n", " \n ", "\n  ", "\r"]
MARKS = ["\u0301", "\u0308", "\u0323", "e\u0301", "A\u030a", "a\u0323\u0307", "a\u0307\u0323",
         "o\u0302\u0301", "\u0344", "\u0345", "\u212b", "\u2126", "\u0958", "\u0f73",
         "\u1100\u1161",
         "\u1100\u1161\u11a8", "각", "가\u11a8", "\u3099か\u3099", "ｱｶﾞ", "\u0e33",
         "क्षि", "நி", "กำ", "نّ",
         "\ufb2f", "\u1e9b\u0323", "\U0001d15e", "\U0001109a", "q\u0307\u0323\u0301"]
ODD = ["\U0001f600", "❤\ufe0f", "\U0001f1eb\U0001f1f7",
       "\U0001f468\u200d\U0001f469\u200d\U0001f467",
       "\U0001f44d\U0001f3fd", "1\ufe0f\u20e3", "…", "—", "“x”", "``", "''", "™", "㌀", "\ufdfa",
       "\u00ad", "\ufeff", "\ufffd", "\u0007", "\u0001", "\u001b[0m", "\u007f", "\U0001d400",
       "\U000e0041", "\uf8ff", "\U0010ffff", "\u0378", "</w>", "##to", "@@to", "|", "||",
       "(((", "!!!", "...", "a.b", "http://x.y/?q=1&r", "x_y", "C++", "#!", "$5", "^_^", "~", "\\n",
       "漢字", "カタカナ", "ｶﾅ", "한국어", "สวัสดี", "ຂ້ອຍ", "مرحبا", "שלום", "नमस्ते", "ελληνικά",
       "\u1e00", "中文，标点。", "\u30fb", "\u02bc"]
NAMES = ["<unk>", "<s>", "</s>", "<pad>", "<mask>", "[MASK]", "[UNK]", "<|endoftext|>",
         "<extra_id_0>", "[CLS]", "|"]
LINES = ["", " ", "  ", "\t", "a", " a", "a ", "  a  b", "\u2581", "\u2581a", "a\u2581b", " \u2581",
         "to" * 60, "x" * 150, " " * 40, "1" * 30, "\u0301", "\u00a0"]


def text(r, added):
    names = NAMES[:3] + added * 4 if added else NAMES
    parts = []
    for _ in range(r.randint(1, 12)):
        kind = r.random()
        if kind < 0.42:
            parts.append("".join(r.choice(WORDS) for _ in range(r.randint(1, 3))))
        elif kind < 0.67:
            parts.append(r.choice(SPACES))
        elif kind < 0.75:
            parts.append(r.choice(DIGITS))
        elif kind < 0.83:
            parts.append(r.choice(MARKS))
        elif kind < 0.91:
            parts.append(r.choice(ODD))
        elif kind < 0.94:
            parts.append(r.choice(BREAKS))
        elif kind < 0.98:
            name = r.choice(names)
            parts.append(r.choice(["", "", "", " ", "a"]) + name)
        else:
            parts.append(chr(r.choice([r.randint(33, 0x24f), r.randint(0x250, 0x2fff),
                                       r.randint(0x3000, 0xd7ff), r.randint(0x10000, 0x1f9ff)])))
    return "".join(parts)


def write_model(folder, vocabulary, r):
    """A GPT-2 of one layer, whose weights do not matter."""
    width, positions = 8, 16
    shapes = {"wte.weight": (vocabulary, width), "wpe.weight": (positions, width)}
    for norm in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        shapes.update({norm + ".weight": (width,), norm + ".bias": (width,)})
    for name, i, o in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                       ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
        shapes.update({f"h.0.{name}.weight": (i, o), f"h.0.{name}.bias": (o,)})
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = array.array("f", (r.uniform(-0.3, 0.3) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape),
                        "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text_ = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text_)) + text_ + data)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": vocabulary,
        "n_embd": width, "n_layer": 1, "n_head": 2, "n_positions": positions, "n_ctx": positions,
        "activation_function": "gelu_new"}))


def cases_of(tokenizer, name, count):
    """Texts, and what the library makes of them in both modes."""
    r = random.Random(name)
    added = tokenizer.get_added_tokens_decoder().values()
    texts = LINES + [text(r, [t.content for t in added]) for _ in range(count - len(LINES))]
    names = [t.content.lower() for t in added if t.special]
    cases = {}
    for mode in ("special", "plain"):
        tokenizer.encode_special_tokens = mode == "plain"
        # Names that are text never become special tokens here, whatever the vocabulary says.
        chosen = [t for t in texts if mode == "special" or not any(x in t.lower() for x in names)]
        ids = [tokenizer.encode(t).ids for t in chosen]
        cases[mode] = {"texts": chosen, "ids": ids, "decoded": [tokenizer.decode(i) for i in ids]}
    return cases


def write_kind(folder, name, tokenizer, count):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_model(folder, max(tokenizer.get_vocab().values()) + 1, random.Random(name))
    (folder / "cases.json").write_text(json.dumps(cases_of(tokenizer, name, count)))


def cases_of_pieces(name, model, count):
    """SentencePiece writes its own text for unknown pieces, and drops all spaces that begin a text,
    where the runtime drops one: such texts are not decoded."""
    library = kinds.sentencepiece.SentencePieceProcessor(model_proto=model)
    r = random.Random(name)
    texts = LINES + [text(r, []) for _ in range(count - len(LINES))]
    ids = [library.encode(t) for t in texts]
    is_other = [library.unk_id() in i or t.lstrip().startswith(kinds.MARK)
                for t, i in zip(texts, ids, strict=True)]
    decoded = [None if o else library.decode(i) for o, i in zip(is_other, ids, strict=True)]
    return {"plain": {"texts": texts, "ids": ids, "decoded": decoded}}


def write_pieces(folder, name, count):
    folder.mkdir(parents=True, exist_ok=True)
    model = kinds.sentence_pieces(name)
    (folder / "tokenizer.model").write_bytes(model)
    (folder / "tokenizer_config.json").write_text('{"add_bos_token": false}')
    write_model(folder, 640, random.Random(name))
    (folder / "cases.json").write_text(json.dumps(cases_of_pieces(name, model, count)))


def print_pieces(count):
    """Writes the cases of small files as library_cases_test.cc reads them."""
    found = []
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write(kinds.FEW_RULES)
        rules.flush()
        for name in ("unigram", "unigram_user", "bpe_user", "word", "char"):
            model = kinds.sentence_pieces(name, normalization_rule_tsv=rules.name)
            cases = cases_of_pieces(name, model, count)["plain"]
            found.append({"name": name, "model": model.hex(), **cases})
    json.dump(found, sys.stdout, separators=(",", ":"))


def print_cases(wanted, count):
    """Writes the cases of kinds as library_cases_test.cc reads them."""
    found = []
    for name, tokenizer in kinds.kinds():
        if name in wanted:
            cases = cases_of(tokenizer, name, count)["special"]
            found.append({"name": name, "json": json.loads(tokenizer.to_str()),
                          "texts": cases["texts"],
                          "cases": list(zip(cases["ids"], cases["decoded"]))})
    json.dump({"tokenizers": found}, sys.stdout, separators=(",", ":"))


def main():
    root, wanted = Path(sys.argv[1]), sys.argv[2:]
    count = int(os.environ.get("TEXTS", "2000"))
    if sys.argv[1] == "--cases":
        return print_cases(wanted, count)
    if sys.argv[1] == "--pieces":
        return print_pieces(count)
    for name in kinds.PIECES:
        if not wanted or f"pieces_{name}" in wanted:
            write_pieces(root / f"pieces_{name}", name, count)
    for name, tokenizer in kinds.kinds():
        if not wanted or name in wanted:
            write_kind(root / name, name, tokenizer, count)


if __name__ == "__main__":
    main()
