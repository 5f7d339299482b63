# SPDX-License-Identifier: Apache-2.0
"""Trains the byte-level BPE tokenizer: Qwen's pipeline (NFC, its split pattern, bytes) with a tiny vocabulary.

The merges are learned from questions and answers without printed words. So the words of questions become one token
each, while printed words stay nearly single letters, which a small model reads more easily.

    python3 tokenizer.py MODEL_FOLDER
"""
import json
import os
import random
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

from draw import make_scene
from questions import ask_many, talk_without_image

VOCABULARY = 640
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
           r"\s+(?!\S)|\s+")
SPECIAL = ('<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|object_ref_start|>', '<|object_ref_end|>', '<|box_start|>',
           '<|box_end|>', '<|quad_start|>', '<|quad_end|>', '<|vision_start|>', '<|vision_end|>', '<|vision_pad|>',
           '<|image_pad|>', '<|video_pad|>')
PLAIN = ('<tool_call>', '</tool_call>', '<|fim_prefix|>', '<|fim_middle|>', '<|fim_suffix|>', '<|fim_pad|>',
         '<|repo_name|>', '<|file_sep|>', '<tool_response>', '</tool_response>', '<think>', '</think>')


def corpus(scenes=12000):
    """Yields questions and answers about made-up scenes, without printed words."""
    rng = random.Random('tokenizer')
    for _ in range(scenes):
        scene = make_scene(rng, 320, 256, kind='shapes')
        questions = ask_many(rng, scene)
        for _ in range(4):
            question, answer = next(questions)
            yield f'user\n{question}'
            yield f'assistant\n{answer}'
        scene = make_scene(rng, 320, 256, kind='text', rows=['42'])
        questions = ask_many(rng, scene)
        yield from (f'user\n{next(questions)[0]}' for _ in range(2))
        yield from talk_without_image(rng)
        yield f' with the words "{rng.choice("abcdefgh")}" in red on a white background.'


def train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), 'isolated'), byte_level])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    added = len(SPECIAL) + len(PLAIN)
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - added, special_tokens=[], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in PLAIN])
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f'the vocabulary has {tokenizer.get_vocab_size()} entries, not {VOCABULARY}')
    return tokenizer


def tokenizer_config(tokenizer):
    """Returns tokenizer_config.json in the form of the released checkpoints."""
    plain = {'lstrip': False, 'normalized': False, 'rstrip': False, 'single_word': False}
    decoder = {str(tokenizer.token_to_id(text)): {'content': text, **plain, 'special': text in SPECIAL}
               for text in SPECIAL + PLAIN}
    return {'add_bos_token': False, 'add_prefix_space': False, 'added_tokens_decoder': decoder, 'bos_token': None,
            'clean_up_tokenization_spaces': False, 'eos_token': '<|im_end|>', 'errors': 'replace',
            'model_max_length': 4096, 'pad_token': '<|endoftext|>', 'split_special_tokens': False,
            'tokenizer_class': 'Qwen2Tokenizer', 'unk_token': None}


if __name__ == '__main__':
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    result = train_tokenizer()
    result.save(os.path.join(folder, 'tokenizer.json'))
    with open(os.path.join(folder, 'tokenizer_config.json'), 'w') as file:
        json.dump(tokenizer_config(result), file, indent=2)
        file.write('\n')
