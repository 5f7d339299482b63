# SPDX-License-Identifier: Apache-2.0
"""All that is to be known of an image, as JSON: analyze_scene.py [--model M] photo.jpg "car, person" (pip install eyelet)

The description, the text that stands in it, and where things are, in pixels."""
import argparse
import json

from eyelet import LLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("image")
parser.add_argument("things", help="what to look for: one thing, or several with commas between them")
parser.add_argument("--model", default="demo")
options = parser.parse_args()

with LLM(options.model) as llm:
    scene = llm.scene(options.image)
    boxes = llm.detect(options.image, options.things)
    print(json.dumps({
        "description": scene,
        "text": llm.read(options.image),
        "boxes": [box._asdict() for box in boxes],
        "tokens": scene.usage.total_tokens,
    }, indent=2, ensure_ascii=False))
