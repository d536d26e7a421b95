# SPDX-License-Identifier: Apache-2.0
"""Rules about who may include whom, and about words that have no place in the runtime."""

import re
from collections import defaultdict
from pathlib import PurePosixPath

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# A folder of runtime/ and the folders of runtime/ that it may include. The public headers may be
# included by all, and include only each other.
MAY_INCLUDE = {
    "include": set(),
    "c": {"c"},
    "core": {"core"},
    "format": {"core", "format"},
    "kernels": {"core", "kernels"},
    "ops": {"core", "kernels", "ops"},
    "sound": {"core", "kernels", "ops", "sound"},
    "session": {"core", "format", "kernels", "ops", "session", "sound"},
    "text": {"core", "format", "text"},
}

# The folders of tools/, from the bottom up. A folder includes those of earlier rows, and of its own
# row as long as that makes no cycle. All may include the runtime, which includes none of them.
TOOLS_ROWS = [
    {"tools/convert/files", "tools/convert/quantize"},
    {"tools/convert/masks", "tools/convert/tokenizers"},
    {"tools/convert/spec"},
    {"tools/convert/gguf", "tools/convert/graph", "tools/convert/sound",
     "tools/convert/exported/read"},
    {"tools/convert/exported/aten", "tools/convert/open"},
    {"tools/convert/exported/recover", "tools/convert/exported/sound"},
    {"tools/convert/exported/trace"},
    {"tools/convert/exported"},
    {"tools/convert/families", "tools/convert/modules"},
    {"tools/convert/passes", "tools/convert/program"},
    {"tools/convert/check"},
    {"tools/convert/calibrate"},
    {"tools/convert"},
    {"tools/cli"},
    # What a program of somebody else's begins with.
    {"tools/bundle", "tools/bundle/pico", "tools/bundle/programs"},
]

# Where an include in quotes is looked for.
INCLUDE_ROOTS = ("runtime/", "runtime/include/", "tools/")

# System headers with a folder in their name that the runtime may use: CPU features on ARM Linux.
SYSTEM_HEADERS = {"sys/auxv.h", "asm/hwcap.h"}

# Headers that bring the heap, streams, threads or exceptions.
FORBIDDEN_HEADERS = set(
    "any deque forward_list fstream functional future iomanip ios iostream istream list locale map "
    "memory_resource mutex ostream queue regex set sstream stack stdexcept streambuf string "
    "syncstream thread unordered_map unordered_set valarray vector stdio.h cstdio malloc.h "
    "shared_mutex condition_variable stop_token exception typeinfo filesystem".split()
)

FORBIDDEN_WORDS = [
    (r"\bnew\b(?!\s*\()", "new; only placement new into the arena is allowed"),
    (r"\bnothrow\b", "new(std::nothrow) still allocates"),
    (r"\bdelete\b", "delete"),
    (r"\b(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|alloca|mmap)\s*\(", "allocation"),
    (r"\bstd::(w|u8|u16|u32)?string\b", "std::string"),
    (r"\bstd::(vector|function|any|deque|list|map|set|unordered_\w+|multi\w+)\b", "std container"),
    (r"\bstd::(unique_ptr|shared_ptr|make_unique|make_shared|allocator)\b", "heap ownership"),
    (r"\bstd::(cout|cerr|clog|[io]?f?stream|[io]?stringstream)\b", "streams"),
    (r"\b(f|s|sn|v|vf|vs|vsn)?printf\s*\(|\bputs\s*\(", "printing"),
    (r"\b(throw|try|catch|dynamic_cast|typeid)\b", "exceptions or RTTI"),
    (r"\b(abort|exit|_exit|terminate)\s*\(", "the death of the process"),
    (r"\bthread_local\b", "thread_local"),
]

