# SPDX-License-Identifier: Apache-2.0
"""Writes reference outputs of one checkpoint: OUT/NAME.json and OUT/NAME.safetensors.

    python3 tools/golden/make_golden.py CHECKPOINT NAME IMAGES OUT [--made-by "mkcheckpoint arguments"]
                                        [--amount few|some|all]

All outputs come from transformers in float32 with eager attention: token ids, digests of patches, positions, image
features (sampled rows), logits and greedy ids. tests/golden/README.md describes the layout.
"""

import argparse
import glob
import hashlib
import json
import os

import torch
from PIL import Image, ImageOps
from safetensors.torch import save_file

import reference

QUESTIONS = [
    "Describe this image.",
    "What is this?",
    "How many shapes are there?\nAnswer briefly.",
    "  Was sieht man hier? 你好 ½ é",
    "Read all the text in the image.",
]
FEATURE_ROWS = 4
NEW_TOKENS = 24


def text(words):
    return {"text": words}


def image_part(path):
    return {"image": os.path.basename(path)}


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def assistant(words):
    return {"role": "assistant", "parts": [text(words)]}


def cases_for(paths, amount):
    """Returns cases: one question per image, then several images, several turns, and text alone."""
    if amount == "few":
        return [
            [user(image_part(paths[4]), text(QUESTIONS[1]))],
            [user(image_part(paths[7]), image_part(paths[0]), text(QUESTIONS[3]))],
        ]
    chosen = paths if amount == "all" else paths[::4]
    cases = [[user(image_part(p), text(QUESTIONS[i % len(QUESTIONS)]))] for i, p in enumerate(chosen)]
    p = paths
    cases.append([user(image_part(p[6]), image_part(p[1]), text("Which is larger?"))])
    cases.append(
        [
            user(
                text("First:"),
                image_part(p[4]),
                text(" second:"),
                image_part(p[0]),
                image_part(p[10]),
                text("Compare the three."),
            )
        ]
    )
    cases.append(
        [
            {"role": "system", "parts": [text("You answer in one word.")]},
            user(image_part(p[7]), text("Colour?")),
            assistant("Red."),
            user(image_part(p[9]), text("And this?")),
        ]
    )
    cases.append([user(image_part(p[8]), text("hi")), assistant("Hello."), user(text("What did I show you?"))])
    cases.append([user(text("Hello, who are you?"))])
    return cases


def rendered(messages, counts):
    """Returns the prompt in the chat format (spec 7.1) with the pad tokens of each image."""
    out, n = "", 0
    for m in messages:
        out += f"<|im_start|>{m['role']}\n"
        for part in m["parts"]:
            if "text" in part:
                out += part["text"]
            else:
                out += "<|vision_start|>" + "<|image_pad|>" * counts[n] + "<|vision_end|>"
                n += 1
        out += "<|im_end|>\n"
    return out + "<|im_start|>assistant\n"


def load_image(path):
    """Reads an image as eyelet does: upright, alpha composited on white."""
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image)
    return image.convert("RGB")


