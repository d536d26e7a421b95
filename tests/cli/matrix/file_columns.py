# SPDX-License-Identifier: Apache-2.0
"""The columns of commands that make model files, or tell of them: as columns.py, which see."""

import array
import json
import math
import shutil

from arrays import read_npy, stacked, write_npy
from columns import column, columns_with, text_file, traced
from rows import DATA, Refused, require


def refuses(call, *words):
    """Whether call() is refused with these words in the message."""
    try:
        call()
    except Refused as refused:
        return all(word in refused.message for word in words)
    return False


# --- convert -------------------------------------------------------------------------------------

@column("convert")
def converted(row, *options, tolerance=None):
    """The report of a conversion whose result gives what PyTorch gives."""
    facts = row.convert(*options)
    row.expect(row.run(model=row.other), row.array("output"), tolerance)
    return facts


# Answers that are true: refused where nothing was asked.
columns_with("convert", converted, {
    "--heads": ["--heads", 4], "--norm-first": ["--norm-first"], "--norm-last": ["--norm-last"],
    "--causal": ["--causal"], "--window": ["--window", 96],
    "--embedding-scale": ["--embedding-scale", 1], "--scale": ["--scale", 8 ** -0.5],
    "--epsilon": ["--epsilon", "1e-5"], "--rope-theta": ["--rope-theta", 10000],
    "--module": ["--module", "model"], "--state-dict": ["--state-dict", "model"],
    "--features": ["--features", 32], "--mask-ones": ["--mask-ones", "hidden"],
    "--activation": ["--activation", "silu"], "--target": ["--target", "all"],
    "--max-arena": ["--max-arena", 10 ** 7]})


@column("convert --bidirectional")
def convert_bidirectional(row):
    """An answer that is wrong for all that leave it open."""
    converted(row, "--bidirectional", "--expect", f"{row.input},{row.file('output')}")


@column("convert --pooling")
def convert_pooling(row):
    row.convert("--pooling", "mean")
    row.expect(row.run(model=row.other), row.array("output").means())


@column("convert --output-index")
def convert_output_index(row):
    converted(row, *(row.kind.options if "--output-index" in row.kind.options
                     else ["--output-index", "0"]))


@column("convert --any-length")
def convert_any_length(row):
    converted(row, "--any-length")


@column("convert --functions")
def convert_functions(row):
    has_two = len(row.inputs) > 1 and "generated" in row.arrays
    converted(row, "--functions", "read,write" if has_two else "classify")


@column("convert --encoded")
def convert_encoded(row):
    converted(row, "--encoded", "memory")


@column("convert --kv")
def convert_kv(row):
    converted(row, "--kv", "int8", tolerance=row.tolerance_with("int8"))


@column("convert --labels")
def convert_labels(row):
    """Each number that the model gives out has a name."""
    row.convert()
    count = row.json("inspect", row.other)["model"]["functions"][-1]["output_features"]
    names = row.folder / "labels.txt"
    names.write_text("".join(f"name {i}\n" for i in range(count)))
    converted(row, "--labels", names)
    require(b"name 0" in row.other.read_bytes(), "no names")
    names.write_text("name 0\n" * (count + 1))
    require(refuses(lambda: row.convert("--labels", names), "labels"), "one more is taken, too")


@column("convert --expect")
def convert_expect(row):
    """The author's outputs are accepted, with few bits too; those of other sequences are not."""
    pair = f"{row.input},{row.file('output')}"
    for options in [], ["--weights", "q8"]:
        facts = row.convert("--expect", pair, *options)["expect"][0]
        off = facts["largest_difference"]
        require(off <= row.variant.tolerance * facts["largest_value"], "off by", off)
        in_few_bits = facts["difference_in_few_bits"]
        require((in_few_bits is not None) == bool(options), "in few bits", in_few_bits)
        require(not options or off < in_few_bits < facts["largest_value"], "off by", in_few_bits)
    output = row.array("output")
    wrong = write_npy(row.folder / "wrong.npy", stacked([output.at(1), output.at(0)]))
    require(refuses(lambda: row.convert("--expect", f"{row.input},{wrong}"), "wrong.npy"),
            "outputs of other sequences were accepted")


@column("convert --expect-lengths")
def convert_expect_lengths(row):
    """Rows of padding are not compared, all others are."""
    lengths = row.each("--expect-lengths", row.lengths())
    output = row.file("lengths_output" if "lengths_output" in row.arrays else "output")
    pair = f"{row.input},{output}"
    facts = row.convert("--expect", pair, *lengths)["expect"][0]
    require(facts["largest_difference"] <= row.variant.tolerance * facts["largest_value"],
            "off by", facts["largest_difference"])
    require(refuses(lambda: row.convert("--expect", pair), "does not compute"),
            "other lengths were accepted")


