#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Twelve concurrent images that need too much memory: an AVIF of 1 KiB with 8192x8192 pixels and a HEIC of 4 KiB that
is a grid of 64 tiles, each with its true size in the header and with 64x64."""
from abuse import CONSTANT, MIB, Server, chat_with_image, data_file, held, require

names = ['claims-64.avif', 'grid-64.heic', 'claims-itself.avif', 'grid-honest.heic'] * 3
with Server('--host-memory', '256M') as server:
    replies = server.post_many([chat_with_image(data_file(name)) for name in names])
    for name, (status, text, seconds) in zip(names, replies):
        require(status == 400 and seconds < 10, f'{name}: {status} after {seconds:.1f} s: {text}')
    require(server.taken() * MIB < CONSTANT, f'it took {server.taken():.0f} MiB')
    slowest = max(seconds for _, _, seconds in replies)
    held(f'{len(names)} files refused within {slowest:.1f} s, {server.taken():.0f} MiB taken')
