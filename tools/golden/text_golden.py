# SPDX-License-Identifier: Apache-2.0
"""Writes reference outputs of one text-only checkpoint (Qwen2, Qwen3, Phi-3, Llama): OUT/NAME.json and
OUT/NAME.safetensors.

    python3 tools/golden/text_golden.py CHECKPOINT NAME OUT [--made-by "mkcheckpoint arguments"]
    python3 tools/golden/text_golden.py CHECKPOINT NAME OUT --bf16-error

As in make_golden.py, all outputs come from transformers in float32 with eager attention, here without a KV cache.
tests/golden/README.md describes the layout. --bf16-error runs the same answers in BF16 (SDPA attention) and compares
them with OUT; eyelet's BF16 paths are compared with that error, as they are with bf16_error.py for images.
"""

import argparse
import json
import os

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import quantised
import reference

NEW_TOKENS = 24
LONG = ("The house has two doors, four windows and a small tree. " * 5 + "Größe: 3½ m, 你好 😀.\n\n") * 3


def user(words):
    return {"role": "user", "parts": [{"text": words}]}


def system(words):
    return {"role": "system", "parts": [{"text": words}]}


def assistant(words):
    return {"role": "assistant", "parts": [{"text": words}]}


CASES = [
    [user("Hello, who are you?")],
    [system("You answer in one word."), user("  Was sieht man hier? 你好 ½ é")],
    [user("hello"), assistant("Hello."), user("How many words did I say?\nAnswer briefly.")],
    [user(LONG + "How many trees are there?")],
    [system("You are assistant."), user("hello"), assistant("how can I help you?"), user("how much is 2+2?")],
]


def words_of(message):
    return "".join(p["text"] for p in message["parts"])


def rendered_chatml(messages, default_system):
    """Returns the prompt of Qwen models without tools (spec 7.1 and 7.2)."""
    out = ""
    if default_system and messages[0]["role"] != "system":
        out = f"<|im_start|>system\n{default_system}<|im_end|>\n"
    for m in messages:
        out += f"<|im_start|>{m['role']}\n{words_of(m)}<|im_end|>\n"
    return out + "<|im_start|>assistant\n"


def rendered_phi3(messages):
    """Returns Phi-3's prompt (spec 7.3)."""
    return "".join(f"<|{m['role']}|>\n{words_of(m)}<|end|>\n" for m in messages) + "<|assistant|>\n"


def rendered_llama(messages):
    """Returns Llama-2's prompt (spec 7.4)."""
    out, head = "", ""
    for m in messages:
        if m["role"] == "system":
            head = f"<<SYS>>\n{words_of(m)}\n<</SYS>>\n\n"
        elif m["role"] == "user":
            out += f"<s>[INST] {(head + words_of(m)).strip()} [/INST]"
            head = ""
        else:
            out += f" {words_of(m).strip()} </s>"
    return out


