# SPDX-License-Identifier: Apache-2.0
"""Runs a checkpoint in float32 on the CPU with only PyTorch, numpy and PIL: a second, independent reference.

It follows the description of the architecture and not model.py, and runs one image at a time with a KV cache. The
pre-tokenizer is exact for ASCII letters, digits and punctuation, and the demo's texts have no other characters.
"""
import functools
import json
import math
import os
import re

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from checkpoint import dequantised
from draw import model_size

WORDS = re.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|(?:[^\r\n\w]|_)?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|"
                   r"\s+(?!\S)|\s+")


def byte_letters():
    """Returns byte -> the character that stands for it in a byte-level vocabulary."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in kept}
    others = [byte for byte in range(256) if byte not in letters]
    letters.update({byte: chr(256 + index) for index, byte in enumerate(others)})
    return letters


class PlainTokenizer:
    def __init__(self, folder):
        with open(os.path.join(folder, 'tokenizer.json')) as file:
            data = json.load(file)
        merges = [tuple(m.split(' ')) if isinstance(m, str) else tuple(m) for m in data['model']['merges']]
        self.rank = {pair: index for index, pair in enumerate(merges)}
        self.ids = dict(data['model']['vocab'])
        self.added = {token['content']: token['id'] for token in data['added_tokens']}
        self.special = {token['id'] for token in data['added_tokens'] if token['special']}
        self.names = {number: text for text, number in {**self.ids, **self.added}.items()}
        self.letters = byte_letters()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}
        self.split = re.compile('(' + '|'.join(map(re.escape, self.added)) + ')')

    @functools.lru_cache(None)
    def merge(self, word):
        parts = [self.letters[byte] for byte in word.encode()]
        while len(parts) > 1:
            best = min(range(len(parts) - 1), key=lambda i: self.rank.get((parts[i], parts[i + 1]), math.inf))
            if (parts[best], parts[best + 1]) not in self.rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        return [self.ids[part] for part in parts]

    def encode(self, text):
        out = []
        for piece in self.split.split(text):
            if piece in self.added:
                out.append(self.added[piece])
            else:
                out += [number for word in WORDS.findall(piece) for number in self.merge(word)]
        return out

    def decode(self, numbers):
        letters = ''.join(self.names[number] for number in numbers if number not in self.special)
        return bytes(self.bytes[letter] for letter in letters).decode(errors='replace')


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    return x * torch.cat((cos, cos), -1) + torch.cat((-x[..., half:], x[..., :half]), -1) * torch.cat((sin, sin), -1)


def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return (scores if mask is None else scores + mask).softmax(-1) @ v


class Float32Reference:
    def __init__(self, folder, device='cpu'):
        with open(os.path.join(folder, 'config.json')) as file:
            config = json.load(file)
        self.text, self.vision = config['text_config'], config['vision_config']
        self.weights = {name: torch.from_numpy(np.array(value)) for name, value in dequantised(folder).items()}
        self.tokenizer = PlainTokenizer(folder)
        self.image, self.end = config['image_token_id'], self.text['eos_token_id']

    def linear(self, name, x):
        return F.linear(x, self.weights[name + '.weight'], self.weights.get(name + '.bias'))

    def layer_norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.weights[name + '.weight'], self.weights[name + '.bias'], 1e-6)

    def rms_norm(self, name, x):
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.text['rms_norm_eps'])
        return x * scale * self.weights[name + '.weight']

    def position_embedding(self, rows, columns):
        side = math.isqrt(self.vision['num_position_embeddings'])
        table = self.weights['model.visual.pos_embed.weight'].T.reshape(1, -1, side, side)
        return F.interpolate(table, (rows, columns), mode='bilinear', align_corners=True)[0].permute(1, 2, 0)

    def see(self, image):
        """Returns the features of an image, those for DeepStack, and its grid of visual tokens (rows, columns)."""
        image = image.resize(model_size(*image.size), Image.BICUBIC)
        pixels = torch.from_numpy(np.array(image)).float() / 127.5 - 1
        rows, columns = pixels.shape[0] // 16, pixels.shape[1] // 16
        patches = pixels.view(rows, 16, columns, 16, 3).permute(0, 2, 4, 1, 3)
        patches = patches.unsqueeze(3).expand(-1, -1, -1, 2, -1, -1).reshape(rows, columns, -1)
        weight = self.weights['model.visual.patch_embed.proj.weight'].flatten(1)
        x = F.linear(patches, weight, self.weights['model.visual.patch_embed.proj.bias'])
        x = x + self.position_embedding(rows, columns)
        heads = self.vision['num_heads']
        head = x.shape[-1] // heads
        frequency = 10000.0 ** (-torch.arange(head // 4) / (head // 4))
        place = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing='ij'), -1)
        angles = (place[..., None] * frequency).flatten(-2)
        x, angles = (t.reshape(rows // 2, 2, columns // 2, 2, -1).transpose(1, 2).reshape(rows * columns, -1)
                     for t in (x, angles))
        cos, sin, tokens = angles.cos(), angles.sin(), rows * columns // 4
        extra = []
        for index in range(self.vision['depth']):
            name = f'model.visual.blocks.{index}.'
            qkv = self.linear(name + 'attn.qkv', self.layer_norm(name + 'norm1', x)).view(-1, 3, heads, head)
            q, k, v = qkv.permute(1, 2, 0, 3)
            out = attention(turned(q, cos, sin), turned(k, cos, sin), v).transpose(0, 1).flatten(1)
            x = x + self.linear(name + 'attn.proj', out)
            inner = F.gelu(self.linear(name + 'mlp.linear_fc1', self.layer_norm(name + 'norm2', x)), approximate='tanh')
            x = x + self.linear(name + 'mlp.linear_fc2', inner)
            if index in self.vision['deepstack_visual_indexes']:
                merger = f'model.visual.deepstack_merger_list.{len(extra)}.'
                extra.append(self.merged(merger, self.layer_norm(merger + 'norm', x.view(tokens, -1))))
        normed = self.layer_norm('model.visual.merger.norm', x).view(tokens, -1)
        features = self.merged('model.visual.merger.', normed)
        return features, extra, (rows // 2, columns // 2)

    def merged(self, name, x):
        return self.linear(name + 'linear_fc2', F.gelu(self.linear(name + 'linear_fc1', x)))

    def rotation(self, positions):
        """Returns cos and sin of interleaved M-RoPE for positions of length x 3."""
        half = self.text['head_dim'] // 2
        _, high, wide = self.text['rope_scaling']['mrope_section']
        axis = [1 if i % 3 == 1 and i < 3 * high else 2 if i % 3 == 2 and i < 3 * wide else 0 for i in range(half)]
        frequency = 1.0 / self.text['rope_theta'] ** (torch.arange(half) * 2 / self.text['head_dim'])
        angles = positions[:, axis].float() * frequency
        return angles.cos(), angles.sin()

    def decode_step(self, x, positions, cache, extra=(), span=None):
        """Runs the new rows x, appends them to the cache, and returns the logits after the last one."""
        cos, sin = self.rotation(positions)
        length, head = len(x), self.text['head_dim']
        heads, kv_heads = self.text['num_attention_heads'], self.text['num_key_value_heads']
        mask = torch.full((length, length), -math.inf).triu(1) if length > 1 else None
        for index in range(self.text['num_hidden_layers']):
            name = f'model.language_model.layers.{index}.'
            a = self.rms_norm(name + 'input_layernorm', x)
            q, k, v = (self.linear(f'{name}self_attn.{kind}_proj', a).view(length, -1, head).transpose(0, 1)
                       for kind in 'qkv')
            q = turned(self.rms_norm(name + 'self_attn.q_norm', q), cos, sin)
            k = turned(self.rms_norm(name + 'self_attn.k_norm', k), cos, sin)
            if index in cache:
                k, v = torch.cat((cache[index][0], k), 1), torch.cat((cache[index][1], v), 1)
            cache[index] = k, v
            group = heads // kv_heads
            out = attention(q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0), mask)
            x = x + self.linear(name + 'self_attn.o_proj', out.transpose(0, 1).flatten(1))
            a = self.rms_norm(name + 'post_attention_layernorm', x)
            a = F.silu(self.linear(name + 'mlp.gate_proj', a)) * self.linear(name + 'mlp.up_proj', a)
            x = x + self.linear(name + 'mlp.down_proj', a)
            if index < len(extra):
                x[span] = x[span] + extra[index]
        last = self.rms_norm('model.language_model.norm', x[-1:])
        return last @ self.weights['model.language_model.embed_tokens.weight'].T

    @torch.inference_mode()
    def answer(self, image, question, last, longest):
        features, extra, grid, marks = None, (), (0, 0), ''
        if image is not None:
            features, extra, grid = self.see(image)
            marks = '<|vision_start|>' + '<|image_pad|>' * len(features) + '<|vision_end|>'
        asked = question + marks if last else marks + question
        ids = self.tokenizer.encode(f'<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n')
        x = self.weights['model.language_model.embed_tokens.weight'][torch.tensor(ids)]
        positions, span = torch.arange(len(ids))[:, None].repeat(1, 3), None
        if features is not None:
            start, count = ids.index(self.image), len(features)
            span = slice(start, start + count)
            x[span] = features
            cell = torch.arange(count)
            positions[span] = start + torch.stack((0 * cell, cell // grid[1], cell % grid[1]), 1)
            positions[start + count:] += max(grid) - count
        cache, said = {}, []
        logits = self.decode_step(x, positions, cache, extra, span)
        after = positions[-1:] + 1
        while len(said) < longest:
            best = int(logits.argmax())
            if best == self.end:
                break
            said.append(best)
            row = self.weights['model.language_model.embed_tokens.weight'][best:best + 1].clone()
            logits = self.decode_step(row, after, cache)
            after = after + 1
        return self.tokenizer.decode(said).strip()

    def answers(self, images, questions, last=False, longest=220):
        """Returns the greedy answers to one question per image. last: the image comes after the question."""
        return [self.answer(image, question, last, longest) for image, question in zip(images, questions)]
