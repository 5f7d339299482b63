# SPDX-License-Identifier: Apache-2.0
"""A caption for each image: caption_image.py [--model Qwen/Qwen3-VL-2B-Instruct-FP8] photo.jpg ... (pip install eyelet)"""
import argparse
import sys

from eyelet import LLM, EyeletError

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("images", nargs="+")
parser.add_argument("--model", default="demo")
options = parser.parse_args()

failed = 0
with LLM(options.model) as llm:
    for path in options.images:
        try:
            print(f"{path}: {llm.caption(path)}")
        except (EyeletError, OSError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed += 1
sys.exit(failed > 0)
