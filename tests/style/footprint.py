#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the runtime and the trained models take of flash and RAM on each target.

Usage: footprint.py ROOT
ROOT holds build, the build-size-* folders and build-cortex-m7, as `make size` makes them. Fails if
something is over its budget, in size_budget.txt, or the pages say something else.
"""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "device"))
import bundle_firmware
from check_archives import CHECKS
from elf_archive import sections
from size_report import BudgetCheck, archive_sizes, sizes_by_feature, total

BARE_TARGET = "cortex-m7"
EMULATOR = ("qemu-system-arm -machine mps2-an500 -nographic -monitor none -serial none "
            "-semihosting-config enable=on,target=native -kernel").split()


@dataclass
class Target:
    name: str
    build: str
    packing: str  # what models are converted for
    terse_build: str = ""  # with ARENITE_MESSAGES=OFF


TARGETS = (
    Target("x86-64", "build-size-x86-64", "x86-64-v3"),
    Target("aarch64", "build-size-aarch64", "arm64", "build-terse-aarch64"),
    Target("armv7", "build-size-armv7", "arm32"),
    Target("riscv64", "build-size-riscv64", "portable"),
    Target(BARE_TARGET, "build-cortex-m7", "portable", "build-terse-cortex-m7"),
)

# Of each model the checkpoint and how to convert it, and the longest call: recall takes its
# tokens one by one, vibration a window at once, home-intent a prompt in pieces of 16.
MODELS = {
    "recall": ("recall/recall.safetensors", ["--heads", "2"], 1),
    "vibration": ("vibration", [], 64),
    "home-intent": ("home-intent", [], 16),
}


def run(*command):
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True).stdout


def print_code(root, check):
    """Returns {target: bytes of runtime and microkernels}."""
    print("Code flash, in bytes: code and constants at -Os, before the linker leaves out what a")
    print("program does not use\n")
    print(f"{'target':<12}{'runtime':>10}{'without words':>15}{'of them text':>14}"
          f"{'interface for C':>17}{'microkernels':>14}")
    code_bytes = {}
    for target in TARGETS:
        runtime, interface, kernels = archive_sizes(root / target.build)
        sizes = {"runtime": sum(total(runtime)), "c": sum(total(interface)),
                 "kernels": sum(total(kernels))}
        terse = "-"
        smallest = runtime
        if target.terse_build:
            smallest, _, _ = archive_sizes(root / target.terse_build)
            sizes["terse"] = sum(total(smallest))
            terse = f"{sizes['terse']:,}"
        text = {member: size for member, size in smallest.items() if is_text(root, member)}
        for part, size_bytes in sizes.items():
            check.check(target.name, part, size_bytes)
        print(f"{target.name:<12}{sizes['runtime']:>10,}{terse:>15}{sum(total(text)):>14,}"
              f"{sizes['c']:>17,}{sizes['kernels']:>14,}")
        code_bytes[target.name] = sizes["runtime"] + sizes["kernels"]
    print("""
