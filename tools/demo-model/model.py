# SPDX-License-Identifier: Apache-2.0
"""Qwen3-VL in plain PyTorch, for training with images of one size per batch.

Arithmetic and parameter names are those of the released checkpoints: evaluate.py runs the trained weights with
transformers' own implementation. Only the layout of batches is special: each row has one image at a fixed position.
"""
import json
import math
import os

import torch
import torch.nn.functional as F
from torch import nn

PATCH, MERGE = 16, 2
VISION_THETA = 10000.0


def load_config():
    """Returns config.json of this folder, which has the layout of the released checkpoints."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'config.json')) as file:
        return json.load(file)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return self.weight.to(x.dtype) * y.to(x.dtype)


class VisionAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.proj(out.transpose(1, 2).reshape(batch, length, width))


class VisionMLP(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.linear_fc1 = nn.Linear(width, inner)
        self.linear_fc2 = nn.Linear(inner, width)

    def forward(self, x):
        return self.linear_fc2(F.gelu(self.linear_fc1(x), approximate='tanh'))


class VisionBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1 = nn.LayerNorm(c['hidden_size'], eps=1e-6)
        self.norm2 = nn.LayerNorm(c['hidden_size'], eps=1e-6)
        self.attn = VisionAttention(c['hidden_size'], c['num_heads'])
        self.mlp = VisionMLP(c['hidden_size'], c['intermediate_size'])

    def forward(self, x, cos, sin):
        x = x + self.attn(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Merger(nn.Module):
    """Turns each 2x2 block of patches into one vector of the text model's width."""

    def __init__(self, c, after_shuffle):
        super().__init__()
        self.wide = c['hidden_size'] * MERGE * MERGE
        self.after_shuffle = after_shuffle
        self.norm = nn.LayerNorm(self.wide if after_shuffle else c['hidden_size'], eps=1e-6)
        self.linear_fc1 = nn.Linear(self.wide, self.wide)
        self.linear_fc2 = nn.Linear(self.wide, c['out_hidden_size'])

    def forward(self, x):
        shape = (x.shape[0], -1, self.wide)
        x = self.norm(x.reshape(shape)) if self.after_shuffle else self.norm(x).reshape(shape)
        return self.linear_fc2(F.gelu(self.linear_fc1(x)))


class PatchEmbed(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.proj = nn.Conv3d(3, c['hidden_size'], (2, PATCH, PATCH), (2, PATCH, PATCH))

    def forward(self, patches):
        return F.linear(patches, self.proj.weight.flatten(1), self.proj.bias)


class Vision(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        self.patch_embed = PatchEmbed(c)
        self.pos_embed = nn.Embedding(c['num_position_embeddings'], c['hidden_size'])
        self.blocks = nn.ModuleList(VisionBlock(c) for _ in range(c['depth']))
        self.merger = Merger(c, False)
        self.deepstack_merger_list = nn.ModuleList(Merger(c, True) for _ in c['deepstack_visual_indexes'])

    def forward(self, patches, tables):
        """Returns the merged features and those for DeepStack. patches: batch x patches x 1536."""
        taps = self.config['deepstack_visual_indexes']
        position = (self.pos_embed.weight[tables['corners']] * tables['weights'][..., None]).sum(0)
        x = self.patch_embed(patches)
        x = x + position.to(x.dtype)
        extra = []
        for index, block in enumerate(self.blocks):
            x = block(x, tables['cos'], tables['sin'])
            if index in taps:
                extra.append(self.deepstack_merger_list[taps.index(index)](x))
        return self.merger(x), extra


class TextAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, head = c['hidden_size'], c['head_dim']
        self.heads, self.kv_heads, self.head = c['num_attention_heads'], c['num_key_value_heads'], head
        self.q_proj = nn.Linear(width, self.heads * head, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * head, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * head, bias=False)
        self.o_proj = nn.Linear(self.heads * head, width, bias=False)
        self.q_norm = RMSNorm(head, c['rms_norm_eps'])
        self.k_norm = RMSNorm(head, c['rms_norm_eps'])

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(batch, length, self.heads, self.head)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, length, self.kv_heads, self.head)).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.head).transpose(1, 2)
        group = self.heads // self.kv_heads
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class TextMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c['hidden_size'], c['intermediate_size'], bias=False)
        self.up_proj = nn.Linear(c['hidden_size'], c['intermediate_size'], bias=False)
        self.down_proj = nn.Linear(c['intermediate_size'], c['hidden_size'], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class TextLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn = TextAttention(c)
        self.mlp = TextMLP(c)
        self.input_layernorm = RMSNorm(c['hidden_size'], c['rms_norm_eps'])
        self.post_attention_layernorm = RMSNorm(c['hidden_size'], c['rms_norm_eps'])

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c['vocab_size'], c['hidden_size'])
        self.layers = nn.ModuleList(TextLayer(c) for _ in range(c['num_hidden_layers']))
        self.norm = RMSNorm(c['hidden_size'], c['rms_norm_eps'])


