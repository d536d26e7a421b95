# SPDX-License-Identifier: Apache-2.0
"""Folders that tools/python/arenite_export.py wrote: converted with the right numbers, or refused
where their facts.json is wrong.

from_hub_test.py ARENITE
"""
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/convert/data"
WRONG = 1e-4  # float32 differs from PyTorch's float64 by less


def run(arenite, *words, folder):
    return subprocess.run([arenite, *map(str, words)], cwd=folder, capture_output=True, text=True,
                          check=False)


def read_npy(path):
    """The elements of an .npy file of floats, in its order."""
    data = path.read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    letter, size = ("d", 8) if b"'<f8'" in data[:begin] else ("f", 4)
    return struct.unpack(f"<{(len(data) - begin) // size}{letter}", data[begin:])


def check_beams(arenite, folder):
    """Beam search writes what that of transformers does, up to the end token, which is 1."""
    for case in json.loads((DATA / "from_hub/beams.json").read_text()):
        done = run(arenite, "generate", "translator.arn", "--prompt-ids",
                   ",".join(map(str, case["ids"])), "--beams", case["beams"], "--length-penalty",
                   case["penalty"], "--tokens", 9, "--json", folder=folder)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        ends = 1 in case["written"]
        written = case["written"][1:case["written"].index(1) if ends else None]
        assert found["ids"] == written, (case, found["ids"])
        assert found["stop"] == ("end_token" if ends else "tokens"), found["stop"]
    done = run(arenite, "generate", "translator.arn", "--prompt", "the pump", "--beams", 9,
               folder=folder)
    assert done.returncode == 2 and "--beams" in done.stderr, done.stderr
    done = run(arenite, "generate", "translator.arn", "--prompt", "the pump", "--beams", 2,
               "--repeat-penalty", 2, folder=folder)
    assert done.returncode == 2 and "excludes" in done.stderr, done.stderr


def check_values(arenite, folder):
    """Runs both models on their samples; the classifier names its classes."""
    for name, inputs in {"classifier": ["input_ids", "token_type_ids"],
                         "translator": ["input_ids", "decoder_input_ids"]}.items():
        source = DATA / "from_hub" / name
        done = run(arenite, "convert", source, "-o", f"{name}.arn", "--json", folder=folder)
        assert done.returncode == 0, done.stderr
        expected = json.loads(done.stdout)["expect"]
        assert len(expected) == 3, expected
        for sample in range(3):
            files = [f"{given}={source}/sample{sample}_{given}.npy" for given in inputs]
            done = run(arenite, "run", f"{name}.arn", *(x for f in files for x in ("--input", f)),
                       "--output", "y.npy", folder=folder)
            assert done.returncode == 0, done.stderr
            wanted = read_npy(source / f"sample{sample}_outputs.npy")
            found = read_npy(folder / "y.npy")
            assert len(found) == len(wanted), (len(found), len(wanted))
            error = max(abs(a - b) for a, b in zip(found, wanted))
            assert error < WRONG * max(map(abs, wanted)), (name, sample, error)
    check_beams(arenite, folder)
    done = run(arenite, "classify", "classifier.arn", "--text", "the pump is louder.",
               folder=folder)
    assert re.match(r"(calm|worn|broken) +\d\d\.\d\d %", done.stdout), done.stdout + done.stderr


