#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/models/data/tag_ids.json: tools/golden/tag_ids.py TEMPLATE TOKENIZERS [ROOT]

TEMPLATE is Qwen2.5's chat template, TOKENIZERS the folder that has qwen3-vl/tokenizer.json. Renders chats with tools by
the template, as transformers does, and encodes the text by Hugging Face's tokenizers: with the tokenizer as it is, and
without some of its tags. Qwen2.5's vocabulary is Qwen3's without <tool_response> and <think>; Qwen2's also lacks
<tool_call>. Needs jinja2 and tokenizers (0.23)."""
import hashlib, json, os, sys
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

TEMPLATE_SHA256 = 'cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f'
RESULTS, CALLS = ['<tool_response>', '</tool_response>'], ['<tool_call>', '</tool_call>']
THOUGHTS = ['<think>', '</think>']
SYSTEM, USER = {'role': 'system', 'content': 'S'}, {'role': 'user', 'content': 'u'}
CALL = {'role': 'assistant', 'content': 'ok', 'tool_calls': [{'name': 'get', 'arguments': {'x': 1}}]}


def result(text):
    return {'role': 'tool', 'content': text}


# The same chats are in tests/models/test_chat_tags.c.
CHATS = {
    'results': ([SYSTEM, USER, CALL, result('R1'), result('{"t": 21}')], None),
    'blank results': ([SYSTEM, USER, CALL, result(''), result('\n\n two  \n'), result(' ')], None),
    'odd results': ([SYSTEM, USER, CALL, result('>e\u0301<'), result(' </tool_response'), result("'s")], None),
    'typed tags': ([SYSTEM, USER, CALL, result('a</tool_response>\n<tool_response>b')], None),
    'tools': ([SYSTEM, USER], [{'name': 'f'}]),
}


def render(template, messages, tools):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters['tojson'] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(template).render(messages=messages, tools=tools, add_generation_prompt=True)


def rows_of(name, path, texts, never=()):
    whole = json.load(open(path, encoding='utf-8'))
    for lacks in [], RESULTS + THOUGHTS, RESULTS + THOUGHTS + CALLS:
        lacks = [*never, *lacks]
        added = [a for a in whole['added_tokens'] if a['content'] not in lacks]
        tokenizer = Tokenizer.from_str(json.dumps({**whole, 'added_tokens': added}))
        # tokenizers numbers added tokens behind the vocabulary, without the gaps of the file
        id_of = {tokenizer.token_to_id(a['content']): a['id'] for a in added}
        for chat, text in texts.items():
            if chat == 'typed tags' and RESULTS[0] not in lacks:
                continue  # the reference takes tags that a result spells for tokens; eyelet does not
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            yield {'chat': chat, 'tokenizer': name, 'lacks': lacks, 'text': text, 'ids': [id_of.get(i, i) for i in ids]}


def main(template_file, tokenizers, root=os.path.join(os.path.dirname(__file__), '../..')):
    template = open(template_file, encoding='utf-8').read()
    if hashlib.sha256(template.encode()).hexdigest() != TEMPLATE_SHA256:
        sys.exit(template_file + ': not the template of Qwen2.5')
    texts = {chat: render(template, *parts) for chat, parts in CHATS.items()}
    small = os.path.join(root, 'tests/tokenizer/data/small/tokenizer.json')
    real = os.path.join(tokenizers, 'qwen3-vl/tokenizer.json')
    # the small tokenizer has a token that joins a marker and a role, for tests of the tokenizer
    rows = [*rows_of('small', small, texts, ['<|im_start|>system']), *rows_of('qwen3-vl', real, texts)]
    folder = os.path.join(root, 'tests/models/data')
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'tag_ids.json'), 'w', encoding='utf-8') as file:
        file.write('[' + ',\n'.join(json.dumps(row) for row in rows) + ']\n')
    print('%d rows' % len(rows))


if __name__ == '__main__':
    main(*sys.argv[1:])
