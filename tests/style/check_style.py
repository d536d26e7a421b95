#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules that hold for the source tree; prints `N passed, N failed` as its last line."""

import sys
import unittest

import figure_rules
import file_rules
import runtime_rules
import style_test
from source_tree import load_files

RULES = [
    file_rules.every_source_starts_with_its_licence,
    file_rules.no_file_comment_restates_its_name,
    file_rules.markdown_wraps,
    file_rules.markdown_links_exist,
    file_rules.words_are_plain,
    file_rules.comments_have_a_subject,
    file_rules.readme_shows_the_examples,
    file_rules.no_source_is_too_long,
    file_rules.no_line_is_too_wide,
    file_rules.no_leftovers,
    file_rules.no_whitespace_at_line_ends,
    file_rules.only_known_names_at_the_top,
    file_rules.python_parses,
    runtime_rules.runtime_includes_point_one_way,
    runtime_rules.tools_and_examples_include_what_they_may,
    runtime_rules.tools_include_downwards,
    runtime_rules.folders_make_no_cycles,
    runtime_rules.header_names_are_used_once,
    runtime_rules.runtime_avoids_forbidden_words,
    runtime_rules.only_writers_open_files_for_writing,
    figure_rules.figures_are_those_that_were_measured,
    figure_rules.readme_has_no_other_figures,
]


def rules_catch_what_they_should(_files):
    """A rule that never fires looks like a tree without faults, so the rules are tested first."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromModule(style_test).run(result)
    return [f"{test.id()}: {text}" for test, text in result.failures + result.errors]


def main():
    files = load_files()
    rules = [rules_catch_what_they_should] + RULES
    if file_rules.find_clang_format():
        rules.append(file_rules.cpp_is_formatted)
    else:
        print("note: clang-format is not installed, so the formatting is not checked")
    failed = 0
    for rule in rules:
        findings = rule(files)
        failed += bool(findings)
        print(f"{'FAIL' if findings else 'pass'}  {rule.__name__}")
        for finding in findings:
            print(f"      {finding}")
    for warning in file_rules.long_functions(files):
        print(f"warning: {warning}")
    print(f"{len(rules) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
