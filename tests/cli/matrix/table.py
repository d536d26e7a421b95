# SPDX-License-Identifier: Apache-2.0
"""What becomes of each command on each kind of model: a cell is +, right beside what PyTorch
computes, or names one of REFUSALS.

A row is a kind of model with one of VARIANTS. To add a kind: make its fixture in make_models.py,
give it a line in KINDS and a cell in every column; a cell that is missing fails all tests. A column
is a command with options, and what it does is in columns.py and file_columns.py. An option of the
program that no column has fails Matrix.whole.
"""

from collections import namedtuple

# Its short name; the checkpoint in the folder data; what its conversion is asked for; a row of
# results for each of its "tokens" or "sequences"; the pixels of an image, or 0; whether a session
# leaves open which rows a call gives.
Kind = namedtuple("Kind", "short file options gives pixels is_open")
# A conversion compares what it found with the exported program at all positions, of which some
# fixtures have 1,024: that takes most of its time. Other kinds go that far.
SHORT = ["--context", "96"]
KINDS = {
    "module": Kind("m", "module.pt", ["--heads", "4"], "tokens", 0, False),
    "state_dict": Kind("sd", "state_dict.pt", [
        "--heads", "4", "--activation", "silu", "--norm-first", "--context", "96"],
        "tokens", 0, True),
    "features": Kind("f", "features.pt2", SHORT, "tokens", 0, True),
    "features_bidirectional": Kind("fb", "features_bidirectional.pt2", [], "tokens", 0, False),
    "tokens": Kind("t", "tokens.pt2", [], "tokens", 0, True),
    "tokens_bidirectional": Kind("tb", "tokens_bidirectional.pt2", [], "tokens", 0, False),
    "image": Kind("i", "image.pt2", [], "sequences", 64, False),
    "image_last": Kind("il", "image_last.pt2", [], "sequences", 64, False),
    "series": Kind("s", "series.pt2", [], "sequences", 64, False),
    "outputs": Kind("o", "outputs.pt2", ["--output-index", "0,1"], "sequences", 0, False),
    "class_token": Kind("ct", "class_token.pt2", [], "sequences", 0, False),
    "last_token": Kind("lt", "last_token.pt2", [], "sequences", 0, False),
    "last_features": Kind("lf", "last_features.pt2", SHORT, "sequences", 0, False),
    "pooled": Kind("p", "pooled.pt2", [], "sequences", 0, False),
    "pooled_tokens": Kind("pt", "pooled_tokens.pt2", [], "sequences", 0, False),
    "pooled_causal": Kind("pc", "pooled_causal.pt2", [], "sequences", 0, False),
    "pooled_causal_features": Kind("pf", "pooled_causal_features.pt2", SHORT, "sequences", 0,
                                   False),
    "translation": Kind("tr", "translation.pt2", [], "tokens", 0, True),
    "sensors": Kind("sn", "sensors.pt2", [], "sequences", 0, False),
    "decoder": Kind("d", "decoder", [], "tokens", 0, True),
    "encoder": Kind("e", "encoder", [], "tokens", 0, False),
    "classifier": Kind("c", "classifier", [], "sequences", 0, False),
    "sentence": Kind("se", "sentence", [], "sequences", 0, False),
    "tagger": Kind("tg", "tagger", [], "tokens", 0, False),
    "turns": Kind("tu", "turns.pt2", SHORT, "tokens", 0, True),
}
# Its options of convert; what results may be off by, as a share of the largest; types. Weights of
# the fixtures are exact in four bits. What is left are activations in int8, which cost up to 0.0143
# (the decoder, in q4), and an int8 cache, up to 0.0104 (the same); rows of a fixture are further
# apart than twice as much.
IN_INT8 = 0.015
Variant = namedtuple("Variant", "options tolerance weights cache")
VARIANTS = {
    "f32": Variant([], 1e-5, "f32", "f32"),
    "q8": Variant(["--weights", "q8"], IN_INT8, "q8", "f32"),
    "q4": Variant(["--weights", "q4", "--calibrate", "none"], IN_INT8, "q4", "f32"),
    "int8_cache": Variant(["--kv", "int8"], IN_INT8, "f32", "int8"),
}



def tolerance_of_states(variant, layer):
    """Errors add up from layer to layer: what the decoder's second hands on is off by 0.0175."""
    return variant.tolerance * (1.2 if layer > 1 else 1)


