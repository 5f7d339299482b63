#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""300 requests from one address whose bodies arrive at one byte a second. /health, chats and images from another
address must be answered."""
from abuse import Server, SlowCrowd, held, post_head, require, serve_honest

with Server() as server:
    rest = server.at_rest()
    with SlowCrowd(server, 300, 1, post_head(1000000) + b'{') as crowd:
        said = serve_honest(server, 20)
        require(crowd.opened >= 300, f'the crowd opened {crowd.opened}')
        crowd.require_cut(b'--max-connections')
held(f'{rest}; {said}')
