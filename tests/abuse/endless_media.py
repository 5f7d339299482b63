#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""60 concurrent requests with image URLs of a host that sends without end; the budget for requests is 128 MiB. The
server fetches from public addresses only, so the loopback device of a network namespace gets one."""
import json
import os
import shutil
import socket
import sys
import threading
import time
from collections import Counter

from abuse import CONSTANT, MIB, Server, chat, held, require, set_loopback

ADDRESS = '93.184.216.34'


def enter_namespace():
    """Restarts in a network namespace, or reports that there is none and exits."""
    if os.environ.get('EY_IN_NAMESPACE'):
        return
    if not shutil.which('unshare') or os.system('unshare -rn true 2>/dev/null') != 0:
        held('not tried, this system makes no network namespaces')
        sys.exit(0)
    os.environ['EY_IN_NAMESPACE'] = '1'
    os.execvp('unshare', ['unshare', '-rn', sys.executable, *sys.argv])


def send_without_end(connection):
    try:
        connection.recv(4096)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n\x1a\n')
        while True:
            connection.sendall(bytes(1 << 18))
            time.sleep(0.02)
    except OSError:
        pass


def listen():
    listener = socket.create_server((ADDRESS, 0), backlog=128)

    def accept():
        while True:
            threading.Thread(target=send_without_end, args=(listener.accept()[0],), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


enter_namespace()
set_loopback(True, ADDRESS)
port = listen()
content = [{'type': 'image_url', 'image_url': {'url': f'http://{ADDRESS}:{port}/a.png'}}] * 3
body = json.dumps({'model': '', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': content}]}).encode()
with Server('--host-memory', '128M', '--allowed-media-domains', ADDRESS) as server:
    replies = server.post_many([body] * 60)
    counts = Counter(status for status, _, _ in replies)
    require(server.taken() * MIB < 128 * MIB + CONSTANT, f'it took {server.taken():.0f} MiB')
    require(set(counts) <= {400, 502, 503}, f'replies {counts} {replies[0]}')
    status, text, _ = server.post(chat('Hello'))
    require(status == 200, f'a chat got {status} {text}')
    held(f'{server.taken():.0f} MiB, replies {dict(counts)}, /health {server.health_figures()}')
