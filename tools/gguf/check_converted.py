#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a GGUF file made by eyelet convert, using the gguf package: check_converted.py FILE.gguf CHECKPOINT

Compares every tensor of the checkpoint (safetensors, plain or pack-quantized by compressed-tensors) with that of the
file, value by value, after undoing llama.cpp's changes of names and rows. Compares the tokens, too. Needs gguf and
numpy from PyPI; exits with 77 without them."""
import json
import os
import sys

try:
    import numpy as np
    from gguf import GGUFReader
    from gguf.quants import dequantize
except ImportError as missing:
    print(f'skipped: {missing}')
    sys.exit(77)

NAMES = {'embed_tokens': 'token_embd', 'norm': 'output_norm', 'lm_head': 'output'}
LAYER = {'input_layernorm': 'attn_norm', 'post_attention_layernorm': 'ffn_norm', 'self_attn.q_proj': 'attn_q',
         'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v', 'self_attn.qkv_proj': 'attn_qkv',
         'self_attn.o_proj': 'attn_output', 'self_attn.q_norm': 'attn_q_norm', 'self_attn.k_norm': 'attn_k_norm',
         'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.gate_up_proj': 'ffn_up',
         'mlp.down_proj': 'ffn_down'}


def read_safetensors(path):
    """Returns name -> array of the stored type. BF16 becomes float32, FP8 stays bytes."""
    out = {}
    with open(path, 'rb') as f:
        data = f.read()
    n = int.from_bytes(data[:8], 'little')
    types = {'F32': '<f4', 'F16': '<f2', 'I32': '<i4', 'I64': '<i8', 'U8': 'u1', 'F8_E4M3': 'u1', 'I8': 'i1'}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == '__metadata__':
            continue
        raw = data[8 + n + t['data_offsets'][0]:8 + n + t['data_offsets'][1]]
        if t['dtype'] == 'BF16':
            value = (np.frombuffer(raw, '<u2').astype('<u4') << 16).view('<f4')
        else:
            value = np.frombuffer(raw, types[t['dtype']])
        out[name] = value.reshape(t['shape'])
    return out


def unpack(name, tensors, bits):
    """Returns a pack-quantized matrix as (code - zero) * scale in float32. Values must fill the words."""
    words = tensors[name + '_packed'].view('<u4')
    rows, cols = words.shape[0], words.shape[1] * 32 // bits
    shifts = np.arange(0, 32, bits, dtype='<u4')
    codes = (words[:, :, None] >> shifts & (1 << bits) - 1).reshape(int(rows), -1)[:, :int(cols)].astype('<i4')
    scale = tensors[name + '_scale'].astype('<f4')
    group = int(cols) // scale.shape[1]
    zero = np.full(scale.shape, 1 << bits - 1)
    if name + '_zero_point' in tensors:
        packed = tensors[name + '_zero_point'].view('<u4')
        zero = (packed[:, None, :] >> shifts[None, :, None] & (1 << bits) - 1).reshape(-1, scale.shape[1])[:int(rows)]
    spread = lambda a: np.repeat(a, group, axis=1)
    return (codes - spread(zero).astype('<i4')).astype('<f4') * spread(scale)


def gguf_name(name):
    stem, end = name.rsplit('.', 1)
    for prefix in ('model.language_model.', 'model.'):
        stem = stem[len(prefix):] if stem.startswith(prefix) else stem
    if stem in NAMES:
        return f'{NAMES[stem]}.{end}'
    _, layer, rest = stem.split('.', 2)
    return f'blk.{layer}.{LAYER[rest]}.{end}'


def unpair(rows, heads):
    """Restores the order of rows in a Llama's queries and keys."""
    shape = rows.shape
    return rows.reshape(heads, shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(shape)


def field(reader, key):
    f = reader.fields[key]
    return f.contents()


def main():
    reader = GGUFReader(sys.argv[1])
    stored = {}
    for name in sorted(os.listdir(sys.argv[2])):
        if name.endswith('.safetensors'):
            stored.update(read_safetensors(os.path.join(sys.argv[2], name)))
    mine = {t.name: t for t in reader.tensors}
    arch = field(reader, 'general.architecture')
    heads = {'attn_q.': field(reader, f'{arch}.attention.head_count'),
             'attn_k.': field(reader, f'{arch}.attention.head_count_kv')}
    with open(os.path.join(sys.argv[2], 'config.json'), encoding='utf-8') as f:
        groups = json.load(f).get('quantization_config', {}).get('config_groups', {})
    bits = groups['group_0']['weights']['num_bits'] if groups else 0
    compared = 0
    for name, value in stored.items():
        if '.visual.' in name or name.rsplit('_', 1)[-1] in ('scale', 'shape', 'point'):
            continue
        if name.endswith('_packed'):
            name = name[:-len('_packed')]
            value = unpack(name, stored, bits)
        t = mine.pop(gguf_name(name))
        got = dequantize(t.data, t.tensor_type).reshape([int(n) for n in reversed(t.shape)])
        for part, n in heads.items():
            if arch == 'llama' and part in t.name:
                got = unpair(got, n)
        same = np.array_equal(got.astype('<f4'), value.astype('<f4'))
        if not same:
            sys.exit(f'{name}: {t.name} ({t.tensor_type.name}) has other values')
        compared += 1
    if mine:
        sys.exit(f'tensors that the checkpoint does not have: {sorted(mine)}')
    with open(os.path.join(sys.argv[2], 'tokenizer.json'), encoding='utf-8') as f:
        tokenizer = json.load(f)
    tokens = field(reader, 'tokenizer.ggml.tokens')
    for text, i in tokenizer['model']['vocab'].items():
        assert tokens[i] == text, (i, tokens[i], text)
    for added in tokenizer['added_tokens']:
        assert tokens[added['id']] == added['content'], added
    if tokenizer['model'].get('byte_fallback'):
        assert len(field(reader, 'tokenizer.ggml.scores')) == len(tokens)
    else:
        merges = [m if isinstance(m, str) else ' '.join(m) for m in tokenizer['model']['merges']]
        assert field(reader, 'tokenizer.ggml.merges') == merges
    print(f'{compared} tensors and {len(tokens)} tokens are the same')


main()
