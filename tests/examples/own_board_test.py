#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of examples/boards/README.md, in order and in one folder, and compares what
they print with what the page shows, numbers aside. `--update` writes it into the page.

Usage: own_board_test.py ARENITE WORK_FOLDER [--update]
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "examples" / "boards" / "README.md"
# A command, and what it prints where the page shows that.
STEP = re.compile(r"```sh\n(?P<command>.*?)```\n(?:\n```text\n(?P<shown>.*?)```\n)?", re.DOTALL)


def prepare(arenite, work):
    """The page's commands run at the top of the tree, without writing into it."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "build").mkdir(parents=True)
    (work / "build" / "arenite").symlink_to(arenite)
    for name in ("models", "examples"):
        (work / name).symlink_to(ROOT / name)
    environment = dict(os.environ, LC_ALL="C", MAKEFLAGS=f"-j{os.cpu_count()}")
    if shutil.which("ccache"):
        (work / "bin").mkdir()
        for tool in ("arm-none-eabi-gcc", "arm-none-eabi-g++"):
            (work / "bin" / tool).symlink_to(shutil.which("ccache"))
        environment["PATH"] = f"{work / 'bin'}:{environment['PATH']}"
    return environment


def without_numbers(text):
    return re.sub(r"[0-9]+", "N", text)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    work = Path(arguments[1]).resolve()
    environment = prepare(Path(arguments[0]).resolve(), work)
    page = PAGE.read_text()
    passed, failed, updated = 0, 0, page
    for step in STEP.finditer(page):
        result = subprocess.run(["sh", "-e", "-c", step["command"]], cwd=work, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                check=False, timeout=300)
        shown = step["shown"]
        right = result.returncode == 0 and (
            shown is None or without_numbers(shown) == without_numbers(result.stdout))
        passed += right
        failed += not right
        print(f"{'pass' if right else 'FAIL'}  {step['command'].splitlines()[0]}")
        if not right:
            print(f"exit code {result.returncode}, printed:\n{result.stdout}")
        if result.returncode == 0 and shown is not None:
            updated = updated.replace(step[0], step[0].replace(f"```text\n{shown}```",
                                                               f"```text\n{result.stdout}```"))
    if "--update" in sys.argv:
        PAGE.write_text(updated)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
