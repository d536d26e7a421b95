# SPDX-License-Identifier: Apache-2.0
"""Measures the trained decoder with numpy; keeps accuracy.json, expected.json and held_out.tsv.

    python3 evaluate.py            measures, and compares with the files; exits with 1 if worse
    python3 evaluate.py --write    measures, and writes them
An answer counts only if greedy decoding yields the whole action line and then the end token.
"""

import argparse
import json
import pathlib
import sys

import numpy as np

import grammar
import reference as numpy_decoder

PAIRS_PER_GROUP = 2000
SEED = 1000                # any but the grammar's DATA_SEED
ACCURACY_MIN = 0.99        # without typos, over both held-out groups
LOGIT_DIFFERENCE_MAX = 4e-6   # the file holds float32, and logits reach about 20
LOGIT_PROMPT = "dim the bedroom lamp to thirty percent"
EXPECTED_COMMANDS = [
    "dim the bedroom lamp to thirty percent", "turn on the kitchen light",
    "could you please switch off all the lights", "make the attic lamp blue please",
    "raise the heating in the office by two and a half degrees", "it is too cold in the bathroom",
    "set the living room thermostat to 21.5", "open the blinds in the nursery",
    "put the shutters in the dining room to half", "play some jazz in the kitchen",
    "turn the stereo in the hall down by fifteen percent", "skip this song",
    "switch the telly in the lounge to channel forty two", "is the front door locked",
    "unlock the back door", "hey house set a timer for ten minutes thanks",
    "set a timer for an hour and a half in the garage", "wake me at quarter to seven",
    "set an alarm for 9:40 pm in the bedroom", "send the robot home",
    "good night", "set the vollume of the kitchen radio to 35%", "order some pizza",
    "do not open the garage door",
]


def is_phrasing(pair):
    return pair.split == "phrasing" and not pair.typo


def is_action(pair):
    return pair.split == "action" and not pair.typo


def is_typo(pair):
    return pair.split in ("phrasing", "action") and pair.typo


def is_seen(pair):
    return grammar.may_train(pair) and not pair.typo


GROUPS = {"held_out_phrasing": is_phrasing, "held_out_action": is_action,
          "held_out_with_typos": is_typo, "combination_in_training": is_seen}


def draw_groups(seed, count):
    """For each group its pairs, none of whose commands is in the training data or comes twice."""
    trained = {pair.command for pair in grammar.training_pairs()}
    groups = {}
    for offset, (name, accept) in enumerate(GROUPS.items()):
        taken = set(trained)

        def is_new(pair):
            if pair.command in taken or not accept(pair):
                return False
            taken.add(pair.command)
            return True

        groups[name] = grammar.draw_pairs(seed + offset, count, is_new)
    return groups


def measure(decoder, pairs, errors_max):
    """How many answers are right; prints the first wrong ones."""
    prompts = [decoder.prompt(pair.command) for pair in pairs]
    answers = [decoder.tokenizer.encode(pair.line) + [decoder.tokenizer.end_id] for pair in pairs]
    right = decoder.greedy_gives(prompts, answers)
    for i in np.flatnonzero(~right)[:errors_max]:
        answer = decoder.tokenizer.decode(decoder.greedy(prompts[i]))
        print(f"    {pairs[i].command}  ->  {answer}, expected {pairs[i].line}")
    return int(right.sum())


def held_out_of(groups):
    """held_out.tsv's content: both held-out groups without typos, a command and its line each."""
    pairs = groups["held_out_phrasing"] + groups["held_out_action"]
    return "".join(f"{pair.command}\t{pair.line}\n" for pair in pairs)


def measure_all(decoder, groups, options):
    """accuracy.json's content."""
    report = {"seed": options.seed, "arithmetic": options.dtype}
    for name, pairs in groups.items():
        print(f"{name}:", flush=True)
        right = measure(decoder, pairs, options.errors)
        report[name] = {"right": right, "commands": len(pairs),
                        "share": round(right / len(pairs), 5)}
        print(f"    {right} of {len(pairs)} right", flush=True)
    held_out = [report["held_out_phrasing"], report["held_out_action"]]
    report["held_out"] = {key: sum(group[key] for group in held_out)
                          for key in ("right", "commands")}
    report["held_out"]["share"] = round(report["held_out"]["right"] /
                                        report["held_out"]["commands"], 5)
    print(f"held out, without typos: {report['held_out']['share']}")
    return report


def expected_of(decoder):
    """expected.json's content: greedy ids and text, and the logits after one prompt."""
    cases = []
    for command in EXPECTED_COMMANDS:
        prompt = decoder.prompt(command)
        ids = decoder.greedy(prompt)
        cases.append({"command": command, "prompt_ids": prompt, "ids": ids,
                      "text": decoder.tokenizer.decode(ids)})
    prompt = decoder.prompt(LOGIT_PROMPT)
    last = decoder.logits(np.array([prompt]))[0, -1]
    return {"cases": cases,
            "logits": {"command": LOGIT_PROMPT, "prompt_ids": prompt,
                       "last_token": [float(str(x)) for x in last.astype(np.float32)]}}


def to_json(value):
    """JSON with one line per case."""
    cases = ",\n".join("  " + json.dumps(case) for case in value["cases"])
    return '{"cases": [\n' + cases + '\n],\n"logits": ' + json.dumps(value["logits"]) + "}\n"


def agrees(found, path):
    """Whether expected.json says the same; prints what does not."""
    wanted = json.loads(path.read_text())
    wrong = [(f, w) for f, w in zip(found["cases"], wanted["cases"]) if f != w]
    for f, w in wrong:
        print(f"{path}: {w['command']!r} gives {f['text']!r}, expected {w['text']!r}")
    difference = np.abs(np.array(found["logits"]["last_token"]) -
                        np.array(wanted["logits"]["last_token"])).max()
    print(f"largest difference from the logits of {path.name}: {difference:.2e} "
          f"(at most {LOGIT_DIFFERENCE_MAX:.0e})")
    same_cases = len(found["cases"]) == len(wanted["cases"]) and not wrong
    return bool(same_cases and difference <= LOGIT_DIFFERENCE_MAX)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=here, help="where the files are")
    parser.add_argument("--count", type=int, default=PAIRS_PER_GROUP, help="commands per group")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32",
                        help="arithmetic of the measurement; expected.json is always float64")
    parser.add_argument("--errors", type=int, default=5, help="wrong answers to show per group")
    parser.add_argument("--write", action="store_true", help="write the three files")
    options = parser.parse_args()
    expected = expected_of(numpy_decoder.Reference(options.folder))
    decoder = numpy_decoder.Reference(options.folder, getattr(np, options.dtype))
    groups = draw_groups(options.seed, options.count)
    held_out = held_out_of(groups)
    report = measure_all(decoder, groups, options)
    good = report["held_out"]["share"] >= ACCURACY_MIN
    if options.write:
        (options.folder / "expected.json").write_text(to_json(expected))
        (options.folder / "accuracy.json").write_text(json.dumps(report, indent=2) + "\n")
        (options.folder / "held_out.tsv").write_text(held_out)
    else:
        is_usual = (options.seed, options.count) == (SEED, PAIRS_PER_GROUP)
        if is_usual and held_out != (options.folder / "held_out.tsv").read_text():
            print("held_out.tsv holds other commands")
            good = False
        good = agrees(expected, options.folder / "expected.json") and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
