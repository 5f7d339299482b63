#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A lossless WebP of 295 KB with separate Huffman tables for each 4x4 pixels, alone and twelve concurrently."""
import struct

from abuse import CONSTANT, MIB, Server, chat_with_image, held, require

SIDE = 1024
GROUPS = (SIDE // 4) ** 2


class Bits:
    def __init__(self):
        self.text = []  # least significant bit first

    def put(self, value, n):
        self.text.append(format(value, f'0{n}b')[::-1])

    def code(self, value):
        """A Huffman code, most significant bit first."""
        self.text.append(format(value, '08b'))

    def bytes(self):
        text = ''.join(self.text)
        text += '0' * (-len(text) % 16)
        return bytes(int(text[i:i + 8][::-1], 2) for i in range(0, len(text), 8))


def tables_webp():
    out = Bits()
    out.put(0x2f, 8)
    out.put(SIDE - 1, 14)
    out.put(SIDE - 1, 14)
    out.put(0, 6)  # no alpha, version 0, no transform, no colour cache
    out.put(1, 1)  # groups of tables for tiles …
    out.put(0, 3)  # … of 4x4 pixels …
    out.put(0, 1)  # … whose image has no colour cache
    for _ in range(2):  # green and red are the group's number: 256 symbols of 8 bits each
        out.put(0, 1)
        out.put(8, 4)
        for i in range(12):
            out.put(int(i == 11), 3)
        out.put(1, 1)
        out.put(3, 3)
        out.put(254, 8)
    simple = format(1, '04b')[::-1]  # one symbol
    out.text.append(simple * 3)
    for group in range(GROUPS):
        out.code(group & 255)
        out.code(group >> 8)
    out.text.append(simple * (5 * GROUPS))
    data = out.bytes()
    return b'RIFF' + struct.pack('<I', 12 + len(data)) + b'WEBPVP8L' + struct.pack('<I', len(data)) + data


body = chat_with_image(tables_webp())
with Server('--host-memory', '256M') as server:
    for replies in [server.post_many([body]), server.post_many([body] * 12)]:
        for status, text, seconds in replies:
            require(status in (400, 503), f'a reply {status} after {seconds:.1f} s: {text}')
    require(server.taken() * MIB < 256 * MIB + CONSTANT, f'it took {server.taken():.0f} MiB')
    status, text, seconds = server.post(body)
    require(status == 400 and 'decoding it takes more than' in text, f'it got {status} {text}')
    held(f'400 after {seconds:.1f} s, {server.taken():.0f} MiB with twelve at once')
