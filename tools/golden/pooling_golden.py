# SPDX-License-Identifier: Apache-2.0
"""Writes reference vectors or scores of a checkpoint that embeds or reranks: OUT/NAME.json and OUT/NAME.safetensors.

    python3 tools/golden/pooling_golden.py CHECKPOINT NAME IMAGES OUT embed|rerank [--made-by "mkcheckpoint arguments"]
    python3 tools/golden/pooling_golden.py CHECKPOINT NAME IMAGES OUT embed --bf16-error [--device cuda]

Prompts, limits of pixels and pooling are those of Qwen's own classes (QwenLM/Qwen3-VL-Embedding, src/models).
transformers computes the outputs in float32 with eager attention on the CPU. tests/golden/README.md describes the
layout. --bf16-error runs the cases in BF16 (SDPA attention, as users have it) and prints the relative errors.
"""

import argparse
import json
import os
import unicodedata

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import Qwen3VLForConditionalGeneration

import make_golden
import reference

MIN_PIXELS, MAX_PIXELS = 4 * 32 * 32, 1800 * 32 * 32
EMBED_INSTRUCTION = "Represent the user's input."
RERANK_INSTRUCTION = "Given a search query, retrieve relevant candidates that answer the query."
RERANK_SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
LONG = "The house has two doors, four windows and a small tree. Größe: 3½ m, 你好 😀.\n" * 12


def text(words):
    return {"text": words}


def image(name):
    return {"image": name}


EMBED_CASES = [
    dict(parts=[text("hello")]),
    dict(parts=[text("a small house and a large tree, near the water")]),
    dict(parts=[text("the red car")], instruction="Find the photo that fits"),
    dict(parts=[text("die Größe: 3½ m, 你好 😀")], instruction="  Ein Bild。 "),
    dict(parts=[text("what is this?")], instruction=" \t\n"),
    dict(parts=[]),
    dict(parts=[text("")]),
    dict(parts=[image("16-64x64.png")]),
    dict(parts=[image("11-17x17.png")]),
    dict(parts=[image("02-1x200.png")]),
    dict(parts=[image("07-300x211.jpg")], instruction="Represent the picture!"),
    dict(parts=[text("two people "), image("10-320x192.png")]),
    dict(parts=[image("09-224x224.png"), text("left,"), image("19-48x112.png"), text(" right")]),
    dict(parts=[image("20-1365x512.png")]),
    dict(parts=[text(LONG)]),
    dict(parts=[text(LONG)], max_tokens=100),
    dict(parts=[text(LONG)], max_tokens=64, instruction="Represent the text for retrieval."),
]
RERANK_CASES = [
    dict(query=[text("where is the cat?")], parts=[text("The cat is on the house.")]),
    dict(query=[text("where is the cat?")], parts=[text("Water is near the tree.")]),
    dict(query=[text("red car")], parts=[image("07-300x211.jpg")]),
    dict(query=[image("16-64x64.png")], parts=[text("a photo of a house")]),
    dict(query=[text("like this"), image("19-48x112.png")], parts=[text("and this"), image("09-224x224.png")]),
    dict(query=[text("größe?")], parts=[text("3½ m, 你好 😀")], instruction="Retrieve text relevant to the query"),
    dict(query=[], parts=[]),
    dict(query=[text("trees")], parts=[text(LONG)]),
    dict(query=[text("trees")], parts=[text(LONG)], max_tokens=150),
]


# ---- prompts ----


def sorted_parts(parts):
    """Returns images before texts, or the word NULL if there is neither."""
    if not any("image" in p or p["text"] for p in parts):
        return [text("NULL")]
    return [p for p in parts if "image" in p] + [p for p in parts if "text" in p]


def embedding_conversation(case):
    instruction = (case.get("instruction") or "").strip()
    if instruction and not unicodedata.category(instruction[-1]).startswith("P"):
        instruction += "."
    return [
        {"role": "system", "parts": [text(instruction or EMBED_INSTRUCTION)]},
        {"role": "user", "parts": sorted_parts(case["parts"])},
    ]


def reranking_conversation(case):
    parts = [text("<Instruct>: " + (case.get("instruction") or RERANK_INSTRUCTION)), text("<Query>:")]
    parts += sorted_parts(case["query"]) + [text("\n<Document>:")] + sorted_parts(case["parts"])
    return [{"role": "system", "parts": [text(RERANK_SYSTEM)]}, {"role": "user", "parts": parts}]


def shortened(ids, most, closing):
    """Cuts the end of the last text. The last `closing` ids, which end the turn, stay."""
    return ids if len(ids) <= most else ids[: most - closing] + ids[-closing:]


# ---- the model ----


