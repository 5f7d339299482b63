#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks for API keys in a server's command line, environment and memory, and for core dumps after a crash."""
import os
import re
import resource
import signal
import tempfile
import time

from abuse import Server, get, held, require

KEYS = {'given': 'given-2c7e51d0a9', 'joined': 'joined-81b0f4c6e3', 'file': 'filed-e5d92a7013', 'environment': 'env-90f3b6d8c1'}


def memory_has(pid, needles):
    """Returns which of the texts occur in writable memory."""
    found = set()
    with open(f'/proc/{pid}/maps', encoding='utf-8') as maps, open(f'/proc/{pid}/mem', 'rb', 0) as memory:
        for line in maps:
            begin, end, mode, name = re.match(r'(\w+)-(\w+) (\S+) \S+ \S+ \S+\s*(.*)', line).groups()
            if 'w' not in mode:
                continue
            memory.seek(int(begin, 16))
            try:
                data = memory.read(int(end, 16) - int(begin, 16))
            except OSError:
                continue
            found |= {what for what, text in needles.items() if text.encode() in data}
    return found


def crash(*options):
    """Whether a crash leaves a core dump although limits allow one."""
    with tempfile.TemporaryDirectory() as folder, \
            Server(*options, limits=[(resource.RLIMIT_CORE, 1 << 30)], health=False, folder=folder) as server:
        server.process.send_signal(signal.SIGSEGV)
        _, status = os.waitpid(server.pid, 0)
        server.process.returncode = -signal.SIGSEGV
        return os.WCOREDUMP(status)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'keys')
    with open(path, 'w', encoding='ascii') as f:
        f.write(KEYS['file'] + '\n')
    options = ['--api-key', KEYS['given'], '--api-key=' + KEYS['joined'], '--api-key-file', path]
    for options, mine in ((options, ('given', 'joined', 'file')), ([], ('environment',))):
        os.environ['VLLM_API_KEY'] = KEYS['environment']
        with Server(*options, health=False) as server:
            with open(f'/proc/{server.pid}/cmdline', 'rb') as f:
                line = f.read()
            require(not any(KEYS[what].encode() in line for what in mine), 'ps shows a key')
            with open(f'/proc/{server.pid}/environ', 'rb') as f:
                require(KEYS['environment'].encode() not in f.read(), 'the environment shows a key')
            found = memory_has(server.pid, {what: KEYS[what] for what in mine}) if os.geteuid() == 0 else set()
            require(not found, f'memory has keys: {", ".join(sorted(found))}')
            require(all(get(server.host, '/version', key=KEYS[what]) == 200 for what in mine), 'a key is refused')
            require(get(server.host, '/version', key='*') == 401, 'any key is taken')
    del os.environ['VLLM_API_KEY']

require(not crash(), 'a crash left a core dump')
with open('/proc/sys/kernel/core_pattern', encoding='ascii') as f:
    files = not f.read().startswith('|')
asked = crash('--allow-core-dumps') if files else None
require(asked is not False, '--allow-core-dumps leaves none')
held('no key in ps, environment and memory; no core dump' + (', one when asked' if asked else ''))
