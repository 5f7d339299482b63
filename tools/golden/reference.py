# SPDX-License-Identifier: Apache-2.0
"""Loads any Qwen3-VL checkpoint directory as the float32 reference, with transformers.

FP8 weights are dequantized here in float32, because transformers rounds the products to BF16. All other tensors are
converted to float32. The state is loaded strictly: a missing or unexpected tensor is an error.
"""

import glob
import json
import os

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False

OLDER_NAMES = [
    ("visual.", "model.visual."),
    ("language_model.model.", "model.language_model."),
    ("model.layers.", "model.language_model.layers."),
    ("model.embed_tokens.", "model.language_model.embed_tokens."),
    ("model.norm.", "model.language_model.norm."),
]


def official_name(name):
    """Returns a tensor name as the released checkpoints spell it."""
    for old, new in OLDER_NAMES:
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def tensor_files(directory):
    return sorted(glob.glob(os.path.join(directory, "*.safetensors")))


def file_tensors(path):
    with safe_open(path, "pt") as f:
        return {k: f.get_tensor(k) for k in f.keys()}


def stored_tensors(directory):
    """Returns all tensors of a checkpoint by official name."""
    tensors = {}
    for path in tensor_files(directory):
        tensors.update({official_name(k): t for k, t in file_tensors(path).items()})
    return tensors


def dequantised(weight, scale):
    """Returns weight[n, k] * scale[n / 128, k / 128] in float32. Blocks may be cut at the edges."""
    rows, cols = weight.shape
    wide = scale.float().repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :cols]
    return weight.float() * wide


def float32_state(directory, tied):
    """Returns the state dict of the float32 model."""
    stored, state = stored_tensors(directory), {}
    for name, tensor in stored.items():
        if name.endswith("_scale_inv"):
            continue
        scale = stored.get(name + "_scale_inv")
        state[name] = tensor.float() if scale is None else dequantised(tensor, scale)
    if "lm_head.weight" not in state:
        assert tied, "no lm_head.weight and not tied"
        state["lm_head.weight"] = state["model.language_model.embed_tokens.weight"]
    return state


def load_config(directory):
    """Returns the checkpoint's config without quantization, because the state is float32."""
    with open(os.path.join(directory, "config.json")) as f:
        raw = json.load(f)
    raw.pop("quantization_config", None)
    for part in (raw, raw["text_config"], raw["vision_config"]):
        part.pop("dtype", None)
        part.pop("torch_dtype", None)
    return Qwen3VLConfig(**raw)


def load_model(directory, device="cuda", attention="eager"):
    """Returns the model in float32 on `device`. Its constructor makes the rotary buffers, in float32, too."""
    config = load_config(directory)
    config._attn_implementation = attention
    torch.set_default_dtype(torch.float32)
    with torch.device(device):
        model = Qwen3VLForConditionalGeneration(config)
    model.load_state_dict(float32_state(directory, config.tie_word_embeddings), strict=True)
    return model.eval()


def load_tokenizer(directory):
    return Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))


def load_image_processor(directory):
    """Returns the default (torchvision) image processor of transformers with the checkpoint's settings."""
    from transformers.models.qwen2_vl import image_processing_qwen2_vl as module

    cls = getattr(module, "Qwen2VLImageProcessor")
    with open(os.path.join(directory, "preprocessor_config.json")) as f:
        raw = json.load(f)
    keys = (
        "size",
        "patch_size",
        "temporal_patch_size",
        "merge_size",
        "image_mean",
        "image_std",
        "min_pixels",
        "max_pixels",
    )
    return cls(**{k: raw[k] for k in keys if k in raw})
