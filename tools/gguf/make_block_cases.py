#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/tensor/gguf_blocks.safetensors: blocks of GGUF types, and their values by ggml's Python package.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install gguf==0.19.0 && /tmp/v/bin/python tools/gguf/make_block_cases.py

Any bytes with finite scales are a valid block, so random bytes cover a layout. For each type the file has BLOCKS blocks
(TYPE.blocks), their float32 values (TYPE.values), and a checksum of MANY blocks that the test makes again with the same
generator (TYPE.checksum)."""
import json
import os
import struct

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

BLOCKS, MANY = 4, 4096
# offsets of the F16 scales in a block
HALVES = {'Q4_0': [0], 'Q4_1': [0, 2], 'Q5_0': [0], 'Q5_1': [0, 2], 'Q8_0': [0], 'Q2_K': [80, 82], 'Q3_K': [108],
          'Q4_K': [0, 2], 'Q5_K': [0, 2], 'Q6_K': [208], 'Q8_K': [], 'IQ4_NL': [0], 'IQ4_XS': [0], 'MXFP4': [],
          'NVFP4': []}


def random_bytes(n, seed):
    """Returns n bytes: splitmix64 of seed, seed + 1 and so on, eight bytes each."""
    with np.errstate(over='ignore'):
        z = (np.arange((n + 7) // 8, dtype=np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z.view(np.uint8)[:n].copy()


def make_blocks(name, n, size, seed):
    blocks = random_bytes(n * size, seed).reshape(n, size)
    for at in HALVES[name]:  # no infinities and NaNs
        infinite = (blocks[:, at + 1] & 0x7C) == 0x7C
        blocks[infinite, at + 1] ^= 0x40
    if name == 'Q8_K':
        blocks[:, 3] &= 0xBF
    if name == 'MXFP4':
        blocks[:, 0] = np.minimum(blocks[:, 0], 252)
    if name == 'NVFP4':
        blocks[:, :4] &= 0x7F
    return blocks


def dequantize(kind, blocks, values):
    if kind == GGMLQuantizationType.Q8_K:  # the package cannot read this type, because no file has it
        return blocks[:, :4].copy().view(np.float32) * blocks[:, 4:260].view(np.int8).astype(np.float32)
    return quants.dequantize(blocks, kind).reshape(-1, values).astype(np.float32)


def checksum(values):
    bits = values.reshape(-1).view(np.uint32).astype(np.uint64)
    with np.errstate(over='ignore'):
        return int((bits * (2 * np.arange(bits.size, dtype=np.uint64) + np.uint64(1))).sum(dtype=np.uint64))


def main():
    tensors = {}
    for seed, name in enumerate(HALVES):
        kind = GGMLQuantizationType[name]
        values, size = GGML_QUANT_SIZES[kind]
        blocks = make_blocks(name, MANY, size, seed << 32)
        out = dequantize(kind, blocks, values)
        assert np.isfinite(out).all(), name
        tensors[name + '.blocks'] = ('U8', blocks[:BLOCKS])
        tensors[name + '.values'] = ('F32', out[:BLOCKS])
        tensors[name + '.checksum'] = ('I64', np.array([checksum(out)], dtype=np.uint64))
    header, data = {}, b''
    for key, (dtype, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[key] = {'dtype': dtype, 'shape': list(array.shape), 'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    path = os.path.join(os.path.dirname(__file__), '../../tests/tensor/gguf_blocks.safetensors')
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)


main()
