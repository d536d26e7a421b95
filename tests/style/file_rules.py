# SPDX-License-Identifier: Apache-2.0
"""Rules about any file: licence line, length, leftovers, names at the top level, formatting.

A rule takes the list of files and returns its findings, each a string "path:line: what is wrong".
"""

import ast
import posixpath
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path, PurePosixPath

from source_tree import ROOT, cpp_functions, tracked_paths

LINES_MAX = 800
COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 80

TOP_LEVEL = re.compile(
    r"\.[^/]+|runtime|models|tools|tests|examples"
    r"|Makefile|CMakeLists\.txt|CMakePresets\.json|README\.md|LICENSE"
)
# Words that say nothing about a file: little words of English, and what any file is.
EMPTY_WORDS = set(
    "a all an and are as at by for from has have how in into is it its of on or s that the their "
    "them there these they this to what where which with "
    "class classes code common contains definition definitions file files function functions "
    "header helper helpers implementation implements module related source test tests "
    "utilities".split()
)
# What stays or is left behind is a file or a trace; masks and caches have a lookback.
REPLACED_WORDS = [
    (r"(?<!left )(?<!stays )(?<!stay )(?<!nothing )\bbehind\b", "say 'after' or 'lookback'"),
    (r"\b[Ll]eaves? (\w+ ){1,5}away\b", "say 'drop'"),
    (r"\bby a bit\b", "say 'bit-identical'"),
    (r"\bpacked (batch|sequence)", "say 'back to back'; only weights are packed"),
]
CLEAR_FOLDERS = ("runtime/", "tools/", "tests/", "examples/")
CODE_BLOCK = re.compile(r"(?ms)^[ \t]*(```+|~~~+).*?^[ \t]*\1[ \t]*$")
PAGE_OF_BUNDLES = "tools/bundle/README.md"  # its links are relative to a bundle, where it is copied
POINTING_WORDS = {"that", "which", "what", "one", "it"}
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


def stem_of(word):
    """The word without its endings, so that "embedded", "embeds" and "embed" are one."""
    shorter = re.sub(r"(?<=...)(ing|ed|es|s|er|or|ion|e)$", "", word)
    shorter = re.sub(r"(?<=..)([b-df-hj-np-tv-z])\1$", r"\1", shorter)
    return shorter if shorter == word else stem_of(shorter)


def significant_words(text):
    """The stems of the words of a comment, or of a file's name, that say something."""
    words = re.findall(r"[a-z]+|[0-9]+", text.lower())
    return {stem_of(word) for word in words if word not in EMPTY_WORDS}


def file_comment(file):
    """The first comment of a source, below its licence, as one line; of Python the docstring."""
    if file.is_python:
        match = re.search(r'^"""(.*?)"""', file.text, re.S | re.M)
        return " ".join(match.group(1).split()) if match else ""
    mark = "//" if file.is_cpp or file.path.endswith(".fbs") else "#"
    comment = []
    for line in file.lines[1 + file.text.startswith("#!"):]:
        if not line.startswith(mark):
            break
        comment.append(line.removeprefix(mark).strip())
    return " ".join(comment)


def no_file_comment_restates_its_name(files):
    """A file's first comment says more than its path does: at least two words of its own.

    Words count without their endings, and EMPTY_WORDS do not count. A C++ file may have no comment
    where it includes its header at once: then the comment there speaks for both.
    """
    findings = []
    for file in (f for f in files if f.is_source):
        comment = file_comment(file)
        own_header = re.search(r'^#include "(?:.*/)?(\w+)\.h"', file.text, re.M)
        if not comment and own_header and own_header[1] == Path(file.path).stem:
            continue
        own = significant_words(comment) - significant_words(file.path.rsplit(".", 1)[0])
        if len(own) < 2:
            findings.append(f"{file.path}:2: '{comment}' only says the file's name again; say what "
                            "the file does and why it is apart")
    return findings


def words_are_plain(files):
    """Pages and C++ comments avoid words that REPLACED_WORDS has a plainer one for."""
    findings = []
    for file in (f for f in files if f.is_cpp or f.path.endswith(".md")):
        for number, line in enumerate(file.lines, 1):
            prose = line.partition("//")[2] if file.is_cpp else line
            findings += [f"{file.path}:{number}: '{found.group()}': {advice}"
                         for pattern, advice in REPLACED_WORDS
                         for found in re.finditer(pattern, prose)]
    return findings


def comments_of(file):
    """(line, text) of each block of C++ comments, and of each comment after code."""
    block, first = [], 0
    for number, line in enumerate([*file.lines, ""], 1):
        whole = re.match(r"\s*//[/<]?(?: (.*)|$)", line)
        if whole:
            first = first if block else number
            if "SPDX-License" not in line:
                block.append((whole[1] or "").strip())
            continue
        if block:
            yield first, " ".join(block)
            block = []
        after = re.search(r"\S\s+//[/<]* (.*)$", line)
        if after:
            yield number, after[1]


