# SPDX-License-Identifier: Apache-2.0
"""python3 bench/transformers_gpu.py 2b|4b [--side 1024] [--tokens 64]: transformers on a GPU with random weights of
the official shapes: time to the first token of an image, decode, memory.

BF16, SDPA, one sequence, patches already on the GPU: the default without another kernel package. Prints medians."""

import argparse
import statistics
import time

import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

TEXT = {
    "2b": dict(
        hidden_size=2048, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, intermediate_size=6144
    ),
    "4b": dict(
        hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, intermediate_size=9728
    ),
}
IMAGE, START, END = 151655, 151652, 151653


def config_of(size):
    text = dict(
        TEXT[size],
        head_dim=128,
        vocab_size=151936,
        rms_norm_eps=1e-6,
        max_position_embeddings=262144,
        tie_word_embeddings=True,
        rope_theta=5000000,
        rope_scaling=dict(rope_type="default", mrope_interleaved=True, mrope_section=[24, 20, 20]),
        hidden_act="silu",
        attention_bias=False,
    )
    vision = dict(
        depth=24,
        hidden_size=1024,
        num_heads=16,
        intermediate_size=4096,
        patch_size=16,
        temporal_patch_size=2,
        spatial_merge_size=2,
        out_hidden_size=text["hidden_size"],
        num_position_embeddings=2304,
        deepstack_visual_indexes=[5, 11, 17],
        hidden_act="gelu_pytorch_tanh",
        in_channels=3,
    )
    return Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=IMAGE,
        video_token_id=151656,
        vision_start_token_id=START,
        vision_end_token_id=END,
        tie_word_embeddings=True,
    )


def inputs_of(side):
    grid = side // 16
    n = grid * grid // 4
    ids = torch.cat(
        [
            torch.randint(100, 100000, (14,)),
            torch.tensor([START]),
            torch.full((n,), IMAGE),
            torch.tensor([END]),
            torch.randint(100, 100000, (34,)),
        ]
    )[None].cuda()
    pixels = torch.randn(grid * grid, 1536, device="cuda", dtype=torch.bfloat16)
    return dict(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        mm_token_type_ids=(ids == IMAGE).int(),
        pixel_values=pixels,
        image_grid_thw=torch.tensor([[1, grid, grid]], device="cuda"),
    )


def seconds_of(model, feed, tokens):
    torch.cuda.synchronize()
    start = time.perf_counter()
    model.generate(**feed, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main():
    p = argparse.ArgumentParser()
    p.add_argument("size", choices=TEXT), p.add_argument("--side", type=int, default=1024), p.add_argument(
        "--tokens", type=int, default=64
    )
    a = p.parse_args()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"), torch.inference_mode():
        model = Qwen3VLForConditionalGeneration(config_of(a.size)).eval()
    with torch.inference_mode():
        feed = inputs_of(a.side)
        seconds_of(model, feed, 2)
        first = statistics.median(seconds_of(model, feed, 1) for _ in range(5))
        whole = statistics.median(seconds_of(model, feed, 1 + a.tokens) for _ in range(3))
    free, total = torch.cuda.mem_get_info()
    print(
        f"transformers {a.size} BF16 SDPA: first token {1e3 * first:.1f} ms, "
        f"decode {a.tokens / (whole - first):.1f} tok/s, "
        f"{(total - free) / 2**20:.0f} MiB of the GPU in use"
    )


if __name__ == "__main__":
    main()
