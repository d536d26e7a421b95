# SPDX-License-Identifier: Apache-2.0
"""Rules about any file: licence line, length, leftovers, names at the top level, formatting.

A rule takes the list of files and returns its findings, each a string "path:line: what is wrong".
"""

import ast
import re
import shutil
import subprocess

from source_tree import ROOT, cpp_functions

LINES_MAX = 400
COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 80

TOP_LEVEL = re.compile(
    r"\.[^/]+|runtime|models|tools|tests|examples"
    r"|Makefile|CMakeLists\.txt|CMakePresets\.json|README\.md|LICENSE"
)
LEFTOVERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")


def every_source_starts_with_its_licence(files):
    findings = []
    for file in (f for f in files if f.is_source):
        lines = file.lines[1:] if file.text.startswith("#!") else file.lines
        if not lines or not re.fullmatch(r"(//|#) SPDX-License-Identifier: Apache-2\.0", lines[0]):
            findings.append(f"{file.path}:1: the SPDX line must come first")
        elif len(lines) < 2 or not re.match(r'(//|#|""")', lines[1]):
            findings.append(f"{file.path}:2: a comment must say what the file does")
    return findings


def readme_shows_the_examples(files):
    """Each piece of C or C++ in the README is from an example that the tests compile and run."""
    texts = {file.path: file.text for file in files}
    examples = {
        path: {line.strip() for line in text.splitlines()}
        for path, text in texts.items()
        if re.fullmatch(r"examples/\w+/main\.cc?", path)
    }
    findings = []
    for block in re.findall(r"```(?:cpp|c)\n(.*?)```", texts.get("README.md", ""), re.S):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        missing = {path: [n for n in lines if n not in has] for path, has in examples.items()}
        if missing and all(missing.values()):
            nearest = min(missing, key=lambda path: len(missing[path]))
            findings += [f"README.md: not in {nearest}: {line}" for line in missing[nearest]]
    return findings


def no_source_is_too_long(files):
    return [
        f"{file.path}:{len(file.lines)}: more than {LINES_MAX} lines; is it still one thing?"
        for file in files
        if file.is_source and len(file.lines) > LINES_MAX
    ]


def no_line_is_too_wide(files):
    """A line with a web address may be as wide as the address is."""
    return [
        f"{file.path}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"
        for file in files
        if file.is_source
        for number, line in enumerate(file.lines, 1)
        if len(line) > COLUMNS_MAX and "://" not in line
    ]


def no_leftovers(files):
    return [
        f"{file.path}:{number}: leftover: {line.strip()}"
        for file in files
        if file.is_source or file.path.endswith(".md")
        for number, line in enumerate(file.lines, 1)
        if LEFTOVERS.search(line)
    ]


def no_whitespace_at_line_ends(files):
    return [
        f"{file.path}:{number}: space at the end of the line"
        for file in files
        if file.is_source
        for number, line in enumerate(file.lines, 1)
        if line != line.rstrip()
    ]


def only_known_names_at_the_top(files):
    names = sorted({file.path.split("/")[0] for file in files})
    return [f"{name}: does not belong at the top level" for name in names
            if not TOP_LEVEL.fullmatch(name)]


def python_parses(files):
    findings = []
    for file in (f for f in files if f.is_python):
        try:
            ast.parse(file.text)
        except SyntaxError as error:
            findings.append(f"{file.path}:{error.lineno}: {error.msg}")
    return findings


def long_functions(files):
    """A warning only: counting braces is no parser, and a long table is no crime."""
    findings = []
    for file in files:
        if file.is_cpp:
            spans = cpp_functions(file.code())
        elif file.is_python:
            nodes = ast.walk(ast.parse(file.text))
            spans = [(n.lineno, n.end_lineno) for n in nodes if isinstance(n, ast.FunctionDef)]
        else:
            continue
        for first, last in spans:
            if last - first + 1 > FUNCTION_LINES_MAX:
                findings.append(f"{file.path}:{first}: function of {last - first + 1} lines")
    return findings


def find_clang_format():
    """The formatter, Debian 12's version where there are several; None where there is none."""
    return shutil.which("clang-format-14") or shutil.which("clang-format")


def cpp_is_formatted(files):
    paths = [file.path for file in files if file.is_cpp]
    command = [find_clang_format(), "--dry-run", "-Werror", *paths]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return []
    return [line for line in result.stderr.splitlines() if ": error:" in line] or [result.stderr]
