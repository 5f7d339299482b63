#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks tests of checkpoints that users save themselves against transformers: tools/golden/saved_checkpoints.py [ROOT]

Writes tests/tokenizer/data/files*: the small tokenizer of tests/tokenizer/data as vocab.json and merges.txt, with the
ids that transformers gives for texts (cases.json). Then checks that transformers agrees with the tests about other
spellings of the same settings: a tokenizer in tests/tokenizer/test_load.c (SAME_IDS), members of config.json in
tests/models/test_model_layouts.c (other_places), and templates in tests/models/test_template_check.c. Needs
transformers 5.24 (no torch). The last line is "N checked"."""
import copy, json, os, re, sys, tempfile
import transformers

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '../..'))
DATA = os.path.join(ROOT, 'tests/tokenizer/data')
TEXTS = ['', ' ', 'hello world', "The user's thing", "USER'S", 'caf\u00e9s', 'e\u0301\u0323', '\u4f60\u597d',
         '<|im_start|>user\nhello<|im_end|>', '<tool_call>x</tool_call>', '12 123', 'tab\there\r\n\r\n  x']
checked = 0


def check(ok, what):
    global checked
    checked += 1
    if not ok:
        sys.exit('transformers disagrees: ' + what)


def save(folder, name, value):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), 'w', encoding='utf-8') as f:
        f.write(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def tokenizer_of(folder):
    save_config = not os.path.exists(os.path.join(folder, 'config.json'))
    if save_config:
        save(folder, 'config.json', {'model_type': 'qwen3'})
    t = transformers.AutoTokenizer.from_pretrained(folder)
    if save_config:
        os.remove(os.path.join(folder, 'config.json'))
    return t


def write_files(small):
    """Writes three folders, which differ in the files that have the added tokens and the tokenizer's class."""
    merges = '#version: 0.2\n' + '\n'.join(m if isinstance(m, str) else ' '.join(m) for m in small['model']['merges']) + '\n'
    first = max(small['model']['vocab'].values()) + 1  # transformers gives them the next ids, whatever the file says
    all_added = [dict(a, id=first + i) for i, a in enumerate(small['added_tokens'])]
    added = [dict(a, id=first + i) for i, a in enumerate(a for a in all_added if a['content'] not in ('zebra', '<|left|>', '<|right|>', 'caf\u00e9'))]
    decoder = {str(a['id']): {k: v for k, v in a.items() if k != 'id'} for a in all_added}
    kinds = {
        'files': ({'tokenizer_class': 'Qwen2Tokenizer', 'eos_token': '<|im_end|>', 'added_tokens_decoder': decoder}, None),
        'files-older': (None, {'eos_token': {'content': '<|im_end|>'}, 'additional_special_tokens': ['<|im_start|>']}),
        'files-gpt2': ({'tokenizer_class': 'GPT2Tokenizer'}, None),
    }
    for kind, (config, special) in kinds.items():
        folder = os.path.join(DATA, kind)
        save(folder, 'vocab.json', small['model']['vocab'])
        save(folder, 'merges.txt', merges if kind != 'files-older' else merges.replace('\n', '\r\n'))
        if kind != 'files':
            save(folder, 'added_tokens.json', {a['content']: a['id'] for a in added})
        if config:
            save(folder, 'tokenizer_config.json', config)
        if special:
            save(folder, 'special_tokens_map.json', special)
        t = tokenizer_of(folder)
        save(folder, 'cases.json', {
            'cases': [{'text': x, 'ids': t.encode(x, add_special_tokens=False)} for x in TEXTS],
            'special': sorted(i for i, a in t.added_tokens_decoder.items() if a.special)})


def same_ids(small):
    """Checks the rows {"member", "value"} of the C table SAME_IDS, whose JSON must not change any id."""
    text = open(os.path.join(ROOT, 'tests/tokenizer/test_load.c'), encoding='utf-8').read()
    body = text[text.index('/* SAME_IDS begins */'):text.index('/* SAME_IDS ends */')]
    right = None
    for member, value in [(None, None)] + [tuple(row) for row in c_rows(body, {})]:
        changed = copy.deepcopy(small)
        if member:
            changed[member] = json.loads(value)
        with tempfile.TemporaryDirectory() as folder:
            save(folder, 'tokenizer.json', changed)
            t = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, 'tokenizer.json'))
        got = [t.encode(x, add_special_tokens=False) for x in TEXTS]
        right = right or got
        check(got == right, '%s = %s' % (member, value))


