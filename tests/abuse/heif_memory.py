#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Six concurrent AVIF files of 8192x8192 pixels, each of which alone fits the budget. Clients disconnect after 10
seconds."""
import time

from abuse import CONSTANT, MIB, Server, chat_with_image, data_file, held, require, wait_until

BUDGET = 1280
with Server('--host-memory', f'{BUDGET}M') as server:
    body = chat_with_image(data_file('claims-itself.avif'))
    connections = [server.begin(body) for _ in range(6)]
    time.sleep(10)
    for connection in connections:
        connection.close()
    gone = wait_until(lambda: not server.workers(), 10)
    require(gone is not None, 'work goes on after the clients have left')
    require(server.taken() * MIB < BUDGET * MIB + CONSTANT, f'it took {server.taken():.0f} MiB')
    held(f'six at once took {server.taken():.0f} MiB of {BUDGET}')
