# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of published model families: the normalizer, pre-tokenizer, model, post-processor and
decoder of each, around small vocabularies that are trained here.

    for name, tokenizer in kinds(): ...

The settings are those of the tokenizer.json that families publish, and of the tokenizer classes of
transformers 5. Names that begin with "odd" are combinations that the library allows besides.
"""
import io
import json
import random
import struct
import unicodedata

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, models, trainers)
from tokenizers import decoders as d
from tokenizers import normalizers as n
from tokenizers import pre_tokenizers as p
from tokenizers import processors as post

MARK = "\u2581"
R = random.Random(11)
SYLLABLES = ["ka", "to", "mi", "ren", "sol", "ta", "ing", "er", "the", "un", "ü", "né", "ло", "ва",
             "東", "京", "の", "한", "글", "ก", "สวั", "مر", "حبا", "नम", "1", "20", "345", ".", ",",
             "'s", "n't", "-", "É", "ß"]


def corpus(count=250):
    word = lambda: "".join(R.choice(SYLLABLES) for _ in range(R.randint(1, 3)))
    lines = [" ".join(word() for _ in range(8)) for _ in range(count)]
    return lines + ["the film's price isn't 12,345.60 dollars!", "def f(x):\n    return x"] * 5


LINES = corpus()


# ---- SentencePiece's maps of characters ----

def double_array(keys):
    """A trie as SentencePiece compiles it: units of 32 bits, then the texts."""
    texts, values = b"", {}
    for key in sorted(keys):
        values[key] = len(texts)
        texts += keys[key] + b"\0"
    units, used, free = {0: 0}, {0}, [1]

    def place(at, prefix, inside):
        children, leaf = {}, None
        for key in inside:
            if len(key) == len(prefix):
                leaf = values[key]
            else:
                children.setdefault(key[len(prefix)], []).append(key)
        labels = ([0] if leaf is not None else []) + sorted(children)
        base = free[0]
        while any(base ^ label in used or base ^ label == 0 for label in labels):
            base += 1
        free[0] = max(free[0], base - 300)
        units[at] |= (at ^ base) << 10 | (1 << 8 if leaf is not None else 0)
        used.update(base ^ label for label in labels)
        if leaf is not None:
            units[base] = 1 << 31 | leaf
        for label in sorted(children):
            units[base ^ label] = label
            place(base ^ label, prefix + bytes([label]), children[label])

    place(0, b"", sorted(keys))
    count = (max(units) | 255) + 1
    array = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(count))
    return struct.pack("<I", len(array)) + array + texts


def charsmap(fold_case=False):
    """NFKC of many characters and short sequences, spaces, and what vanishes: nmt_nfkc(_cf)."""
    keys = {c.encode(): b" " for c in "\t\n\r\u00a0\u3000\u2028"}
    keys.update({c.encode(): b"" for c in "\u0007\u200b\u00ad\ufeff\x1c"})
    some = list(range(0xa0, 0x250)) + list(range(0xff01, 0xffa0)) + list(range(0x2460, 0x2470))
    letters = [chr(c) for c in some] + list("™½…㌀ﬁﬃⅣΩ\ufdfa\U0001d400")
    letters += [a + m for a in "aeionuAEIOU" for m in "\u0301\u0308\u0323"]
    for c in letters + [chr(c) for c in range(0x41, 0x5b)] * fold_case:
        normal = unicodedata.normalize("NFKC", c.casefold() if fold_case else c)
        if normal != c:
            keys.setdefault(c.encode(), normal.encode())
    return double_array(keys)


MAP, MAP_FOLDED = n.Precompiled(charsmap()), n.Precompiled(charsmap(True))


# ---- parts that many share ----

def template(single, ids, pair=None):
    names = [t for t in dict.fromkeys(single.split() + (pair or "").split()) if t[0] != "$"]
    names = list(dict.fromkeys(t.split(":")[0] if t.count(":") else t for t in names))
    return post.TemplateProcessing(single=single, pair=pair,
                                   special_tokens=[(t, ids(t)) for t in names])


def split(expression, behavior="isolated", invert=False):
    return p.Split(Regex(expression), behavior, invert)


def byte_level(regex=False, prefix=False):
    return p.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def meta(scheme="always", split=True):
    return p.Metaspace(MARK, prepend_scheme=scheme, split=split)


def metad(scheme="always", split=True):
    return d.Metaspace(MARK, prepend_scheme=scheme, split=split)


def special(name, **kw):
    return AddedToken(name, special=True, normalized=kw.pop("normalized", False), **kw)


def plain(name, **kw):
    return AddedToken(name, special=False, normalized=kw.pop("normalized", False), **kw)


def finish(t, added, single, pair=None):
    for token in added:
        (t.add_special_tokens if token.special else t.add_tokens)([token])
    if isinstance(single, str):
        t.post_processor = template(single, t.token_to_id, pair)
    elif single is not None:
        t.post_processor = single(t) if callable(single) else single
    return t


# ---- kinds of models ----

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT_PAIR = ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")


def word_piece(normalizer, single=BERT_PAIR[0], pair=BERT_PAIR[1], names=BERT, pre=None,
               decoder=d.WordPiece("##"), added=(), prefix="##", size=320, mask=False, **model):
    unk = next(t for t in names if "unk" in t.lower())
    t = Tokenizer(models.WordPiece(unk_token=unk, continuing_subword_prefix=prefix, **model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre or p.BertPreTokenizer()
    t.train_from_iterator(LINES, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=names, show_progress=False,
        continuing_subword_prefix=prefix))
    if decoder:
        t.decoder = decoder
    return finish(t, [special(names[-1], lstrip=True, normalized=mask), *added], single, pair)


def bert_normalizer(lower=True, chinese=True, accents=None, clean=True):
    return n.BertNormalizer(clean, chinese, accents, lower)


def bytes_bpe(pre, names=("<|endoftext|>",), normalizer=None, single=None, pair=None, added=(),
              decoder=d.ByteLevel(), size=420, whole=(), **model):
    suffix = model.get("end_of_word_suffix") or ""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = p.Sequence(pre) if isinstance(pre, list) else pre
    if normalizer:
        t.normalizer = normalizer
    extra = {"end_of_word_suffix": suffix} if suffix else {}
    t.train_from_iterator(LINES, trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(names), show_progress=False,
        initial_alphabet=p.ByteLevel.alphabet(), **extra))
    state = json.loads(t.to_str())["model"]
    vocab = state["vocab"]
    for word in whole:  # tokens that no merges make
        vocab[word] = len(vocab)
    if suffix:
        for character in p.ByteLevel.alphabet():
            vocab.setdefault(character + suffix, len(vocab))
    t.model = models.BPE(vocab=vocab, merges=[tuple(m) for m in state["merges"]], **model)
    t.decoder = decoder
    return finish(t, [special(name) for name in names] + list(added), single, pair)


def clean(text):
    return text.replace(" ", MARK)


def sp_bpe(normalizer, pre, decoder, single="<s> $A", pair="<s> $A <s> $B", added=(),
           names=("<unk>", "<s>", "</s>"), fallback=True, size=450, user=(), limit=60, **model):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = p.Sequence([p.WhitespaceSplit(), meta()])
    t.train_from_iterator(LINES, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, limit_alphabet=limit))
    state = json.loads(t.to_str())["model"]
    tokens = list(names) + [f"<0x{b:02X}>" for b in range(256)] * fallback + list(user)
    tokens += [w for w in sorted(state["vocab"], key=state["vocab"].get) if w not in tokens]
    runs = [MARK * k for k in (2, 3, 4)]
    tokens += [r for r in runs + [MARK] if r not in tokens]
    merges = [tuple(m) for m in state["merges"]] + [(MARK, MARK), (MARK * 2, MARK * 2)]
    settings = {"unk_token": names[0], "fuse_unk": True, "byte_fallback": fallback, **model}
    t = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(tokens)}, merges=merges, **settings))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    return finish(t, [special(name) for name in names] + list(added), single, pair)


LLAMA_DECODER = d.Sequence([d.Replace(MARK, " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])
GEMMA_DECODER = d.Sequence([d.Replace(MARK, " "), d.ByteFallback(), d.Fuse()])
LEGACY = n.Sequence([n.Prepend(MARK), n.Replace(" ", MARK)])
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def unigram(normalizer, pre, decoder, single, pair=None, names=ROBERTA, added=(), size=220,
            mask=True, fallback=False, unk="<unk>", extra=()):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = p.Sequence([p.WhitespaceSplit(), meta()])
    t.train_from_iterator(LINES, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=list(names), unk_token=unk, show_progress=False))
    vocab = json.loads(t.to_str())["model"]["vocab"]
    vocab = [tuple(v) for v in vocab]
    if fallback:
        vocab += [(f"<0x{b:02X}>", -9.0) for b in range(256)]
    vocab += [(e, -3.0 - i) for i, e in enumerate(extra)]
    if MARK not in dict(vocab):
        vocab.append((MARK, -3.5))
    t = Tokenizer(models.Unigram(vocab, names.index(unk), fallback))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    flags = [special(names[-1], lstrip=True, normalized=True)] if mask else []
    return finish(t, [special(x) for x in names[:-1] if x != unk] + [special(unk)] + flags
                  + list(added), single, pair)


SPACED = p.Sequence([p.WhitespaceSplit(), meta()])
RUNS = n.Replace(Regex(" {2,}"), " ")
RUNS_MARK = n.Replace(Regex(" {2,}"), MARK)
LINES_SPACE = n.Replace(Regex(r"[\n\r\t]"), " ")
ODD_SPACE = n.Replace(Regex(r"\s{2,}|[\n\r\t]"), " ")
QUOTES = [n.Replace("``", '"'), n.Replace("''", '"')]

# ---- expressions ----

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL
QWEN35 = (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
          + TAIL)
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
          r"|\s*[\r\n]|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BEFORE = r"[^\r\n\p{L}\p{N}]?"


def cased(digits, ending, slash=""):
    return (f"{BEFORE}{UPPER}*{LOWER}+{ending}|{BEFORE}{UPPER}+{LOWER}*{ending}"
            rf"|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n{slash}]*|{TAIL}")


O200K = cased("{1,3}", CONTRACTION + "?", "/")
TEKKEN = cased("", "", "/")
DEEPSEEK_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
            r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + TAIL)
CLIP = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|"
        r"[^\s\p{L}\p{N}]+")
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
FALCON = [p.Punctuation("contiguous"), byte_level(True), p.Digits(False),
          split("[0-9][0-9][0-9]")]
NOUGAT = r"[\(\)\[\]\{\}]|([!\"\#\$%\&'\*\+,\-\./:;<=>\?\\\^_`\|\~])\1*"
CHAT = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def isolated(*expressions):
    return [split(e) for e in expressions] + [byte_level()]


def roberta_post(first="<s>", last="</s>", trim=True, prefix=False):
    return lambda t: post.RobertaProcessing((last, t.token_to_id(last)),
                                            (first, t.token_to_id(first)), trim, prefix)


def bert_post(first="[CLS]", last="[SEP]"):
    return lambda t: post.BertProcessing((last, t.token_to_id(last)), (first, t.token_to_id(first)))


def with_bytes(single, names):
    """A post-processor as Llama 3 has it: ByteLevel, then a template."""
    return lambda t: post.Sequence([post.ByteLevel(trim_offsets=False),
                                    template(single, t.token_to_id)])


def word_level(pre, normalizer=None, names=("<unk>", "<s>", "</s>"), decoder=None, single="<s> $A",
               added=()):
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    if pre:
        t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(LINES, trainers.WordLevelTrainer(
        vocab_size=160, special_tokens=list(names), show_progress=False))
    if decoder:
        t.decoder = decoder
    return finish(t, [special(name) for name in names] + list(added), single)


def char_bpe(pre, decoder, normalizer=None, suffix=None, prefix=None, single=None,
             names=("<unk>", "<s>", "</s>"), size=200, limit=70, **model):
    extra = {k: v for k, v in (("end_of_word_suffix", suffix),
                               ("continuing_subword_prefix", prefix)) if v}
    t = Tokenizer(models.BPE(unk_token="<unk>", **extra, **model))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(LINES, trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(names), limit_alphabet=limit, show_progress=False,
        **extra))
    if decoder:
        t.decoder = decoder
    return finish(t, [special(name) for name in names], single)


def ctc(names, letters, cleanup=True, word="|", lower=False):
    """As transformers 5 writes the tokenizer of wav2vec2: characters, decoded by CTC."""
    tokens = list(names) + [word] + [c for c in letters if c not in names]
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(tokens)}, names[-1]))
    t.normalizer = n.Sequence([n.Lowercase()] * lower + [n.Replace(" ", word)])
    t.pre_tokenizer = split(r"[\s\S]")
    t.decoder = d.CTC(names[0], word, cleanup)
    return finish(t, [special(name) for name in names], None)


EXTRA_IDS = [special(f"<extra_id_{i}>") for i in range(3)]
LANGUAGES = [special(x) for x in ("en_XX", "fr_XX")]


def bert_family():
    yield "bert_uncased", word_piece(bert_normalizer())
    yield "bert_cased", word_piece(bert_normalizer(lower=False, accents=False))
    yield "bert_multilingual", word_piece(bert_normalizer(lower=False))
    yield "bert_japanese_chars", word_piece(bert_normalizer(chinese=False, accents=False))
    yield "distilbert", word_piece(bert_normalizer(), single=bert_post(), pair=None)
    yield "bert_v5", word_piece(bert_normalizer(), mask=True)

    yield "electra_no_clean", word_piece(bert_normalizer(clean=False))
    yield "funnel", word_piece(bert_normalizer(), "<cls>:2 $A:0 <sep>:0",
                               "<cls>:2 $A:0 <sep>:0 $B:1 <sep>:1",
                               ["<unk>", "<sep>", "<pad>", "<cls>", "<s>", "</s>", "<mask>"])
    yield "mpnet", word_piece(bert_normalizer(), "<s>:0 $A:0 </s>:0",
                              "<s>:0 $A:0 </s>:0 </s>:0 $B:1 </s>:1",
                              ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"])
    yield "splinter", word_piece(bert_normalizer(), pair="[CLS]:0 $A:0 [QUESTION] .:0 [SEP]:0 "
                                 "$B:1 [SEP]:1", names=BERT[:4] + ["[QUESTION]", ".", "[MASK]"])
    yield "lxmert_no_cleanup", word_piece(bert_normalizer(), decoder=d.WordPiece("##", False))
    yield "layoutlm_no_decoder", word_piece(bert_normalizer(), decoder=None)
    yield "bert_added", word_piece(bert_normalizer(), added=[
        plain("covid"), plain("New Tok", normalized=False), special("[ENT]", single_word=True),
        plain("[rs]", rstrip=True, lstrip=True)])
    yield "bert_added_normalized", word_piece(bert_normalizer(), added=[
        plain("Größe", normalized=True), plain("tokto", normalized=True, single_word=True)])
    yield "bert_short_words", word_piece(bert_normalizer(), max_input_chars_per_word=9)
    yield "bert_whitespace", word_piece(n.Sequence([n.NFD(), n.Lowercase(), n.StripAccents()]),
                                        pre=p.Whitespace())
    yield "bert_nfkc", word_piece(n.Sequence([n.NFKC(), n.Lowercase()]), pre=p.BertPreTokenizer())
    yield "bert_prefix", word_piece(None, prefix="@@", decoder=d.WordPiece("@@"))
    yield "bert_sequence", word_piece(n.Sequence([bert_normalizer(), n.Replace("to", "ot")]),
                                      pre=p.Sequence([p.BertPreTokenizer(), p.Digits(True)]))


def bytes_family():
    r, gpt2 = ROBERTA, byte_level(True)
    lang = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>",
            "<|notimestamps|>"]
    yield "gpt2", bytes_bpe(gpt2)
    yield "gpt2_prefix", bytes_bpe(byte_level(True, True))
    yield "roberta", bytes_bpe(gpt2, r, single=roberta_post(),
                               added=[special("<mask>", lstrip=True)])
    yield "bart_prefix", bytes_bpe(byte_level(True, True), r,
                                   single=roberta_post(trim=True, prefix=True))
    yield "longformer_template", bytes_bpe(gpt2, r, single="<s> $A </s>",
                                           pair="<s> $A </s> </s> $B </s>")
    yield "deberta", bytes_bpe(gpt2, BERT, single="[CLS] $A [SEP]", added=[
        special("[MASK]", lstrip=True)])
    yield "blenderbot", bytes_bpe(byte_level(True, True), r, single="$A:0 </s>:0")
    yield "codegen_runs", bytes_bpe(gpt2, added=[plain(" " * k, normalized=True) for k in
                                                 (2, 3, 4, 8)] + [plain("\t\t", normalized=True)])
    yield "phi_runs", bytes_bpe(gpt2, added=[plain(" " * k) for k in (2, 5, 9)])
    yield "gpt_neox", bytes_bpe(gpt2, normalizer=n.NFC(), added=[
        plain(" " * k, normalized=True) for k in (2, 3)])
    yield "opt", bytes_bpe(gpt2, r, single="</s> $A", pair="</s> $A </s> $B")
    yield "whisper", bytes_bpe(gpt2, lang, single=" ".join(lang[1:]) + " $A " + lang[0],
                               added=[plain("<|0.00|>"), plain("<|0.02|>")])
    yield "starcoder", bytes_bpe([p.Digits(True), byte_level(True)])
    yield "santacoder", bytes_bpe(gpt2, ["<|endoftext|>", "<fim-prefix>"])
    yield "smollm", bytes_bpe([p.Digits(True), byte_level(True)], CHAT)
    yield "cohere", bytes_bpe([p.Digits(True), byte_level(True)], ["<PAD>", "<BOS>"],
                              n.NFC(), single="<BOS> $A")
    yield "falcon", bytes_bpe(FALCON, [">>TITLE<<", "<|endoftext|>"])
    yield "bloom", bytes_bpe([split(BLOOM), byte_level()], ROBERTA)
    yield "llama3", bytes_bpe(isolated(LLAMA3), ["<|begin_of_text|>", "<|eot_id|>"],
                              single=with_bytes("<|begin_of_text|> $A", None), ignore_merges=True,
                              whole=["Ġfilmtoka", "renrenren"])
    yield "qwen2", bytes_bpe(isolated(QWEN2), CHAT, n.NFC(),
                             added=[plain("<tool_call>"), plain("<think>")])
    yield "qwen3_5", bytes_bpe(isolated(QWEN35), CHAT, n.NFC())
    yield "glm4", bytes_bpe(isolated(CL100K), ["<|endoftext|>", "[gMASK]", "<sop>"],
                            single="[gMASK] <sop> $A", ignore_merges=True)
    yield "o200k", bytes_bpe(isolated(O200K), ["<|startoftext|>", "<|endoftext|>"])
    yield "tekken", bytes_bpe(isolated(TEKKEN), ["<unk>", "<s>", "</s>", "[INST]"],
                              single="<s> $A", ignore_merges=True)
    yield "deepseek_v3", bytes_bpe(isolated(r"\p{N}{1,3}", DEEPSEEK_CJK, DEEPSEEK),
                                   ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"],
                                   n.Sequence([]), single="<｜begin▁of▁sentence｜> $A")
    yield "clip", bytes_bpe([split(CLIP, "removed", True), byte_level()],
                            ["<|startoftext|>", "<|endoftext|>"],
                            n.Sequence([n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()]),
                            roberta_post("<|startoftext|>", "<|endoftext|>", False),
                            end_of_word_suffix="</w>", unk_token="<|endoftext|>", size=500)
    yield "nougat", bytes_bpe([p.Split("SPL1T-TH1S-Pl3A5E", "removed"), p.Digits(True),
                               split(NOUGAT), p.Split("\n", "isolated"), byte_level(True)],
                              ["<s>", "<pad>", "</s>", "<unk>", "[START_REF]"], n.NFKC(),
                              single="<s>:0 $A:0 </s>:0")
    yield "modernbert", bytes_bpe(gpt2, BERT, n.NFC(), single=BERT_PAIR[0], pair=BERT_PAIR[1],
                                  added=[plain(" " * k) for k in (2, 3, 4)]
                                  + [special("[MASK]", lstrip=True)])
    yield "exaone_nfkc", bytes_bpe(gpt2, CHAT, n.NFKC())
    yield "byte_nfd", bytes_bpe(gpt2, CHAT, n.NFD())
    yield "byte_nfkd_lower", bytes_bpe(gpt2, CHAT, n.Sequence([n.NFKD(), n.Lowercase()]))
    yield "mpt_single_word", bytes_bpe(gpt2, added=[special("<tok>", single_word=True),
                                                    plain("toka", single_word=True)])
    yield "byte_prefix_normalizer", bytes_bpe(gpt2, normalizer=n.Prepend(" "))
    yield "byte_replace_sets", bytes_bpe(gpt2, normalizer=n.Sequence([
        n.Replace(Regex(r"[0-9]+"), "<n>"), n.Replace(Regex("[\u2018\u2019]"), "'"),
        n.Replace(Regex(r"[\x00-\x08]"), ""), n.Prepend("ab")]))
    yield "byte_characters", bytes_bpe([p.Split("", "isolated"), byte_level()])
    yield "byte_strip", bytes_bpe(gpt2, normalizer=n.Sequence([n.Strip(), n.Replace("\t", "  ")]))
    yield "byte_normalizer", bytes_bpe(None, normalizer=n.ByteLevel())
    yield "jais_unicode_scripts", bytes_bpe([p.UnicodeScripts(), byte_level(True)])
    yield "byte_fixed_length", bytes_bpe([p.FixedLength(3), byte_level()])
    yield "minicpm_punctuation", bytes_bpe([p.Punctuation("isolated"), byte_level(True)])
    yield "byte_merged_next", bytes_bpe([p.Split(" ", "merged_with_next"), byte_level()])
    yield "odd_lookbehind", bytes_bpe(isolated(r"(?<=\d)\p{L}+|\p{L}+|\s+|[^\s\p{L}]+"))
    yield "byte_word_boundary", bytes_bpe(isolated(r"\b\w+\b|\s+|\W"))
    yield "gpt_sw3_template_both", bytes_bpe(gpt2, r, single="<s> $A </s> <mask>")
    yield "luke", bytes_bpe(gpt2, r, single=roberta_post(), added=[special("<ent>"),
                                                                  special("<ent2>")])


def pieces_family():
    keep = n.Replace(" ", MARK)
    gemma_split = p.Split(" ", "merged_with_previous")
    yield "llama_legacy", sp_bpe(LEGACY, None, LLAMA_DECODER)
    yield "llama_2_normalized", sp_bpe(LEGACY, None, LLAMA_DECODER, added=[
        special("<s>", normalized=True), special("</s>", normalized=True)])
    yield "llama_first", sp_bpe(None, meta("first", False), LLAMA_DECODER)
    yield "llama_never", sp_bpe(None, meta("never", False), GEMMA_DECODER)
    yield "llama_always", sp_bpe(None, meta("always", False), LLAMA_DECODER)
    yield "tinyllama_added", sp_bpe(LEGACY, None, LLAMA_DECODER, added=[
        plain("<|im_start|>"), plain("<|im_end|>", normalized=True), special("<pad>")])
    yield "gemma", sp_bpe(keep, gemma_split, GEMMA_DECODER, single="<bos> $A",
                          pair="<bos> $A <bos> $B", names=["<unk>", "<pad>", "<eos>", "<bos>"],
                          added=[plain(MARK * 2), plain(MARK * 3), plain("\n\n"), plain("\n"),
                                 plain("<unused0>")])
    yield "siglip2", sp_bpe(n.Sequence([n.Lowercase(), keep]), gemma_split, GEMMA_DECODER,
                            single="$A </s>", pair=None)
    yield "gemma_runs_normalized", sp_bpe(keep, gemma_split, GEMMA_DECODER, single="<s> $A",
                                          added=[plain(MARK * 2, normalized=True)])
    yield "sp_bytes_as_text", sp_bpe(LEGACY, None, d.Sequence(
        [d.Replace(MARK, " "), d.Fuse(), d.Strip(" ", 1, 0)]))
    yield "sp_no_fallback", sp_bpe(LEGACY, None, LLAMA_DECODER, fallback=False)
    yield "sp_no_fallback_apart", sp_bpe(LEGACY, None, LLAMA_DECODER, fallback=False,
                                         fuse_unk=False)
    yield "mistral_ignore_merges", sp_bpe(None, meta("first", False), LLAMA_DECODER,
                                          ignore_merges=True)
    yield "helium", sp_bpe(n.Sequence([n.Prepend(" "), n.Replace(" ", MARK)]),
                           p.Sequence([p.Split("\n", "contiguous")]), LLAMA_DECODER,
                           single="<s> $A")
    yield "moshi", sp_bpe(n.Sequence([MAP, keep]), meta("first", False), LLAMA_DECODER)
    yield "spm_unbpe_no_fallback", sp_bpe(n.Sequence([MAP, keep]), None, d.Sequence(
        [d.Replace(MARK, " ")]), fallback=False)
    yield "nllb", sp_bpe(n.Sequence([MAP, RUNS]), meta(), metad(), fallback=False,
                         names=["<unk>", "<s>", "</s>", "eng_Latn"],
                         single="eng_Latn $A </s>", pair="eng_Latn $A $B </s>")
    yield "m2m100", sp_bpe(None, meta(), metad(), fallback=False, single="<s> $A </s>")
    yield "seamless_m4t", sp_bpe(n.Sequence([
        LINES_SPACE, n.NFKC(), n.Strip(False, True), n.Replace(Regex(f" +{MARK}"), MARK),
        n.Replace(Regex(f"^{MARK}+$"), ""), n.Replace(Regex(" {2,}"), MARK)]),
        meta("first"), metad("first"), fallback=False, single="<s> $A </s>", pair=None)
    yield "seamless_map", sp_bpe(n.Sequence([MAP, n.Strip(False, True), RUNS_MARK]),
                                 meta("first"), metad("first"), fallback=False)
    yield "reformer", sp_bpe(n.Sequence([MAP, RUNS]), meta(), metad(), single=None, pair=None,
                             fallback=False)
    yield "moonshine", sp_bpe(keep, None, LLAMA_DECODER, single="<s> $A </s>", pair=None)
    yield "fuyu", sp_bpe(LEGACY, None, LLAMA_DECODER, single="<s> $A </s>",
                         added=[plain("|NEWLINE|"), special("|SPEAKER|", rstrip=True)])
    yield "granite_dropout", sp_bpe(LEGACY, None, LLAMA_DECODER, dropout=0.0)


def unigram_family():
    s = "<s> $A </s>"
    roberta_pair = "<s> $A </s> </s> $B </s>"
    yield "t5", unigram(MAP, SPACED, metad(), "$A </s>", "$A </s> $B </s>",
                        ["<pad>", "</s>", "<unk>"], EXTRA_IDS, mask=False)
    yield "umt5", unigram(n.Sequence([MAP, RUNS]), meta(), metad(), "$A </s>", None,
                          ["<pad>", "</s>", "<s>", "<unk>"], EXTRA_IDS, mask=False, fallback=True)
    yield "flan_t5_first", unigram(MAP, meta("first"), metad("first"), "$A </s>",
                                   names=["<pad>", "</s>", "<unk>"], mask=False,
                                   added=EXTRA_IDS)
    yield "xlm_r", unigram(MAP, SPACED, metad(), s, roberta_pair)
    yield "xlm_r_strip", unigram(n.Sequence([MAP, n.Strip(False, True), RUNS_MARK]), meta(),
                                 metad(), s, roberta_pair)
    yield "camembert", unigram(n.Sequence([ODD_SPACE, n.Strip(False, True)]), meta(), metad(), s,
                               roberta_pair)
    yield "camembert_map", unigram(n.Sequence([MAP, n.Strip(False, True), RUNS_MARK]), meta(),
                                   metad(), s, roberta_pair)
    yield "barthez", unigram(n.Sequence([ODD_SPACE, n.NFC(), n.Strip(False, True)]), meta(),
                             metad(), s)
    yield "big_bird", unigram(n.Sequence([n.Strip(False, False), RUNS_MARK]), meta(), metad(),
                              "[CLS]:0 $A:0 [SEP]:0", BERT_PAIR[1],
                              ["<unk>", "<s>", "</s>", "[CLS]", "[SEP]", "[MASK]"])
    yield "albert", unigram(n.Sequence(QUOTES + [n.NFKD(), n.StripAccents(), n.Lowercase(), MAP,
                                                 RUNS]), SPACED, metad(), BERT_PAIR[0],
                            BERT_PAIR[1], ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])
    yield "albert_v5", unigram(n.Sequence(QUOTES + [n.NFKD(), n.StripAccents(), n.Lowercase(), RUNS,
                                                    n.Lowercase(), RUNS]), SPACED, metad(),
                               BERT_PAIR[0], BERT_PAIR[1],
                               ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])
    yield "xlnet", unigram(n.Sequence(QUOTES + [n.NFKD(), n.StripAccents(), MAP, RUNS]), SPACED,
                           metad(), "$A:0 <sep>:0 <cls>:2", "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
                           ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"])
    yield "deberta_v2", unigram(n.Sequence([ODD_SPACE, n.NFC(), n.Strip(False, True)]), meta(),
                                metad(), BERT_PAIR[0], BERT_PAIR[1],
                                ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], unk="[UNK]")
    yield "deberta_v3", unigram(n.Sequence([n.Strip(), MAP, RUNS]), p.Sequence([meta()]), metad(),
                                BERT_PAIR[0], BERT_PAIR[1],
                                ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], unk="[UNK]")
    yield "deberta_v3_punct", unigram(n.Sequence([n.Lowercase(), n.Strip(), MAP, RUNS]),
                                      p.Sequence([p.Punctuation("isolated"), meta()]), metad(),
                                      BERT_PAIR[0], None,
                                      ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], unk="[UNK]")
    yield "rembert", unigram(n.Sequence(QUOTES + [RUNS, LINES_SPACE, n.NFKC()]), meta(), metad(),
                             BERT_PAIR[0], BERT_PAIR[1],
                             ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])
    yield "xglm", unigram(n.Sequence([LINES_SPACE, n.NFKC(), RUNS]), meta(), metad(),
                          "</s> $A", "</s> $A </s> </s> $B", mask=False)
    yield "mbart", unigram(n.Sequence([MAP, RUNS]), SPACED, metad(), "$A </s> en_XX",
                           names=ROBERTA[:4] + ["en_XX", "<mask>"])
    yield "mbart50", unigram(n.Sequence([MAP, RUNS]), meta(), metad(), "en_XX $A </s>",
                             "en_XX $A $B </s>", names=ROBERTA[:4] + ["en_XX", "<mask>"])
    yield "pegasus", unigram(n.Sequence([MAP, RUNS]), SPACED, metad(), "$A </s>", "$A $B </s>",
                             ["<pad>", "</s>", "<mask_1>", "<unk>", "<mask_2>"])
    yield "pegasus_v5", unigram(n.Sequence([n.Replace(Regex(r"\n"), " "), RUNS]), meta(), metad(),
                                "$A </s>", "$A $B </s>", ["<pad>", "</s>", "<unk>"], mask=False)
    yield "marian", unigram(n.Sequence([MAP, RUNS]), meta(), metad(), "$A </s>", None,
                            ["</s>", "<unk>", "<pad>"], mask=False)
    yield "mluke", unigram(n.Sequence(QUOTES), meta(), metad(), s)
    yield "layoutxlm", unigram(n.Sequence([n.Strip(False, True), RUNS_MARK]), meta(), metad(), s,
                               roberta_pair)
    yield "multilingual_e5", unigram(n.Sequence([MAP, RUNS]), SPACED, metad(), s, roberta_pair)
    yield "bge_m3_added", unigram(MAP, SPACED, metad(), s, roberta_pair, added=[
        plain("<query>"), plain("Toka", normalized=True), special("[ent]", single_word=True)])
    yield "unigram_nfkc_folded", unigram(n.Sequence([MAP_FOLDED, RUNS]), meta("never"),
                                         metad("never"), s)
    yield "unigram_nfd", unigram(n.NFD(), meta(), metad(), s)
    yield "unigram_fallback_fuse", unigram(n.Sequence([MAP, n.Replace(" ", MARK)]), None,
                                           LLAMA_DECODER, s, fallback=True, mask=False)
    yield "unigram_nmt", unigram(n.Sequence([n.Nmt(), n.NFKC(), RUNS]), meta(), metad(), s)
    yield "unigram_digits", unigram(MAP, p.Sequence([p.Digits(True), meta("first")]),
                                    metad("first"), s)


def other_family():
    ws = p.WhitespaceSplit()
    yield "openai_gpt", char_bpe(p.BertPreTokenizer(), d.BPEDecoder("</w>"),
                                 n.BertNormalizer(lowercase=True), "</w>")
    yield "herbert", char_bpe(p.BertPreTokenizer(), d.BPEDecoder("</w>"),
                              n.BertNormalizer(lowercase=False, strip_accents=False), "</w>",
                              single=bert_post("<s>", "</s>"))
    yield "char_bpe_prefix", char_bpe(p.Whitespace(), d.WordPiece("##"), prefix="##")
    yield "bpe_whitespace_no_decoder", char_bpe(p.Whitespace(), None, fuse_unk=True)
    yield "word_level", word_level(p.Whitespace())
    yield "word_level_bert", word_level(p.BertPreTokenizer(), bert_normalizer())
    yield "word_level_delimiter", word_level(p.CharDelimiterSplit("-"), n.NFC())
    yield "word_level_no_pre", word_level(None)
    yield "wav2vec2_ctc", ctc(["<pad>", "<s>", "</s>", "<unk>"], "etaoinshrdlu'")
    yield "wav2vec2_ctc_no_cleanup", ctc(["<pad>", "<s>", "</s>", "<unk>"], "etaoinshrdlu'", False)
    yield "parakeet_ctc", unigram(MAP, meta(), d.Sequence([d.CTC("<pad>", "|", False), metad()]),
                                  None, names=["<unk>", "<pad>"], mask=False)
    yield "odd_apart_wordpiece_decoder", word_level(ws, decoder=d.WordPiece("##"))
    yield "odd_fuse", word_level(ws, decoder=d.Fuse())
    yield "odd_strip_decoder", bytes_bpe(byte_level(True), decoder=d.Sequence(
        [d.ByteLevel(), d.Strip("a", 1, 0)]))
    yield "odd_replace_decoder", bytes_bpe(byte_level(True), decoder=d.Sequence(
        [d.Replace("Ġ", "_"), d.ByteLevel()]))
    yield "odd_no_decoder", bytes_bpe(byte_level(True), decoder=d.Fuse())
    yield "odd_two_metaspaces", unigram(MAP, p.Sequence([ws, p.Punctuation(), meta("first")]),
                                        metad("first"), "<s> $A")


# ---- SentencePiece's own files ----

PIECES = {
    "unigram": {}, "unigram_nfkc_cf": {"normalization_rule_name": "nmt_nfkc_cf"},
    "unigram_bytes": {"byte_fallback": True, "vocab_size": 520},
    "unigram_across_words": {"byte_fallback": True, "vocab_size": 620,
                             "split_by_whitespace": False},
    "unigram_t5": {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "unigram_user": {"user_defined_symbols": ["<sep>", "toka", "[x y]"]},
    "bpe": {}, "bpe_bytes": {"byte_fallback": True, "vocab_size": 520},
    "bpe_user": {"user_defined_symbols": ["<sep>", "toka", "[x y]"]},
    "bpe_spaces": {"remove_extra_whitespaces": False, "normalization_rule_name": "identity"},
    "bpe_no_prefix": {"add_dummy_prefix": False},
    "word": {}, "word_spaces": {"remove_extra_whitespaces": False},
    "char": {}, "char_nfkc": {"normalization_rule_name": "nfkc"},
    "char_user": {"user_defined_symbols": ["<sep>", "toka"]},
}
# Few rules, and sequences of several characters among them.
FEW_RULES = "FF21\t41\nA\t20\n9\t20\n61 301\tE1\n61 301 323\t1EA1 301\nFB01\t66 69\n200B\t\n"


def sentence_pieces(name, **more):
    """A tokenizer.model of the kind that the name begins with."""
    settings = {"vocab_size": 300, "model_type": name.split("_")[0], **PIECES[name], **more}
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 4), model_writer=out, hard_vocab_limit=False,
        minloglevel=2, **settings)
    return out.getvalue()


FAMILIES = bert_family, bytes_family, pieces_family, unigram_family, other_family


def kinds():
    for family in FAMILIES:
        yield from family()
