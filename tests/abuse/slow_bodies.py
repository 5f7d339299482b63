#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""300 requests of one address whose bodies come a byte at a time: /health and chats of another are answered."""
import time

from abuse import Server, chat, held, require, slow_crowd

HEAD = (b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
        b'Content-Length: 1000000\r\n\r\n{')

with Server('--max-connections', '256') as server:
    server.health.clear()
    with slow_crowd(server, 300, 1, HEAD) as crowd:
        slowest = 0
        for _ in range(40):
            status, text, seconds = server.post(chat('Hello'))
            require(status == 200, f'a chat got {status} {text}')
            slowest = max(slowest, seconds)
            time.sleep(0.1)
        require(crowd.opened >= 300, f'the crowd opened {crowd.opened}')
    p99 = server.health_p99()
    require(p99 < 1 and slowest < 5, f'/health {p99:.2f} s, chat {slowest:.2f} s')
    held(f'p99 of /health {1000 * p99:.0f} ms, slowest chat {slowest:.2f} s')
