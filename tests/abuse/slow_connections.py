#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""280 connections that say half of a request and no more, from one address and then from 70, opened again where they
are cut: /health and chats of another address are answered all the while."""
import time

from abuse import Server, chat, held, require, slow_crowd

figures = []
with Server('--max-connections', '256') as server:
    for addresses in (1, 70):
        server.health.clear()
        with slow_crowd(server, 280, addresses, b'GET /version HTTP/1.1\r\nX: ') as crowd:
            slowest = 0
            for _ in range(20):
                status, text, seconds = server.post(chat('Hello'))
                require(status == 200, f'{addresses} addresses: a chat got {status} {text}')
                slowest = max(slowest, seconds)
                time.sleep(0.1)
            require(crowd.opened >= 280, f'the crowd opened {crowd.opened}')
        p99 = server.health_p99()
        require(p99 < 1 and slowest < 5, f'{addresses} addresses: /health {p99:.2f} s, chat {slowest:.2f} s')
        figures.append(f'{addresses} addresses: p99 of /health {1000 * p99:.0f} ms, slowest chat {slowest:.2f} s')
    held('; '.join(figures))
