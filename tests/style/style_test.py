# SPDX-License-Identifier: Apache-2.0
"""Tests of the style rules on small good and bad files."""

import unittest

import figure_rules
import file_rules
import runtime_rules
from source_tree import SourceFile, cpp_functions, strip_cpp

HEADER = "// SPDX-License-Identifier: Apache-2.0\n// Does something.\n"


def findings(rule, path, text):
    return rule([SourceFile(path, text)])


class FileRules(unittest.TestCase):
    def test_licence_must_come_first(self):
        rule = file_rules.every_source_starts_with_its_licence
        self.assertFalse(findings(rule, "runtime/core/a.h", HEADER))
        self.assertFalse(findings(rule, "tools/a.sh", "#!/bin/sh\n" + HEADER.replace("//", "#")))
        self.assertTrue(findings(rule, "runtime/core/a.h", "#pragma once\n" + HEADER))
        self.assertTrue(findings(rule, "runtime/core/a.h", HEADER.splitlines()[0] + "\n\nint a;"))

    def comment_findings(self, path, text):
        rule = file_rules.no_file_comment_restates_its_name
        return findings(rule, path, HEADER.splitlines()[0] + "\n" + text + "\n")

    def test_a_file_comment_that_says_the_name_again_is_refused(self):
        for path, text in [
            ("runtime/text/text_stream.cc", "// The text stream."),
            ("tools/cli/embed_header.h", "// Helper functions for embedded headers."),
            ("tests/cli/signals_test.cc", "// Tests of signals."),
            ("runtime/core/utf8.h", "//"),
            ("runtime/core/a.h", "#pragma once"),
            ("runtime/core/a.cc", '#include "core/b.h"'),
            ("tools/cmake/toolchain.cmake", "# CMake toolchain file."),
            ("models/recall/train.py", '"""Trains recall."""'),
        ]:
            self.assertTrue(self.comment_findings(path, text), (path, text))

    def test_a_file_comment_that_says_more_is_allowed(self):
        for path, text in [
            ("runtime/text/text_stream.cc", "// Whole characters\n// out of tokens."),
            ("tests/cli/signals_test.cc", "// Tests of signals: no temporary file stays there."),
            ("runtime/core/a.cc", '#include "core/a.h"'),
            ("models/recall/train.py", '"""Trains the module and writes its weights."""'),
        ]:
            self.assertFalse(self.comment_findings(path, text), (path, text))

    def test_comments_have_a_subject(self):
        rule = file_rules.comments_have_a_subject
        for text in ["// Of a model.", "int a;  // What it holds.", "// The same\n// of rows.",
                     "// It is what one\n// has that lacks a name."]:
            self.assertTrue(findings(rule, "runtime/core/a.h", text), text)
            self.assertTrue(findings(rule, "tools/convert/exported/a.h", text), text)
        for text in ["// Returns what it holds.", 'f("Of a");', "// Offsets of rows.",
                     "// A row of\n// Of the file."]:
            self.assertFalse(findings(rule, "runtime/core/a.h", text), text)

    def test_words_have_one_meaning(self):
        rule = file_rules.words_are_plain
        for text in ["The end behind it.", "Leave the option away.", "a packed batch"]:
            self.assertTrue(findings(rule, "a.md", text), text)
            self.assertTrue(findings(rule, "runtime/core/a.h", f"int a;  // {text}"), text)
            self.assertFalse(findings(rule, "runtime/core/a.h", f'f("{text}");'), text)
        for text in ["Nothing is left behind.", "No file stays behind.", "packed weights"]:
            self.assertFalse(findings(rule, "a.md", text), text)

    def test_wide_markdown_is_refused(self):
        rule = file_rules.markdown_wraps
        for text in [
            "word " * 21,
            "# " + "word " * 21,
            "* [a link](" + "x" * 100 + ")",
            "```\ncode\n```\n" + "word " * 21,
            "````\n```\n````\n" + "word " * 21,
            "| cell " * 20 + "|",
            "```sh\n" + "word " * 21 + "\n```",
            "− word " + "x" * 92,
            "東京 " * 15,
            "```sh word\nword ```\n",
        ]:
            self.assertTrue(findings(rule, "a.md", text), text)

    def test_what_fits_or_cannot_wrap_is_allowed(self):
        rule = file_rules.markdown_wraps
        for text in [
            "x" * 100,
            "| cell " * 14 + "|",
            "```sh\n" + "word " * 20 + "\n```",
            "````\n```\n" + "word " * 20 + "\n````",
            "− word " + "x" * 91,
            "  * <https://" + "x" * 100 + ">",
            "1. [link](" + "x" * 100 + ")",
        ]:
            self.assertFalse(findings(rule, "a.md", text), text)
        self.assertFalse(findings(rule, "runtime/core/a.h", "word " * 21))

    def test_markdown_links_must_exist(self):
        page = SourceFile("runtime/a.md",
                          "# One, `two`\n```\n# Three\n```\n## [Four](a.md)\n## Four\n")
        for text, good in [
            ("[a](runtime/a.md)", True), ("[a](runtime)", True), ("[a](runtime/)", True),
            ("[a](runtime/b.md)", False), ("[a](b)", False), ("![a](a.svg)", False),
            ("[a](runtime/a.md#one-two)", True), ("[a](runtime/a.md#four-1)", True),
            ("[a](runtime/a.md#three)", False), ("[a](runtime/a.md#four-2)", False),
            ("# Here\n[a](#here)", True), ("[a](#here)", False), ("[a](https://b)", True),
            ("`[a](b)`", True), ("```\n[a](b)\n```", True), ("x[i][j]", True),
            ("[a][b]\n\n[b]: runtime/a.md", True), ("[a][b]\n\n[b]: a.md", False),
            ("[a][c]\n\n[b]: runtime/a.md", False), ("[a\nb](c)", False),
        ]:
            found = file_rules.markdown_links_exist([page, SourceFile("b.md", text)])
            self.assertEqual(not found, good, (text, found))
        bundled = SourceFile(file_rules.PAGE_OF_BUNDLES, "[a](LICENSE)")
        self.assertFalse(file_rules.markdown_links_exist([bundled]))

    def test_readme_must_show_the_example(self):
        example = SourceFile("examples/hello/main.cc", HEADER + "int main() {\n  run();\n}\n")
        good = SourceFile("README.md", "```cpp\nint main() {\n    run();\n```\n")
        bad = SourceFile("README.md", "```cpp\nint main() {\n    walk();\n```\n")
        self.assertFalse(file_rules.readme_shows_the_examples([example, good]))
        self.assertTrue(file_rules.readme_shows_the_examples([example, bad]))

    def test_leftovers_are_found(self):
        bad = HEADER + "// TO" "DO: finish\n"
        self.assertTrue(findings(file_rules.no_leftovers, "runtime/core/a.h", bad))
        self.assertFalse(findings(file_rules.no_leftovers, "runtime/core/a.h", HEADER))

    def test_top_level_is_closed(self):
        rule = file_rules.only_known_names_at_the_top
        self.assertTrue(findings(rule, "notes.txt", ""))
        self.assertTrue(findings(rule, "docs/a.md", ""))
        self.assertFalse(findings(rule, "runtime/a.md", ""))
        self.assertFalse(findings(rule, ".clang-tidy", ""))

    def test_functions_are_measured(self):
        code = strip_cpp("namespace a {\nint f(int x) {\n  if (x) {\n  }\n  return '}';\n}\n}\n")
        self.assertEqual(list(cpp_functions(code)), [(2, 6)])
        method = strip_cpp("class A {\n  int g() const {\n    return 1;\n  }\n};\n")
        self.assertEqual(list(cpp_functions(method)), [(2, 4)])
        guarded = "#if defined(A)\nnamespace a {\nint f() {\n}\n}\n#endif\n"
        self.assertEqual(list(cpp_functions(guarded)), [(3, 4)])


