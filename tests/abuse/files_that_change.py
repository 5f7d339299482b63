#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Truncates weights while they are served; puts pipes in place of files."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from abuse import ROOT, Server, held, require, wait_until

CHAT = json.dumps({'max_tokens': 4, 'messages': [{'role': 'user', 'content': 'Hello'}]}).encode()
SHARDS = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
PIPES = ['config.json', 'tokenizer.json', 'model.safetensors.index.json', 'preprocessor_config.json',
         'generation_config.json', *SHARDS]


def copy_of_demo(folder):
    model = os.path.join(folder, 'model')
    shutil.rmtree(model, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, 'models/demo'), model)
    return model


def cut_off(model):
    for name in SHARDS:
        os.truncate(os.path.join(model, name), 0)


def serve_what_is_cut_off(folder, *options):
    """Truncates weights that the server reads from the file. Weights in huge pages survive, except norms and vision
    encoder, which stay in the file."""
    model = copy_of_demo(folder)
    with Server('--device', 'cpu', *options, model=model) as server:
        time.sleep(2)  # copies to huge pages are made when the server is idle
        cut_off(model)
        server.post(CHAT)
        require(wait_until(lambda: server.process.poll() is not None, 10) is not None, 'it goes on without weights')
        require(server.process.returncode == 74, f'it ended with {server.process.returncode}')
        lines = [line for line in server.said().splitlines() if 'cut off' in line]
        require(len(lines) == 1 and model in lines[0], 'it does not say which file')


with tempfile.TemporaryDirectory() as folder:
    serve_what_is_cut_off(folder, '--no-huge-pages')
    serve_what_is_cut_off(folder)
    for name in PIPES:
        model = copy_of_demo(folder)
        os.unlink(os.path.join(model, name))
        os.mkfifo(os.path.join(model, name))
        try:
            done = subprocess.run([sys.argv[1], 'serve', model, '--port', '0', '--device', 'cpu'], timeout=10,
                                  stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=False)
        except subprocess.TimeoutExpired:
            sys.exit(f'NOT HELD files_that_change.py: a pipe as {name} blocks the start')
        last = done.stderr.splitlines()[-1]
        require(done.returncode == 1 and name in last, f'a pipe as {name}: {done.returncode}, {last}')
held(f'status 74 with the file named, {len(PIPES)} pipes refused')
