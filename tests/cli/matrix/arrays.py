# SPDX-License-Identifier: Apache-2.0
"""Arrays in .npy and .safetensors files, with Python's own library alone."""

import array
import ast
import json
import math
import re
import struct

CODES = {"F32": "f", "F64": "d", "I64": "q", "U8": "B"}
DESCRS = {"f": "<f4", "d": "<f8", "q": "<i8", "B": "|u1"}


class Array:
    """Numbers in rows of the last dimension."""

    def __init__(self, shape, values, code="f"):
        self.shape, self.values, self.code = list(shape), values, code

    def rows(self):
        width = self.shape[-1]
        return [self.values[i:i + width] for i in range(0, len(self.values), width)]

    def largest(self):
        return max(abs(value) for value in self.values)

    def difference(self, other):
        """The largest; infinite where a number is NaN."""
        worst = 0.0
        for found, expected in zip(self.values, other.values):
            off = abs(found - expected)
            worst = max(worst, off) if off == off else math.inf
        return worst

    def closest_rows(self):
        """How far two rows lie apart at least, in their most different column; None if there is
        one alone. Rows of zeros do not count: nothing was given for them."""
        rows = [row for row in self.rows() if any(row)]
        return min((max(abs(a - b) for a, b in zip(rows[i], rows[j]))
                    for i in range(len(rows)) for j in range(i)), default=None)

    def at(self, *index):
        """The part with these first indices."""
        size, start = len(self.values), 0
        for extent, i in zip(self.shape, index):
            size //= extent
            start += (i % extent) * size
        return Array(self.shape[len(index):], self.values[start:start + size], self.code)

    def with_columns_last(self, rows):
        """[sequences, columns, rows] as [sequences, rows, columns]."""
        columns = len(self.values) // (self.shape[0] * rows)
        places = ((s * columns + c) * rows + row for s in range(self.shape[0])
                  for row in range(rows) for c in range(columns))
        return Array([self.shape[0], rows, columns], [self.values[i] for i in places], self.code)

    def means(self):
        """Of the rows of each sequence; of those that have one alone, that one."""
        if len(self.shape) == 2:
            return self
        sequences = [self.at(i).rows() for i in range(self.shape[0])]
        means = [sum(column) / len(rows) for rows in sequences for column in zip(*rows)]
        return Array([self.shape[0], self.shape[2]], means)

    def last_rows(self):
        """Of each sequence the last row; of those that have one alone, that one."""
        if len(self.shape) == 2:
            return self
        return stacked([self.at(i, -1) for i in range(self.shape[0])])

    def first(self, count):
        """The first ones of the first dimension."""
        values = self.values[:count * (len(self.values) // self.shape[0])]
        return Array([count, *self.shape[1:]], values, self.code)


def stacked(parts):
    values = array.array(parts[0].code)
    for part in parts:
        values.extend(part.values)
    return Array([len(parts), *parts[0].shape], values, parts[0].code)


def read_safetensors(path):
    """{name: Array}, and the texts beside them."""
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    texts = header.pop("__metadata__", {})
    arrays = {}
    for name, entry in header.items():
        code = CODES[entry["dtype"]]
        first, end = entry["data_offsets"]
        values = array.array(code, data[begin + first:begin + end])
        arrays[name] = Array(entry["shape"], values, code)
    return arrays, texts


def write_npy(path, content):
    header = repr({"descr": DESCRS[content.code], "fortran_order": False,
                   "shape": tuple(content.shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     content.values.tobytes())
    return path


def read_npy(path):
    data = path.read_bytes()
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:end].decode())
    code = {descr: code for code, descr in DESCRS.items()}[header["descr"]]
    return Array(header["shape"], array.array(code, data[end:]), code)