class FigureRules(unittest.TestCase):
    MEASURED = {"fuzz": {"date": "d", "targets": {"a": {"executions": 2_999_999, "open": []},
                                                  "b": {"executions": 1, "open": ["x"]}}},
                "damage": {"date": "d", "variants": 1234},
                "coverage": {"date": "d", "exceptions": 5},
                "speed": {"date": "d", "cpu": "c", "rates": {
                    "peak": {"f32": 0.914}, "share": {"f32": 0.986},
                    "decode 1": {"f32": 2.0, "q8": 6.8, "q4": 10.6},
                    "prompt 1": {"f32": 3.0, "q8": 9.0, "q4": 6.6}}}}
    BUDGETS = {("x86-64", "runtime"): 2345, ("cortex-m7", "runtime"): 6789,
               ("cortex-m7", "terse"): 1000}

    def test_readme_shows_what_was_measured(self):
        first, last = figure_rules.write_figures.README_MARKS
        page = figure_rules.write_figures.readme_page(
            f"a\n{first}old\n{last}b\n", self.MEASURED, self.BUDGETS)
        self.assertTrue(page.startswith("a\n" + first) and page.endswith(last + "b\n"))
        self.assertNotIn("old", page)
        for figure in ("| 1,234 |", "| 3,000,000, 1 |", "| 5 |", "2,345 bytes", "6,789;", " 1,000 ",
                       "| 3 tokens/s, 91 % of peak",
                       "| 2 tokens/s, 99 % of read", "| 3.0, 3.4 times", "| 2.2, 5.3 times"):
            self.assertIn(figure, page)
        self.assertFalse(findings(figure_rules.readme_has_no_other_figures, "README.md", page))
        with self.assertRaises(SystemExit):
            figure_rules.write_figures.readme_page("a\n", self.MEASURED, self.BUDGETS)

    def test_other_figures_of_readme_are_refused(self):
        rule = figure_rules.readme_has_no_other_figures
        for text in ["takes 5 ms", "12 KB of flash", "3,000 weights", "2.5 times as fast", "77 %",
                     "| [a](https://b) | 5 bytes |", "[5 bytes](a.md)"]:
            self.assertTrue(findings(rule, "README.md", text), text)
            self.assertFalse(findings(rule, "a.md", text), text)
        for text in ["`5 ms`", "```\n5 ms\n```", "C++20 and C99", "GPT-2, x86-64, 32-bit, int8",
                     "| [5 bytes](https://b) |", "| [5 bytes][b] |", "Debian 12, CMake 3.25"]:
            self.assertFalse(findings(rule, "README.md", text), text)

    def test_pages_are_made_of_figures(self):
        rule = figure_rules.figures_are_those_that_were_measured
        pages = figure_rules.write_figures.pages()
        self.assertIn("README.md", pages)
        files = {path: SourceFile(path, text) for path, text in pages.items()}
        self.assertFalse(rule(files.values()))
        for path, text in pages.items():
            made = figure_rules.write_figures.MADE
            changed = {**files, path: SourceFile(path, text.replace(made, made + "and more\n"))}
            self.assertEqual(len(rule(changed.values())), 1, path)


