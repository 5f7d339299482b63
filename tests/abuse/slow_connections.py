#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""280 connections that send half a request, from one address and then from 70, and reconnect when they are closed.
/health, chats and images from another address must be answered meanwhile."""
from abuse import Server, SlowCrowd, held, require, serve_honest

with Server() as server:
    figures = [server.at_rest()]
    for addresses in (1, 70):
        with SlowCrowd(server, 280, addresses, b'GET /version HTTP/1.1\r\nX: ') as crowd:
            figures.append(f'{addresses} addresses: ' + serve_honest(server, 12))
            require(crowd.opened >= 280, f'the crowd opened {crowd.opened}')
            crowd.require_cut(b'too slowly')
held('; '.join(figures))
