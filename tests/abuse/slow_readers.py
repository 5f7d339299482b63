#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Long answers of 8 choices with 20 log-probabilities a token, to 40 clients that do not read; then the tokens of
long texts to 40 more. The budget for requests is 48 MiB."""
import http.client
import json
import socket
import time

from abuse import CONSTANT, MIB, Server, chat, held, require

BUDGET = 48
ANSWER = json.dumps({'model': '', 'max_tokens': 300, 'min_tokens': 300, 'n': 8, 'logprobs': True, 'top_logprobs': 20,
                     'messages': [{'role': 'user', 'content': 'Hello'}]}).encode()
TOKENS = json.dumps({'model': '', 'prompt': 'q1w2e3 ' * 500000, 'return_token_strs': True}).encode()


def ask_and_wait(server, path, body):
    """A connection with a small receive buffer, which is never read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = server.host.rsplit(':', 1)
    connection.connect((host, int(port)))
    head = f'POST {path} HTTP/1.1\r\nHost: {server.host}\r\nContent-Type: application/json\r\n'
    connection.sendall(head.encode() + f'Content-Length: {len(body)}\r\n\r\n'.encode() + body)
    return connection


with Server('--host-memory', f'{BUDGET}M') as server:
    waiting = [ask_and_wait(server, '/v1/chat/completions', ANSWER) for _ in range(40)]
    time.sleep(25)
    answers = server.taken()
    for connection in waiting:
        connection.close()
    time.sleep(1)
    waiting = [ask_and_wait(server, '/tokenize', TOKENS) for _ in range(40)]
    time.sleep(10)
    for connection in waiting:
        connection.close()
    require(server.taken() * MIB < BUDGET * MIB + CONSTANT, f'it took {answers:.0f}, {server.taken():.0f} MiB')
    time.sleep(1)
    status, text, _ = server.post(chat('Hello'))
    require(status == 200, f'a chat got {status} {text}')
    held(f'{answers:.0f} MiB with answers, {server.taken():.0f} with tokens, of {BUDGET}; '
         f'/health {server.health_figures()}')