class IncludeRules(unittest.TestCase):
    def check(self, path, include, allowed):
        rule = runtime_rules.runtime_includes_point_one_way
        if not path.startswith("runtime/"):
            rule = runtime_rules.tools_and_examples_include_what_they_may
        found = findings(rule, path, HEADER + f"#include {include}\n")
        self.assertEqual(not found, allowed, (path, include, found))

    def test_allowed(self):
        for path, include in [
            ("runtime/core/a.cc", '"arenite/status.h"'),
            ("runtime/core/a.cc", "<cstdint>"),
            ("runtime/core/a.cc", "<sys/auxv.h>"),
            ("runtime/format/a.cc", '"model_generated.h"'),
            ("runtime/core/needs.h", '"arenite_needs.h"'),
            ("runtime/kernels/a.cc", '"xnnpack/gemm.h"'),
            ("runtime/ops/a.cc", '"kernels/kernel_set.h"'),
            ("runtime/session/a.cc", '"format/reader.h"'),
            ("tools/convert/a.cc", '"kernels/packing.h"'),
            ("examples/a.cc", '"arenite/arenite.h"'),
            ("examples/a/main.cc", '"model.h"'),
        ]:
            self.check(path, include, True)

    def test_refused(self):
        for path, include in [
            ("runtime/core/a.cc", '"ops/linear.h"'),
            ("runtime/format/a.cc", '"kernels/packing.h"'),
            ("runtime/kernels/a.cc", '"format/reader.h"'),
            ("runtime/ops/a.cc", '"format/reader.h"'),
            ("runtime/ops/a.cc", '"xnnpack/gemm.h"'),
            ("runtime/ops/a.cc", '"arenite_needs.h"'),
            ("runtime/session/a.cc", '"flatbuffers/flatbuffers.h"'),
            ("runtime/include/arenite/a.h", '"core/arena.h"'),
            ("runtime/core/a.cc", '"../core/arena.h"'),
            ("runtime/core/a.cc", '"convert/packer.h"'),
            ("runtime/core/a.cc", "<vector>"),
            ("runtime/core/a.cc", "<fmt/format.h>"),
            ("runtime/include/arenite/a.h", "<cassert>"),
            ("runtime/odd/a.cc", "<cstdint>"),
            ("tools/convert/a.cc", '"xnnpack/gemm.h"'),
            ("examples/a.cc", '"core/arena.h"'),
        ]:
            self.check(path, include, False)


