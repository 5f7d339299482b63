#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reference outputs of the language model in a GGUF file of the Llama family, computed by transformers in float32.

    make_references.py MODEL.gguf FOLDER               reads FOLDER's prompts.json and text.txt, and writes
                                                       reference.json, logits.npz and text.npz
    make_references.py MODEL.gguf FOLDER --checkpoint  writes the same weights as a float32 safetensors checkpoint

tests/real/README.md explains the fields. Needs torch, transformers 5, gguf, tokenizers and numpy.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # everything comes from the file

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTROL = 3  # token type of the special tokens
END_TEXTS = ("<|im_end|>", "<|endoftext|>")  # an answer ends with one of these
TOP, ANSWER = 20, 48
NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def transformers_name(name):
    *layer, kind, _ = name.split(".")
    prefix = "" if kind == "output" else f"model.layers.{layer[1]}." if layer else "model."
    return f"{prefix}{NAMES[kind]}.weight"


def split_halves(rows, heads):
    """Restores the order of the rows of q and k: within a head, rows 2i and 2i + 1 become rows i and i + d/2."""
    count, columns = rows.shape
    return rows.reshape(heads, count // heads // 2, 2, columns).swapaxes(1, 2).reshape(count, columns)


def read_weights(reader, config):
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    weights = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        kind = tensor.name.split(".")[-2]
        if kind in heads:
            values = split_halves(values, heads[kind])
        weights[transformers_name(tensor.name)] = torch.from_numpy(np.array(values, dtype=np.float32))
    return weights


def read_model(reader, meta, attention):
    if meta("general.architecture") != "llama":
        raise SystemExit(f"architecture {meta('general.architecture')} is not supported, only llama")
    config = LlamaConfig(
        vocab_size=len(meta("tokenizer.ggml.tokens")),
        hidden_size=meta("llama.embedding_length"),
        intermediate_size=meta("llama.feed_forward_length"),
        num_hidden_layers=meta("llama.block_count"),
        num_attention_heads=meta("llama.attention.head_count"),
        num_key_value_heads=meta("llama.attention.head_count_kv"),
        max_position_embeddings=meta("llama.context_length"),
        rms_norm_eps=float(f"{meta('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        rope_parameters={"rope_type": "default", "rope_theta": float(meta("llama.rope.freq_base"))},
        tie_word_embeddings=all(tensor.name != "output.weight" for tensor in reader.tensors),
        bos_token_id=meta("tokenizer.ggml.bos_token_id"),
        eos_token_id=meta("tokenizer.ggml.eos_token_id"),
        pad_token_id=meta("tokenizer.ggml.padding_token_id"),
        attn_implementation=attention,
        dtype=torch.float32,
    )
    model = LlamaForCausalLM(config).eval()
    missing, unexpected = model.load_state_dict(read_weights(reader, config), strict=False)
    if unexpected or set(missing) != ({"lm_head.weight"} if config.tie_word_embeddings else set()):
        raise SystemExit(f"tensors missing: {missing}, unexpected: {unexpected}")
    return model


def read_tokenizer(meta):
    """Returns the model's byte-level BPE tokenizer: no normalization, single digits, then GPT-2's pattern."""
    if (meta("tokenizer.ggml.model"), meta("tokenizer.ggml.pre")) != ("gpt2", "smollm"):
        raise SystemExit("only a gpt2 vocabulary with the smollm pre-tokenizer is supported")
    tokens = meta("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in meta("tokenizer.ggml.merges")]
    core = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    core.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, meta("tokenizer.ggml.token_type")) if kind == CONTROL]
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    named = {role: tokens[meta(f"tokenizer.ggml.{key}_token_id")] for role, key in roles.items()}
    return PreTrainedTokenizerFast(tokenizer_object=core, chat_template=meta("tokenizer.chat_template"), **named)


def number(value):
    return float(f"{float(value):.9g}")  # nine digits identify a float32


def logsumexp(logits):
    return torch.logsumexp(logits.double(), -1)


def answer(model, ids, end_ids):
    """Returns the logits after the prompt, and the greedy answer with the margin of each step."""
    steps = {"ids": [], "second": [], "margin": [], "logprob": []}
    out = model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
    first = out.logits[0, -1]
    while True:
        logits = out.logits[0, -1]
        values, best = logits.topk(2)
        steps["ids"].append(int(best[0]))
        steps["second"].append(int(best[1]))
        steps["margin"].append(number(values[0] - values[1]))
        steps["logprob"].append(number(values[0].double() - logsumexp(logits)))
        if int(best[0]) in end_ids or len(steps["ids"]) == ANSWER:
            return first, steps
        out = model(best[:1][None], cache=out.cache, use_cache=True)


def refer(model, tokenizer, prompt, end_ids):
    entry = {"id": prompt["id"], "about": prompt["about"]}
    text = prompt.get("text")
    if text is None:
        text = tokenizer.apply_chat_template(prompt["messages"], tokenize=False, add_generation_prompt=True)
        entry["rendered"] = text
    entry["ids"] = tokenizer(text, add_special_tokens=False)["input_ids"]
    logits, steps = answer(model, entry["ids"], end_ids)
    values, best = logits.topk(TOP)
    entry |= {"top_ids": best.tolist(), "top_logits": [number(v) for v in values], "logsumexp": number(logsumexp(logits))}
    entry["greedy"] = steps | {"text": tokenizer.decode(steps["ids"], skip_special_tokens=True)}
    return entry, logits.numpy()


def measure(model, tokenizer, text):
    ids = torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])
    logits = model(ids[None]).logits[0, :-1]
    nll = logsumexp(logits) - logits.gather(1, ids[1:, None])[:, 0].double()
    values, best = logits.topk(2)
    arrays = {"ids": ids.int(), "nll": nll.float(), "best": best[:, 0].int(), "margin": values[:, 0] - values[:, 1]}
    summary = {"tokens": len(ids), "predicted": len(nll), "nll": number(nll.sum()), "perplexity": number(nll.mean().exp())}
    return summary, {name: values.numpy() for name, values in arrays.items()}