# What the tools write goes through these files, where a test makes every call fail: they write
# under a temporary name and rename. process.cc holds closed streams open.
WRITERS = {
    "tools/convert/files/output_files.cc",
    "tools/convert/files/temporary_names.cc",
    "tools/cli/process.cc",
    "tools/cli/bundle_folder.cc",  # what an earlier bundle left
}
WRITES_FILES = re.compile(
    r"\b(?:o?fstream|filebuf|fopen|freopen|open_memstream|mkstemp|mkdtemp|tmpfile|creat|openat"
    r"|O_WRONLY|O_RDWR|O_CREAT|mkdir|mkdirat|renameat2?|linkat|unlinkat|rmdir|ftruncate"
    r"|copy_file|create_director(?:y|ies)|create_symlink|create_hard_link|remove_all|resize_file)\b"
    r"|\b(?:fs|filesystem|std)::(?:rename|remove|copy)\s*\((?!\s*\w+\.begin)"
    r"|(?<![\w.>:])(?:::)?(?:rename|unlink|link|symlink|pwrite)\s*\("
)

# Indented, and no parameter list before the initializer: a static variable in a function or class.
STATIC_VARIABLE = re.compile(
    r"^[ \t]+(?:inline\s+)?static\s+(?!constexpr\b|constinit\s+const\b)(?:[^();={}]|\(\*)*?[=;{]",
    re.MULTILINE,
)


def includes_of(file):
    """Yields (line, is_quoted, path) of each include line that is not commented out."""
    commented = re.sub(r"//[^\n]*", "", file.text)
    for match in INCLUDE.finditer(commented):
        line = commented.count("\n", 0, match.start(2)) + 1
        yield line, match.group(1) == '"', match.group(2)


def runtime_includes_point_one_way(files):
    findings = []
    for file in files:
        if not (file.is_cpp and file.path.startswith("runtime/")):
            continue
        folder = file.path.split("/")[1]
        if folder not in MAY_INCLUDE:
            findings.append(f"{file.path}:1: runtime/{folder} is no folder of the runtime")
            continue
        for line, quoted, path in includes_of(file):
            problem = runtime_include_problem(folder, quoted, path)
            if problem:
                findings.append(f"{file.path}:{line}: {path}: {problem}")
    return findings


def runtime_include_problem(folder, quoted, path):
    """Why a file of runtime/`folder` may not include `path`, or None."""
    first = path.split("/")[0]
    if ".." in path.split("/"):
        return "an include is spelled from the root of its include folder"
    if first == "flatbuffers" or path == "model_generated.h":
        return None if folder == "format" else "only runtime/format sees FlatBuffers"
    if first == "xnnpack" or path == "xnnpack.h":
        return None if folder == "kernels" else "only runtime/kernels sees XNNPACK"
    if path == "arenite_needs.h":
        return None if folder == "core" else "only core/needs.h sees what the build leaves out"
    if not quoted:
        if path in FORBIDDEN_HEADERS:
            return "this header brings the heap, streams, threads or exceptions"
        if folder == "include" and path in ("cassert", "assert.h"):
            return "an assert of libc links its output into firmware: Result::require traps"
        if "/" in path and path not in SYSTEM_HEADERS:
            return "the runtime includes nothing from outside"
        return None
    if first == "arenite":
        return None
    if first not in MAY_INCLUDE or first == "include" or "/" not in path:
        return "the runtime includes nothing from outside, and names its own by folder"
    if first not in MAY_INCLUDE[folder]:
        return f"runtime/{folder} may not include runtime/{first}"
    return None


def tools_and_examples_include_what_they_may(files):
    findings = []
    for file in files:
        if not file.is_cpp or not file.path.startswith(("tools/", "examples/")):
            continue
        if file.path.startswith("tools/cmake/"):
            continue
        for line, quoted, path in includes_of(file):
            first = path.split("/")[0]
            own = "/" not in path  # a header beside the example, or generated for it
            if file.path.startswith("examples/") and quoted and first != "arenite" and not own:
                findings.append(f"{file.path}:{line}: {path}: examples include only arenite/")
            if first in ("xnnpack", "xnnpack.h", "tests"):
                findings.append(f"{file.path}:{line}: {path}: not for tools and examples")
    return findings


def folder_of(path):
    return str(PurePosixPath(path).parent)


