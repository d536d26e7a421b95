# SPDX-License-Identifier: Apache-2.0
"""The files of the project, and the little that the rules need to understand of C++."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CPP_SUFFIXES = {".cc", ".h", ".c"}
SCRIPT_SUFFIXES = {".py", ".sh", ".cmake", ".in", ".fbs"}
SCRIPT_NAMES = {"CMakeLists.txt", "Makefile"}


class SourceFile:
    """A text file: `path` is relative to the root, with forward slashes."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.splitlines()
        suffix = Path(path).suffix
        self.is_cpp = suffix in CPP_SUFFIXES
        self.is_python = suffix == ".py"
        self.is_source = (
            self.is_cpp
            or suffix in SCRIPT_SUFFIXES
            or Path(path).name in SCRIPT_NAMES
            or text.startswith("#!")
        )

    def code(self):
        """The C++ text with comments and the insides of literals blanked, lines kept."""
        return strip_cpp(self.text)


def strip_cpp(text):
    """Replaces comments by spaces and empties string and character literals; newlines stay."""
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/"
        r'|R"(?P<tag>[^(\s]{0,16})\(.*?\)(?P=tag)"'
        r'|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
        re.DOTALL,
    )

    def blank(match):
        found = match.group(0)
        newlines = "\n" * found.count("\n")
        if found.startswith("/"):
            return " " + newlines
        return found[-1] * 2 + newlines

    return pattern.sub(blank, text)


def tracked_paths():
    """Paths of the files that belong to the project: git's view, or a walk without git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        paths = listed.stdout.decode().split("\0")
        return sorted({path for path in paths if path and (ROOT / path).is_file()})
    except (OSError, subprocess.CalledProcessError):
        skipped = re.compile(r"(build|build-[^/]*|\.cache|\.git)/|(.*/)?__pycache__/")
        paths = (p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.is_file())
        return sorted(path for path in paths if not skipped.match(path))


def load_files():
    """All text files of the project."""
    files = []
    for path in tracked_paths():
        data = (ROOT / path).read_bytes()
        if b"\0" in data:
            continue
        files.append(SourceFile(path, data.decode("utf-8", "replace")))
    return files


def cpp_functions(code):
    """Yields (first_line, last_line) of the functions in stripped C++ text, by counting braces.

    A brace opens a function when the text since the last `;`, `{` or `}`, without directives of the
    preprocessor, holds a parameter list and no enclosing brace is a function already. Lines count
    from 1.
    """
    stack = []
    start = 0
    for match in re.finditer(r"[;{}]", code):
        here = match.start()
        if match.group() == "{":
            head = re.sub(r"^\s*#.*", "", code[start:here], flags=re.M).strip()
            inside = any(kind for kind, _ in stack)
            is_function = (
                not inside
                and ")" in head
                and not re.match(r"(namespace|class|struct|enum|union|extern)\b", head)
                and not re.search(r"=\s*$", head)
            )
            first = here - len(code[start:here].lstrip())
            stack.append((is_function, code.count("\n", 0, first) + 1))
        elif match.group() == "}" and stack:
            is_function, first_line = stack.pop()
            if is_function:
                yield first_line, code.count("\n", 0, here) + 1
        start = here + 1