RIGHT = "+"
NO_MODEL = ["help"]
# Options that are given in the column of the command itself, or in another one; those of transcribe
# in transcribe_command_test.cc, as no kind here hears speech.
ALSO_GIVEN = {
    "convert": ["--help", "--help-all", "--output", "--json", "--weights", "--kv"],
    "run": ["--help", "--input", "--output", "--json"],
    "generate": ["--help", "--prompt-ids", "--ids", "--tokens", "--json"],
    "classify": ["--help", "--json"],
    "embed-text": ["--help", "--output"],
    "tokenize": ["--help"],
    "transcribe": ["--help", "--json", "--language", "--translate", "--timestamps"],
    "inspect": ["--help", "--json", "--brief"],
    "verify": ["--help", "--json"],
    "strip": ["--help", "--output", "--json"],
    "repack": ["--help", "--output", "--target", "--json"],
    "embed": ["--help", "--output"],
    "bundle": ["--help", "--output", "--json"],
    "bench": ["--help", "--seconds", "--json"],
}

# What the program says and with which exit code, in its own words.
REFUSALS = {
    # run
    "L": (1, "--last and --all-rows are for decoders"),
    "T": (1, "--types: the model has no token types"),
    "I": (1, "the model reads images, which are all of one size"),
    "H": (1, "--hidden-states: the file has none"),
    "C": (1, "--chunk: the model takes whole sequences"),
    # generate
    "F": (1, "its input is features, not tokens: see 'arenite run'"),
    "N": (1, "expected logits of the vocabulary from a causal model"),
    "S": (1, "the model has no encoder, and goes on with a text"),
    "K": (1, "the file has no tokenizer: use --ids with --prompt-ids, or convert it again"),
    # classify, embed-text
    "P": (1, "feeds models of one input, and this one has 2"),
    "G": (1, "the model goes on with texts, it does not classify them"),
    "Y": (1, "the file has no tokenizer: convert the model again with its tokenizer"),
    "Z": (1, "the model reads text: expected --text or --file, not --input"),
    "V": (1, "the model gives a vector for each token, not for each text"),
    "R": (1, "the model reads features, not text"),
    # transcribe
    "X": (1, "the model has no encoder that hears and decoder that writes"),
    # convert
    "m": (1, "this is a single attention module, which has no tokens, embeddings, norms or MLP"),
    "b": (1, "the checkpoint's own mask 'model.mask' is not the one of"),
    "e": (1, "the exported program defines the whole computation of this model"),
    "c": (1, "the model's own config defines the whole computation of this model"),
    "a": (1, "the option contradicts the model's own activation"),
    "n": (1, "norms before attention and MLP were requested, but models of type 'bert' have them"),
    "x": (2, "--norm-first excludes --norm-last"),
    "p": (1, "--pooling is for encoders, and this is a decoder"),
    "q": (1, "pooling 'mean' was requested, but the model "),
    "s": (1, "--state-dict model: no tensor has this key"),
    "o": (1, "1 tensors are missing"),
    "u": (1, "no attention module found"),
    "g": (1, "there is no module 'model'; choose one with --module PREFIX"),
    "h": (1, "these tensors are not part of it"),
    "d": (1, "the converted model does not compute"),
    "z": (1, "--context: the model reads images, which have 64 pixels each: drop the option"),
    "j": (1, "--expect-lengths: the model reads images, which are all of one size"),
    "i": (1, "--output-index is for exported programs"),
    "W": (1, "--any-length is for exported programs with fixed sizes"),
    "B": (1, "images, and series that are cut into patches, have one size"),
    "f": (1, "--functions, and a second file, are for exported programs"),
    "w": (1, "--encoded names an input of a second program"),
    "t": (1, "--tokenizer: the model reads features, not text"),
    "r": (1, "--sound: the model reads tokens, not features: drop the option"),
    "l": (1, "--sound: the model reads images: drop the option"),
    "k": (1, "--max-kl: the model gives no probabilities"),
    "y": (1, "--max-perplexity-increase: there is no text to measure it on"),
    # bench
    "D": (1, "does not fit: the model is a decoder"),
    "E": (1, "does not fit: the model is no decoder"),
    "J": (1, "does not fit: the model is one of images"),
    "M": (1, "does not fit: the model is one with several inputs"),
    "A": (1, "does not fit: the model is not fed token by token"),
}

