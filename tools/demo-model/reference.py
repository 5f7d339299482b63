# SPDX-License-Identifier: Apache-2.0
"""The reference: runs a checkpoint with transformers' Qwen3-VL in float32, with FP8 weights dequantized."""
import json
import os

import torch
from tokenizers import Tokenizer
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl import image_processing_qwen2_vl

from checkpoint import dequantised

IMAGE = '<|vision_start|><|image_pad|><|vision_end|>'


def read_json(folder, name):
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


class Reference:
    def __init__(self, folder, device):
        config = read_json(folder, 'config.json')
        config.pop('quantization_config', None)
        self.model = Qwen3VLForConditionalGeneration(Qwen3VLConfig.from_dict(config)).float()
        tensors = {name: torch.from_numpy(value) for name, value in dequantised(folder).items()}
        tensors.setdefault('lm_head.weight', tensors['model.language_model.embed_tokens.weight'])
        self.model.load_state_dict(tensors, strict=True)
        self.model.to(device).eval()
        settings = read_json(folder, 'preprocessor_config.json')
        keys = ('size', 'patch_size', 'temporal_patch_size', 'merge_size', 'image_mean', 'image_std')
        self.processor = image_processing_qwen2_vl.Qwen2VLImageProcessor(**{key: settings[key] for key in keys})
        self.tokenizer = Tokenizer.from_file(os.path.join(folder, 'tokenizer.json'))
        self.device = device
        self.image, self.end, self.pad = (self.tokenizer.token_to_id(text)
                                          for text in ('<|image_pad|>', '<|im_end|>', '<|endoftext|>'))

    def inputs(self, images, questions, last):
        """Returns left-padded model inputs. Either all images are None or none is. last: the image comes after the
        question."""
        features, rows, place = {}, [], 0
        if images[0] is not None:
            made = self.processor(images=images, return_tensors='pt')
            features = {'pixel_values': made['pixel_values'], 'image_grid_thw': made['image_grid_thw']}
        for question in questions:
            image = ''
            if features:
                count = int(features['image_grid_thw'][place].prod()) // 4
                image, place = IMAGE.replace('<|image_pad|>', '<|image_pad|>' * count), place + 1
            asked = question + image if last else image + question
            prompt = f'<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n'
            rows.append(self.tokenizer.encode(prompt).ids)
        longest = max(map(len, rows))
        ids = torch.tensor([[self.pad] * (longest - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
        features.update(input_ids=ids, attention_mask=mask, mm_token_type_ids=(ids == self.image).int())
        return {name: value.to(self.device) for name, value in features.items()}

    @torch.inference_mode()
    def answers(self, images, questions, last=False, longest=220):
        """Returns the greedy answers to one question per image. last: the image comes after the question."""
        inputs = self.inputs(images, questions, last)
        out = self.model.generate(**inputs, max_new_tokens=longest, do_sample=False, eos_token_id=self.end,
                                  pad_token_id=self.pad)
        out = out[:, inputs['input_ids'].shape[1]:].tolist()
        return [self.tokenizer.decode(row, skip_special_tokens=True).strip() for row in out]
