#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""200 concurrent bodies of 1.1 MB, each of which parses to 46 MiB of JSON objects, sent to a server with 256 MiB for
requests; then 60 to /eyelet/preview, whose valid requests are small."""
from abuse import CONSTANT, MIB, Server, chat, held, require

OBJECT = b'{' + b','.join(b'"%c":1.5' % c for c in b'abcdefghijkl') + b'}'
BOMB = b'{"messages":[' + b','.join([OBJECT] * 16000) + b']}'

with Server('--host-memory', '256M') as server:
    replies = server.post_many([BOMB] * 200)
    counts = {}
    for status, _, _ in replies:
        counts[status] = counts.get(status, 0) + 1
    require(set(counts) <= {400, 503} and 400 in counts, f'replies {counts}')
    replies = server.post_many([BOMB] * 60, '/eyelet/preview')
    require({status for status, _, _ in replies} <= {400, 503}, f'previews {replies[0]}')
    require(server.taken() * MIB < 256 * MIB + CONSTANT, f'it took {server.taken():.0f} MiB')
    status, text, _ = server.post(chat('Hello'))
    require(status == 200, f'a chat got {status} {text}')
    held(f'{server.taken():.0f} MiB, replies {counts}, /health {server.health_figures()}')
