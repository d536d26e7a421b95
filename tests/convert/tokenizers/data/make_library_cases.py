# SPDX-License-Identifier: Apache-2.0
"""Writes library_cases.json: small tokenizers with the settings of published ones, trained here on
generated text, and what Hugging Face's library makes of texts.

    python3 make_library_cases.py [TOKENIZER.json ...] >library_cases.json

Made with tokenizers 0.23.1, whose training gives other scores each time. With TEXTS=N in the
environment it makes so many texts, and it takes files of others along.
"""
import json
import os
import random
import sys

from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

sys.path.append(str(Path(__file__).resolve().parents[3] / "tokenizers"))
from kinds import charsmap  # noqa: E402, what SentencePiece's models normalize by

R = random.Random(5)
SYLLABLES = ["ka", "to", "mi", "ren", "sol", "ta", "ing", "er", "ü", "né", "ло", "ва", "東", "京",
             "の", "한", "글", "ﬁ", "Å", "1", "20", ".", ",", "'s", "``", "''", "-", "É", "ß", "İ",
             "Ⅳ"]
SPACES = [" ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2581", "\u200b"]
ODD = ["\u0301", "\u0308", "\u0323", "e\u0301", "A\u030a", "①", "①\u0301", "ﬃ", "™", "½", "…",
       "㌀", "\ufdfa", "\U0001f600", "❤\ufe0f", "\U0001f1eb\U0001f1f7",
       "\U0001f468\u200d\U0001f469", "©\u200d", "\u0600a\u0301", "\u00ad", "\u0007", "\x1c",
       "\u2028", "\ufeff", "\ufffd", "क्षि", "ก็", "\u1100\u1161\u11a8", "각", "ｱｶﾞ", "Ａ",
       "\U0001d400", "Ω", "\u212b", "<unk>", "<s>", "<mask>", " <mask> ", "</s>", "<0x41>",
       "</w>", "\u0345", "Ⱥ", "ǅ", "Σ", "ς"]


def word():
    return "".join(R.choice(SYLLABLES) for _ in range(R.randint(1, 4)))


def text():
    parts = []
    for _ in range(R.randint(1, 9)):
        parts.append(R.choice(SPACES) if R.random() < 0.4 else
                     R.choice(ODD) if R.random() < 0.4 else word())
    return "".join(parts)


def template(single, names):
    return processors.TemplateProcessing(single=single, special_tokens=names)


def unigram(name, size, normalizer, scheme, words, split, after, corpus):
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.Unigram())
    if normalizer:
        tokenizer.normalizer = normalizer
    space = pre_tokenizers.Metaspace("\u2581", prepend_scheme=scheme, split=split)
    tokenizer.pre_tokenizer = (pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), space])
                               if words else space)
    tokenizer.decoder = decoders.Metaspace("\u2581", prepend_scheme=scheme, split=split)
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=specials, unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    ids = {t: tokenizer.token_to_id(t) for t in specials}
    around = [(t, ids[t]) for t in specials if t in after.split()]
    tokenizer.post_processor = template(after, around)
    return name, tokenizer


def nllb(corpus, normalizer):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace("\u2581", prepend_scheme="always")
    names = ["<s>", "<unk>", "</s>", "<mask>"]
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=120, special_tokens=names, limit_alphabet=60, show_progress=False))
    tokenizer.post_processor = template("<mask> $A </s>", [("<mask>", 3), ("</s>", 2)])
    return "nllb", tokenizer


def clip(corpus):
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(
            Regex(r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|"
                  r"[^\s\p{L}\p{N}]+"), behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    names = ["<|startoftext|>", "<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=620, special_tokens=names, end_of_word_suffix="</w>", initial_alphabet=alphabet,
        show_progress=False))
    tokenizer.post_processor = processors.RobertaProcessing(
        (names[1], 1), (names[0], 0), trim_offsets=False, add_prefix_space=False)
    return "clip", tokenizer


