# SPDX-License-Identifier: Apache-2.0
"""Dequantizes layouts of other programs to float32, for the goldens: compressed-tensors' FP8 with a scale per row, its
eight bits and NVFP4, AutoAWQ's gemm, and GPTQ's first version. It follows the formulas of docs/guides/quantization.md
and uses no code of eyelet or of those programs."""

import torch

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float32)
AWQ_ROWS = [0, 2, 4, 6, 1, 3, 5, 7]


def codes_of(words, bits):
    """Unpacks [n, words] to [n, words * 32/bits], lowest bits first."""
    shifts = torch.arange(0, 32, bits)
    codes = (words.to(torch.int64)[..., None] >> shifts) & ((1 << bits) - 1)
    return codes.reshape(words.shape[0], -1)


def awq_codes(words):
    """Unpacks [n, rows/8] to [n, rows]."""
    codes = codes_of(words, 4).reshape(words.shape[0], -1, 8)
    out = torch.empty_like(codes)
    out[:, :, AWQ_ROWS] = codes
    return out.reshape(words.shape[0], -1)


def awq(t):
    q, z, s = awq_codes(t["qweight"]), awq_codes(t["qzeros"]), t["scales"].float()
    of = torch.arange(len(q)) // (len(q) // len(s))
    return ((q - z[of]).float() * s[of]).T.contiguous()


def gptq_v1(t):
    q = codes_of(t["qweight"].T, 4).T
    zeros = (t["qzeros"].to(torch.int64) + 0x11111111) & 0xFFFFFFFF
    z, s, of = codes_of(zeros, 4), t["scales"].float(), t["g_idx"].long()
    return ((q - z[of]).float() * s[of]).T.contiguous()


def packed8(t):
    q, s = codes_of(t["weight_packed"], 8), t["weight_scale"].float()
    return (q - 128).float() * s.repeat_interleave(q.shape[1] // s.shape[1], 1)


def nvfp4(t):
    packed, s = t["weight_packed"].long(), t["weight_scale"].float()
    q = torch.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)
    return E2M1[q] * s.repeat_interleave(16, 1) / t["weight_global_scale"]


def fp8_rows(t):
    return t["weight"].float() * t["weight_scale"].float()


def float32_weights(stored):
    """Returns the tensors of a checkpoint by name. Quantized matrices become NAME.weight in float32."""
    parts, out = {}, {}
    for name, tensor in stored.items():
        parts.setdefault(name.rsplit(".", 1)[0], {})[name.rsplit(".", 1)[1]] = tensor
    for module, t in parts.items():
        if "qweight" in t:
            weight = gptq_v1(t) if "g_idx" in t else awq(t)
        elif "weight_global_scale" in t:
            weight = nvfp4(t)
        elif "weight_packed" in t:
            weight = packed8(t)
        elif "weight_scale" in t:
            weight = fp8_rows(t)
        else:
            out.update({f"{module}.{part}": tensor for part, tensor in t.items()})
            continue
        out[f"{module}.weight"] = weight
        if "bias" in t:
            out[f"{module}.bias"] = t["bias"]
    return out
