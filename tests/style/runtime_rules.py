# SPDX-License-Identifier: Apache-2.0
"""Rules about who may include whom, and about words that have no place in the runtime."""

import re

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
    "session": {"core", "format", "kernels", "ops", "session"},
    "text": {"core", "format", "text"},
}

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


def line_of(code, match):
    """The line, from 1, on which the last character of the match stands."""
    return code.count("\n", 0, match.end() - 1) + 1
