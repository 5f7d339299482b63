# SPDX-License-Identifier: Apache-2.0
"""Writes the trained weights as a block-FP8 checkpoint in the layout of the released Qwen3-VL checkpoints.

    python3 export.py WEIGHTS_FOLDER MODEL_FOLDER

The decoder's projections become F8_E4M3 with one BF16 scale per 128x128 block; everything else stays BF16. The
tokenizer's files must be in MODEL_FOLDER already (tokenizer.py).
"""
import json
import os
import sys

import numpy as np

from checkpoint import BLOCK, LARGEST, from_bf16, read_folder, to_bf16, to_e4m3, to_float, write_file

SHARDS = 2
SHORTEST_EDGE, LONGEST_EDGE = 65536, 131072  # pixels, not edges, whatever the names say


def is_quantised(name):
    return name.startswith('model.language_model.layers.') and name.endswith('_proj.weight')


def quantise(weight):
    """Returns the FP8 values and the BF16 scale of each 128x128 block."""
    rows, columns = weight.shape
    blocks = weight.reshape(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
    scale = to_bf16(np.maximum(np.abs(blocks).max((1, 3), keepdims=True) / np.float32(LARGEST), np.float32(1e-12)))
    codes = to_e4m3(blocks / from_bf16(scale))
    return codes.reshape(rows, columns), scale.reshape(rows // BLOCK, columns // BLOCK)


def checkpoint_tensors(weights):
    """Returns name -> (kind, array) of the exported checkpoint."""
    tensors = {}
    for name, weight in weights.items():
        if is_quantised(name):
            codes, scale = quantise(weight)
            tensors[name], tensors[name + '_scale_inv'] = ('F8_E4M3', codes), ('BF16', scale)
        else:
            tensors[name] = 'BF16', to_bf16(weight)
    return tensors


def write_shards(tensors, folder):
    """Splits the tensors in the order of names into shards of about equal size, and writes the index."""
    size = {name: array.nbytes for name, (_, array) in tensors.items()}
    total = sum(size.values())
    shards, passed = [{} for _ in range(SHARDS)], 0
    for name in sorted(tensors):
        shards[min(SHARDS - 1, passed * SHARDS // total)][name] = tensors[name]
        passed += size[name]
    places = {}
    for number, shard in enumerate(shards, 1):
        file_name = f'model-{number:05d}-of-{SHARDS:05d}.safetensors'
        write_file(os.path.join(folder, file_name), shard)
        places.update({name: file_name for name in shard})
    write_json(folder, 'model.safetensors.index.json',
               {'metadata': {'total_size': total}, 'weight_map': dict(sorted(places.items()))})


def write_json(folder, name, value):
    with open(os.path.join(folder, name), 'w') as file:
        json.dump(value, file, indent=2)
        file.write('\n')


def ignored_layers(weights):
    """Returns the linear layers that stay BF16, in both spellings, as the released files list them."""
    names = sorted(name[:-len('.weight')] for name in weights
                   if name.startswith('model.visual.') and name.endswith('.weight') and 'norm' not in name)
    return ['lm_head'] + names + [name[len('model.'):] for name in names]


def generation_config(text):
    return {'bos_token_id': text['bos_token_id'], 'do_sample': True,
            'eos_token_id': [text['eos_token_id'], text['bos_token_id']], 'pad_token_id': text['bos_token_id'],
            'repetition_penalty': 1.0, 'temperature': 0.7, 'top_k': 20, 'top_p': 0.8, 'transformers_version': '4.56.0'}


def preprocessor_config():
    return {'size': {'longest_edge': LONGEST_EDGE, 'shortest_edge': SHORTEST_EDGE}, 'patch_size': 16,
            'temporal_patch_size': 2, 'merge_size': 2, 'image_mean': [0.5, 0.5, 0.5], 'image_std': [0.5, 0.5, 0.5],
            'processor_class': 'Qwen3VLProcessor', 'image_processor_type': 'Qwen2VLImageProcessorFast'}


def main():
    source, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    stored = read_folder(source, 'weights-*.safetensors')
    weights = {name: to_float(stored, name) for name in stored}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'config.json')) as file:
        config = json.load(file)
    config['quantization_config'] = {
        'activation_scheme': 'dynamic', 'fmt': 'e4m3', 'ignored_layers': ignored_layers(weights), 'quant_method': 'fp8',
        'weight_block_size': [BLOCK, BLOCK]}
    write_shards(checkpoint_tensors(weights), folder)
    write_json(folder, 'config.json', config)
    write_json(folder, 'generation_config.json', generation_config(config['text_config']))
    write_json(folder, 'preprocessor_config.json', preprocessor_config())


if __name__ == '__main__':
    main()