class FolderRules(unittest.TestCase):
    def tree(self, **includes):
        """Sources by path, with "_" for "/", and the headers that each includes."""
        return [SourceFile(path.replace("_", "/") + ".h",
                           HEADER + "".join(f'#include "{name}.h"\n' for name in names.split()))
                for path, names in includes.items()]

    def test_includes_of_the_tools_point_down(self):
        rule = runtime_rules.tools_include_downwards
        graph, files = "tools_convert_graph_a", "tools_convert_files_a"
        self.assertFalse(rule(self.tree(**{graph: "convert/files/a", files: ""})))
        up = rule(self.tree(**{graph: "", files: "convert/graph/a"}))
        self.assertRegex(up[0], "files/a.h:3: tools/convert/files may not include .*/graph")
        self.assertRegex(rule(self.tree(tools_odd_a=""))[0], "tools/odd: has no row")

    def test_folders_may_not_include_each_other(self):
        rule = runtime_rules.folders_make_no_cycles
        one_way = {"tools_convert_gguf_a": "convert/graph/a convert/gguf/b",
                   "tools_convert_gguf_b": "core/a", "tools_convert_graph_a": "",
                   "runtime_core_a": "arenite/a", "runtime_include_arenite_a": ""}
        self.assertFalse(rule(self.tree(**one_way)))
        # Not the same files, but the same folders: by way of a third one, too.
        third = {"tools_convert_graph_b": "convert/tokenizers/a",
                 "tools_convert_tokenizers_a": "convert/gguf/b"}
        cycles = rule(self.tree(**one_way, **third))
        self.assertEqual(len(cycles), 1)
        for folder in ("gguf", "graph", "tokenizers"):
            self.assertIn(f"tools/convert/{folder}", cycles[0])

    def test_headers_have_names_of_their_own(self):
        rule = runtime_rules.header_names_are_used_once
        self.assertTrue(rule(self.tree(runtime_c_a="", tools_convert_a="")))
        self.assertFalse(rule(self.tree(runtime_c_a="", tools_convert_b="")))


class Writers(unittest.TestCase):
    def found(self, path, code):
        rule = runtime_rules.only_writers_open_files_for_writing
        return findings(rule, path, HEADER + code + "\n")

    def test_only_they_write(self):
        for code in ["std::ofstream out(file);", "FILE* f = fopen(name, mode);",
                     "int d = open(name, O_WRONLY | O_CREAT, 0666);", "std::rename(a, b);",
                     "fs::create_directories(folder);", "unlink(name);", "::rename(a, b);",
                     "std::filesystem::remove(file);", "if (mkdir(name, 0777) != 0) return;"]:
            self.assertTrue(self.found("tools/cli/a.cc", code), code)
            self.assertFalse(self.found("tools/convert/files/output_files.cc", code), code)
            self.assertFalse(self.found("tests/cli/a.cc", code), code)

    def test_others_read(self):
        for code in ["std::ifstream in(file);", "int d = open(name, O_RDONLY);",
                     "// fopen is not used", "#include <fstream>", "graph.link(a, b);",
                     "file.write_at(0, bytes);", "words.remove_prefix(1);",
                     "std::remove(words.begin(), words.end(), 3);"]:
            self.assertFalse(self.found("tools/cli/a.cc", code), code)


class ForbiddenWords(unittest.TestCase):
    def check(self, code, allowed):
        rule = runtime_rules.runtime_avoids_forbidden_words
        found = findings(rule, "runtime/core/a.cc", HEADER + code + "\n")
        self.assertEqual(not found, allowed, (code, found))

    def test_allowed(self):
        for code in [
            "T* t = new (place) T(1);",
            "A(const A&) = delete;",
            "void operator delete(void*) = delete;",
            "std::string_view name;",
            'const char* s = "malloc(1) new int";  // free(p), new, std::vector',
            "  static Result<Model> load(std::span<const std::byte> file);",
            "  static constexpr int kTile = 4;",
            "  static_assert(sizeof(int) == 4);",
            "static int f(int a) {",
            "constexpr Set sets[] = {};",
            "bool free_list = true;",
            "arena.release(1'000'000);",
        ]:
            self.check(code, True)

    def test_refused(self):
        for code in [
            "int* a = new int[3];",
            "int* a = new (std::nothrow) int;",
            "delete a;",
            "return malloc(4);",
            "std::string name;",
            "std::vector<int> v;",
            "std::function<void()> f;",
            "std::unique_ptr<int> p;",
            "throw 1;",
            "std::printf(text);",
            "std::abort();",
            "  static int counter = 0;",
            "  static Table table{1};",
            "  static int counter;",
            "thread_local int x;",
        ]:
            self.check(code, False)


if __name__ == "__main__":
    unittest.main()