def sampled_rows(n):
    return sorted({0, 1 % n, n // 2, n - 1})[:FEATURE_ROWS]


def digest(tensor):
    return hashlib.sha256(tensor.contiguous().numpy().astype("<f4").tobytes()).hexdigest()


class Golden:
    def __init__(self, directory, images, device="cuda", attention="eager"):
        self.device = device
        self.model = reference.load_model(directory, device, attention)
        self.tokenizer = reference.load_tokenizer(directory)
        self.processor = reference.load_image_processor(directory)
        self.images = images
        with open(os.path.join(directory, "generation_config.json")) as f:
            eos = json.load(f)["eos_token_id"]
        self.eos = eos if isinstance(eos, list) else [eos]

    def patches(self, messages):
        """Returns [(patch rows, grid)] of all images in order."""
        out = []
        for m in messages:
            for part in m["parts"]:
                if "image" in part:
                    image = load_image(os.path.join(self.images, part["image"]))
                    got = self.processor(images=[image], return_tensors="pt")
                    out.append((got["pixel_values"].float(), got["image_grid_thw"]))
        return out

    def inputs(self, messages, patches):
        counts = [int(g.prod()) // 4 for _, g in patches]
        ids = self.tokenizer.encode(rendered(messages, counts), add_special_tokens=False).ids
        tokens = torch.tensor([ids], device=self.device)
        pad = self.tokenizer.token_to_id("<|image_pad|>")
        feed = dict(input_ids=tokens, attention_mask=torch.ones_like(tokens), mm_token_type_ids=(tokens == pad).int())
        if patches:
            feed["pixel_values"] = torch.cat([p for p, _ in patches]).to(self.device)
            feed["image_grid_thw"] = torch.cat([g for _, g in patches]).to(self.device)
        return ids, feed

    def positions(self, feed):
        """Returns the M-RoPE positions, [3, n]."""
        seen = []
        hook = self.model.model.language_model.register_forward_pre_hook(
            lambda module, args, kwargs: seen.append(kwargs["position_ids"]), with_kwargs=True
        )
        self.model(**feed)
        hook.remove()
        if seen[0] is None:  # text alone: positions count up
            return torch.arange(feed["input_ids"].shape[1]).expand(3, -1)
        return seen[0][-3:, 0].cpu()  # newer versions put the text positions before T, H and W

    def features(self, feed):
        """Returns the merged features and those of each DeepStack layer, [tokens, hidden]."""
        if "pixel_values" not in feed:
            return []
        out = self.model.model.visual(feed["pixel_values"], grid_thw=feed["image_grid_thw"])
        return [f.float().cpu() for f in [out.pooler_output, *out.deepstack_features]]

    def greedy(self, feed, n_prompt):
        out = self.model.generate(
            **feed,
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            eos_token_id=self.eos,
            pad_token_id=0,
            repetition_penalty=1.0,
        )
        logits = torch.stack([l[0].float().cpu() for l in out.logits])
        best = logits.topk(2).values
        return out.sequences[0, n_prompt:].tolist(), logits, (best[:, 0] - best[:, 1]).tolist()

    def case(self, name, messages, tensors):
        patches = self.patches(messages)
        ids, feed = self.inputs(messages, patches)
        answer, logits, gaps = self.greedy(feed, len(ids))
        tensors[f"{name}.positions"] = self.positions(feed).to(torch.int32).contiguous()
        tensors[f"{name}.first_logits"] = logits[0].clone()
        tensors[f"{name}.last_logits"] = logits[-1].clone()
        rows = []
        for k, f in enumerate(self.features(feed)):
            rows = sampled_rows(f.shape[0])
            tensors[f"{name}.features{k}"] = f[rows].contiguous()
        return dict(
            name=name,
            messages=messages,
            ids=ids,
            answer=answer,
            gaps=[round(g, 6) for g in gaps],
            feature_rows=rows,
            pictures=[dict(grid=g[0].tolist(), sha256=digest(p)) for p, g in patches],
        )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint"), p.add_argument("name"), p.add_argument("images"), p.add_argument("out")
    p.add_argument("--made-by", default=None), p.add_argument(
        "--amount", default="some", choices=("few", "some", "all")
    )
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    paths = sorted(glob.glob(os.path.join(a.images, "*.png")) + glob.glob(os.path.join(a.images, "*.jpg")))
    golden, tensors = Golden(a.checkpoint, a.images), {}
    with torch.inference_mode():
        cases = [golden.case(f"case{i:02d}", m, tensors) for i, m in enumerate(cases_for(paths, a.amount))]
    save_file(tensors, os.path.join(a.out, a.name + ".safetensors"), metadata={"format": "pt"})
    import transformers

    head = dict(
        model=a.name, made_by=a.made_by, transformers=transformers.__version__, torch=torch.__version__, cases=cases
    )
    with open(os.path.join(a.out, a.name + ".json"), "w") as f:
        json.dump(head, f, indent=None, separators=(",", ":"), ensure_ascii=False)
    print(a.name, len(cases), "cases; smallest gap", min(min(c["gaps"]) for c in cases))


if __name__ == "__main__":
    main()
