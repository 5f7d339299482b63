# SPDX-License-Identifier: Apache-2.0
"""Questions about an image, answered as they are written: vqa.py [--model M] photo.jpg ["What is this?" ...]

Without a question it reads them from standard input, a line each. (pip install eyelet)"""
import argparse
import sys

from eyelet import LLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("image")
parser.add_argument("questions", nargs="*")
parser.add_argument("--model", default="demo")
options = parser.parse_args()

with LLM(options.model) as llm:
    for question in options.questions or map(str.strip, sys.stdin):
        for text in llm.ask(options.image, question, stream=True):
            print(text, end="", flush=True)
        print()
