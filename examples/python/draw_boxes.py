# SPDX-License-Identifier: Apache-2.0
"""Finds things in pictures and draws boxes around them: draw_boxes.py "car, person" out photos/*.jpg (needs Pillow: python3-pil)"""
import json
import os
import sys

from PIL import Image, ImageDraw, ImageOps

from eyelet_client import arguments, ask, each

COLOURS = ["#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080"]
QUESTION = "Locate every instance that belongs to the following categories: '{}'. Report bbox coordinates in JSON format."

parser = arguments(__doc__)
parser.add_argument("things", help="one thing, or several with commas between them")
parser.add_argument("out", help="a folder for the painted pictures")
parser.add_argument("pictures", nargs="+")
options = parser.parse_args()

labels = [thing.strip() for thing in options.things.split(",")]
coordinate = {"type": "integer", "minimum": 0, "maximum": 1000}  # thousandths of the upright picture's width and height
box = {"type": "object", "properties": {"bbox_2d": {"type": "array", "items": coordinate, "minItems": 4, "maxItems": 4}, "label": {"enum": labels}},
       "required": ["bbox_2d", "label"]}
form = {"type": "json_schema", "json_schema": {"name": "boxes", "schema": {"type": "array", "items": box, "maxItems": 100}}}


def draw(path):
    """The boxes in pixels, after they were painted into a copy."""
    found = json.loads(ask(options, path, QUESTION.format(options.things), temperature=0, max_tokens=2048, response_format=form))
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file).convert("RGB")
    canvas = ImageDraw.Draw(image)
    for each_box in found:
        x1, x2 = sorted(each_box["bbox_2d"][0::2])
        y1, y2 = sorted(each_box["bbox_2d"][1::2])
        each_box["box"] = [round(x1 * image.width / 1000), round(y1 * image.height / 1000), round(x2 * image.width / 1000), round(y2 * image.height / 1000)]
        colour = COLOURS[labels.index(each_box["label"]) % len(COLOURS)]
        canvas.rectangle(each_box["box"], outline=colour, width=max(2, image.width // 300))
        canvas.text((each_box["box"][0] + 4, each_box["box"][1] + 2), each_box["label"], fill=colour)
    image.save(os.path.join(options.out, os.path.splitext(os.path.basename(path))[0] + ".png"))
    return [{"label": b["label"], "box": b["box"]} for b in found]


os.makedirs(options.out, exist_ok=True)
failed = 0
for path, boxes, error in each(options, options.pictures, draw):
    print(json.dumps({"picture": path, **({"error": error} if error else {"boxes": boxes})}))
    failed += error is not None
sys.exit(failed > 0)
