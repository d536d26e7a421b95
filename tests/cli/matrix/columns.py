# SPDX-License-Identifier: Apache-2.0
"""What the columns of table.py run, and what is right: run, generate, classify and embed-text.

A column is a function of a row, under the words of the command and its option. It raises Wrong for
what the program should not do, and Refused where the program refuses. To add one, write it here or
in file_columns.py, and give it a line in table.py.
"""

import array
import json
import math

import table
from arrays import Array, read_npy, write_npy
from rows import arenite, require

COLUMNS = {}


def column(*names):
    """Declares a function as what fills these columns."""
    def declare(function):
        for name in names:
            COLUMNS[name] = function
        return function
    return declare


def columns_with(command, function, options):
    """Columns that differ in options alone: function(row, *options of the name)."""
    for name, words in options.items():
        COLUMNS[f"{command} {name}"] = lambda row, words=words: function(row, *words)


def listed(values):
    return ",".join(str(value) for value in values)


def traced(row, call):
    """What call(options) makes of a file for --trace."""
    file = row.folder / "trace.json"
    call("--trace", file)
    require(json.loads(file.read_text())["traceEvents"], "the trace is empty")


# --- run -----------------------------------------------------------------------------------------

@column("run")
def run(row, *options):
    row.expect(row.run(*options), row.array("output"))


columns_with("run", run, {
    "--chunk": ["--chunk", "5"], "--kernels": ["--kernels", "scalar"]})


@column("run --profile --trace")
def run_trace(row):
    traced(row, lambda *options: run(row, "--profile", *options))


@column("run --last")
def run_last(row):
    row.expect(row.run("--last"), row.array("output").last_rows())


@column("run --all-rows")
def run_all_rows(row):
    expected = "all_rows" if "all_rows" in row.arrays else "output"
    row.expect(row.run("--all-rows"), row.array(expected))


@column("run --lengths")
def run_lengths(row):
    row.expect(row.run(*row.each("--lengths", row.lengths())), row.array("lengths_output"))


@column("run --mask")
def run_mask(row):
    """With padding in between where each token sees all others, else at the ends."""
    wanted = "mask_output" if "mask" in row.arrays else "lengths_output"
    row.expect(row.run(*row.each("--mask", row.tokens_files("mask"))), row.array(wanted))


@column("run --types")
def run_types(row):
    row.expect(row.run("--types", row.tokens_files("types")[0]), row.array("types_output"),
               are_rows_unlike=False)


@column("run --hidden-states")
def run_states(row):
    file = row.folder / "states.npy"
    row.expect(row.run("--hidden-states", file), row.array("output"))
    found, expected = read_npy(file), row.array("states")
    require(found.shape == expected.shape, "shape is", found.shape, "expected", expected.shape)
    for i in range(expected.shape[0]):  # an embedding is the same wherever its token stands
        row.expect(found.at(i), expected.at(i), table.tolerance_of_states(row.variant, i),
                   are_rows_unlike=i != 0)


@column("run --threads")
def run_threads(row):
    """The same bits."""
    require(row.run("--threads", "2").values == row.run().values, "other bits on two threads")


@column("run --kv")
def run_kv(row):
    for cache in ("f32", "int8"):
        row.expect(row.run("--kv", cache), row.array("output"), row.tolerance_with(cache),
                   are_rows_unlike=False)


# --- generate ------------------------------------------------------------------------------------

@column("generate")
def generate(row, *options, wanted="generated"):
    """Continues the fixture's prompt, in ids."""
    ids = row.arrays["prompt"].values if "prompt" in row.arrays else [1]
    if len(row.inputs) > 1:  # that is what the encoder reads
        options = ["--start", "1", *options]
    count = len(row.arrays[wanted].values) if wanted in row.arrays else 1
    facts = row.json("generate", row.model, "--ids", "--prompt-ids", listed(ids), "--tokens", count,
                     *options)
    expected = list(row.array(wanted).values)
    require(facts["ids"] == expected, "found", facts["ids"], "expected", expected)


@column("generate --input --start")
def generate_input(row):
    """What an encoder reads may be a file."""
    ids = row.arrays["prompt"] if "prompt" in row.arrays else Array([1], array.array("q", [1]))
    file = write_npy(row.folder / "source.npy", ids)
    facts = row.json("generate", row.model, "--ids", "--input", file, "--start", "1", "--tokens", 8)
    require(facts["ids"] == list(row.array("generated").values), "found", facts["ids"])


