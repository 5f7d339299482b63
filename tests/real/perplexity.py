#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perplexity.py EYELET REFERENCE.json [DEVICE], in this folder: the perplexity of text.txt through the API.

A server with the real model reports the log-probability of each token of the text, with prompt_logprobs and with echo
and logprobs, which must agree. Log-probabilities and perplexity are compared with transformers in F32. Prints TAP;
exits 77 if tools/real/fetch.sh has not fetched the model."""
import json
import math
import os
import re
import subprocess
import sys
import urllib.request

PERPLEXITY = 0.001  # relative
TOKEN = 0.25        # maximum difference of a token's log-probability
MEAN = 0.02         # mean difference; keys and values are BF16


def model_path(name):
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.environ.get('HOME', ''), '.cache')
    return os.path.join(os.environ.get('EYELET_REAL') or os.path.join(cache, 'eyelet', 'real'), name)


def start(eyelet, model, device):
    server = subprocess.Popen([eyelet, 'serve', model, '--device', device, '--port', '0', '--max-model-len', '2048'],
                              stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    said = ''
    for line in server.stdout:
        said += line
        found = re.search(r'ready on (http://[0-9.]+:[0-9]+)', line)
        if found:
            return server, found.group(1)
    sys.exit('no server: ' + said)


def ask(address, **fields):
    request = urllib.request.Request(address + '/v1/completions', json.dumps(fields).encode(),
                                     {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=280) as reply:
        return json.load(reply)


ran = failed = 0


def check(ok, what):
    global ran, failed
    ran += 1
    failed += not ok
    print(f'{"ok" if ok else "not ok"} {ran} {what}', flush=True)


def compare(got, reference):
    nll = [-v for v in got]
    perplexity = math.exp(sum(nll) / len(nll))
    apart = [abs(a - b) for a, b in zip(nll, reference['token_nll'])]
    error = perplexity / reference['perplexity'] - 1
    print(f'# perplexity {perplexity:.6f}, of the reference {reference["perplexity"]:.6f}: {100 * error:+.4f} %; '
          f'tokens differ by {max(apart):.3f} at most, {sum(apart) / len(apart):.4f} on average')
    check(abs(error) <= PERPLEXITY, 'the perplexity is that of the reference')
    check(max(apart) <= TOKEN and sum(apart) / len(apart) <= MEAN, 'so is the log-probability of each token')


def main():
    with open(sys.argv[2]) as f:
        reference = json.load(f)
    model = model_path(reference['file'])
    if not os.path.exists(model):
        print(f'skipped: {model} is missing; tools/real/fetch.sh fetches it')
        sys.exit(77)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'text.txt')) as f:
        text = f.read()
    server, address = start(sys.argv[1], model, sys.argv[3] if len(sys.argv) > 3 else 'cpu')
    try:
        reply = ask(address, prompt=text, max_tokens=1, prompt_logprobs=1)
        tokens = reply['choices'][0]['prompt_logprobs']
        own = [next(iter(t.values())) for t in tokens[1:]]
        check(len(tokens) == reference['text']['tokens'] and tokens[0] is None, 'the tokens are as many')
        check(all((t['rank'] == 1) == (t['logprob'] >= max(o['logprob'] for o in all_of.values()))
                  for t, all_of in zip(own, tokens[1:])), 'the likeliest tokens are of rank 1')
        compare([t['logprob'] for t in own], reference['text'])
        reply = ask(address, prompt=text, max_tokens=0, echo=True, logprobs=0)
        choice = reply['choices'][0]
        check(choice['text'] == text, 'the echo is the text')
        check(choice['logprobs']['token_logprobs'] == [None] + [t['logprob'] for t in own],
              'its log-probabilities are the same')
        check(''.join(choice['logprobs']['tokens']) == text and
              choice['logprobs']['text_offset'][-1] == len(text) - len(choice['logprobs']['tokens'][-1]),
              'its tokens make up the text')
    finally:
        server.terminate()
        server.wait()
    print(f'1..{ran}')
    sys.exit(failed > 0)


main()
