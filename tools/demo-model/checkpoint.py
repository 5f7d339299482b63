# SPDX-License-Identifier: Apache-2.0
"""Reads and writes safetensors files and FP8 and BF16 numbers with numpy alone."""
import glob
import json
import os

import numpy as np

BLOCK, LARGEST = 128, 448.0
KINDS = {'F32': np.float32, 'BF16': np.uint16, 'F8_E4M3': np.uint8}


def e4m3_values():
    """Returns the value of each of the 256 e4m3 bytes. Two of them are NaN."""
    code = np.arange(128)
    exponent, mantissa = code >> 3, code & 7
    value = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0 ** -9)
    value[127] = np.nan
    return np.concatenate((value, -value)).astype(np.float32)


E4M3 = e4m3_values()


def to_e4m3(values):
    """Returns the bytes of the nearest FP8 numbers, rounded half to even."""
    grid = E4M3[:127]
    middles = (grid[:-1] + grid[1:]) / 2
    size = np.minimum(np.abs(values), LARGEST)
    code = np.searchsorted(middles, size, side='left')
    tie = (code < 126) & (size == middles[np.minimum(code, 125)]) & (code % 2 == 1)
    return (code + tie + np.where(np.signbit(values), 128, 0)).astype(np.uint8)


def to_bf16(values):
    """Returns the upper halves of float32 numbers, rounded half to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(halves):
    return (halves.astype(np.uint32) << 16).view(np.float32)


def read_file(path):
    """Returns name -> (kind, array) for all tensors of a safetensors file."""
    with open(path, 'rb') as file:
        data = file.read()
    length = int.from_bytes(data[:8], 'little')
    header, tensors = json.loads(data[8:8 + length]), {}
    for name, entry in header.items():
        if name != '__metadata__':
            begin, end = (8 + length + offset for offset in entry['data_offsets'])
            array = np.frombuffer(data[begin:end], KINDS[entry['dtype']]).reshape(entry['shape'])
            tensors[name] = entry['dtype'], array
    return tensors


def write_file(path, tensors):
    """Writes name to (kind, array) as safetensors: wider kinds first, then by name, the header padded to 8 bytes."""
    header, offset = {'__metadata__': {'format': 'pt'}}, 0
    names = sorted(tensors, key=lambda name: (-tensors[name][1].itemsize, name))
    for name in names:
        kind, array = tensors[name]
        header[name] = {'dtype': kind, 'shape': list(array.shape), 'data_offsets': [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(len(text).to_bytes(8, 'little') + text)
        for name in names:
            file.write(np.ascontiguousarray(tensors[name][1]).tobytes())


def read_folder(folder, pattern='*.safetensors'):
    tensors = {}
    for path in sorted(glob.glob(os.path.join(folder, pattern))):
        tensors.update(read_file(path))
    return tensors


def to_float(tensors, name):
    """Returns a tensor in float32. FP8 weights are multiplied by the scale of their block."""
    kind, array = tensors[name]
    if kind == 'F32':
        return array
    if kind == 'BF16':
        return from_bf16(array)
    scale = from_bf16(tensors[name + '_scale_inv'][1]).repeat(BLOCK, 0).repeat(BLOCK, 1)
    return E4M3[array] * scale[:array.shape[0], :array.shape[1]]


def dequantised(folder):
    """Returns all tensors of a checkpoint in float32, without the scales."""
    tensors = read_folder(folder)
    return {name: to_float(tensors, name) for name in tensors if not name.endswith('_scale_inv')}