def whisper(corpus):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>",
             "<|notimestamps|>"]
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=300, special_tokens=names, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = template(" ".join(names[1:]) + " $A " + names[0],
                                        [(t, tokenizer.token_to_id(t)) for t in names])
    return "whisper", tokenizer


def plain(name, model, steps, normalizer, corpus):
    """Words or characters without a decoder, which writes spaces between tokens."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    if normalizer:
        tokenizer.normalizer = normalizer
    settings = {"vocab_size": 90, "special_tokens": ["<unk>", "<s>"], "show_progress": False}
    is_bpe = isinstance(model, models.BPE)
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(limit_alphabet=25, **settings)
                                  if is_bpe else trainers.WordLevelTrainer(**settings))
    tokenizer.post_processor = template("<s> $A", [("<s>", 1)])
    return name, tokenizer


def plain_tokenizers(corpus):
    p, n = pre_tokenizers, normalizers
    folds = n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()])
    yield plain("word_level", models.WordLevel(unk_token="<unk>"), [p.Whitespace()], None, corpus)
    yield plain("word_level_folded", models.WordLevel(unk_token="<unk>"),
                [p.WhitespaceSplit(), p.Digits(True), p.Punctuation()], folds, corpus)
    yield plain("bpe_whitespace", models.BPE(unk_token="<unk>"), [p.Whitespace()], None, corpus)
    yield plain("bpe_bert", models.BPE(unk_token="<unk>", fuse_unk=True), [p.BertPreTokenizer()],
                None, corpus)


def tokenizers(corpus):
    n = normalizers
    spaces = n.Replace(Regex(" {2,}"), " ")
    latin = n.Precompiled(charsmap(False))
    quotes = [n.Replace("``", '"'), n.Replace("''", '"')]
    settings = [
        ("t5", 150, None, "always", True, True, "$A </s>"),
        ("xlm_r", 170, latin, "always", True, True, "<s> $A </s>"),
        ("mbart", 150, n.Sequence([latin, spaces]), "always", False, True, "$A </s> <mask>"),
        ("albert", 150,
         n.Sequence(quotes + [n.NFKD(), n.StripAccents(), n.Lowercase(), latin, spaces]),
         "always", False, True, "<s> $A </s>"),
        ("deberta", 150, n.Sequence([n.Lowercase(), n.Strip(), latin, spaces]),
         "always", False, True, "<s> $A </s>"),
        ("folded", 120,
         n.Sequence([n.Precompiled(charsmap(True)), n.Strip(left=False),
                     n.Replace(Regex(" {2,}"), "\u2581")]), "first", False, False, "$A"),
        ("camembert", 120,
         n.Sequence([n.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), n.Strip(left=False)]),
         "never", False, True, "<s> $A"),
    ]
    for setting in settings:
        yield unigram(*setting, corpus)
    yield nllb(corpus, n.Sequence([latin, spaces]))
    yield clip(corpus)
    yield whisper(corpus)
    yield from plain_tokenizers(corpus)


def main():
    corpus = [" ".join(word() for _ in range(9)) for _ in range(400)]
    count = int(os.environ.get("TEXTS", "45"))
    texts = ["", " ", "a", " a", "a ", "  a  b", "\n", "\u2581", "a\u2581b", "<mask>",
             " x <mask> y"]
    texts += [text() for _ in range(count)] + ["to" * 40]
    # U+0000 cannot be in a map, and ends a text of a command line.
    found = list(tokenizers(corpus))
    found += [(os.path.basename(path), Tokenizer.from_file(path)) for path in sys.argv[1:]]
    result = {"texts": texts, "tokenizers": []}
    for name, tokenizer in found:
        cases = []
        for t in texts:
            ids = tokenizer.encode(t).ids
            cases.append([ids, tokenizer.decode(ids)])
        result["tokenizers"].append(
            {"name": name, "json": json.loads(tokenizer.to_str()), "cases": cases})
    json.dump(result, sys.stdout, ensure_ascii=True, separators=(",", ":"))


main()
