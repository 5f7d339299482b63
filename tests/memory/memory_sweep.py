#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""memory_sweep.py EYELET SHIM [all | start | SECONDS]: makes allocations of a server with the demo model fail, one by
one and every n-th, while it starts and in requests with an image, a schema and log-probabilities. Each run must end
with a clear error or a right answer, never with a crash. `all` tries every allocation of the requests, and as many of
the start as fit in 25 minutes; `start` tries only the start, for 5 minutes; SECONDS tries a sample for that long."""
import http.client
import json
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'abuse'))
from abuse import ROOT, chat_with_image  # noqa: E402

EYELET, SHIM = sys.argv[1:3]
SAMPLE = sys.argv[3] if len(sys.argv) > 3 else '10'
KEY = 'sweep'
DEMO = os.path.join(ROOT, 'models/demo')
COUNT, FROM, EVERY, FAILED, ASKS, CALLERS = range(6)  # failing_malloc.c
MAX_CALLERS = 1 << 16
START_SECONDS = REPLY_SECONDS = 30
LIMITS = {'all': 25 * 60, 'start': 5 * 60}  # seconds
checked, wrong = 0, []
lock = threading.Lock()


class Control:
    """The memory that the shim reads."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile()
        self.file.truncate(8 * (CALLERS + MAX_CALLERS))
        self.map = mmap.mmap(self.file.fileno(), 0)

    def get(self, field):
        return struct.unpack_from('<Q', self.map, 8 * field)[0]

    def callers(self):
        """The call stack hash of each allocation so far."""
        return struct.unpack_from(f'<{min(self.get(COUNT), MAX_CALLERS)}Q', self.map, 8 * CALLERS)

    def ask_callers(self):
        struct.pack_into('<Q', self.map, 8 * ASKS, 1)

    def set(self, fail_from, every):
        for field, value in ((FROM, 0), (COUNT, 0), (FAILED, 0), (EVERY, every), (FROM, fail_from)):
            struct.pack_into('<Q', self.map, 8 * field, value)


def body(text, **fields):
    return json.dumps({'model': '', 'max_tokens': 4, 'temperature': 0, 'messages': [{'role': 'user', 'content': text}],
                       **fields}).encode()


def image(name):
    with open(os.path.join(ROOT, 'tests/image/data', name), 'rb') as f:
        return chat_with_image(f.read())


serial = iter(range(1 << 40))


def schema_body():
    """A schema that no cache contains."""
    properties = {'a': {'type': 'string', 'pattern': '^[a-f]{2,5}$'}, 'b': {'type': 'array', 'items': {'type': 'integer'}},
                  f'c{next(serial)}': {'enum': ['x', 'y', 3]}}
    schema = {'type': 'object', 'properties': properties, 'required': ['a'], 'additionalProperties': False}
    return body('Hi', response_format={'type': 'json_schema', 'json_schema': {'name': 'a', 'schema': schema}})


def tool_body():
    tool = {'name': f'f{next(serial)}', 'description': 'd', 'parameters': {'type': 'object', 'properties': {'q': {'type': 'string'}}}}
    return body('Hi', tools=[{'type': 'function', 'function': tool}], tool_choice='required')


REQUESTS = {
    'text': lambda: body('Hello'),
    'JPEG': lambda: image('420.jpg'),
    'PNG': lambda: image('gray-alpha.png'),
    'WebP': lambda: image('animated-alpha.webp'),
    'AVIF': lambda: image('alpha.avif'),
    'schema': schema_body,
    'tools': tool_body,
    'logprobs': lambda: body('Hello', logprobs=True, top_logprobs=5, n=2),
    'ollama': lambda: body('Hello', model=DEMO, stream=False, options={'temperature': 0, 'num_predict': 4}),
    'stream': lambda: body('Hello', stream=True, logprobs=True, top_logprobs=2),
}


PATHS = {'ollama': '/api/chat'}


