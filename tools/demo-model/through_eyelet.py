# SPDX-License-Identifier: Apache-2.0
"""Measures the demo model through eyelet's server, on cases that evaluate.py wrote.

python3 evaluate.py MODEL_FOLDER --cases 50 --seed "held out" --no-run --write CASES
python3 through_eyelet.py CASES [--last] [--eyelet build/eyelet] [--model models/demo] [--device cpu] [-- OPTION...]

Options after -- go to `serve` (such as --quantize int4). --last puts the image after the question, as several chat
clients do.
"""

import argparse
import base64
import http.client
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from scores import score


def start_server(options):
    """Starts a server. Returns the process and its host:port."""
    command = [options.eyelet, 'serve', options.model, '--device', options.device, '--port', '0', *options.more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        ready = re.search(r'eyelet ready on https?://([^/\s]+)', line)
        if ready:
            return process, ready[1]
    raise SystemExit('the server did not start')


def ask(options, host, case):
    """Returns eyelet's greedy answer."""
    parts = [{'type': 'text', 'text': case['question']}]
    if case['file']:
        with open(os.path.join(options.cases, case['file']), 'rb') as file:
            url = 'data:image/png;base64,' + base64.b64encode(file.read()).decode()
        parts.insert(1 if options.last else 0, {'type': 'image_url', 'image_url': {'url': url}})
    body = {'messages': [{'role': 'user', 'content': parts}], 'temperature': 0, 'max_tokens': 220}
    connection = http.client.HTTPConnection(host, timeout=300)
    connection.request('POST', '/v1/chat/completions', json.dumps(body), {'Content-Type': 'application/json'})
    reply = json.load(connection.getresponse())
    connection.close()
    return reply['choices'][0]['message']['content'].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cases')
    parser.add_argument('--last', action='store_true')
    parser.add_argument('--eyelet', default='build/eyelet')
    parser.add_argument('--model', default='models/demo')
    parser.add_argument('--device', default='cpu')
    parser.add_argument('more', nargs='*', metavar='OPTION')
    options = parser.parse_args()
    with open(os.path.join(options.cases, 'cases.json')) as file:
        cases = json.load(file)
    process, host = start_server(options)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda case: ask(options, host, case), cases))
    process.terminate()
    for task in dict.fromkeys(case['task'] for case in cases):
        pairs = [(said, case['answer']) for said, case in zip(answers, cases) if case['task'] == task]
        print(f'{task}: {score(task, *map(list, zip(*pairs)))}', flush=True)


if __name__ == '__main__':
    main()
