#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many SIGTERMs during a streamed answer, and many SIGHUPs, each of which reloads keys, certificate and log."""
import http.client
import json
import os
import signal
import ssl
import subprocess
import tempfile
import threading
import time

from abuse import Server, get, held, require, wait_until

BODY = json.dumps({'max_tokens': 400, 'ignore_eos': True, 'stream': True,
                   'messages': [{'role': 'user', 'content': 'Hello'}]}).encode()


def storm(server, number, seconds):
    end = time.monotonic() + seconds
    sent = 0
    while time.monotonic() < end and server.process.poll() is None:
        server.process.send_signal(number)
        sent += 1
        time.sleep(0.002)
    return sent


def drain_in_a_storm():
    with Server() as server:
        connection = http.client.HTTPConnection(server.host, timeout=30)
        connection.request('POST', '/v1/chat/completions', BODY, {'Content-Type': 'application/json'})
        stream = connection.getresponse()
        text = [stream.read(100)]
        reader = threading.Thread(target=lambda: text.append(stream.read()))
        reader.start()
        sent = storm(server, signal.SIGTERM, 20)
        reader.join(30)
        require(b'[DONE]' in b''.join(text), 'a storm of SIGTERM cut an answer off')
        require(server.process.wait(10) == 0, f'it ended with {server.process.returncode}')
        return sent


def make_certificate(folder, name):
    key, certificate = os.path.join(folder, name + '.key'), os.path.join(folder, name + '.crt')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
                    '-keyout', key, '-out', certificate, '-days', '2', '-subj', '/CN=' + name],
                   check=True, capture_output=True)
    return key, certificate


def certificate_of(server):
    host, port = server.host.split(':')
    return ssl.get_server_certificate((host, int(port)))


def read_again(folder):
    first, second = make_certificate(folder, 'first'), make_certificate(folder, 'second')
    served = [os.path.join(folder, 'served.key'), os.path.join(folder, 'served.crt')]

    def serve(pair):
        for source, target in zip(pair, served):
            with open(source, 'rb') as f, open(target, 'wb') as g:
                g.write(f.read())
    serve(first)
    with Server('--ssl-keyfile', served[0], '--ssl-certfile', served[1], health=False) as server:
        before = certificate_of(server)
        serve(second)
        server.process.send_signal(signal.SIGHUP)
        require(wait_until(lambda: certificate_of(server) != before, 10) is not None, 'the certificate stays')
        serve((first[0], second[1]))
        server.process.send_signal(signal.SIGHUP)
        require(wait_until(lambda: 'stays in use' in server.said(), 10) is not None, 'a wrong pair is taken')
        now = certificate_of(server)
        storm(server, signal.SIGHUP, 1)
        require(certificate_of(server) == now, 'a wrong pair is served')

    keys, log = os.path.join(folder, 'keys'), os.path.join(folder, 'log')
    with open(keys, 'w', encoding='ascii') as f:
        f.write('first\n')
    with Server('--api-key-file', keys, '--api-key', 'given', log=log) as server:
        require(get(server.host, '/version', key='first') == 200, 'a key of the file is refused')
        with open(keys, 'w', encoding='ascii') as f:
            f.write('second\n')
        os.rename(log, log + '.1')
        server.process.send_signal(signal.SIGHUP)
        require(wait_until(lambda: get(server.host, '/version', key='second') == 200, 10) is not None, 'keys stay')
        require(get(server.host, '/version', key='first') == 401, 'a key that was withdrawn is taken')
        require(get(server.host, '/version', key='given') == 200, 'a key of the command line is gone')
        require(wait_until(lambda: os.path.exists(log) and os.path.getsize(log), 5) is not None, 'the log stays')
        sent = storm(server, signal.SIGHUP, 2)
        require(get(server.host, '/health') == 200, 'a storm of SIGHUP makes it deaf')
        return sent


with tempfile.TemporaryDirectory() as folder:
    terms = drain_in_a_storm()
    hups = read_again(folder)
held(f'{terms} SIGTERM let the answer finish, status 0; {hups} SIGHUP, keys, certificate and log read again')
