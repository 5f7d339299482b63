#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reduces the output of make_references.py to the small file with which tests/real compares.

    tools/real/reduce_references.py FOLDER tests/real/smollm2-135m.json

For each prompt it has the text or messages, the ids, the best logits at the last position and the log of the sum of
exp(logit), the greedy answer with the margin of each step, and for some prompts every SAMPLE_STRIDE-th logit of the
vocabulary. For text.txt it has the negative log-probability of each token but the first, their sum, and the
perplexity."""
import json
import os
import sys

import numpy as np

SAMPLE_STRIDE = 64


def main():
    folder, out = sys.argv[1:3]
    with open(os.path.join(folder, 'prompts.json')) as f:
        prompts = {p['id']: p for p in json.load(f)}
    with open(os.path.join(folder, 'reference.json')) as f:
        reference = json.load(f)
    logits = np.load(os.path.join(folder, 'logits.npz'))
    cases = []
    for r in reference['prompts']:
        case = {k: prompts[r['id']][k] for k in ('id', 'text', 'messages') if k in prompts[r['id']]}
        case.update({k: r[k] for k in ('ids', 'top_ids', 'top_logits', 'logsumexp')})
        case['answer'] = r['greedy']['ids']
        case['margins'] = [float(f'{m:.4g}') for m in r['greedy']['margin']]
        if r['id'] in logits:
            case['sample'] = [float(f'{v:.8g}') for v in logits[r['id']][::SAMPLE_STRIDE]]
        cases.append(case)
    head = {k: reference[k] for k in ('file', 'sha256', 'torch', 'transformers', 'dtype')}
    nll = np.load(os.path.join(folder, 'text.npz'))['nll']
    head['text'] = {**reference['text'], 'token_nll': [float(f'{v:.5g}') for v in nll]}
    with open(out, 'w') as f:
        f.write(json.dumps({**head, 'sample_stride': SAMPLE_STRIDE, 'cases': []})[:-2].rstrip() + '\n')
        f.write(',\n'.join(json.dumps(c, separators=(',', ':')) for c in cases) + '\n]}\n')


main()