# Of all VARIANTS.
EVERY_TYPE = """
run
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
run --chunk
    +  +  +  C  +  C  C  C  C  C  C  +  +  C  C  C  C  +  C  +  C  C  C  C  +
run --last
    L  +  +  L  +  L  L  L  L  L  L  +  +  L  L  L  L  +  L  +  L  L  L  L  +
run --all-rows
    L  +  +  L  +  L  L  L  L  L  L  +  +  L  L  L  L  +  L  +  L  L  L  L  +
run --lengths
    +  +  +  +  +  +  I  I  I  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
run --mask
    +  +  +  +  +  +  I  I  I  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
run --types
    T  T  T  T  T  T  T  T  T  T  T  T  T  T  T  T  T  T  T  T  +  +  +  +  T
run --hidden-states
    H  +  H  H  H  H  H  H  H  H  H  H  H  H  H  H  H  H  H  +  +  +  +  +  H
run --threads
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
run --kv
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
run --kernels
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
generate
    F  +  F  F  +  N  F  F  F  F  N  +  F  F  N  N  F  +  F  +  N  N  N  N  F
classify --text
    R  G  R  R  G  Y  R  R  R  R  Y  G  R  R  Y  Y  R  P  P  G  +  +  +  +  R
classify --input --top
    +  G  +  +  G  Z  +  +  +  +  Z  G  +  +  Z  Z  +  P  P  G  Z  Z  Z  Z  +
embed-text --text
    R  V  R  R  V  V  R  R  R  R  Y  Y  R  R  Y  Y  R  P  P  V  V  +  +  V  R
inspect
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
inspect --positions --tokens --sequences --threads --kv
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
embed --data --section --abi --positions --tokens --sequences
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
embed --language --name
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
bundle
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
verify
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
bench
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
repack
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
strip
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
"""
# Of float32 alone: what a type of weights or cache changes nothing in.
FLOAT32 = """
convert
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --heads
    +  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  +  +  +  +  +  e
convert --activation
    m  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  +  a  a  a  a  e
convert --norm-first
    m  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  n  n  n  n  e
convert --norm-last
    m  x  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  +  +  +  +  e
convert --causal
    +  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  c  c  c  c  e
convert --bidirectional
    b  d  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  c  c  c  c  e
convert --window
    +  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  c  c  c  c  e
convert --embedding-scale
    m  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  c  c  c  c  e
convert --scale
    +  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  c  c  c  c  e
convert --epsilon
    m  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  c  c  c  c  e
convert --rope-theta
    m  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  c  c  c  c  c  e
convert --pooling
    m  p  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  p  +  q  +  q  e
convert --module
    +  g  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  u  u  u  u  u  e
convert --features
    +  h  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  u  u  u  u  u  e
convert --mask-ones
    +  h  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  u  u  u  u  u  e
convert --output-index
    i  i  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  i  i  i  i  i  +
convert --any-length
    W  W  W  W  W  W  W  W  B  W  W  W  W  W  W  W  W  W  W  W  W  W  W  W  W
convert --functions
    f  f  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  f  f  f  f  f  +
convert --encoded
    w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w  w
convert --context
    +  +  +  +  +  +  z  z  z  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --tokenizer
    m  +  t  t  +  +  t  t  t  t  +  +  t  t  +  +  t  +  t  +  +  +  +  +  t
convert --labels
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --state-dict
    +  +  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  e  o  s  s  s  s  e
convert --sound
    +  r  +  +  r  r  l  l  l  +  r  r  +  +  r  r  +  r  +  r  r  r  r  r  +
convert --target
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --weights --max-bytes
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --kv
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --keep --calibrate --min-cosine
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --max-kl
    k  +  k  k  +  k  k  k  k  k  k  +  k  k  k  k  k  +  k  +  k  +  k  +  k
convert --max-perplexity-increase
    y  +  y  y  +  y  y  y  y  y  y  +  y  y  y  y  y  +  y  +  y  y  y  y  y
convert --max-arena
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --no-self-test --name --explain --report --verbose
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --expect
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
convert --expect-lengths
    +  +  +  +  +  +  j  j  j  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
run --profile --trace
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
generate --input --start
    F  S  F  F  S  N  F  F  F  F  N  S  F  F  N  N  F  +  F  S  N  N  N  N  F
generate --temperature --top-k --top-p --min-p --seed
    F  +  F  F  +  N  F  F  F  F  N  +  F  F  N  N  F  +  F  +  N  N  N  N  F
generate --repeat-penalty --repeat-last
    F  +  F  F  +  N  F  F  F  F  N  +  F  F  N  N  F  +  F  +  N  N  N  N  F
generate --context --chunk --kernels --threads --kv --skip-checksums --profile --trace
    F  +  F  F  +  N  F  F  F  F  N  +  F  F  N  N  F  +  F  +  N  N  N  N  F
generate --prompt --prompt-file --no-prompt
    F  K  F  F  K  N  F  F  F  F  N  K  F  F  N  N  F  K  F  +  N  N  N  N  F
generate --special
    F  K  F  F  K  N  F  F  F  F  N  K  F  F  N  N  F  K  F  +  N  N  N  N  F
generate --stop
    F  K  F  F  K  N  F  F  F  F  N  K  F  F  N  N  F  K  F  +  N  N  N  N  F
generate --beams --length-penalty
    F  +  F  F  +  N  F  F  F  F  N  +  F  F  N  N  F  +  F  +  N  N  N  N  F
tokenize --text --file --special --bare --json
    Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  +  +  +  +  +  Y
transcribe --sound --kernels --threads --kv
    Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  Y  X  X  X  X  X  Y
classify --file --on-error
    R  G  R  R  G  Y  R  R  R  R  Y  G  R  R  Y  Y  R  P  P  G  +  +  +  +  R
classify --json-lines
    R  G  R  R  G  Y  R  R  R  R  Y  G  R  R  Y  Y  R  P  P  G  +  +  +  +  R
classify --pairs
    R  G  R  R  G  Y  R  R  R  R  Y  G  R  R  Y  Y  R  P  P  G  +  +  +  +  R
classify --truncate --kernels --threads
    R  G  R  R  G  Y  R  R  R  R  Y  G  R  R  Y  Y  R  P  P  G  +  +  +  +  R
embed-text --file --on-error
    R  V  R  R  V  V  R  R  R  R  Y  Y  R  R  Y  Y  R  P  P  V  V  +  +  V  R
embed-text --json-lines
    R  V  R  R  V  V  R  R  R  R  Y  Y  R  R  Y  Y  R  P  P  V  V  +  +  V  R
embed-text --pairs
    R  V  R  R  V  V  R  R  R  R  Y  Y  R  R  Y  Y  R  P  P  V  V  +  +  V  R
embed-text --truncate --kernels --threads
    R  V  R  R  V  V  R  R  R  R  Y  Y  R  R  Y  Y  R  P  P  V  V  +  +  V  R
embed-text --json
    R  V  R  R  V  V  R  R  R  R  Y  Y  R  R  Y  Y  R  P  P  V  V  +  +  V  R
inspect --board --clock
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
inspect --report
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
embed --threads --kv --json
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
bundle --board --incbin --archive --positions --tokens --sequences
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
verify --kernels --kv
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
bench --tokens --lengths
    +  D  +  +  D  +  J  J  J  +  +  D  +  +  +  +  +  M  M  D  +  +  +  +  +
bench --prompt --decode --at --context --chunk
    E  +  E  E  +  E  E  E  E  E  E  +  E  E  E  E  E  +  A  +  E  E  E  E  E
bench --kernels --threads --kv --profile --trace
    +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
"""


def cells_in(text):
    """{column: {kind: cell}}"""
    lines = text.split("\n")[1:-1]
    found = {}
    for column, cells in zip(lines[::2], lines[1::2]):
        words = cells.split()
        if column in found or len(words) != len(KINDS) or set(words) - {RIGHT, *REFUSALS}:
            raise SystemExit(f"table.py: {column!r} stands twice, or lacks a cell, or has another")
        found[column] = dict(zip(KINDS, words))
    return found


def columns(variant="f32"):
    return cells_in(EVERY_TYPE + FLOAT32[1:] if variant == "f32" else EVERY_TYPE)


def cells_of(kind, variant):
    """{column: cell}"""
    return {column: cells[kind] for column, cells in columns(variant).items()}