def write_sound(path, seconds):
    """The samples that make_from_hub.py lets transformers hear."""
    numbers = [((i * (i // 16 + 300) + 32768) % 65536 - 32768) >> 2
               for i in range(int(seconds * 16000))]
    path.write_bytes(struct.pack(f"<{len(numbers)}h", *numbers))


def check_speech(arenite, folder):
    """A wav2vec2 writes what transformers writes; long sound is heard in windows."""
    source = DATA / "from_hub/speech"
    for name, context in (("whole", 160000), ("windows", 16000)):
        done = run(arenite, "convert", source, "-o", f"{name}.arn", "--context", context,
                   folder=folder)
        assert done.returncode == 0, done.stderr

    def hear(model, *options):
        done = run(arenite, "transcribe", model, "--sound", "x.raw", *options, folder=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for case in json.loads((DATA / "from_hub/heard.json").read_text()):
        write_sound(folder / "x.raw", case["seconds"])
        assert hear("whole.arn") == case["text"] + "\n", (hear("whole.arn"), case)
        facts = json.loads(hear("whole.arn", "--json"))
        assert [part["text"] for part in facts["segments"]] == case["text"].split(), facts
        ends = [end for part in facts["segments"] for end in (part["begin"], part["end"])]
        assert ends == sorted(ends) and ends[-1] <= case["seconds"], ends
    # The last sound: its windows of a second overlap by a third of them.
    heard = [part["end"] for part in json.loads(hear("windows.arn", "--json"))["segments"]]
    assert heard == sorted(set(heard)) and 2.4 < heard[-1] <= 2.6, heard
    inspected = run(arenite, "inspect", "whole.arn", folder=folder).stdout
    assert "16000 samples a second, each sound normalized" in inspected, inspected
    for option, value in (("--language", ["en"]), ("--translate", [])):
        done = run(arenite, "transcribe", "whole.arn", "--sound", "x.raw", option, *value,
                   folder=folder)
        assert done.returncode == 1 and f"{option}: the model knows one" in done.stderr, done.stderr
    done = run(arenite, "convert", source / "model.pt2", "-o", "m.arn", "--tokenizer",
               DATA / "from_hub/classifier", folder=folder)
    assert done.returncode == 1 and "no decoder of type CTC" in done.stderr, done.stderr


def edited(**fields):
    """Replaces fields of facts.json; None removes one."""
    def edit(folder):
        facts = json.loads((folder / "facts.json").read_text())
        facts.update(fields)
        facts = {name: value for name, value in facts.items() if value is not None}
        (folder / "facts.json").write_text(json.dumps(facts))
    return edit


def without(name):
    return lambda folder: (folder / name).unlink()


def copied(source, target):
    return lambda folder: shutil.copyfile(folder / source, folder / target)


def sample(inputs, outputs):
    return [{"inputs": {"input_ids": inputs, "token_type_ids": "sample0_token_type_ids.npy"},
             "outputs": outputs}]


# What is done to the classifier's folder, and what the message has to say.
MISTAKES = [
    (edited(format=2), ["'format' is 2", "reads 1", "arenite_export.py"]),
    (edited(format=None), ["facts.json", "'format' is missing"]),
    (edited(programs=[]), ["'programs' has 0 names", "expected one .pt2 file"]),
    (edited(programs=["../model.pt2"]), ["'../model.pt2'", "a file beside it"]),
    (edited(vocab_size=12), ["'vocab_size' is 12", "ids below 11", "two exports"]),
    (edited(samples=[]), ["'samples'", "1 to 16", "prove the conversion"]),
    (edited(samples=[3]), ["sample 0", "3", "expected an object"]),
    (edited(samples=[{"outputs": "sample0_outputs.npy"}]), ["sample 0", "'inputs'", "each input"]),
    (edited(samples=sample("sample1_input_ids.npy", "sample0_outputs.npy")),
     ["facts.json', sample 0", "sample0_token_type_ids.npy"]),
    (edited(samples=sample("sample0_outputs.npy", "sample0_outputs.npy")),
     ["facts.json', sample 0", "sample0_outputs.npy"]),
    (edited(samples=sample("sample0_input_ids.npy", "sample0_input_ids.npy")),
     ["facts.json', sample 0", "expected the outputs, float32 or float64"]),
    (edited(dropout=0.5), ["unknown", "'dropout'"]),
    (edited(options={"temperature": 2}), ["unknown", "'temperature'"]),
    (edited(options={"output_index": [4]}), ["model.pt2", "--output-index"]),
    (edited(options={"sound": "preprocessor_config.json"}),
     ["preprocessor_config.json' is missing", "copy the whole folder"]),
    (without("model.pt2"), ["model.pt2' is missing", "copy the whole folder"]),
    (without("sample2_outputs.npy"), ["sample2_outputs.npy' is missing"]),
    (copied("sample0_outputs.npy", "sample1_outputs.npy"),
     ["sample 1", "does not compute", "sample1_outputs.npy", "No file was written"]),
]


def check_context(arenite, folder):
    """Samples that are longer than the model may be are left out, but not all of them."""
    source = DATA / "from_hub/classifier"
    done = run(arenite, "convert", source, "-o", "m.arn", "--context", 17, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    assert [each["tokens"] for each in json.loads(done.stdout)["expect"]] == [16, 12]
    broken = folder / "long"
    shutil.copytree(source, broken)
    edited(samples=sample("sample0_input_ids.npy", "sample0_outputs.npy"))(broken)
    done = run(arenite, "convert", broken, "-o", "long.arn", "--context", 12, folder=folder)
    assert done.returncode == 1 and "all samples have more than" in done.stderr, done.stderr


def check_mistakes(arenite, folder):
    for number, (damage, parts) in enumerate(MISTAKES):
        broken = folder / f"broken{number}"
        shutil.copytree(DATA / "from_hub/classifier", broken)
        damage(broken)
        done = run(arenite, "convert", broken, "-o", "broken.arn", folder=folder)
        assert done.returncode == 1, (number, done.returncode, done.stderr)
        for part in parts:
            assert part in done.stderr, (number, part, done.stderr)
        assert not (folder / "broken.arn").exists(), number
    done = run(arenite, "convert", DATA / "from_hub/classifier", DATA / "several_inputs/bart.pt2",
               "-o", "broken.arn", folder=folder)
    assert done.returncode == 1 and "names all programs" in done.stderr, done.stderr


def check_advice(arenite, folder):
    """A folder of another family is told the script, by a path that exists."""
    other = folder / "some model"
    shutil.copytree(DATA / "encoders/bert_sequence", other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"model_type": "big_bird"}))
    done = run(arenite, "convert", "some model", "-o", "m.arn", folder=folder)
    lines = re.search(r"python3 (\S*arenite_export.py) 'some model' -o 'some model-exported'\n"
                      r"arenite convert 'some model-exported' -o 'some model.arn'", done.stderr)
    assert done.returncode == 1 and lines, done.stderr
    assert pathlib.Path(lines[1]).is_file(), lines[1]
    assert "import torch" not in done.stderr, done.stderr


def main(arenite):
    for check in (check_values, check_speech, check_context, check_mistakes, check_advice):
        with tempfile.TemporaryDirectory() as folder:
            check(arenite, pathlib.Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