@column("generate --temperature --top-k --top-p --min-p --seed")
def generate_sampled(row):
    """Of tokens that are probable enough the most probable is left."""
    generate(row, "--temperature", "0")
    for options in (["--top-k", "1"], ["--top-p", "1e-6"], ["--min-p", "1"]):
        generate(row, "--temperature", "2", "--seed", "7", *options)


@column("generate --repeat-penalty --repeat-last")
def generate_penalty(row):
    generate(row, "--repeat-penalty", "1.5", "--repeat-last", "6", wanted="penalized")


@column("generate --context --chunk --kernels --threads --kv --skip-checksums --profile --trace")
def generate_sessions(row):
    generate(row, "--context", "20", "--chunk", "3", "--kv", "int8", "--skip-checksums")
    traced(row, lambda *options: generate(row, "--kv", "f32", "--kernels", "scalar", "--threads",
                                          "2", "--profile", *options))


def prompt_of(row):
    return row.texts.get("prompt", "a")


@column("generate --prompt --prompt-file --no-prompt")
def generate_text(row):
    facts = row.json("generate", row.model, "--prompt", prompt_of(row), "--tokens", 8)
    require(facts["prompt_ids"] == list(row.array("prompt").values), "ids", facts["prompt_ids"])
    require(facts["text"] == row.texts["generated"], "text", facts["text"])
    file = row.folder / "prompt.txt"
    file.write_text(prompt_of(row))
    shown = row.arenite("generate", row.model, "--prompt-file", file, "--tokens", 8, "--no-prompt")
    require(shown.rstrip("\n") == row.texts["generated"], "shown", shown)


@column("generate --special")
def generate_special(row):
    facts = row.json("generate", row.model, "--special", "--prompt", "a<|spare0|>", "--tokens", 1)
    require(len(facts["prompt_ids"]) == 2, "the special token is read as", facts["prompt_ids"])


