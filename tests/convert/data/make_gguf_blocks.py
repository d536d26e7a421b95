#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes gguf_blocks.json: for each type of GGUF random blocks and what the package gguf, which
the llama.cpp project maintains, makes of them. Needs gguf and numpy.

Usage: make_gguf_blocks.py gguf_blocks.json
"""

import json
import sys

import gguf
import numpy
from gguf import GGMLQuantizationType as Type

# Where a block keeps its scales of 16 bits, by type. They are set, as random ones may be infinite.
SCALES = {
    Type.F16: [0],
    Type.BF16: [0],
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q8_0: [0],
    Type.Q2_K: [80, 82],
    Type.Q3_K: [108],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
    Type.Q8_K: [0],
    Type.IQ4_NL: [0],
    Type.IQ4_XS: [0],
    Type.TQ1_0: [52],
    Type.TQ2_0: [64],
    Type.MXFP4: [],
}

# Ordinary, largest, least normal, subnormal, least subnormal, and zero with its sign.
HALVES = [0x2E66, 0x7BFF, 0x8400, 0x03FF, 0x8001, 0x8000, 0xFBFF, 0xA123]
EXPONENTS = [127, 0, 1, 2, 110, 250, 130, 3]  # of MXFP4


def random_blocks(kind, generator):
    count = len(HALVES) if gguf.GGML_QUANT_SIZES[kind][0] <= 32 else 4
    blocks = generator.integers(0, 256, (count, gguf.GGML_QUANT_SIZES[kind][1]), dtype=numpy.uint8)
    for i, block in enumerate(blocks):
        for j, at in enumerate(SCALES[kind]):
            half = numpy.array([HALVES[(i + 3 * j) % len(HALVES)]], dtype="<u2")
            block[at : at + 2] = half.view(numpy.uint8)
        if kind == Type.Q8_K:
            scale = numpy.array([[0.03125 / 3, -3e38 / 128, 1e-40, -0.0][i]], dtype="<f4")
            block[:4] = scale.view(numpy.uint8)
        if kind == Type.MXFP4:
            block[0] = EXPONENTS[i]
    return blocks


def values_of(kind, blocks):
    if kind == Type.Q8_K:  # the package leaves this one out
        scale = blocks[:, :4].copy().view("<f4")
        return scale * blocks[:, 4:260].view(numpy.int8).astype(numpy.float32)
    return gguf.quants.dequantize(blocks, kind)


def main():
    generator = numpy.random.default_rng(20)
    cases = []
    for kind in SCALES:
        blocks = random_blocks(kind, generator)
        values = values_of(kind, blocks).astype("<f4")
        assert numpy.isfinite(values).all(), kind
        cases.append(
            {
                "type": int(kind),
                "name": kind.name,
                "blocks": blocks.tobytes().hex(),
                "values": values.tobytes().hex(),
            }
        )
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


main()
