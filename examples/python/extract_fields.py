# SPDX-License-Identifier: Apache-2.0
"""Fields of a JSON schema out of images, a line of JSON each: extract_fields.py invoice.json invoices/*.jpg"""
import json
import sys

from eyelet_client import arguments, ask, each

parser = arguments(__doc__)
parser.add_argument("schema", help="a file with a JSON schema")
parser.add_argument("images", nargs="+")
options = parser.parse_args()

with open(options.schema, encoding="utf-8") as file:
    schema = json.load(file)
form = {"type": "json_schema", "json_schema": {"name": "fields", "schema": schema}}
question = "Give these fields of the image as JSON: " + ", ".join(schema.get("properties", {}))

failed = 0
fields_of = lambda path: json.loads(ask(options, path, question, temperature=0, response_format=form))
for path, answer, error in each(options, options.images, fields_of):
    print(json.dumps({"image": path, **({"error": error} if error else {"fields": answer})}, ensure_ascii=False))
    failed += error is not None
sys.exit(failed > 0)
