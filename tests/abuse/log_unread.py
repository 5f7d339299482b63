#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Standard error is a pipe that nobody reads, although the requests log thousands of lines more than it holds; then
standard error is closed."""
import fcntl
import os
import subprocess

import sys
import time

from abuse import ROOT, free_port, get, held, require, terminate, wait_until

LINES = 6000


class Plain:
    """A server with the given standard error."""

    def __init__(self, stderr):
        self.host = f'127.0.0.1:{free_port()}'
        self.process = subprocess.Popen(
            [sys.argv[1], 'serve', os.path.join(ROOT, 'models/demo'), '--port', self.host.split(':')[1]],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            preexec_fn=(lambda: os.close(2)) if stderr is None else None)


def flood(server, lines):
    """The longest time of a request."""
    longest = 0
    for _ in range(lines):
        start = time.monotonic()
        require(get(server.host, '/nothing') == 404, 'a request was not answered')
        longest = max(longest, time.monotonic() - start)
    return longest


read_end, write_end = os.pipe()
fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
server = Plain(write_end)
os.close(write_end)
try:
    require(wait_until(lambda: get(server.host, '/ready') == 200, 30) is not None, 'it does not start')
    longest = flood(server, LINES)
    require(longest < 5, f'a request took {longest:.1f} s')
    require(get(server.host, '/health') == 200, '/health is deaf')
    seconds = terminate(server, 20)
    require(server.process.returncode == 0, f'it ended with {server.process.returncode}')
finally:
    server.process.kill()

server = Plain(None)
try:
    require(wait_until(lambda: get(server.host, '/ready') == 200, 30) is not None, 'it does not start')
    flood(server, 20)
    link = os.readlink(f'/proc/{server.process.pid}/fd/2')
    require(link == '/dev/null', f'a closed standard error became {link}')
    terminate(server, 20)
    require(server.process.returncode == 0, f'it ended with {server.process.returncode}')
finally:
    server.process.kill()
held(f'{LINES} unread lines: the slowest answer took {1000 * longest:.0f} ms, SIGTERM {seconds:.1f} s')