without words    ARENITE_MESSAGES=OFF: errors are statuses and numbers
of them text     tokenizers and sampler, which only programs with text link
""")
    return code_bytes


def print_features(root):
    """What the linker leaves out of a program that does not use it, or ARENITE_MODEL does."""
    sizes = sizes_by_feature(root / f"build-terse-{BARE_TARGET}" / "runtime" / "libarenite.a")
    print(f"The runtime without words on {BARE_TARGET}, by what it is for, in bytes\n")
    for feature, size_bytes in sorted(sizes.items(), key=lambda line: -line[1]):
        print(f"{feature:<26}{size_bytes:>8,}")
    print(f"{'in all':<26}{sum(sizes.values()):>8,}\n")


def print_kernels(root):
    """Files whose kernels no model of a program needs are not linked."""
    _, _, kernels = archive_sizes(root / f"build-{BARE_TARGET}")
    print(f"Files of kernels on {BARE_TARGET}, in bytes\n")
    for member, size in sorted(kernels.items(), key=lambda line: -sum(line[1])):
        print(f"{re.sub(r'[.](c|cc)[.]o(bj)?$', '', member):<52}{sum(size):>8,}")
    print(f"{'in all':<52}{sum(total(kernels)):>8,}\n")


def check_archives(root, check):
    """No allocator, no stdio, no unwinder, no constructors, no global state."""
    for target in TARGETS:
        build = root / target.build
        archives = [build / "runtime" / "libarenite.a", build / "libarenite_xnnpack.a"]
        for find in CHECKS.values():
            findings = [f"{target.name}: {finding}" for finding in find(target.name, archives)]
            check.failures += findings
            check.passed += not findings


def is_text(root, member):
    source = re.sub(r"\.o(bj)?$", "", member)
    return (root / "runtime" / "text" / source).exists() or source == "utf8.cc"


def print_models(root, code_bytes, check):
    print("The trained models of models/, one sequence of full length, in bytes\n")
    print(f"{'model':<12}{'in a call':>10}  {'target':<12}{'activation RAM':>15}"
          f"{'runtime RAM':>13}{'weights flash':>15}{'code flash':>12}")
    folder = root / "build" / "footprint"
    folder.mkdir(exist_ok=True)
    arenite = root / "build" / "arenite"
    for name, (checkpoint, options, tokens) in MODELS.items():
        shown = name
        for target in TARGETS:
            file = folder / f"{name}-{target.packing}.arn"
            run(arenite, "convert", root / "models" / checkpoint, "-o", file,
                "--target", target.packing, *options)
            model = json.loads(run(arenite, "inspect", "--json", file, "--tokens", tokens))
            arena = model["targets"][0]["arena"]
            check.check("all", "session", arena["session_bytes"])
            activation_bytes = arena["total_bytes"] - arena["session_bytes"]
            print(f"{shown:<12}{tokens if shown else '':>10}  {target.name:<12}"
                  f"{activation_bytes:>15,}{arena['session_bytes']:>13,}"
                  f"{model['file']['bytes']:>15,}{code_bytes[target.name]:>12,}")
            shown = ""
    print("""
activation RAM   of the arena: activations, scratch, keys and values
runtime RAM      of the arena: the session; there are no global variables
weights flash    the model file, its metadata and tokenizer included
code flash       runtime and microkernels, whether the model needs them or not
""")


def flash_bytes_of(image):
    sizes = {section.name: section.size_bytes for section in sections(image)}
    return sum(sizes.get(name, 0) for name in (".text", ".ARM.exidx", ".data"))


def ram_bytes_of(image):
    sizes = {section.name: section.size_bytes for section in sections(image)}
    return sum(sizes.get(name, 0) for name in (".stack", ".data", ".bss"))


def print_images(root, check):
    """The bare-metal program around one attention module, as linked."""
    print(f"A program of one attention module of 8 tokens on {BARE_TARGET}, newlib included, "
          "in bytes\n")
    for part, build, label in (
            ("image", "build-cortex-m7", "flash"),
            ("terse-image", "build-terse-cortex-m7", "  without words"),
            ("model-image", "build-model-cortex-m7", "  with ARENITE_MODEL")):
        folder = root / build / "tests" / "footprint"
        image = folder / "attention_image"
        sizes = {section.name: section.size_bytes for section in sections(image)}
        flash_bytes = flash_bytes_of(image)
        model_bytes = (folder / "recall_8.arn").stat().st_size
        print(f"{label:<20}{flash_bytes:>8,}  of them {model_bytes:,} the model")
        check.check(BARE_TARGET, part, flash_bytes)
    print(f"{'RAM':<20}{sizes.get('.data', 0) + sizes.get('.bss', 0):>8,}  the arena")


def print_few_bits(root, check):
    """What quantized weights add to a program that ARENITE_MODEL made for them."""
    image_bytes = {
        weights: flash_bytes_of(root / f"build-{weights}-{BARE_TARGET}" / "tests" / "footprint" /
                                "attention_image")
        for weights in ("f32", "q8", "q4")}
    for weights in ("q8", "q4"):
        added_bytes = image_bytes[weights] - image_bytes["f32"]
        file = root / "build" / "footprint" / f"vibration-{weights}.arn"
        print(f"{'weights in ' + weights:<20}{added_bytes:>8,}  more code for vibration in "
              f"{weights} than in f32; the model is {file.stat().st_size:,}")
        check.check(BARE_TARGET, weights, added_bytes)


def print_bundle(root, check):
    """The bundle of vibration beside CMake's build for it, around the same main.c."""
    arenite = root / "build" / "arenite"
    work = root / "build" / "footprint" / "bundle"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    model = root / "build" / "footprint" / "vibration-f32.arn"
    bundled = json.loads(run(arenite, "bundle", model, "-o", work / "files", "--json"))
    board = bundle_firmware.board_of("cortex-m7")
    archive = bundle_firmware.build_library(work / "files", board, work / "build")
    objects = bundle_firmware.program_objects(work / "files", board, work / "build")
    image = bundle_firmware.link(objects, [archive], board, work / "firmware")
    cmake = root / f"build-f32-{BARE_TARGET}"
    model_object = work / "build" / "arenite_model_vibration_f32.c.o"
    archives = [cmake / "runtime" / "libarenite.a", cmake / "libarenite_xnnpack.a"]
    cmake_image = bundle_firmware.link([*objects, model_object], archives, board,
                                       work / "firmware-cmake")
    flash_bytes, cmake_flash_bytes = flash_bytes_of(image), flash_bytes_of(cmake_image)
    ram_bytes, cmake_ram_bytes = ram_bytes_of(image), ram_bytes_of(cmake_image)
    model_bytes = model.stat().st_size
    print(f"{'bundle of vibration':<20}{flash_bytes:>8,}  of them {model_bytes:,} the model; "
          f"{cmake_flash_bytes:,} by CMake; from {len(bundled['files'])} files")
    print(f"{'  RAM':<20}{ram_bytes:>8,}  {cmake_ram_bytes:,} by CMake")
    code_bytes, cmake_code_bytes = flash_bytes - model_bytes, cmake_flash_bytes - model_bytes
    for what, found, expected in (("code", code_bytes, cmake_code_bytes),
                                  ("RAM", ram_bytes, cmake_ram_bytes)):
        if abs(found - expected) * 100 <= expected:
            check.passed += 1
        else:
            check.failures.append(f"{BARE_TARGET}: the bundle's {what} of {found:,} bytes and that "
                                  f"of CMake's build, {expected:,}, differ by more than 1 %")