@column("generate --stop")
def generate_stop(row):
    """Ends before a part of the text, which is not shown."""
    text = row.texts.get("generated", "abcdef")
    stop = text[len(text) // 2:][:3]
    facts = row.json("generate", row.model, "--prompt", prompt_of(row), "--tokens", 8, "--stop",
                     stop)
    require(facts["text"] == text[:text.index(stop)], "text", facts["text"])


@column("generate --beams --length-penalty")
def generate_beams(row):
    """One beam is the most probable token each time; with several, the text is as long as asked."""
    generate(row, "--beams", "1", "--length-penalty", "2")
    start = ["--start", "1"] if len(row.inputs) > 1 else []
    facts = row.json("generate", row.model, "--ids", "--prompt-ids", "1", "--tokens", 3, "--beams",
                     3, *start)
    require(len(facts["ids"]) == 3 or facts["stop"] == "end_token", "found", facts["ids"])


# --- tokenize and transcribe ---------------------------------------------------------------------

@column("tokenize --text --file --special --bare --json")
def tokenize(row):
    """The ids of a decoder's prompt are the fixture's; an encoder has tokens around a text."""
    text = row.texts.get("prompt") or json.loads(row.texts.get("texts", '["a"]'))[0]
    whole, = row.json("tokenize", row.model, "--text", text)["texts"]
    if "prompt" in row.texts:
        require(whole["ids"] == list(row.array("prompt").values), "ids", whole["ids"])
    bare, = row.json("tokenize", row.model, "--special", "--bare", "--text", text)["texts"]
    ids, begin = bare["ids"], len(whole["ids"]) - len(bare["ids"])
    require(ids and any(whole["ids"][i:i + len(ids)] == ids for i in range(begin + 1)), "ids", ids)
    file = row.folder / "line.txt"
    file.write_text(text + "\n")
    shown = row.arenite("tokenize", row.model, "--file", file)
    require(shown.split() == [str(token) for token in whole["ids"]], "shown", shown)


@column("transcribe --sound --kernels --threads --kv")
def transcribe(row):
    file = row.folder / "sound.raw"
    file.write_bytes(bytes(3200))
    row.arenite("transcribe", row.model, "--sound", file, "--kernels", "scalar", "--threads", "2",
                "--kv", "f32")


# --- classify and embed-text ---------------------------------------------------------------------

def shares_of(logits):
    largest = max(logits)
    powers = [math.exp(value - largest) for value in logits]
    return [power / sum(powers) for power in powers]


def expect_classes(row, results, logits, top):
    """The most probable classes, as far as numbers of this type can tell."""
    require(len(results) == len(logits), "found", len(results), "expected", len(logits))
    allowed = row.variant.tolerance * max(abs(value) for line in logits for value in line)
    for result, line in zip(results, logits):
        shares, found = shares_of(line), result["classes"]
        require(len(found) == min(top, len(line)), "found", len(found), "classes")
        for entry, expected in zip(found, sorted(shares, reverse=True)):
            share = shares[entry["index"]]
            # A share changes by at most half of what a logit does.
            require(abs(entry["share"] - share) <= allowed and share >= expected - allowed, "found",
                    found, "expected", shares)


def texts_of(row):
    texts = json.loads(row.texts.get("texts", '["a"]'))
    return [word for text in texts for word in ("--text", text)]


def text_file(row):
    file = row.folder / "texts.txt"
    file.write_text("".join(text + "\n" for text in json.loads(row.texts.get("texts", '["a"]'))))
    return ["--file", file, "--on-error", "skip"]


def pair_of(row):
    return ["--pairs", "--text", row.texts.get("pair", "a\tb")]


def classify(row, options, wanted="text_output", top=2):
    facts = row.json("classify", row.model, *options, "--top", top)
    expect_classes(row, facts["results"], row.array(wanted).rows(), top)


def embed_text(row, options, wanted="text_output"):
    output = row.folder / "vectors.npy"
    row.arenite("embed-text", row.model, "-o", output, *options)
    row.expect(read_npy(output), row.array(wanted))


def json_lines(row, command, *options):
    """The answers to lines of JSON: all texts, a pair between lines that are skipped."""
    texts = json.loads(row.texts.get("texts", '["a"]'))
    first, second = row.texts.get("pair", "a\tb").split("\t")
    given = [{"id": i, "text": text, "length": len(text)} for i, text in enumerate(texts)]
    given += [{"id": "none"}, {"id": ["pair"], "text": first, "second": second}]
    lines = "".join(json.dumps(line) + "\n" for line in given) + "not JSON\n"
    printed = arenite(row.program, [command, row.model, "--json-lines", "--on-error", "skip",
                                    *options], input=lines)
    answers = [json.loads(line) for line in printed.splitlines()]
    require([answer.get("id") for answer in answers] == [line["id"] for line in given] + [None],
            "ids are", answers)
    for answer, words in ((answers[-3], "line 5: there is no text"),
                          (answers[-1], "is not valid JSON")):
        require(words in answer["error"], "found", answer)
    return answers[:len(texts)], [answers[-2]]


@column("classify --json-lines")
def classify_json_lines(row):
    for answers, wanted in zip(json_lines(row, "classify", "--top", 2),
                               ("text_output", "pair_output")):
        results = [each for answer in answers for each in answer.get("tokens", [answer])]
        expect_classes(row, results, row.array(wanted).rows(), 2)


@column("embed-text --json-lines")
def embed_text_json_lines(row):
    for answers, wanted in zip(json_lines(row, "embed-text"), ("text_output", "pair_output")):
        vectors = [answer["vector"] for answer in answers]
        flat = [value for vector in vectors for value in vector]
        row.expect(Array([len(vectors), len(vectors[0])], flat), row.array(wanted))


for command, fill in {"classify": classify, "embed-text": embed_text}.items():
    COLUMNS.update({
        f"{command} --text": lambda row, fill=fill: fill(row, texts_of(row)),
        f"{command} --file --on-error": lambda row, fill=fill: fill(row, text_file(row)),
        f"{command} --pairs": lambda row, fill=fill: fill(row, pair_of(row), "pair_output"),
        f"{command} --truncate --kernels --threads": lambda row, fill=fill: fill(
            row, [*texts_of(row), "--truncate", "--kernels", "scalar", "--threads", "2"])})


@column("classify --input --top")
def classify_input(row):
    classify(row, ["--input", row.input], "output", top=1)


@column("embed-text --json")
def embed_text_json(row):
    facts = row.json("embed-text", row.model, *texts_of(row))
    flat = [value for vector in facts["vectors"] for value in vector]
    row.expect(Array([len(facts["vectors"]), facts["width"]], flat), row.array("text_output"))
