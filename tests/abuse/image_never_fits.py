#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PNG of 14 KB with 4000x3000 pixels, sent to a server with 32 MiB for images, must get 400 immediately, not 503
after a wait."""
import struct
import zlib

from abuse import MIB, Server, chat_with_image, held, require


def chunk(name, body):
    return struct.pack('>I', len(body)) + name + body + struct.pack('>I', zlib.crc32(name + body))


def png(width, height):
    rows = (b'\0' + bytes(3 * width)) * height
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(rows, 9)) + chunk(b'IEND', b''))


with Server('--host-memory', '32M') as server:
    status, text, seconds = server.post(chat_with_image(png(4000, 3000)))
    require(status == 400 and '--host-memory' in text, f'{status}: {text}')
    require(seconds < 5, f'only after {seconds:.1f} s')
    require(server.taken() < 32, f'it took {server.taken():.0f} MiB')
    status, text, _ = server.post(chat_with_image(png(1000, 1000)))
    require(status == 200, f'one that fits: {status} {text}')
    held(f'refused after {seconds:.2f} s')