def load_model(directory, attention):
    config = reference.load_config(directory)
    config._attn_implementation = attention
    torch.set_default_dtype(torch.float32)
    model = Qwen3VLForConditionalGeneration(config)
    state = reference.float32_state(directory, True)  # embedding models may lack the head, which they do not use
    model.load_state_dict(state, strict=True)
    return model.eval()


class Pooling(make_golden.Golden):
    def __init__(self, directory, images, device="cpu", dtype=torch.float32):
        self.device, self.images = device, images
        self.model = load_model(directory, "eager" if dtype == torch.float32 else "sdpa").to(device, dtype)
        self.tokenizer = reference.load_tokenizer(directory)
        self.processor = reference.load_image_processor(directory)
        self.processor.size = type(self.processor.size)(shortest_edge=MIN_PIXELS, longest_edge=MAX_PIXELS)

    def hidden(self, conversation, most):
        """Returns the ids, and the hidden state of the last one after the final norm."""
        patches = self.patches(conversation)
        ids, feed = self.inputs(conversation, patches)
        closing = len(ids) - (len(ids) - 1 - ids[::-1].index(self.tokenizer.token_to_id("<|im_end|>")))
        if most and len(ids) > most:
            assert not patches
            ids = shortened(ids, most, closing)
            tokens = torch.tensor([ids], device=self.device)
            feed = dict(input_ids=tokens, attention_mask=torch.ones_like(tokens), mm_token_type_ids=tokens * 0)
        if "pixel_values" in feed:
            feed["pixel_values"] = feed["pixel_values"].to(self.model.dtype)
        return ids, self.model.model(**feed).last_hidden_state[0, -1].float().cpu()

    def score(self, hidden):
        head = self.model.lm_head.weight
        yes, no = (self.tokenizer.token_to_id(w) for w in ("yes", "no"))
        return float(torch.sigmoid(hidden.double() @ (head[yes].double() - head[no].double())))


# ---- what BF16 loses ----


def relative(got, want):
    return float((got - want).norm() / want.norm())


def vector_errors(got, want):
    """Of the hidden state, and of the vectors that the test reads: whole, and cut to 64 and 100 numbers."""
    unit = torch.nn.functional.normalize
    return [relative(got, want)] + [relative(unit(got[:n], dim=0), unit(want[:n], dim=0)) for n in (len(want), 64, 100)]


def print_bf16_errors(a):
    truth = load_file(os.path.join(a.out, a.name + ".safetensors"))
    golden, worst = Pooling(a.checkpoint, a.images, a.device, torch.bfloat16), 0.0
    for i, case in enumerate(EMBED_CASES):
        _, hidden = golden.hidden(embedding_conversation(case), case.get("max_tokens"))
        errors = vector_errors(hidden, truth[f"case{i:02d}.hidden"])
        print(f"case{i:02d}", " ".join(f"{e:.4f}" for e in errors))
        worst = max([worst, *errors])
    print(f"{a.name} in BF16 on {a.device}: largest relative error {worst:.4f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint"), p.add_argument("name"), p.add_argument("images"), p.add_argument("out")
    p.add_argument("task", choices=("embed", "rerank")), p.add_argument("--made-by", default=None)
    p.add_argument("--bf16-error", action="store_true"), p.add_argument("--device", default="cpu")
    a = p.parse_args()
    if a.bf16_error:
        with torch.inference_mode():
            return print_bf16_errors(a)
    golden, tensors, cases = Pooling(a.checkpoint, a.images), {}, []
    embeds = a.task == "embed"
    with torch.inference_mode():
        for i, case in enumerate(EMBED_CASES if embeds else RERANK_CASES):
            conversation = embedding_conversation(case) if embeds else reranking_conversation(case)
            ids, hidden = golden.hidden(conversation, case.get("max_tokens"))
            name = f"case{i:02d}"
            if embeds:
                tensors[f"{name}.hidden"] = hidden.clone()
                tensors[f"{name}.vector"] = torch.nn.functional.normalize(hidden, p=2, dim=-1)
            else:
                case = dict(case, score=golden.score(hidden))
            cases.append(dict(case, name=name, ids=ids))
    save_file(tensors, os.path.join(a.out, a.name + ".safetensors"), metadata={"format": "pt"})
    head = dict(
        model=a.name,
        made_by=a.made_by,
        transformers=transformers.__version__,
        torch=torch.__version__,
        task=a.task,
        cases=cases,
    )
    with open(os.path.join(a.out, a.name + ".json"), "w") as f:
        json.dump(head, f, indent=None, separators=(",", ":"), ensure_ascii=False)
    print(a.name, len(cases), "cases", [round(c["score"], 4) for c in cases if "score" in c])


if __name__ == "__main__":
    main()