class Body(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.visual = Vision(config['vision_config'])
        self.language_model = Decoder(config['text_config'])


class DemoModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = Body(config)
        self.apply(self.initialise)
        layers = config['text_config']['num_hidden_layers'] + config['vision_config']['depth']
        for name, weight in self.named_parameters():
            if name.endswith(('o_proj.weight', 'down_proj.weight', 'attn.proj.weight', 'mlp.linear_fc2.weight')):
                weight.data.div_(math.sqrt(layers))

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding, nn.Conv3d)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, (nn.Linear, nn.Conv3d)) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, pixels, ids, positions, mask, start, tables):
        """Returns hidden states, batch x length x width. In every row the image's features begin at `start`."""
        decoder = self.model.language_model
        features, extra = self.model.visual(patches_of(pixels), tables)
        count = features.shape[1]
        x = decoder.embed_tokens(ids).to(features.dtype)
        x = torch.cat((x[:, :start], features, x[:, start + count:]), 1)
        cos, sin = text_rotation(positions, self.config['text_config'], x.dtype)
        for index, layer in enumerate(decoder.layers):
            x = layer(x, cos, sin, mask)
            if index < len(extra):
                x = torch.cat((x[:, :start], x[:, start:start + count] + extra[index], x[:, start + count:]), 1)
        return decoder.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.model.language_model.embed_tokens.weight)


def patches_of(pixels):
    """Converts batch x height x width x 3 bytes to batch x patches x 1536, in the order of 2x2 blocks."""
    batch, height, width, _ = pixels.shape
    x = pixels.permute(0, 3, 1, 2).float().div(127.5).sub(1)
    x = x.view(batch, 3, height // 32, 2, PATCH, width // 32, 2, PATCH).permute(0, 2, 5, 3, 6, 1, 4, 7)
    x = x.unsqueeze(6).expand(-1, -1, -1, -1, -1, -1, 2, -1, -1)
    return x.reshape(batch, -1, 3 * 2 * PATCH * PATCH)


def block_order(table):
    """Converts rows x columns x ... to patches x ..., in the order of 2x2 blocks."""
    rows, columns = table.shape[:2]
    table = table.view(rows // 2, 2, columns // 2, 2, *table.shape[2:])
    return table.transpose(1, 2).reshape(rows * columns, *table.shape[4:])


def vision_tables(config, rows, columns, device):
    """Returns the tables of an image of rows x columns patches: corners and weights for interpolating the position
    embedding, and the rotary cos and sin."""
    side = math.isqrt(config['num_position_embeddings'])
    y = torch.linspace(0, side - 1, rows)[:, None].expand(rows, columns)
    x = torch.linspace(0, side - 1, columns)[None].expand(rows, columns)
    y0, x0 = y.long(), x.long()
    y1, x1 = (y0 + 1).clamp(max=side - 1), (x0 + 1).clamp(max=side - 1)
    dy, dx = y - y0, x - x0
    corners = torch.stack([block_order(t) for t in (y0 * side + x0, y0 * side + x1, y1 * side + x0, y1 * side + x1)])
    weights = torch.stack([block_order(t) for t in ((1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx)])
    quarter = config['hidden_size'] // config['num_heads'] // 4
    frequency = VISION_THETA ** (-torch.arange(quarter) / quarter)
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing='ij')
    angles = torch.cat((row[..., None] * frequency, column[..., None] * frequency), -1)
    angles = block_order(angles)
    tables = {'corners': corners, 'weights': weights, 'cos': angles.cos(), 'sin': angles.sin()}
    return {name: table.to(device) for name, table in tables.items()}


def text_rotation(positions, config, dtype):
    """Returns cos and sin of interleaved M-RoPE for positions of 3 x batch x length."""
    half = config['head_dim'] // 2
    index = torch.arange(half, device=positions.device)
    frequency = 1.0 / config['rope_theta'] ** (index * 2 / config['head_dim'])
    _, high, wide = config['rope_scaling']['mrope_section']
    angles = positions[..., None].float() * frequency
    angle = torch.where((index % 3 == 1) & (index < 3 * high), angles[1], angles[0])
    angle = torch.where((index % 3 == 2) & (index < 3 * wide), angles[2], angle)
    return angle.cos()[:, None].to(dtype), angle.sin()[:, None].to(dtype)