@column("convert --context")
def convert_context(row):
    """For sequences as short as the fixture's shorter ones, and no others."""
    source, expected = row.short()
    tokens = source[0].shape[1]
    row.convert("--context", min(tokens, 3) if row.kind.pixels else tokens)
    files = [write_npy(row.folder / f"short{i}.npy", array) for i, array in enumerate(source)]
    row.expect(row.run(model=row.other, source=files), expected)
    # Of several inputs each has room for the example that the program was exported with.
    require(len(row.inputs) > 1 or refuses(lambda: row.run(model=row.other), "context"),
            "longer ones are accepted")


@column("convert --tokenizer")
def convert_tokenizer(row):
    """The file that is beside another checkpoint, or beside this one."""
    file = row.checkpoint / "tokenizer.json"
    facts = converted(row, "--tokenizer", file if file.exists() else DATA / "encoder/vocab.txt")
    require(facts["tokenizer"], "there is none")
    require(not converted(row, "--tokenizer", "none")["tokenizer"], "there is one")


@column("convert --sound")
def convert_sound(row):
    """Features are those of arrays, as before, and of samples."""
    width = min(row.array("input").shape[-1], 128)
    words = f"rate=8000,window=256,hop=100,mels={width},add=1e-3"
    converted(row, "--sound", words)
    heard = row.json("inspect", row.other)["model"]["sound"]
    require(heard.startswith(f"8000 samples a second, 256 every 100, 256 points, {width} bands"),
            heard)
    if len(row.inputs) > 1:
        return  # which takes as many sequences of the others
    sound = row.folder / "sound.raw"
    sound.write_bytes(array.array("h", (997 * i % 3001 for i in range(1356))).tobytes())
    values = row.run(model=row.other, source=[sound]).values
    require(values and all(math.isfinite(value) for value in values), "not finite")


@column("convert --weights --max-bytes")
def convert_weights(row):
    converted(row, "--weights", "w8", tolerance=row.tolerance_with("int8"))
    facts = converted(row, "--weights", "auto", "--max-bytes", 10 ** 6, *row.each("--calibrate"),
                      tolerance=row.tolerance_with("int8"))
    require(facts["file"]["bytes"] <= 10 ** 6, "the file is larger than allowed")
    require(refuses(lambda: row.convert("--max-bytes", 9), "asked for 9 bytes"), "9 are enough")


def calibration_of(row):
    """As much of what the fixture feeds as rounding asks for, a file for each input."""
    if "texts" in row.texts:
        file = text_file(row)[1]
        file.write_text(40 * file.read_text())
        return [file]
    often = [stacked([row.array(path.stem).at(i % 2) for i in range(64)]) for path in row.inputs]
    return [write_npy(row.folder / f"calibration{i}.npy", each) for i, each in enumerate(often)]


@column("convert --keep --calibrate --min-cosine")
def convert_keep(row, *options):
    return converted(row, "--weights", "q4", "--keep", "none",
                     *row.each("--calibrate", calibration_of(row)), "--min-cosine", "0.9",
                     *options, tolerance=row.tolerance_with("int8"))


columns_with("convert", convert_keep, {
    "--max-kl": ["--max-kl", 1], "--max-perplexity-increase": ["--max-perplexity-increase", 50]})


@column("convert --no-self-test --name --explain --report --verbose")
def convert_report(row):
    page, facts = row.folder / "report.html", row.folder / "report.json"
    converted(row, "--no-self-test", "--name", "another name", "--report", page)
    require("</html>" in page.read_text(), "the report")
    require(refuses(lambda: row.arenite("verify", row.other), "self-test"), "it has a self-test")
    require(row.json("inspect", row.other)["model"]["name"] == "another name", "the name")
    shown = row.arenite("convert", row.checkpoint, "-o", row.other, *row.options(), "--explain",
                        "--report", facts)
    require("as recognised" in shown and "after the passes" in shown, "shown", shown)
    require(json.loads(facts.read_text()), "the report")
    shown = row.arenite("convert", row.checkpoint, "-o", row.other, *row.options(), "--verbose")
    require(shown.endswith(row.arenite("inspect", row.other)), "what inspect says", shown)


# --- inspect, verify, bench ----------------------------------------------------------------------