class Server:
    def __init__(self, fail_from=0, every=0, asks_callers=False):
        self.control = Control()
        self.control.set(fail_from, every)
        if asks_callers:
            self.control.ask_callers()
        self.log = tempfile.NamedTemporaryFile('r')
        environment = dict(os.environ, LD_PRELOAD=SHIM, EY_FAILING_CONTROL=self.control.file.name)
        with open(self.log.name, 'w', encoding='utf-8') as out:
            self.process = subprocess.Popen([EYELET, 'serve', DEMO, '--port', '0', '--drain-seconds', '1', '--api-key', KEY], env=environment,
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.host = None
        end = time.monotonic() + START_SECONDS
        while self.process.poll() is None and not self.host and time.monotonic() < end:
            time.sleep(0.005)
            ready = re.search(r'eyelet ready on https?://([^/\s]+)', self.said())
            self.host = ready and ready[1]

    def said(self):
        with open(self.log.name, encoding='utf-8', errors='replace') as f:
            return f.read()

    def post(self, request, path='/v1/chat/completions'):
        """Returns (status, text); status 0: the connection broke; -1: no answer in time."""
        connection = http.client.HTTPConnection(self.host, timeout=REPLY_SECONDS)
        try:
            connection.request('POST', path, request,
                               {'Content-Type': 'application/json', 'Authorization': f'Bearer {KEY}'})
            reply = connection.getresponse()
            return reply.status, reply.read().decode('utf-8', 'replace')
        except TimeoutError:
            return -1, 'no answer'
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def stop(self):
        """Its exit status after SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f'no end within 20 s, {self.process.wait()}'


def note(ok, what):
    global checked
    with lock:
        checked += 1
        if not ok:
            wrong.append(what)
            print('WRONG', what, flush=True)


def content(reply):
    """The content of an answer, without ids and times, however a stream divides it into chunks."""
    if not reply.startswith('data:'):
        reply = json.loads(reply)
        return json.dumps(reply['choices'] if 'choices' in reply else reply['message'])
    chunks = [json.loads(line[5:]) for line in reply.splitlines() if line.startswith('data: {')]
    choices = [choice for chunk in chunks for choice in chunk.get('choices', [])]
    tokens = [t['token'] for choice in choices for t in (choice.get('logprobs') or {}).get('content') or []]
    return json.dumps([''.join(choice['delta'].get('content') or '' for choice in choices), tokens])


def is_clear(status, text):
    """Whether the text is an error in the API's form."""
    try:
        error = json.loads(text)['error']
        return status >= 400 and len(error['message'] if isinstance(error, dict) else error) > 8
    except (ValueError, KeyError, TypeError):
        return False


# ---- the start ----

def check_start(fail_from, every, expected):
    what = f'start with allocation {fail_from} failing' + (f', then each {every}th' if every else '')
    server = Server(fail_from, every)
    reached = server.control.get(FAILED)
    started = server.host is not None
    server.control.set(0, 0)
    if started:
        status, text = server.post(body('Hello'))
        right = status == 200 and content(text) == expected
        note(right, f'{what}: the answer is {status} {text[:200]}')
        status = server.stop()
        note(status == 0, f'{what}: SIGTERM gives {status}: {server.said()[-300:]}')
    else:
        status = server.stop()
        clear = isinstance(status, int) and status > 0 and len(server.said().strip()) > 8
        note(clear, f'{what}: status {status}: {server.said()[-300:]!r}')
    return reached


# ---- requests ----

def check_request(server, name, fail_from, every, expected):
    """Returns whether an allocation failed."""
    what = f'{name} with allocation {fail_from} failing' + (f', then each {every}th' if every else '')
    request = REQUESTS[name]()
    server.control.set(fail_from, every)
    status, text = server.post(request, PATHS.get(name, '/v1/chat/completions'))
    reached = server.control.get(FAILED) > 0
    server.control.set(0, 0)
    if server.process.poll() is not None:
        note(False, f'{what}: the server died, {server.process.returncode}: {server.said()[-300:]}')
        return reached
    # without memory a connection may break before its library can send an error
    right = status == 0 or is_clear(status, text) or (
        status == 200 and (name in ('schema', 'tools') or content(text) == expected or
                           (name == 'stream' and '"error"' in text)))
    note(right, f'{what}: {status} {text[:300]}')
    return reached


def alive(server, expected):
    status, text = server.post(body('Hello'))
    return status == 200 and content(text) == expected


def sweep_request(name, numbers, every, expected, hello):
    server = Server()
    server.post(body('Hello'))
    answer = content(server.post(REQUESTS[name](), PATHS.get(name, '/v1/chat/completions'))[1])
    broken = 0
    for number in numbers:
        if expired():
            break
        reached = check_request(server, name, number, every, answer)
        if server.process.poll() is not None:
            server = Server()
            broken += 1
        elif not reached and SAMPLE == 'all':
            break
    note(alive(server, hello), f'{name}: the server is not well afterwards')
    status = server.stop()
    note(status == 0, f'{name}: SIGTERM gives {status}')


def expired():
    return time.monotonic() > deadline


def in_threads(run, items):
    """Runs two items at a time."""
    items = iter(items)

    def work():
        while True:
            with lock:
                item = next(items, None)
            if item is None or expired():
                return
            run(item)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_callers(callers):
    """The numbers of the start's allocations, from 1, in the order in which to fail them: the first of each call
    stack, then the last, then all others. If time runs out, mostly repetitions are left."""
    ways = {}
    for number, calls in enumerate(callers, 1):
        ways.setdefault(calls, []).append(number)
    firsts = {numbers[0] for numbers in ways.values()}
    lasts = {numbers[-1] for numbers in ways.values()} - firsts
    others = set(range(1, len(callers) + 50)) - firsts - lasts  # another start may make a few more
    return len(ways), [number for some in (firsts, lasts, others) for number in random.sample(sorted(some), len(some))]


def sweep_start(order, n_ways):
    tried = 0

    def check(number):
        nonlocal tried
        check_start(number, 0, hello)
        with lock:
            tried += 1
    in_threads(check, order)
    print(f'the start makes {n_allocations} allocations from {n_ways} call stacks; {tried} of them failed, one in each run')


began = time.monotonic()
deadline = began + (LIMITS[SAMPLE] if SAMPLE in LIMITS else float(SAMPLE))
plain = Server(asks_callers=True)
hello = content(plain.post(body('Hello'))[1])
n_allocations = plain.control.get(COUNT)
n_ways, order = by_callers(plain.control.callers())
plain.stop()
if not n_allocations:
    sys.exit(f'{SHIM} counts no allocation')

if SAMPLE in LIMITS:
    if SAMPLE == 'all':
        for name in REQUESTS:
            sweep_request(name, range(1, 100000), 0, None, hello)
            for every in (2, 3, 5, 11, 23, 47, 97):
                sweep_request(name, range(1, 8), every, None, hello)
    in_threads(lambda k: check_start(k, k, hello), [1, 2, 3, 5, 10, 50, 200, 1000, 3000, 5000])
    sweep_start(order, n_ways)
else:
    chosen = random.Random(int(time.time()))
    seconds = float(SAMPLE)
    for name in REQUESTS:
        deadline = time.monotonic() + seconds / 2 / len(REQUESTS)
        sweep_request(name, iter(lambda: chosen.randint(1, 60), 0), 0, None, hello)
    deadline = began + seconds
    sweep_start(order, n_ways)
for what in wrong:
    print('NOT HELD', what)
print(f'{time.monotonic() - began:.0f} s')
print(f'{checked - len(wrong)} passed, {len(wrong)} failed')
sys.exit(bool(wrong))