def print_stack(root, check):
    """The most that any call took, painted by the device tests."""
    tests = root / "build-cortex-m7" / "tests" / "device" / "device_tests"
    # Semihosting may write to either stream.
    output = subprocess.run([*EMULATOR, str(tests)], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, encoding="utf-8").stdout
    calls = re.findall(r"^stack\s+(\d+)  (.+)$", output, re.MULTILINE)
    bound = re.search(r"^stack bound\s+(\d+)$", output, re.MULTILINE)
    if not calls or not bound:
        check.failures.append(f"{tests} printed no use of the stack")
        return
    deepest_bytes, call = max((int(size_bytes), call) for size_bytes, call in calls)
    print(f"{'stack':<20}{deepest_bytes:>8,}  at most, by {call}; of all models and calls\n")
    if deepest_bytes <= int(bound.group(1)):
        check.passed += 1
    else:
        check.failures.append(f"{call} takes {deepest_bytes} bytes of stack, "
                              f"runtime/format/bounds.h says {bound.group(1)}")


# Where people read how large parts are.
PAGES = {
    "README.md": ("runtime", "terse"),
    "runtime/README.md": ("runtime", "terse", "c", "kernels", "image", "terse-image", "model-image",
                          "q8", "q4"),
}
README_TARGETS = ("x86-64", BARE_TARGET)


def check_pages(root, check):
    """The pages have what was found, within 1 %."""
    for page, parts in PAGES.items():
        text = (root / page).read_text()
        numbers = [int(word.replace(",", "")) for word in re.findall(r"\b\d+(?:,\d{3})+\b", text)]
        for (target, part), used_bytes in check.used.items():
            if part not in parts or (page == "README.md" and target not in README_TARGETS):
                continue
            if any(abs(number - used_bytes) * 100 <= used_bytes for number in numbers):
                check.passed += 1
            else:
                check.failures.append(f"{page} does not say {used_bytes:,}, as {target} {part} is")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(sys.argv[1]).resolve()
    check = BudgetCheck()
    code_bytes = print_code(root, check)
    print_features(root)
    print_kernels(root)
    print_models(root, code_bytes, check)
    print_images(root, check)
    print_few_bits(root, check)
    print_bundle(root, check)
    print_stack(root, check)
    check_archives(root, check)
    check_pages(root, check)
    check.print_failures()
    print(f"{check.passed} passed, {len(check.failures)} failed")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
