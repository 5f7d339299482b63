# SPDX-License-Identifier: Apache-2.0
"""A caption for each image of a folder, as a CSV: caption_folder.py photos captions.csv"""
import csv
import sys

from eyelet_client import arguments, ask, each, images_in

parser = arguments(__doc__)
parser.add_argument("folder")
parser.add_argument("csv")
parser.add_argument("--question", default="Describe this image in one sentence.")
options = parser.parse_args()

failed = 0
with open(options.csv, "w", newline="", encoding="utf-8") as file:
    rows = csv.writer(file)
    rows.writerow(["image", "caption", "error"])
    caption_of = lambda path: ask(options, path, options.question, temperature=0, max_tokens=128)
    for path, caption, error in each(options, images_in(options.folder), caption_of):
        rows.writerow([path, caption, error])
        failed += error is not None
sys.exit(failed > 0)
