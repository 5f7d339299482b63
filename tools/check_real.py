#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares eyelet with transformers (float32) on a checkpoint and an image of yours, in one command.

    tools/check_real.py MODEL IMAGE [QUESTION] [--eyelet build/eyelet] [--torch-device cpu|cuda] [--tokens 16]

MODEL is a directory. Needs torch, transformers and tokenizers. Prints the two answers and the largest difference of
log-probabilities. The exit status is 0 if the greedy tokens are the same (or first differ at a near-tie) and the
log-probabilities agree within 1e-3.
"""

import argparse
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))

TOLERANCE = 1e-3


def eyelet_answer(a):
    with open(os.path.join(a.model, "config.json")) as f:
        context = min(32768, json.load(f)["text_config"]["max_position_embeddings"])
    command = [
        a.eyelet,
        "ask",
        "--model",
        a.model,
        "--device",
        "ref",
        "--max-pixels",
        "native",
        "--max-tokens",
        str(a.tokens),
        "--max-model-len",
        str(context),
        "--temperature",
        "0",
        "--repetition-penalty",
        "1",
        "--logprobs",
        "5",
        "--json",
        a.image,
        a.question,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def reference_answer(a):
    """Returns the greedy ids and the log-probabilities of every step."""
    import torch
    import make_golden

    make_golden.NEW_TOKENS = a.tokens
    golden = make_golden.Golden(a.model, os.path.dirname(os.path.abspath(a.image)), a.torch_device, "sdpa")
    messages = [make_golden.user(make_golden.image_part(a.image), make_golden.text(a.question))]
    with torch.inference_mode():
        patches = golden.patches(messages)
        ids, feed = golden.inputs(messages, patches)
        answer, logits, gaps = golden.greedy(feed, len(ids))
    return golden.tokenizer, ids, answer, logits.log_softmax(-1), gaps


def compare(got, tokenizer, ids, answer, logprobs, gaps):
    """Prints the comparison. Returns whether the answers agree."""
    print("prompt tokens: eyelet", got["usage"]["prompt_tokens"], "reference", len(ids))
    worst, same = 0.0, got["usage"]["prompt_tokens"] == len(ids)
    for step, token in enumerate(got["logprobs"][: len(answer)]):
        want = float(logprobs[step, answer[step]])
        expected = tokenizer.decode([answer[step]], skip_special_tokens=False)
        if token["token"] != expected:
            tie = gaps[step] < TOLERANCE
            print(
                f"step {step}: eyelet {token['token']!r}, reference {expected!r}, gap {gaps[step]:.2g}",
                "(near-tie)" if tie else "",
            )
            return same and tie and worst <= TOLERANCE
        worst = max(worst, abs(token["logprob"] - want))
    print(
        f"{min(len(answer), len(got['logprobs']))} tokens the same; largest difference of log-probabilities {worst:.2e}"
    )
    return same and worst <= TOLERANCE


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model"), p.add_argument("image"), p.add_argument(
        "question", nargs="?", default="Describe this image."
    )
    p.add_argument("--eyelet", default="build/eyelet"), p.add_argument("--torch-device", default="cpu")
    p.add_argument("--tokens", type=int, default=16)
    a = p.parse_args()
    got = eyelet_answer(a)
    tokenizer, ids, answer, logprobs, gaps = reference_answer(a)
    print("eyelet:   ", repr(got["answer"]))
    print("reference:", repr(tokenizer.decode(answer, skip_special_tokens=True)))
    sys.exit(0 if compare(got, tokenizer, ids, answer, logprobs, gaps) else 1)


if __name__ == "__main__":
    main()
