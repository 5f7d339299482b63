#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client sends an image that takes seconds to decode, and disconnects."""
from abuse import Server, chat_with_image, data_file, held, require, wait_until

with Server('--host-memory', '2G') as server:
    connection = server.begin(chat_with_image(data_file('claims-itself.avif')))
    require(wait_until(server.workers, 15) is not None, 'nothing decodes it')
    connection.close()
    gone = wait_until(lambda: not server.workers(), 10)
    require(gone is not None, 'the decoder works on for nobody')
    status, text, _ = server.post(chat_with_image(data_file('../../image/data/plain.avif')))
    require(status == 200, f'the next image: {status} {text}')
    held(f'the decoder was gone {gone:.1f} s after the client')
