#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""60 concurrent clients from one address send grammars that take long to compile, then images that take long to
decode, then long texts; /health must answer another address. The clients have a low priority, as if they ran on
another machine."""
import json
import multiprocessing
import os
import threading
import time

from abuse import Server, chat, chat_with_image, held, png, require

CLIENTS, SECONDS = 60, 8
FORK = multiprocessing.get_context('fork')


def grammar(i):
    """Schemas differ, so that each is compiled."""
    properties = {f'p{i}_{k}': {'type': 'string', 'pattern': f'^[a-z{k % 10}]{{1,60}}(x|y{i}){{1,30}}$'}
                  for k in range(60)}
    schema = {'type': 'object', 'properties': properties, 'additionalProperties': False}
    return json.dumps({'model': '', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': 'Hello'}],
                       'response_format': {'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': schema}}}
                      ).encode()


def ask_until(end, server, k, body_of, statuses):
    i = 0
    while time.monotonic() < end:
        status = server.post(body_of(1000 * k + i), max(end - time.monotonic(), 0.1), address='127.0.0.2')[0]
        statuses[status] = statuses.get(status, 0) + 1
        i += 1


def crowd(server, body_of, queue):
    """Puts the number of replies with each status into the queue; status 0: out of time."""
    statuses = {}
    os.nice(19)
    end = time.monotonic() + SECONDS
    threads = [threading.Thread(target=ask_until, args=(end, server, k, body_of, statuses)) for k in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put(statuses)


def storm(server, body_of):
    """Runs the clients in another process."""
    queue = FORK.Queue()
    attacker = FORK.Process(target=crowd, args=(server, body_of, queue))
    server.health.clear()
    attacker.start()
    statuses = queue.get()
    attacker.join()
    return statuses


figures = []
text = chat('What a text this is! ' * 100000)
image = chat_with_image(png(1000, 750, noise=True))
with Server() as server:
    figures.append(server.at_rest())
    for what, body_of, worked_on in (('grammars', grammar, 200), ('images', lambda i: image, 200),
                                     ('texts', lambda i: text, 400)):
        statuses = storm(server, body_of)
        p99 = server.health_p99()
        require(worked_on in statuses and set(statuses) <= {0, 200, 400, 503}, f'{what}: {statuses}')
        require(p99 < 1, f'{what}: p99 of /health {p99:.2f} s')
        figures.append(f'{what} {statuses}: {server.health_figures()}')
held('; '.join(figures))
