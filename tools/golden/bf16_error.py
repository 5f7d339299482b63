# SPDX-License-Identifier: Apache-2.0
"""Measures the error of the reference itself in BF16, with which eyelet's BF16 paths are compared.

    python3 tools/golden/bf16_error.py CHECKPOINT GOLDEN IMAGES [--device cuda]

GOLDEN is tests/golden/NAME without its ending: outputs of transformers in float32. The script runs the same cases with
all weights and activations in BF16 (FP8 weights dequantized to BF16, SDPA attention, as users run it). It prints for
each case the relative error of image features and the KL divergence of the first token's distribution, and the largest
of each.
"""

import argparse
import json

import torch
from safetensors.torch import load_file

import make_golden


def relative(got, want):
    return float((got - want).norm() / want.norm())


def kl(want, got):
    p, q = want.double().log_softmax(-1), got.double().log_softmax(-1)
    return float((p.exp() * (p - q)).sum())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint"), p.add_argument("golden"), p.add_argument("images"), p.add_argument(
        "--device", default="cuda"
    )
    a = p.parse_args()
    with open(a.golden + ".json") as f:
        cases = json.load(f)["cases"]
    truth = load_file(a.golden + ".safetensors")
    golden = make_golden.Golden(a.checkpoint, a.images, a.device, "sdpa")
    golden.model.to(torch.bfloat16)
    worst_feature = worst_kl = 0.0
    with torch.inference_mode():
        for c in cases:
            name = c["name"]
            _, feed = golden.inputs(c["messages"], golden.patches(c["messages"]))
            if "pixel_values" in feed:
                feed["pixel_values"] = feed["pixel_values"].to(torch.bfloat16)
            errors = [
                relative(f[c["feature_rows"]], truth[f"{name}.features{k}"])
                for k, f in enumerate(golden.features(feed))
            ]
            divergence = kl(truth[f"{name}.first_logits"], golden.model(**feed).logits[0, -1].float().cpu())
            print(name, "features", " ".join(f"{e:.4f}" for e in errors), "KL", f"{divergence:.5f}")
            worst_feature, worst_kl = max([worst_feature, *errors]), max(worst_kl, divergence)
    print(a.golden, f"in BF16: largest feature error {worst_feature:.4f}, largest KL {worst_kl:.5f}")


if __name__ == "__main__":
    main()