def folder_includes(files):
    """{(folder, folder that it includes): ["path:line", ...]} of runtime/ and tools/."""
    paths = {file.path for file in files}
    edges = defaultdict(list)
    for file in files:
        if not file.is_cpp or not file.path.startswith(("runtime/", "tools/")):
            continue
        for line, quoted, path in includes_of(file):
            found = next((root + path for root in INCLUDE_ROOTS if root + path in paths), None)
            if quoted and found and folder_of(found) != folder_of(file.path):
                edges[folder_of(file.path), folder_of(found)].append(f"{file.path}:{line}")
    return edges


def tools_include_downwards(files):
    """No folder of tools/ includes one that TOOLS_ROWS has further up, or none at all."""
    row_of = {folder: row for row, folders in enumerate(TOOLS_ROWS) for folder in folders}
    folders = {folder_of(file.path) for file in files
               if file.is_cpp and file.path.startswith("tools/")
               and not file.path.startswith("tools/cmake/")}
    findings = [f"{folder}: has no row in TOOLS_ROWS of runtime_rules.py"
                for folder in sorted(folders - row_of.keys())]
    for (user, used), places in sorted(folder_includes(files).items()):
        if user in row_of and used in row_of and row_of[used] > row_of[user]:
            findings.append(f"{places[0]}: {user} may not include {used} "
                            f"({len(places)} such include{'s'[:len(places) > 1]})")
    return findings


def folders_make_no_cycles(files):
    """No folder of runtime/ and tools/ includes itself by way of others."""
    edges = folder_includes(files)
    uses = defaultdict(set)
    for user, used in edges:
        uses[user].add(used)

    def way(start, end):
        """The shortest list of folders from `start` to `end`, or None."""
        ways, seen = [[start]], {start}
        for path in ways:
            if path[-1] == end:
                return path
            ways += [path + [folder] for folder in sorted(uses[path[-1]] - seen)]
            seen |= uses[path[-1]]
        return None

    ways_back = [[user] + back for user, used in sorted(edges) if (back := way(used, user))]
    findings, known = [], []
    for cycle in sorted(ways_back, key=len):
        if any(shorter <= set(cycle) for shorter in known):
            continue
        known.append(set(cycle))
        places = [edges[pair][0] for pair in zip(cycle, cycle[1:])]
        findings.append(f"{places[0]}: a cycle: {' -> '.join(cycle)} ({', '.join(places)})")
    return findings


def header_names_are_used_once(files):
    """A header of runtime/ or tools/ has its name for itself, so that a name says which it is."""
    folders = defaultdict(list)
    for file in files:
        if file.path.startswith(("runtime/", "tools/")) and file.path.endswith(".h") \
                and not file.path.startswith("tools/cmake/"):
            folders[PurePosixPath(file.path).name].append(file.path)
    return [f"{paths[1]}:1: there is {paths[0]}, too; give one another name"
            for paths in folders.values() if len(paths) > 1]


def runtime_avoids_forbidden_words(files):
    findings = []
    for file in files:
        if not (file.is_cpp and file.path.startswith("runtime/")):
            continue
        code = file.code()
        # Include lines have their own rule; a deleted function or operator allocates nothing.
        code = re.sub(r"(?m)^\s*#\s*include.*$", "", code)
        code = re.sub(r"=\s*delete\b|\boperator\s+(new|delete)\b", "", code)
        for pattern, name in FORBIDDEN_WORDS:
            for match in re.finditer(pattern, code):
                findings.append(f"{file.path}:{line_of(code, match)}: forbidden here: {name}")
        for match in STATIC_VARIABLE.finditer(code):
            findings.append(f"{file.path}:{line_of(code, match)}: forbidden here: static variable")
    return findings


def only_writers_open_files_for_writing(files):
    findings = []
    for file in files:
        if not (file.is_cpp and file.path.startswith(("tools/cli/", "tools/convert/"))):
            continue
        if file.path in WRITERS:
            continue
        code = re.sub(r"(?m)^\s*#\s*include.*$", "", file.code())
        findings += [f"{file.path}:{line_of(code, match)}: {match.group(0)}: write files by way of "
                     "convert/files/output_files.h"
                     for match in WRITES_FILES.finditer(code)]
    return findings


def line_of(code, match):
    """The line, from 1, on which the last character of the match stands."""
    return code.count("\n", 0, match.end() - 1) + 1
