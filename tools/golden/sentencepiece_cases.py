# SPDX-License-Identifier: Apache-2.0
"""Writes how Hugging Face's tokenizers encode and decode awkward texts and ids with a SentencePiece tokenizer.json.

    python3 tools/golden/sentencepiece_cases.py TOKENIZER.json CASES.json

CASES is {"encode": [{"text", "ids"}], "decode": [{"ids", "text"}]}. Text that spells an added token becomes that token;
no special tokens are added to a text.
"""

import json
import sys

from tokenizers import Tokenizer

TEXTS = [
    "",
    " ",
    "  ",
    "   ",
    "     ",
    "\n",
    "\n\n",
    "\t\n",
    " \n \n  x",
    "hello",
    " hello",
    "  hello",
    "hello ",
    "hello world",
    "  hello   world  ",
    "a\u2581b",
    "\u2581",
    "\u2581\u2581 hello",
    "The user's image",
    "caf\u00e9",
    "cafe\u0301",
    "\u4f60\u597d",
    "\U0001f60a!",
    "\u00bd\u2082",
    "\u0e1b\u0e35",
    "a\u200db",
    "hello\u00a0world",
    "\u3000x",
    "x\r\ny",
    "<0x41>",
    "<0x0A>x",
    "<s>",
    "</s>",
    "<s>hello",
    "<s> hello",
    "hello<s>world</s>",
    "<|user|>\nhello<|end|>\n<|assistant|>\n",
    "<|user|> \u3000\n hello<|end|>  x",
    "<|system|>\n\n<|user|>",
    "<|endoftext|> hello",
    "</s> \n hello",
    "<|user|",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the the the the the the the the the the the the the the the",
    "two words " * 20,
    "\x00",
    "\u0085",
    "\ufeffhello",
    "\U0001f1e9\U0001f1ea",
]


def main():
    tokenizer = Tokenizer.from_file(sys.argv[1])
    encode = [dict(text=t, ids=tokenizer.encode(t, add_special_tokens=False).ids) for t in TEXTS]
    byte = [tokenizer.token_to_id(f"<0x{b:02X}>") for b in range(256)]
    word = tokenizer.token_to_id("\u2581hello") or tokenizer.encode("hello", add_special_tokens=False).ids[0]
    lists = [c["ids"] for c in encode] + [
        [byte[b] for b in "\u4f60".encode()],
        [word, *[byte[b] for b in "\U0001f60a".encode()], word],
        [byte[0x20], word],
        [byte[0x41], byte[0x42]],
        [word, word],
        [1, word, 2, word],
        [0, word],
        [byte[0x0A], word],
    ]
    decode = [dict(ids=ids, text=tokenizer.decode(ids, skip_special_tokens=True)) for ids in lists]
    with open(sys.argv[2], "w") as f:
        f.write(
            "{\"encode\":[\n"
            + ",\n".join(json.dumps(c, separators=(",", ":")) for c in encode)
            + "\n],\"decode\":[\n"
            + ",\n".join(json.dumps(c, separators=(",", ":")) for c in decode)
            + "\n]}\n"
        )


if __name__ == "__main__":
    main()