def comments_have_a_subject(files):
    """Comments begin with no word that has lost its subject, and no twelve words of
    them have more than two that point elsewhere."""
    findings = []
    for file in (f for f in files if f.path.startswith(CLEAR_FOLDERS)):
        if not (file.is_cpp or file.path.endswith(".fbs")):
            continue
        for number, text in comments_of(file):
            if re.match(r"(Of|What|The same|As|Nothing where)\b", text):
                findings.append(f"{file.path}:{number}: a comment begins with '{text[:20]}'")
            words = re.findall(r"[a-z']+", text.lower())
            for i in range(max(1, len(words) - 11)):
                near = words[i:i + 12]
                if sum(word in POINTING_WORDS for word in near) > 2:
                    findings.append(f"{file.path}:{number}: '{' '.join(near)}' is hard to follow")
                    break
    return findings


def markdown_wraps(files):
    """A line of Markdown has at most COLUMNS_MAX bytes, in tables and code too; code blocks end.

    Bytes, because some programs show and count them, and no character is wider than its bytes. A
    line that is one word, a long link for instance, cannot be broken. A table with more to say in
    a row is a list.
    """
    findings = []
    for file in (f for f in files if f.path.endswith(".md")):
        fence = ""
        for number, line in enumerate(file.lines, 1):
            mark = re.match(r"\s*(```+|~~~+)", line)
            if mark and (not fence or mark[1].startswith(fence)):
                fence = "" if fence else mark[1]
            is_one_word = len(re.sub(r"^(\s*([-*+>]|\d+\.)\s)*", "", line).split()) < 2
            width = len(line.encode())
            if width > COLUMNS_MAX and not is_one_word:
                findings.append(f"{file.path}:{number}: {width} bytes, at most {COLUMNS_MAX}")
        if fence:
            findings.append(f"{file.path}:{len(file.lines)}: no {fence} ends the last code block")
    return findings


def prose_of(text):
    """Markdown with empty lines in place of code blocks, and without inline code."""
    text = CODE_BLOCK.sub(lambda block: "\n" * block.group().count("\n"), text)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "``", text)


def anchors_of(text):
    """The anchors that GitHub gives the headings of a page; a repeated one ends in a number."""
    counts = Counter()
    for heading in re.findall(r"(?m)^#{1,6} +(.*?)[ #]*$", CODE_BLOCK.sub("", text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        counts[re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")] += 1
    return {f"{slug}-{i}" if i else slug for slug, count in counts.items() for i in range(count)}


def markdown_links_exist(files):
    """Relative links of Markdown name a file or folder of the project, and a heading of it.

    References, `[text][name]`, have a definition, where a page has any. Addresses of the web are
    not opened.
    """
    texts = {file.path: file.text for file in files}
    paths = {*texts, *tracked_paths()}  # binary files have no text
    folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    findings = []
    for file in (f for f in files if f.path.endswith(".md") and f.path != PAGE_OF_BUNDLES):
        prose = prose_of(file.text)
        defined = {name.lower(): target for name, target in
                   re.findall(r"(?m)^ {0,3}\[([^\]]+)\]:\s*(\S+)", prose)}
        for match in re.finditer(r"\]\(\s*<?([^)\s>]+)|\]\[([^\]]*)\]", prose):
            number = prose.count("\n", 0, match.start()) + 1
            target = match[1] or defined.get(match[2].lower())
            if target is None and not defined:
                continue  # a[i][j]
            if target is None:
                findings.append(f"{file.path}:{number}: [{match[2]}] has no definition")
                continue
            if re.match(r"[a-z][a-z+.-]*:", target):
                continue
            path, _, anchor = target.partition("#")
            folder = posixpath.dirname(file.path)
            place = posixpath.normpath(posixpath.join(folder, path)) if path else file.path
            if place not in paths and place not in folders:
                findings.append(f"{file.path}:{number}: {target}: there is no {place}")
            elif anchor and anchor not in anchors_of(texts.get(place, "")):
                findings.append(f"{file.path}:{number}: {target}: no heading of {place} gives that")
    return findings


def readme_shows_the_examples(files):
    """Each piece of C or C++ in these pages is from an example that the tests compile and run."""
    texts = {file.path: file.text for file in files}
    examples = {
        path: {line.strip() for line in text.splitlines()}
        for path, text in texts.items()
        if re.fullmatch(r"examples/\w+/main\.cc?", path)
    }
    findings = []
    for page in ("README.md", "runtime/README.md"):
        for block in re.findall(r"```(?:cpp|c)\n(.*?)```", texts.get(page, ""), re.S):
            lines = [line.strip() for line in block.splitlines() if line.strip()]
            missing = {path: [n for n in lines if n not in has] for path, has in examples.items()}
            if missing and all(missing.values()):
                nearest = min(missing, key=lambda path: len(missing[path]))
                findings += [f"{page}: not in {nearest}: {line}" for line in missing[nearest]]
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