def write_references(model, tokenizer, folder, head):
    end_ids = sorted(tokenizer.convert_tokens_to_ids(text) for text in END_TEXTS)
    entries, full = [], {}
    for prompt in json.loads((folder / "prompts.json").read_text()):
        entry, logits = refer(model, tokenizer, prompt, end_ids)
        entries.append(json.dumps(entry))
        full |= {prompt["id"]: logits} if prompt.get("full") else {}
        print(prompt["id"], len(entry["ids"]), repr(entry["greedy"]["text"][:90]), flush=True)
    summary, arrays = measure(model, tokenizer, (folder / "text.txt").read_bytes().decode())
    print(summary)
    np.savez_compressed(folder / "logits.npz", **full)
    np.savez_compressed(folder / "text.npz", **arrays)
    head = json.dumps(head | {"end_ids": end_ids, "text": summary})
    (folder / "reference.json").write_text(head[:-1] + ', "prompts": [\n' + ",\n".join(entries) + "\n]}\n")


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checkpoint", action="store_true", help="write a safetensors checkpoint into the folder")
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="eager")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    reader = gguf.GGUFReader(options.gguf)
    tokenizer = read_tokenizer(lambda key: reader.fields[key].contents())
    model = read_model(reader, lambda key: reader.fields[key].contents(), options.attention)
    if options.checkpoint:
        return [part.save_pretrained(options.folder) for part in (model, tokenizer)]
    head = {"file": options.gguf.name, "sha256": hashlib.sha256(options.gguf.read_bytes()).hexdigest()}
    head |= {module.__name__: module.__version__ for module in (torch, transformers, tokenizers, np)}
    head |= {"dtype": "float32", "attention": options.attention, "threads": options.threads}
    write_references(model, tokenizer, options.folder, head)


if __name__ == "__main__":
    main()
