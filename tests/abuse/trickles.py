#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""7 requests from one address send 34 MiB each, together nearly all of the budget, then single bytes with pauses.
/health, chats and images from another address must be answered, including an image that needs more memory than is
left."""
import time

from abuse import Server, SlowCrowd, chat_with_image, held, png, post_head, require, serve_honest

LARGE = chat_with_image(png(2600, 2000, noise=True))  # 21 MB as base64, plus 15 MiB of pixels

with Server('--host-memory', '256M') as server:
    rest = server.at_rest()
    with SlowCrowd(server, 7, 1, post_head(60 << 20) + b' ' * (34 << 20), pause=5) as crowd:
        said = serve_honest(server, 12)
        start = time.monotonic()
        status, text, seconds = server.post(LARGE)
        require(status == 200, f'the large image of another got {status} {text}')
        for s in crowd.sockets:
            try:
                crowd.hear(s)
            except (OSError, AttributeError):
                pass
        crowd.require_cut(b'--host-memory')
held(f'{rest}; {said}; large image {seconds:.2f} s')
