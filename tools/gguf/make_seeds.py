#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny GGUF files for tests and fuzzing: tools/gguf/make_seeds.py tests/fuzz/corpus/gguf

They are a model with a byte-level tokenizer, one with a SentencePiece tokenizer, both with random weights of many
types, and a vision encoder."""
import os
import random
import struct
import sys

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
# type number, values and bytes of a block, offsets of its F16 scales
TYPES = {'F32': (0, 1, 4, []), 'F16': (1, 1, 2, [0]), 'Q4_0': (2, 32, 18, [0]), 'Q4_1': (3, 32, 20, [0, 2]),
         'Q5_0': (6, 32, 22, [0]), 'Q5_1': (7, 32, 24, [0, 2]), 'Q8_0': (8, 32, 34, [0]), 'IQ4_NL': (20, 32, 18, [0]),
         'BF16': (30, 1, 2, [0]), 'MXFP4': (39, 32, 17, [])}


def text(s):
    b = s.encode()
    return struct.pack('<Q', len(b)) + b


def value(kind, v):
    return text(v) if kind == STRING else struct.pack({U32: '<I', I32: '<i', F32: '<f', BOOL: '<?'}[kind], v)


def key(name, kind, v):
    if isinstance(v, list):
        return text(name) + struct.pack('<IIQ', ARRAY, kind, len(v)) + b''.join(value(kind, x) for x in v)
    return text(name) + struct.pack('<I', kind) + value(kind, v)


def tensor_bytes(rng, kind, ne):
    _, values, size, halves = TYPES[kind]
    n = 1
    for x in ne:
        n *= x
    if kind == 'F32':
        return b''.join(struct.pack('<f', rng.uniform(0.5, 1.5)) for _ in range(n))
    out = bytearray(rng.randbytes(n // values * size))
    for block in range(0, len(out), size):
        for at in halves:
            out[block + at + 1] = 0x3C if kind == 'BF16' else 0x20 + rng.randrange(4)
        if kind == 'MXFP4':
            out[block] = 120
    return bytes(out)


def write(path, keys, tensors, seed):
    rng = random.Random(seed)
    infos, data = b'', b''
    for name, kind, ne in tensors:
        raw = tensor_bytes(rng, kind, ne)
        infos += text(name) + struct.pack('<I', len(ne)) + b''.join(struct.pack('<Q', x) for x in ne)
        infos += struct.pack('<IQ', TYPES[kind][0], len(data))
        data += raw + b'\0' * (-len(raw) % 32)
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(keys)) + b''.join(key(*k) for k in keys) + infos
    with open(path, 'wb') as f:
        f.write(head + b'\0' * (-len(head) % 32) + data)


def byte_letters():
    """Returns the letter with which GPT-2 writes each of the 256 bytes."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    extra = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(extra)) for b in range(256)]


def model_keys(arch, vocab):
    return [('general.architecture', STRING, arch), ('general.name', STRING, 'a seed'), ('general.file_type', U32, 2),
            (arch + '.block_count', U32, 1), (arch + '.context_length', U32, 128), (arch + '.embedding_length', U32, 32),
            (arch + '.feed_forward_length', U32, 64), (arch + '.attention.head_count', U32, 2),
            (arch + '.attention.head_count_kv', U32, 1), (arch + '.attention.layer_norm_rms_epsilon', F32, 1e-5),
            (arch + '.rope.freq_base', F32, 10000.0), (arch + '.rope.dimension_count', U32, 16),
            (arch + '.vocab_size', U32, vocab)]


def layer(kinds):
    q, k, v, o, gate, up, down = kinds
    return [('blk.0.attn_norm.weight', 'F32', [32]), ('blk.0.attn_q.weight', q, [32, 32]),
            ('blk.0.attn_k.weight', k, [32, 16]), ('blk.0.attn_v.weight', v, [32, 16]),
            ('blk.0.attn_output.weight', o, [32, 32]), ('blk.0.ffn_norm.weight', 'F32', [32]),
            ('blk.0.ffn_gate.weight', gate, [32, 64]), ('blk.0.ffn_up.weight', up, [32, 64]),
            ('blk.0.ffn_down.weight', down, [64, 32]), ('output_norm.weight', 'F32', [32])]


def byte_level(path):
    letters = byte_letters()
    tokens = letters + ['he', 'll', 'hell', 'hello', '<|im_start|>', '<|im_end|>', '[PAD262]']
    kinds = [1] * 260 + [3, 3, 5]
    keys = model_keys('llama', len(tokens)) + [
        ('tokenizer.ggml.model', STRING, 'gpt2'), ('tokenizer.ggml.pre', STRING, 'smollm'),
        ('tokenizer.ggml.tokens', STRING, tokens), ('tokenizer.ggml.token_type', I32, kinds),
        ('tokenizer.ggml.merges', STRING, ['h e', 'l l', 'he ll', 'hell o']), ('tokenizer.ggml.eos_token_id', U32, 261),
        ('tokenizer.ggml.add_bos_token', BOOL, False),
        ('tokenizer.chat_template', STRING, "{{'<|im_start|>' + m['role']}}<|im_end|>")]
    tensors = [('token_embd.weight', 'Q8_0', [32, len(tokens)])]
    write(path, keys, tensors + layer(['Q4_0', 'Q8_0', 'Q5_1', 'F16', 'IQ4_NL', 'BF16', 'MXFP4']), 1)


def sentencepiece(path):
    pieces = ['\u2581', 'h', 'e', 'l', 'o', 'he', 'll', 'hell', '\u2581hell', '\u2581hello', 'a', '\u00e9']
    tokens = ['<unk>', '<s>', '</s>'] + [f'<0x{b:02X}>' for b in range(256)] + pieces
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    scores = [0.0] * 259 + [-float(10 - i) if i >= 5 else -1000.0 - i for i in range(len(pieces))]
    keys = model_keys('llama', len(tokens)) + [
        ('tokenizer.ggml.model', STRING, 'llama'), ('tokenizer.ggml.pre', STRING, 'default'),
        ('tokenizer.ggml.tokens', STRING, tokens), ('tokenizer.ggml.token_type', I32, kinds),
        ('tokenizer.ggml.scores', F32, scores), ('tokenizer.ggml.bos_token_id', U32, 1),
        ('tokenizer.ggml.eos_token_id', U32, 2), ('tokenizer.ggml.unknown_token_id', U32, 0)]
    tensors = [('token_embd.weight', 'Q4_1', [32, len(tokens)]), ('output.weight', 'Q5_0', [32, len(tokens)])]
    write(path, keys, tensors + layer(['Q8_0'] * 7), 2)


def vision(path):
    keys = [('general.architecture', STRING, 'clip'), ('clip.projector_type', STRING, 'qwen3vl_merger'),
            ('clip.vision.image_size', U32, 32), ('clip.vision.is_deepstack_layers', BOOL, [False, True])]
    write(path, keys, [('v.patch_embd.bias', 'F32', [32])], 3)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    byte_level(os.path.join(sys.argv[1], 'byte-level.gguf'))
    sentencepiece(os.path.join(sys.argv[1], 'sentencepiece.gguf'))
    vision(os.path.join(sys.argv[1], 'vision.gguf'))


main()
