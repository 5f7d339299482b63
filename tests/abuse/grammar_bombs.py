#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""120 concurrent schemas and patterns that need 10 to 60 MiB each to compile; 256 MiB for requests."""
import json
from collections import Counter

from abuse import CONSTANT, MIB, Server, chat, held, require

CLASS = '[' + ''.join(chr(0x4e00 + 2 * i) for i in range(900)) + ']'


def request(**response):
    return json.dumps({'model': '', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': 'Hi'}],
                       **response}).encode()


def schema(value):
    return request(response_format={'type': 'json_schema', 'json_schema': {'name': 'a', 'schema': value}})


def pattern(text):
    return request(structured_outputs={'regex': text})


def attacks(i):
    yield pattern(CLASS + '{0,%d}' % (800 + i))
    yield pattern('(a|b)*a(a|b){%d}' % (14 + i % 6))
    yield pattern('[acegikmoqsuwy]{0,%d}' % (6000 + i))
    yield schema({'anyOf': [{'type': 'object', 'properties': {f'a{i}_{k}': {'enum': [f'x{k}', k]}}} for k in range(900)]})
    yield schema({'type': 'null', '$defs': {f'd{i}_{k}': {} for k in range(14000)}})


with Server('--host-memory', '256M') as server:
    replies = server.post_many([body for i in range(24) for body in attacks(i)])
    counts = Counter(status for status, _, _ in replies)
    require(server.taken() * MIB < 256 * MIB + CONSTANT, f'it took {server.taken():.0f} MiB')
    require(set(counts) <= {200, 400, 503} and counts[200], f'replies {counts}')
    status, text, _ = server.post(chat('Hello'))
    require(status == 200, f'a chat got {status} {text}')
    held(f'{server.taken():.0f} MiB, replies {dict(counts)}, /health {server.health_figures()}')
