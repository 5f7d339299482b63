#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ulimit -n 64` with 200 silent connections; then no descriptor at all."""
import os
import resource
import socket
import time

from abuse import Server, get, held, require, wait_until


def cpu_seconds(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def connect(host):
    s = socket.socket()
    s.settimeout(2)
    try:
        s.connect((host.split(':')[0], int(host.split(':')[1])))
    except OSError:
        pass
    return s


with Server(limits=[(resource.RLIMIT_NOFILE, 64)], health=False) as server:
    require('ulimit -n allows 64 descriptors' in server.said(), 'it does not say what the limit means')
    crowd = [connect(server.host) for _ in range(200)]
    time.sleep(0.5)
    before, start = cpu_seconds(server.pid), time.monotonic()
    healthy = wait_until(lambda: get(server.host, '/health', timeout=2) == 200, 20)
    require(healthy is not None, '/health is deaf')
    time.sleep(3)
    share = (cpu_seconds(server.pid) - before) / (time.monotonic() - start)
    require(share < 0.3, f'it spins: {share:.0%} of a processor')
    for s in crowd:
        s.close()
    require(wait_until(lambda: get(server.host, '/health') == 200, 5) is not None, '/health stays deaf')

    # with a limit of 4, the server cannot open a single descriptor more
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (4, 64))
    crowd = [connect(server.host) for _ in range(20)]
    time.sleep(1)
    before = cpu_seconds(server.pid)
    time.sleep(3)
    spent = (cpu_seconds(server.pid) - before) / 3
    require(spent < 0.3, f'without descriptors it spins: {spent:.0%} of a processor')
    lines = server.said().count('no descriptor is left')
    require(lines == 1, f'"no descriptor is left" is logged {lines} times')
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, 64))
    for s in crowd:
        s.close()
    back = wait_until(lambda: get(server.host, '/health', timeout=2) == 200, 20)
    require(back is not None, '/health stays deaf when descriptors are back')
held(f'200 silent connections: /health after {healthy:.1f} s, {share:.0%} of a processor; '
     f'none left: {spent:.0%}, said once, back after {back:.1f} s')
