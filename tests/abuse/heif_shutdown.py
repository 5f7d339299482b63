#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGTERM, then SIGKILL, during a long decode."""
from abuse import Server, chat_with_image, data_file, held, require, status_fields, terminate, wait_until

BODY = chat_with_image(data_file('claims-itself.avif'))


def decoding(server):
    connection = server.begin(BODY)
    require(wait_until(server.workers, 15) is not None, 'nothing decodes it')
    return connection, server.children()


def are_gone(pids):
    return all((status_fields(pid) or (0, 0, 'Z'))[2] == 'Z' for pid in pids)


with Server('--host-memory', '2G', '--drain-seconds', '1') as server:
    connection, children = decoding(server)
    seconds = terminate(server, 20)
    require(wait_until(lambda: are_gone(children), 5) is not None, 'children outlive SIGTERM')
with Server('--host-memory', '2G') as server:
    connection, children = decoding(server)
    server.process.kill()
    server.process.wait()
    gone = wait_until(lambda: are_gone(children), 5)
    require(gone is not None, 'children outlive SIGKILL')
held(f'SIGTERM ended all in {seconds:.1f} s, SIGKILL in {gone:.1f} s')