def c_rows(body, macros):
    """Yields the rows of a C table of strings. Adjacent strings are joined, macros replaced."""
    body = re.sub(r'/\*.*?\*/', '', body, flags=re.S)
    for row in re.findall(r'\{((?:[^{}"]|"(?:\\.|[^"\\])*")*)\}', body):
        fields, parts = [], []
        for token in re.findall(r'"(?:\\.|[^"\\])*"|\w+|,', row) + [',']:
            if token == ',':
                if parts:
                    fields.append(b''.join(parts).decode())
                parts = []
            elif token[0] == '"':
                parts.append(token[1:-1].encode('latin-1', 'ignore').decode('unicode_escape').encode('latin-1'))
            else:
                parts.append(macros.get(token, token).encode())
        if fields:
            yield fields


def templates():
    text = open(os.path.join(ROOT, 'tests/models/test_template_check.c'), encoding='utf-8').read()
    macros = {}
    for name, value in re.findall(r'#define (\w+)[ \\\n]+((?:"(?:\\.|[^"\\])*"[ \\\n]*)+)\n', text):
        macros[name] = ''.join(json.loads('"%s"' % s) for s in re.findall(r'"((?:\\.|[^"\\])*)"', value))
    macros['NO_SYSTEM'] = 'default system prompt'
    body = text[text.index('/* rows begin */'):text.index('/* rows end */')]
    plain = '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    with_system = '<|im_start|>system\n%s<|im_end|>\n%s' % (macros['QWEN'], plain)
    t = tokenizer_of(os.path.join(DATA, 'files'))
    for template, says, qwen2 in c_rows(body, macros):
        got = t.apply_chat_template([{'role': 'user', 'content': 'hi'}], chat_template=template, tokenize=False,
                                    add_generation_prompt=True)
        check((got == (with_system if qwen2 == 'true' else plain)) == (not says), '%r: %r' % (template, got))


def configs():
    """Checks what transformers reads from the members of config.json in other_places of test_model_layouts.c."""
    rope = {'mrope_interleaved': True, 'mrope_section': [24, 20, 20], 'rope_type': 'default'}
    base = json.load(open(os.path.join(ROOT, 'models/demo/config.json'), encoding='utf-8'))

    def theta(edit):
        changed = copy.deepcopy(base)
        edit(changed['text_config'])
        with tempfile.TemporaryDirectory() as folder:
            save(folder, 'config.json', changed)
            return transformers.AutoConfig.from_pretrained(folder).text_config.rope_parameters['rope_theta']

    def end(edit, **generation):
        changed = copy.deepcopy(base)
        edit(changed)
        with tempfile.TemporaryDirectory() as folder:
            save(folder, 'config.json', changed)
            return transformers.GenerationConfig.from_model_config(transformers.AutoConfig.from_pretrained(folder)).eos_token_id

    def replaced(t, **more):
        t.pop('rope_scaling', None)
        t.update(more)

    right = base['text_config']['rope_theta']
    check(theta(lambda t: replaced(t, rope_parameters=rope)) == right, 'theta beside rope_parameters')
    check(theta(lambda t: replaced(t, rope_scaling=None, rope_parameters=dict(rope, rope_theta=5), rope_theta=7)) == 5, 'rope_scaling null')
    check(theta(lambda t: t['rope_scaling'].update(rope_theta=5)) == 5, 'theta in rope_scaling first')
    check(theta(lambda t: t.update(rope_parameters={'rope_type': 'default', 'rope_theta': 777})) == right, 'rope_scaling first')
    check(end(lambda c: c.update(eos_token_id=[5, 6])) == [5, 6], 'eos_token_id at the top first')
    check(end(lambda c: c['text_config'].pop('eos_token_id')) is None, 'eos_token_id nowhere is no error')
    for architectures in (None, [], [3], 'Qwen3VLForConditionalGeneration'):
        changed = dict(base, architectures=architectures)
        with tempfile.TemporaryDirectory() as folder:
            save(folder, 'config.json', changed)
            check(type(transformers.AutoConfig.from_pretrained(folder)).__name__ == 'Qwen3VLConfig', str(architectures))


small = json.load(open(os.path.join(DATA, 'small/tokenizer.json'), encoding='utf-8'))
write_files(small)
same_ids(small)
templates()
configs()
print('%d checked' % checked)
