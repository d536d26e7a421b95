# SPDX-License-Identifier: Apache-2.0
"""Numbers that tests recorded of themselves, and the file of figures that they go to."""

import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


def run_tests(program, name_filter):
    """Numbers that the tests recorded: a list of dictionaries, one for each test that ran."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([Path(program).resolve(), "--gtest_brief=1",
                        f"--gtest_filter={name_filter}",
                        f"--gtest_output=json:{file.name}"], check=True)
        suites = json.loads(Path(file.name).read_text(encoding="utf-8"))["testsuites"]
    return [{key: int(value) for key, value in test.items()
             if isinstance(value, str) and value.isdigit()}
            for suite in suites for test in suite["testsuite"] if test["result"] == "COMPLETED"]


def total(tests, key):
    return sum(test.get(key, 0) for test in tests)


def largest(tests, key):
    return max(test.get(key, 0) for test in tests)


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def write(name, summary, details="", **more):
    """Writes what was measured to NAME.json, beside this file, with date, compiler and commit, and
    renders the pages of all figures."""
    result = {
        "date": datetime.date.today().isoformat(),
        "compiler": output_of("c++", "--version").splitlines()[0],
        "commit": output_of("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip(),
        "summary": summary,
    }
    if details:
        result["details"] = details
    result.update(more)
    text = json.dumps(result, indent=1) + "\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, FOLDER / "write_figures.py"], check=True)
    print(text)
