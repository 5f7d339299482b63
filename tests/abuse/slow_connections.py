#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""280 connections that say half of a request and no more, from one address and then from 70, opened again where they
are cut: /health, chats and images of another address are answered all the while."""
from abuse import Server, SlowCrowd, held, require, serve_honest

with Server() as server:
    figures = [server.at_rest()]
    for addresses in (1, 70):
        with SlowCrowd(server, 280, addresses, b'GET /version HTTP/1.1\r\nX: ') as crowd:
            figures.append(f'{addresses} addresses: ' + serve_honest(server, 12))
            require(crowd.opened >= 280, f'the crowd opened {crowd.opened}')
            require(b' 408 ' in crowd.heard, f'who is cut hears {crowd.heard[:80]}')
held('; '.join(figures))
