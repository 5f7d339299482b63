# SPDX-License-Identifier: Apache-2.0
"""Writes tests/checkpoint/quantized/model.safetensors: a small matrix in every quantized layout, and its values.

    python3 tools/golden/quantized_layouts.py tests/checkpoint/quantized [--check]

Quantized values, zero points and scales are random with a seed, so every bit pattern occurs. "CASE.expected" has the
values in F32, which numpy computes by the formulas of the formats (docs/guides/quantization.md) without code of eyelet.
--check compares them with those of compressed-tensors, which unpacks the integer cases.
"""

import argparse
import json
import os
import struct

import numpy as np

RNG = np.random.default_rng(20260)
TENSORS = {}
DTYPES = {
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(np.int32): "I32",
    np.dtype(np.int64): "I64",
    np.dtype(np.int8): "I8",
    np.dtype(np.uint8): "U8",
}


def put(name, array, dtype=None):
    """Adds a tensor. dtype: its name if numpy lacks the type (BF16, F8_E4M3, F8_E8M0)."""
    array = np.ascontiguousarray(array)
    TENSORS[name] = (dtype or DTYPES[array.dtype], array)


def bf16_bits(x):
    """Returns the bits of BF16, rounded half to even; x must be finite."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def bf16_values(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def e4m3_values(codes):
    codes = codes.astype(np.int64)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    size = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return np.where(codes & 128, -size, size).astype(np.float32)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def random_e4m3(shape, positive=False):
    codes = RNG.integers(0, 127 if positive else 256, shape).astype(np.uint8)
    return np.where(codes & 127 == 127, 0x38, codes).astype(np.uint8)


def random_scales(shape, kind, signed=False):
    """Returns the stored array, the name of its type or None, and the float32 values."""
    x = np.exp(RNG.normal(-4, 1, shape)).astype(np.float32)
    if signed:
        x *= RNG.choice([-1, 1], shape).astype(np.float32)
    if kind == "BF16":
        bits = bf16_bits(x)
        return bits, "BF16", bf16_values(bits)
    if kind == "F16":
        half = x.astype(np.float16)
        half.flat[0] = np.float16(6.7e-7)  # a subnormal; AutoAWQ's files have some
        return half, None, half.astype(np.float32)
    return x, None, x


def stream(codes, bits, padded=False):
    """Packs the last axis, n quantized values, into 32-bit words from the lowest bits up."""
    n = codes.shape[-1]
    per = 32 // bits
    if padded:
        words = -(-n // per)
        place = [(i // per, i % per * bits) for i in range(n)]
    else:
        words = -(-n * bits // 32)
        place = [(i * bits // 32, i * bits % 32) for i in range(n)]
    out = np.zeros(codes.shape[:-1] + (words + 1,), np.uint64)
    for i, (word, shift) in enumerate(place):
        wide = codes[..., i].astype(np.uint64) << np.uint64(shift)
        out[..., word] |= wide & np.uint64(0xFFFFFFFF)
        out[..., word + 1] |= wide >> np.uint64(32)
    return out[..., :words].astype(np.uint32).view(np.int32)


def grouped(q, z, s, group):
    """Returns (q - z) * s for q[rows, cols] and z, s[rows, groups]. Only the product is rounded."""
    wide = [np.repeat(a, group, axis=1) for a in (z.astype(np.float32), s.astype(np.float32))]
    return ((q.astype(np.float32) - wide[0]) * wide[1]).astype(np.float32)


# ---- compressed-tensors ----


def pack_quantized(case, rows, cols, bits, group, scale="BF16", signed=False, zeros=False, padded=False, order=False):
    groups = cols // group
    q = RNG.integers(0, 1 << bits, (rows, cols))
    z = RNG.integers(0, 1 << bits, (rows, groups)) if zeros else np.full((rows, groups), 1 << (bits - 1))
    stored, name, s = random_scales((rows, groups), scale, signed)
    put(f"{case}.m.weight_packed", stream(q, bits, padded))
    put(f"{case}.m.weight_scale", stored, name)
    put(f"{case}.m.weight_shape", np.array([rows, cols], np.int64))
    if zeros:
        put(f"{case}.m.weight_zero_point", stream(z.T, bits, padded).T)
    if order:
        of = RNG.permutation(np.arange(cols) // group).astype(np.int32)
        put(f"{case}.m.weight_g_idx", of)
        put(f"{case}.expected", ((q - z[:, of]).astype(np.float32) * s[:, of]).astype(np.float32))
    else:
        put(f"{case}.expected", grouped(q, z, s, group))


def byte_codes(case, rows, cols, group, zeros=False, flat=False):
    groups = cols // group
    q = RNG.integers(-128, 128, (rows, cols)).astype(np.int8)
    z = (RNG.integers(-128, 128, (rows, groups)) if zeros else np.zeros((rows, groups))).astype(np.int8)
    stored, name, s = random_scales((rows, groups), "BF16")
    put(f"{case}.m.weight", q)
    put(f"{case}.m.weight_scale", stored[:, 0] if flat else stored, name)
    if zeros:
        put(f"{case}.m.weight_zero_point", z)
    put(f"{case}.expected", grouped(q.astype(np.int64), z.astype(np.int64), s, group))


# ---- AutoAWQ, GPTQ ----

AWQ_ROWS = [0, 2, 4, 6, 1, 3, 5, 7]


def awq_words(codes):
    """Packs [n, rows] into [n, rows/8]: nibble i of word j is the value of row 8j + AWQ_ROWS[i]."""
    eights = codes.reshape(codes.shape[0], -1, 8)[:, :, AWQ_ROWS].astype(np.uint32)
    out = np.zeros(eights.shape[:2], np.uint32)
    for i in range(8):
        out |= eights[:, :, i] << np.uint32(4 * i)
    return out.view(np.int32)


def awq(case, rows, cols, group, zeros=True):
    groups = cols // group
    q = RNG.integers(0, 16, (rows, cols))
    z = RNG.integers(0, 16, (rows, groups)) if zeros else np.full((rows, groups), 8)
    stored, name, s = random_scales((rows, groups), "F16")
    put(f"{case}.m.qweight", awq_words(q.T))
    put(f"{case}.m.scales", stored.T, name)
    if zeros:
        put(f"{case}.m.qzeros", awq_words(z.T))
    put(f"{case}.expected", grouped(q, z, s, group))


def awq_rows(case, rows, cols, group):
    groups = cols // group
    each = 1 if group >= 128 else 2 if group == 64 else 4
    words = -(-(-(-groups // 8)) // each) * each
    q, z = RNG.integers(0, 16, (rows, cols)), RNG.integers(0, 16, (rows, groups))
    stored, name, s = random_scales((rows, groups), "F16")
    put(f"{case}.m.qweight", stream(q, 4))
    put(f"{case}.m.qzeros", stream(np.pad(z, ((0, 0), (0, 8 * words - groups))), 4))
    put(f"{case}.m.scales", np.pad(stored, ((0, 0), (0, 8 * words - groups))), name)
    put(f"{case}.expected", grouped(q, z, s, group))


def gptq(case, rows, cols, bits, group, v1, order=False, scale="F16", signed=False, symmetric=False):
    groups, most = cols // group, 1 << bits
    q, z = RNG.integers(0, most, (rows, cols)), RNG.integers(0, most, (rows, groups))
    if symmetric:
        z[:] = most // 2
    stored, name, s = random_scales((rows, groups), scale, signed)
    of = (RNG.permutation(np.arange(cols) // group) if order else np.arange(cols) // group).astype(np.int32)
    zero_words = stream(z.T, bits)
    if v1 and bits == 3:
        zero_words = stream((z.T - 1) % most, bits)
    elif v1:  # subtracts one from every value by whole words, with borrows, as GPTQModel does
        ones = sum(1 << i for i in range(0, 32, bits))
        zero_words = (zero_words.view(np.uint32).astype(np.uint64) - ones & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    put(f"{case}.m.qweight", stream(q, bits).T)
    put(f"{case}.m.qzeros", zero_words)
    put(f"{case}.m.scales", stored.T, name)
    put(f"{case}.m.g_idx", of)
    put(f"{case}.expected", ((q - z[:, of]).astype(np.float32) * s[:, of]).astype(np.float32))


# ---- floats ----


def fp8(case, rows, cols, strategy, scale, suffix):
    q = random_e4m3((rows, cols))
    blocks = (-(-rows // 128), -(-cols // 128))
    shape = dict(tensor=(1,), scalar=(), row=(rows, 1), flat=(rows,), block=blocks, ones=(blocks[0], 1, blocks[1], 1))
    stored, name, s = random_scales(shape[strategy], scale)
    if strategy in ("block", "ones"):
        wide = np.repeat(np.repeat(s.reshape(blocks), 128, 0)[:rows], 128, 1)[:, :cols]
    else:
        wide = s.reshape(-1, 1)
    put(f"{case}.m.weight", q, "F8_E4M3")
    put(f"{case}.m.weight{suffix}", stored, name)
    put(f"{case}.expected", (e4m3_values(q) * wide).astype(np.float32))


def fp4_words(q):
    return (q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8)


def nvfp4(case, rows, cols, modelopt):
    q = RNG.integers(0, 16, (rows, cols))
    s = random_e4m3((rows, cols // 16), positive=True)
    exact = E2M1[q] * np.repeat(e4m3_values(s), 16, axis=1)
    whole = np.float32(0.00037 if modelopt else 1234.5)
    put(f"{case}.m.weight" + ("" if modelopt else "_packed"), fp4_words(q))
    put(f"{case}.m.weight_scale", s, "F8_E4M3")
    put(f"{case}.m.weight" + ("_scale_2" if modelopt else "_global_scale"), np.full((1,), whole, np.float32))
    put(f"{case}.expected", (exact * whole if modelopt else exact / whole).astype(np.float32))


def mx(case, rows, cols, eight, name):
    e = RNG.integers(100, 140, (rows, cols // 32)).astype(np.uint8)
    e.flat[0] = 0  # 2^-127
    s = np.repeat(np.ldexp(np.float32(1), e.astype(np.int32) - 127).astype(np.float32), 32, axis=1)
    q = random_e4m3((rows, cols)) if eight else RNG.integers(0, 16, (rows, cols))
    put(f"{case}.m.weight" + ("" if eight else "_packed"), q if eight else fp4_words(q), "F8_E4M3" if eight else None)
    put(f"{case}.m.weight_scale", e, name)
    put(f"{case}.expected", ((e4m3_values(q) if eight else E2M1[q]) * s).astype(np.float32))


def make():
    pack_quantized("ct4_g32", 17, 96, 4, 32, "F16", signed=True, zeros=True)
    pack_quantized("ct4_g128_bf16", 16, 256, 4, 128)
    pack_quantized("ct4_signed", 16, 64, 4, 64, "BF16", signed=True)
    pack_quantized("ct4_f32", 16, 64, 4, 32, "F32", zeros=True)
    pack_quantized("ct4_channel", 16, 192, 4, 192, "BF16", zeros=True)
    pack_quantized("ct4_g16", 16, 64, 4, 16, "F16", zeros=True)
    pack_quantized("ct4_g256", 8, 512, 4, 256, "F16")
    pack_quantized("ct4_order", 16, 128, 4, 32, "F16", zeros=True, order=True)
    pack_quantized("ct8_g32", 17, 64, 8, 32, "BF16", zeros=True)
    pack_quantized("ct8_channel", 16, 64, 8, 64, "F16")
    pack_quantized("ct2", 16, 64, 2, 32, "BF16", zeros=True)
    pack_quantized("ct3_dense", 32, 64, 3, 32, "BF16", zeros=True)
    pack_quantized("ct3_padded", 32, 64, 3, 32, "BF16", zeros=True, padded=True)
    pack_quantized("ct6", 16, 64, 6, 32, "BF16", zeros=True)
    byte_codes("int8_row", 16, 48, 48)
    byte_codes("int8_flat", 16, 48, 48, flat=True)
    byte_codes("int8_zeros", 16, 64, 32, zeros=True)
    awq("awq", 24, 128, 64)
    awq("awq_g128", 16, 256, 128)
    awq("awq_no_zeros", 16, 64, 32, zeros=False)
    awq_rows("awq_rows", 24, 320, 32)
    for bits in (2, 3, 4, 8):
        gptq(f"gptq{bits}_v1", 32, 128, bits, 32, True)
        gptq(f"gptq{bits}_v2", 32, 128, bits, 64, False)
        gptq(f"gptq{bits}_order", 32, 128, bits, 32, True, order=True)
    gptq("gptq4_row", 32, 192, 4, 192, True, scale="BF16")
    gptq("autoround", 32, 128, 4, 128, True, signed=True, symmetric=True)
    gptq("gptq4_said_v2", 32, 128, 4, 32, True, symmetric=True)  # words of v1 in a file that claims v2
    fp8("fp8_tensor", 20, 96, "tensor", "F32", "_scale")
    fp8("fp8_scalar", 16, 32, "scalar", "F32", "_scale")
    fp8("fp8_row", 20, 160, "row", "BF16", "_scale")
    fp8("fp8_flat", 20, 32, "flat", "F32", "_scale")
    fp8("fp8_row_inv", 20, 32, "row", "F16", "_scale_inv")
    fp8("fp8_block", 130, 160, "block", "BF16", "_scale")
    fp8("fp8_ones", 130, 160, "ones", "F32", "_scale")
    nvfp4("nvfp4", 16, 64, False)
    nvfp4("nvfp4_modelopt", 16, 64, True)
    mx("mxfp4", 16, 64, False, None)
    mx("mxfp4_e8m0", 16, 64, False, "F8_E8M0")
    mx("mxfp8", 16, 64, True, None)


def write(path):
    header, at = {}, 0
    for name, (dtype, array) in sorted(TENSORS.items()):
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, (_, array) in sorted(TENSORS.items()):
            f.write(array.tobytes())


def check():
    """Compares the integer cases with compressed-tensors' unpacking, and e4m3 with torch's."""
    import torch
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32

    codes = np.arange(256, dtype=np.uint8)
    truth = torch.tensor(codes).view(torch.float8_e4m3fn).float().numpy()
    mine = e4m3_values(codes)
    assert np.array_equal(truth[truth == truth], mine[truth == truth])
    for case, bits in (("ct4_g32", 4), ("ct8_g32", 8), ("ct2", 2), ("ct3_dense", 3), ("ct6", 6)):
        packed = torch.from_numpy(TENSORS[f"{case}.m.weight_packed"][1].copy())
        rows, cols = TENSORS[f"{case}.m.weight_shape"][1].tolist()
        zeros = TENSORS[f"{case}.m.weight_zero_point"][1]
        scale = TENSORS[f"{case}.m.weight_scale"]
        s = bf16_values(scale[1]) if scale[0] == "BF16" else scale[1].astype(np.float32)
        q = unpack_from_int32(packed, bits, torch.Size([rows, cols])).numpy().astype(np.float32)
        z = unpack_from_int32(torch.from_numpy(zeros.copy()), bits, torch.Size([rows, s.shape[1]]), packed_dim=0)
        group = cols // s.shape[1]
        w = (q - np.repeat(z.numpy().astype(np.float32), group, 1)) * np.repeat(s, group, 1)
        assert np.array_equal(w.astype(np.float32), TENSORS[f"{case}.expected"][1]), case
    print("compressed-tensors unpacks the same values")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out"), p.add_argument("--check", action="store_true")
    a = p.parse_args()
    make()
    os.makedirs(a.out, exist_ok=True)
    write(os.path.join(a.out, "model.safetensors"))
    with open(os.path.join(a.out, "config.json"), "w") as f:
        f.write("{}\n")
    if a.check:
        check()
    print(len([n for n in TENSORS if n.endswith(".expected")]), "matrices")


if __name__ == "__main__":
    main()