@column("inspect")
def inspect(row):
    """As text, as JSON and in brief."""
    facts = row.json("inspect", row.model)
    last = facts["model"]["functions"][-1]
    require(last["output_features"] == row.array("output").shape[-1], "the width")
    require(facts["model"]["kv_cache"] == row.variant.cache, "the type of the cache")
    require(last["output_rows"] == row.kind.gives, "rows", last["output_rows"])
    text = row.arenite("inspect", row.model)
    require(f"{facts['targets'][0]['arena']['total_bytes']:,}" in text, "the arena", text)
    require(0 < len(row.arenite("inspect", row.model, "--brief")) < len(text), "what is brief")


@column("inspect --report")
def inspect_report(row):
    page, facts = row.folder / "inspect.html", row.folder / "inspect.json"
    row.arenite("inspect", row.model, "--report", facts)
    row.arenite("inspect", row.model, "--report", page)
    require("</html>" in page.read_text(), "the page")
    require(json.loads(facts.read_text()), "the facts")


@column("inspect --board --clock")
def inspect_board(row):
    """Of every kind of op."""
    all_facts = row.json("inspect", row.model, "--board", "nucleo-h743", "--clock", 100)
    facts = all_facts["board"]
    products = sum(op["multiply_adds_per_pass"] for op in all_facts["ops"])
    require(facts["target"] == "portable" and facts["calls"], "found", facts)
    for call in facts["calls"]:
        require(abs(call["instructions"] * facts["cycles_per_instruction"] / 1e5
                    / call["milliseconds"] - 1) < 1e-3, "the time", call)
    most = sum(call["instructions"] for call in facts["calls"])
    require(0.5 < most / products < 1000, "instructions", facts, products)


@column("inspect --positions --tokens --sequences --threads --kv", "embed --threads --kv --json")
def inspect_sizes(row):
    """The same bytes as in a header."""
    sizes = [*row.sizes(), "--threads", 2, "--kv", "int8"]
    header = row.folder / "header.h"
    facts = row.json("inspect", row.model, *sizes)
    name = row.json("embed", row.model, "-o", header, *sizes)["name"]
    largest = max(target["arena"]["total_bytes"] for target in facts["targets"])
    require(f"{name}_arena_bytes_max = {largest};" in header.read_text(), "the arena")


@column("verify")
def verify(row, *options, count=2):
    facts = row.json("verify", row.model, *options)
    require(facts["passed"] and len(facts["targets"]) == count, "found", facts)


@column("verify --kernels --kv")
def verify_options(row):
    verify(row, "--kernels", "scalar", count=1)
    verify(row, "--kv", "f32")


@column("bench")
def bench(row, *options):
    facts = row.json("bench", row.model, "--seconds", "0.01", *options)
    require(facts["runs"] and all(run["median_ms"] > 0 for run in facts["runs"]), "found", facts)


columns_with("bench", bench, {
    "--tokens --lengths": ["--tokens", "2", "--lengths", "2,5"],
    "--prompt --decode --at --context --chunk":
        ["--prompt", "5", "--decode", "3", "--at", "4", "--context", "9", "--chunk", "3"]})


@column("bench --kernels --threads --kv --profile --trace")
def bench_sessions(row):
    traced(row, lambda *options: bench(row, "--kernels", "scalar", "--threads", "2", "--kv", "int8",
                                       "--profile", *options))


# --- repack, strip, bundle -----------------------------------------------------------------------

@column("repack")
def repack(row):
    """The bytes of a conversion."""
    row.json("repack", row.model, "-o", row.other, "--target", "portable")
    row.expect(row.run(model=row.other), row.array("output"))
    again = row.folder / "again.arn"
    row.convert("--target", "portable", "--name", row.name, output=again)
    require(again.read_bytes() == row.other.read_bytes(), "not what a conversion writes")


@column("strip")
def strip(row):
    row.json("strip", row.model, "-o", row.other)
    row.expect(row.run(model=row.other), row.array("output"))
    require(refuses(lambda: row.arenite("verify", row.other), "self-test"), "it has a self-test")


@column("bundle --board --incbin --archive --positions --tokens --sequences")
def bundle_sizes(row):
    row.convert("--target", "portable")
    folder = row.folder / "bundle"
    shutil.rmtree(folder, ignore_errors=True)
    facts = row.json("bundle", row.other, "-o", folder, "--board", "generic", "--incbin",
                     *row.sizes())["models"][0]
    inspected = row.json("inspect", row.other, *row.sizes())["targets"][0]["arena"]
    require(facts["arena_bytes"] == inspected["total_bytes"], "found", facts)
    require(refuses(lambda: row.arenite("bundle", row.other, "-o", row.folder / "archive",
                                        "--archive"), "--board"), "no board, and an archive")
