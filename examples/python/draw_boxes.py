# SPDX-License-Identifier: Apache-2.0
"""Finds things in images and draws boxes around them: draw_boxes.py "car, person" out photos/*.jpg (needs Pillow)"""
import json
import os
import sys

from PIL import Image, ImageDraw, ImageOps

from eyelet_client import arguments, ask, each

COLORS = ["#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080"]
QUESTION = ("Locate every instance that belongs to the following categories: '{}'. "
            "Report bbox coordinates in JSON format.")

parser = arguments(__doc__)
parser.add_argument("things", help="one thing, or several with commas between them")
parser.add_argument("out", help="a folder for the painted images")
parser.add_argument("images", nargs="+")
options = parser.parse_args()

labels = [thing.strip() for thing in options.things.split(",")]
coordinate = {"type": "integer", "minimum": 0, "maximum": 1000}  # thousandths of width and height, upright
corners = {"type": "array", "items": coordinate, "minItems": 4, "maxItems": 4}
box = {"type": "object", "required": ["bbox_2d", "label"],
       "properties": {"bbox_2d": corners, "label": {"enum": labels}}}
boxes_schema = {"type": "array", "items": box, "maxItems": 100}
form = {"type": "json_schema", "json_schema": {"name": "boxes", "schema": boxes_schema}}


def draw(path):
    """The boxes in pixels, after they were painted into a copy."""
    question = QUESTION.format(options.things)
    found = json.loads(ask(options, path, question, temperature=0, max_tokens=2048, response_format=form))
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file).convert("RGB")
    canvas = ImageDraw.Draw(image)
    for each_box in found:
        x1, x2 = sorted(each_box["bbox_2d"][0::2])
        y1, y2 = sorted(each_box["bbox_2d"][1::2])
        scales = [image.width / 1000, image.height / 1000] * 2
        each_box["box"] = [round(v * scale) for v, scale in zip((x1, y1, x2, y2), scales)]
        color = COLORS[labels.index(each_box["label"]) % len(COLORS)]
        canvas.rectangle(each_box["box"], outline=color, width=max(2, image.width // 300))
        canvas.text((each_box["box"][0] + 4, each_box["box"][1] + 2), each_box["label"], fill=color)
    image.save(os.path.join(options.out, os.path.splitext(os.path.basename(path))[0] + ".png"))
    return [{"label": b["label"], "box": b["box"]} for b in found]


os.makedirs(options.out, exist_ok=True)
failed = 0
for path, boxes, error in each(options, options.images, draw):
    print(json.dumps({"image": path, **({"error": error} if error else {"boxes": boxes})}))
    failed += error is not None
sys.exit(failed > 0)
