# SPDX-License-Identifier: Apache-2.0
"""Measures the demo model through eyelet itself, on cases that evaluate.py wrote.

python3 evaluate.py MODEL_FOLDER --cases 50 --seed "held out" --no-run --write CASES
python3 through_eyelet.py CASES [--eyelet build/eyelet] [--model models/demo] [--device cpu]
"""

import argparse
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from evaluate import score


def ask(options, case):
    """eyelet's greedy answer."""
    command = [
        options.eyelet,
        'ask',
        '--model',
        options.model,
        '--device',
        options.device,
        '--threads',
        '1',
        '--temperature',
        '0',
        '--json',
        '--quiet',
    ]
    if case['file']:
        command.append(os.path.join(options.cases, case['file']))
    done = subprocess.run(command + [case['question']], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)['answer'].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cases')
    parser.add_argument('--eyelet', default='build/eyelet')
    parser.add_argument('--model', default='models/demo')
    parser.add_argument('--device', default='cpu')
    options = parser.parse_args()
    with open(os.path.join(options.cases, 'cases.json')) as file:
        cases = json.load(file)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda case: ask(options, case), cases))
    for task in dict.fromkeys(case['task'] for case in cases):
        pairs = [(said, case['answer']) for said, case in zip(answers, cases) if case['task'] == task]
        print(f'{task}: {score(task, *map(list, zip(*pairs)))}', flush=True)


if __name__ == '__main__':
    main()
