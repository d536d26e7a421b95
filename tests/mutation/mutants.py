# SPDX-License-Identifier: Apache-2.0
"""Finds the small faults that can be made in a source, in Clang's syntax tree of it.

A mutant replaces one expression or statement. In the mutated source both are there, and a number
chooses one while the program runs, so a file is compiled once for all its mutants.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.append("/usr/lib/python3/dist-packages")  # where Debian has the bindings, for any Python
from clang.cindex import CursorKind as Kind  # noqa: E402
from clang.cindex import Index, TypeKind  # noqa: E402

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<",
              "&": "|", "|": "&", "^": "|"}
ORDERED = {"<", "<=", ">", ">=", "-", "/", "%", "<<", ">>"}  # another result with operands swapped
SYMMETRIC = {"min", "max", "swap", "add", "multiply"}
# Calls that tell a sanitizer what a kernel reads and writes; without one they are empty.
NOTES_FILE = "kernels/thread_check.h"
NOTES = re.compile(r"kernel_(reads|writes)|[\w.>-]+\breserve\(")  # nor does a reserve change much
LINKED = re.compile(r"(any_)?linked\(")  # true where the runtime is built with all of its parts
FUNCTIONS = {Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.FUNCTION_TEMPLATE,
             Kind.CONVERSION_FUNCTION, Kind.DESTRUCTOR}
STATEMENTS = {Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR,
              Kind.UNARY_OPERATOR}
INTEGERS = {TypeKind.UINT, TypeKind.ULONG, TypeKind.INT, TypeKind.LONG, TypeKind.USHORT,
            TypeKind.UCHAR, TypeKind.ULONGLONG, TypeKind.LONGLONG, TypeKind.SHORT, TypeKind.SCHAR}


@dataclass(frozen=True)
class Mutant:
    file: str  # below the folder of its area
    line: int
    start: int  # of what is replaced, in bytes
    end: int
    kind: str
    old: str
    new: str
    form: str  # "value", or "statement", which cannot be part of an expression
    folder: str  # the area's, in the project

    @property
    def key(self):
        return f"{self.folder}/{self.file}:{self.line} | {self.old} -> {self.new}"

    def wrapped(self, number, original):
        """What stands in the mutated source; `original` may have mutants inside."""
        chosen = f"arenite_mutant({number})"
        if self.form == "statement":
            return f"if (!{chosen}) {original}"
        if self.kind == "dropped statement":
            return f"({chosen} ? (void)0 : (void)({original}))"
        if self.kind in ("comparison", "dropped check"):  # both bool, also where one is an optional
            return f"({chosen} ? !!{self.new} : !!({original}))"
        return f"({chosen} ? {self.new} : {original})"


class Finder:
    """The mutants of one translation unit in all files below `root`, each at most once. `folder` is
    what the project calls it."""

    def __init__(self, root, folder):
        self.root = Path(root)
        self.folder = folder
        self.texts = {}
        self.found = {}
        self.unchanged = set()  # (file, begin, end) of what changes nothing where it is changed

    def read(self, source, arguments):
        unit = Index.create().parse(source, args=arguments)
        fatal = [d.spelling for d in unit.diagnostics if d.severity >= 4]
        if fatal:
            raise SystemExit(f"{source}: {fatal[0]}")
        self.walk_declarations(unit.cursor)

    def walk_declarations(self, cursor):
        for child in cursor.get_children():
            file = child.location.file
            if file is None or not Path(file.name).is_relative_to(self.root) or \
                    file.name.endswith(NOTES_FILE):
                continue
            if child.kind in FUNCTIONS:
                for part in child.get_children():
                    if part.kind == Kind.COMPOUND_STMT:
                        self.file = str(Path(file.name).relative_to(self.root))
                        self.text = self.texts.setdefault(
                            self.file, Path(file.name).read_bytes())
                        self.walk(part, None)
            else:
                self.walk_declarations(child)

    def source(self, cursor):
        return self.slice(cursor.extent.start.offset, cursor.extent.end.offset)

    def slice(self, start, end):
        return self.text[start:end].decode()

    def add(self, cursor, kind, new, old=None, form="value"):
        start, end = cursor.extent.start, cursor.extent.end
        old = old or self.source(cursor)
        place = cursor.extent.start.file
        if place is None or not place.name.endswith(self.file) or start.offset >= end.offset:
            return
        if "//" in new or "//" in old or "#" in old or "R\"" in old:
            return
        old, new = (re.sub(r"\s+", " ", text) for text in (old, new))
        mutant = Mutant(self.file, start.line, start.offset, end.offset, kind, old, new, form,
                        self.folder)
        self.found.setdefault(mutant.key, mutant)

    def walk(self, cursor, parent):
        kind = cursor.kind
        children = list(cursor.get_children())
        if kind == Kind.STATIC_ASSERT or self.is_constant(cursor) or self.is_note(cursor):
            return
        if kind == Kind.BINARY_OPERATOR and len(children) == 2:
            self.binary(cursor, *children)
        elif kind == Kind.UNARY_OPERATOR and self.source(cursor).startswith("!"):
            self.add(cursor, "comparison", f"({self.source(children[0])})")
        elif kind == Kind.CONDITIONAL_OPERATOR and len(children) == 3:
            condition, left, right = (self.source(child) for child in children)
            self.add(cursor, "swapped operand", f"({condition} ? {right} : {left})")
        elif kind == Kind.ARRAY_SUBSCRIPT_EXPR and len(children) == 2:
            index = self.source(children[1])
            self.add(children[1], "off by one", f"({index}) + 1")
        elif kind == Kind.CALL_EXPR:
            self.call(cursor)
        self.note_unchanged(cursor, children, parent)
        self.literal(cursor, parent)
        self.statement(cursor, children)
        skips_first = kind == Kind.CASE_STMT or self.is_constexpr_if(cursor)
        for child in children[1:] if skips_first else children:
            if kind == Kind.DECL_REF_EXPR:
                continue  # template arguments
            self.walk(child, cursor)

    def is_constant(self, cursor):
        if cursor.kind != Kind.VAR_DECL:
            return False
        return bool(re.match(r"(static )?constexpr\b", self.source(cursor))) or \
            cursor.type.kind == TypeKind.CONSTANTARRAY

    def is_note(self, cursor):
        return cursor.kind == Kind.CALL_EXPR and NOTES.match(self.source(cursor)) is not None

    def is_constexpr_if(self, cursor):
        return cursor.kind == Kind.IF_STMT and \
            re.match(r"if\s+constexpr\b", self.source(cursor)) is not None

    def place(self, cursor):
        return self.file, cursor.extent.start.offset, cursor.extent.end.offset

    def note_unchanged(self, cursor, children, parent):
        """Which of two equal integers a minimum is, and the break at the end of a switch."""
        if cursor.kind == Kind.SWITCH_STMT:
            last = list(children[-1].get_children())[-1:]
            self.unchanged.update(map(self.place, last))
        elif len(children) > 1 and cursor.kind in (Kind.CONDITIONAL_OPERATOR, Kind.IF_STMT):
            operands = list(children[0].get_children())
            is_place = parent.kind == Kind.VAR_DECL and parent.type.kind == TypeKind.LVALUEREFERENCE
            if is_place or children[0].kind != Kind.BINARY_OPERATOR or len(operands) != 2 or \
                    any(o.type.get_canonical().kind not in INTEGERS for o in operands):
                return
            if cursor.kind == Kind.IF_STMT:
                chosen = self.source(children[1]).split(" = ") if len(children) == 2 else []
            else:
                chosen = [self.source(child) for child in children[1:]]
            if sorted(map(self.source, operands)) == sorted(chosen):
                self.unchanged.add(self.place(children[0]))

    def binary(self, cursor, left, right):
        between = self.slice(left.extent.end.offset, right.extent.start.offset)
        operator = re.sub(r"//[^\n]*", "", between).strip()
        a, b = self.source(left), self.source(right)
        if operator in COMPARISONS and self.place(cursor) not in self.unchanged:
            self.add(cursor, "comparison", f"({a} {COMPARISONS[operator]} {b})")
        elif operator in ARITHMETIC:
            self.add(cursor, "arithmetic", f"({a} {ARITHMETIC[operator]} {b})")
            if operator in "+-" and cursor.type.get_canonical().kind in INTEGERS:
                self.add(cursor, "off by one", f"({a} {operator} {b} + 1)")
        elif operator in ("&&", "||"):
            self.add(cursor, "dropped check", f"({a})")
            if not LINKED.match(a.lstrip("!")):
                self.add(cursor, "dropped check", f"({b})")
        if operator in ORDERED:
            self.add(cursor, "swapped operand", f"(({b}) {operator} ({a}))")

    def call(self, cursor):
        arguments = list(cursor.get_arguments())
        is_operator = arguments and arguments[0].extent.start.offset == cursor.extent.start.offset
        if is_operator or cursor.spelling in SYMMETRIC:
            return
        for left, right in zip(arguments, arguments[1:]):
            a, b = self.source(left), self.source(right)
            same = left.type.get_canonical().spelling == right.type.get_canonical().spelling
            if not a or not b or not same or a == b:
                continue
            start, end = cursor.extent.start.offset, cursor.extent.end.offset
            new = (self.slice(start, left.extent.start.offset) + b +
                   self.slice(left.extent.end.offset, right.extent.start.offset) + a +
                   self.slice(right.extent.end.offset, end))
            self.add(cursor, "swapped operand", f"{new}")

    def literal(self, cursor, parent):
        text = self.source(cursor)
        if cursor.kind == Kind.INTEGER_LITERAL and re.fullmatch(r"\d+u?", text):
            self.add(cursor, "constant", f"{int(text.rstrip('u')) + 1}{'u' * text.endswith('u')}")
        elif cursor.kind == Kind.FLOATING_LITERAL and re.fullmatch(r"[\d.e+-]+f?", text):
            value = float(text.rstrip("f"))
            suffix = "f" * text.endswith("f")
            self.add(cursor, "constant", f"{value * 2 if value else 1.0!r}{suffix}")
        elif cursor.kind == Kind.CXX_BOOL_LITERAL_EXPR:
            self.add(cursor, "constant", "false" if text == "true" else "true")
        elif cursor.kind == Kind.DECL_REF_EXPR and re.fullmatch(r"k[A-Z]\w*", text) and \
                cursor.type.get_canonical().kind in INTEGERS:
            self.add(cursor, "constant", f"({text} + 1)")

    def statement(self, cursor, children):
        if cursor.kind == Kind.IF_STMT and not self.is_constexpr_if(cursor) and children and \
                children[0].kind not in (Kind.DECL_STMT, Kind.VAR_DECL):
            condition = children[0]
            self.add(condition, "dropped check", "false")
        if cursor.kind != Kind.COMPOUND_STMT:
            return
        for child in children:
            inner = child
            while inner.kind == Kind.UNEXPOSED_EXPR and len(list(inner.get_children())) == 1:
                inner = next(inner.get_children())
            if inner.kind in STATEMENTS and not self.is_note(inner):
                self.add(child, "dropped statement", "nothing")
            elif child.kind in (Kind.BREAK_STMT, Kind.CONTINUE_STMT) and \
                    self.place(child) not in self.unchanged:
                self.add(child, "dropped statement", "nothing", form="statement")