RENDERED = {
    "qwen2": lambda m: rendered_chatml(m, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    "qwen3": lambda m: rendered_chatml(m, None),
    "phi3": rendered_phi3,
    "llama": rendered_llama,
}


def load_model(directory, device="cuda", attention="eager"):
    """Returns the model in float32. FP8 weights are dequantized in float32 (reference.py)."""
    with open(os.path.join(directory, "config.json")) as f:
        raw = json.load(f)
    for key in ("quantization_config", "dtype", "torch_dtype"):
        raw.pop(key, None)
    theta, kind = raw.get("rope_theta", 10000.0), raw.pop("model_type")
    config = AutoConfig.for_model(kind, **raw)
    config._attn_implementation = attention
    torch.set_default_dtype(torch.float32)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(float32_state(directory, raw["tie_word_embeddings"]), strict=True)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    frequency = model.model.rotary_emb.inv_freq.double().cpu()
    pairs = torch.arange(len(frequency), dtype=torch.float64)
    assert torch.allclose(frequency, theta ** (-pairs / len(pairs)), rtol=1e-6, atol=0), "rope_theta was not read"
    return model.eval(), kind


def float32_state(directory, tied):
    stored, state = {}, {}
    for path in reference.tensor_files(directory):
        stored.update(reference.file_tensors(path))
    stored = quantised.float32_weights(stored)
    for name, tensor in stored.items():
        if not name.endswith("_scale_inv"):
            scale = stored.get(name + "_scale_inv")
            state[name] = tensor.float() if scale is None else reference.dequantised(tensor, scale)
    if tied:
        state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    return state


def greedy(model, ids, eos, device):
    """Returns the greedy ids with the stop token, and the logits of each step, which is computed without a KV cache."""
    answer, logits = [], []
    while len(answer) < NEW_TOKENS:
        out = model(input_ids=torch.tensor([ids + answer], device=device), use_cache=False).logits[0, -1].float().cpu()
        logits.append(out)
        answer.append(int(out.argmax()))
        if answer[-1] in eos:
            break
    return answer, torch.stack(logits)


def case(model, tokenizer, kind, eos, name, messages, tensors, device):
    ids = tokenizer.encode(RENDERED[kind](messages), add_special_tokens=False).ids
    answer, logits = greedy(model, ids, eos, device)
    best = logits.topk(2).values
    tensors[f"{name}.positions"] = torch.arange(len(ids), dtype=torch.int32).expand(3, -1).contiguous()
    tensors[f"{name}.first_logits"], tensors[f"{name}.last_logits"] = logits[0].clone(), logits[-1].clone()
    return dict(
        name=name,
        messages=messages,
        ids=ids,
        answer=answer,
        gaps=[round(g, 6) for g in (best[:, 0] - best[:, 1]).tolist()],
        feature_rows=[],
        pictures=[],
    )


def kl(want, got):
    p, q = want.double().log_softmax(-1), got.double().log_softmax(-1)
    return float((p.exp() * (p - q)).sum())


def bf16_error(directory, golden, device):
    """Prints the largest KL divergence and logit difference over the first and last steps of all cases, and the widest
    gap between the two best logits at which BF16 chose another token."""
    model, _ = load_model(directory, device, "sdpa")
    frequency = model.model.rotary_emb.inv_freq.clone()
    model.to(torch.bfloat16)
    model.model.rotary_emb.inv_freq = frequency
    with open(golden + ".json") as f:
        cases = json.load(f)["cases"]
    truth, worst, apart, gap = load_file(golden + ".safetensors"), 0.0, 0.0, 0.0
    for c in cases:
        n, answer = len(c["ids"]), c["answer"]
        logits = (
            model(input_ids=torch.tensor([c["ids"] + answer[:-1]], device=device), use_cache=False)
            .logits[0, n - 1 :]
            .float()
            .cpu()
        )
        for part, row in (("first_logits", logits[0]), ("last_logits", logits[-1])):
            want = truth[f"{c['name']}.{part}"]
            worst, apart = max(worst, kl(want, row)), max(apart, float((want - row).abs().max()))
        wrong = [g for g, a, b in zip(c["gaps"], logits.argmax(-1).tolist(), answer) if a != b]
        gap = max([gap, *wrong])
    print(
        golden,
        f"in BF16: largest KL {worst:.5f}, largest logit difference {apart:.4f}, "
        f"widest gap answered otherwise {gap:.4f}",
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint"), p.add_argument("name"), p.add_argument("out")
    p.add_argument("--made-by", default=None), p.add_argument("--device", default="cuda"), p.add_argument(
        "--bf16-error", action="store_true"
    )
    a = p.parse_args()
    if a.bf16_error:
        with torch.inference_mode():
            return bf16_error(a.checkpoint, os.path.join(a.out, a.name), a.device)
    os.makedirs(a.out, exist_ok=True)
    model, kind = load_model(a.checkpoint, a.device)
    tokenizer, tensors = reference.load_tokenizer(a.checkpoint), {}
    with open(os.path.join(a.checkpoint, "generation_config.json")) as f:
        eos = json.load(f)["eos_token_id"]
    eos = eos if isinstance(eos, list) else [eos]
    with torch.inference_mode():
        cases = [case(model, tokenizer, kind, eos, f"case{i:02d}", m, tensors, a.device) for i, m in enumerate(CASES)]
    save_file(tensors, os.path.join(a.out, a.name + ".safetensors"), metadata={"format": "pt"})
    head = dict(
        model=a.name, made_by=a.made_by, transformers=transformers.__version__, torch=torch.__version__, cases=cases
    )
    with open(os.path.join(a.out, a.name + ".json"), "w") as f:
        json.dump(head, f, indent=None, separators=(",", ":"), ensure_ascii=False)
    print(
        a.name,
        len(cases),
        "cases of",
        [len(c["ids"]) for c in cases],
        "tokens; smallest gap",
        min(min(c["gaps"]) for c in cases),
    )


if __name__ == "__main__":
    main()
