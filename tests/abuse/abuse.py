# SPDX-License-Identifier: Apache-2.0
"""Helpers of the attack scripts: a server with the demo model, requests with images, and measurements of the memory
of the server and its children."""
import base64
import fcntl
import http.client
import json
import mmap
import multiprocessing
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..')
MIB = 1 << 20
# Memory outside the budget: connection stacks, replies, allocators, and private pages of the children.
CONSTANT = 96 * MIB


def data_file(name):
    with open(os.path.join(HERE, 'data', name), 'rb') as f:
        return f.read()


def chat_with_image(image):
    url = 'data:image/x;base64,' + base64.b64encode(image).decode()
    content = [{'type': 'image_url', 'image_url': {'url': url}}, {'type': 'text', 'text': 'What is this?'}]
    return json.dumps({'model': '', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': content}]}).encode()


def chat(text):
    return json.dumps({'model': '', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': text}]}).encode()


def png(width, height, noise=False):
    """An image of one colour, or of noise."""
    def chunk(name, data):
        return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    rows = [b'\0' + (os.urandom(3 * width) if noise else bytes([90, 160, 30]) * width) for _ in range(height)]
    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(b''.join(rows), 1)) +
            chunk(b'IEND', b''))


def post_head(n_body):
    return (b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
            b'Content-Length: %d\r\n\r\n' % n_body)


class SlowCrowd:
    """Keeps n connections open, from addresses 127.0.0.2 on. Each sends `first`, then a space every `pause` seconds,
    and is replaced when the server closes it."""

    def __init__(self, server, n, addresses, first, pause=1):
        host, port = server.host.split(':')
        self.to = (host, int(port))
        self.n, self.addresses, self.first, self.pause = n, addresses, first, pause
        self.opened = 0
        self.heard = set()  # replies of closed connections

    def open(self, i):
        s = socket.socket()
        s.settimeout(5)
        s.bind((f'127.0.0.{2 + i % self.addresses}', 0))
        try:
            s.connect(self.to)
            s.sendall(self.first)
        except OSError:
            s.close()
            return None
        s.setblocking(False)
        self.opened += 1
        return s

    def hear(self, s):
        reply = s.recv(4096)
        if reply:
            self.heard.add(reply)

    def require_cut(self, text):
        """Requires that some connection was closed with a 408 that contains `text`."""
        require(any(b' 408 ' in reply and text in reply for reply in self.heard), f'no 408 says {text}: {self.heard}')

    def keep(self, i):
        s = self.sockets[i]
        try:
            self.hear(s)
        except BlockingIOError:
            try:
                s.send(b' ')
                return
            except OSError:
                pass
        except (OSError, AttributeError):
            pass
        if s:
            s.close()
        self.sockets[i] = self.open(i)

    def run(self):
        while self.running:
            for i in range(self.n):
                self.keep(i)
            for _ in range(int(10 * self.pause)):
                if self.running:
                    time.sleep(0.1)

    def __enter__(self):
        self.sockets = [self.open(i) for i in range(self.n)]
        self.running = True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.running = False
        self.thread.join()
        for s in self.sockets:
            if s:
                s.close()


def serve_honest(server, seconds):
    """Sends chats and images from 127.0.0.1 for `seconds` and requires quick answers to all, also from /health. Returns
    a summary."""
    slowest = {'chat': 0, 'image': 0}
    bodies = {'chat': chat('Hello'), 'image': chat_with_image(png(640, 480))}
    server.health.clear()
    start, n = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        for what, body in bodies.items():
            status, text, took = server.post(body)
            require(status == 200, f'the {what} of another got {status} {text}')
            slowest[what] = max(slowest[what], took)
            n += 1
        time.sleep(0.1)
    p99 = server.health_p99()
    said = (f'/health {server.health_figures()}, {n} answers to another, slowest chat '
            f'{slowest["chat"]:.2f} s, image {slowest["image"]:.2f} s')
    require(p99 < 1 and max(slowest.values()) < 5, said)
    return said


def status_fields(pid):
    """(bytes of anonymous and shared memory, parent, letter of the state) of a process; None: it has ended."""
    try:
        with open(f'/proc/{pid}/status') as f:
            text = f.read()
    except OSError:
        return None
    kib = [int(m) for m in re.findall(r'^Rss(?:Anon|Shmem):\s+(\d+)', text, re.M)]
    state = re.search(r'^State:\s+(\w)', text, re.M)
    return sum(kib) * 1024, int(re.search(r'^PPid:\s+(\d+)', text, re.M)[1]), state[1]


def waited_to_run():
    """Seconds that this thread has waited for a processor; 0 if the system does not tell."""
    try:
        with open('/proc/thread-self/schedstat', encoding='ascii') as f:
            return int(f.read().split()[1]) / 1e9
    except OSError:
        return 0


class HealthAsker:
    """Asks /health every 20 ms from its own process, so that threads of the test do not delay it. Its own waits for a
    processor are subtracted, as they are not the server's."""
    MOST = 1 << 14

    def __init__(self, host):
        self.host = host
        self.map = mmap.mmap(-1, 8 + 16 * self.MOST)  # shared: count, then (seconds, own wait)
        self.first = 0
        self.process = multiprocessing.get_context('fork').Process(target=self.run, daemon=True)
        self.process.start()

    def count(self):
        return struct.unpack_from('<Q', self.map)[0]

    def run(self):
        for i in range(self.MOST):
            struct.pack_into('<dd', self.map, 8 + 16 * i, *self.ask())
            struct.pack_into('<Q', self.map, 0, i + 1)
            time.sleep(0.02)

    def ask(self):
        waited, start = waited_to_run(), time.monotonic()
        try:
            connection = http.client.HTTPConnection(self.host, timeout=10)
            connection.request('GET', '/health')
            connection.getresponse().read()
            connection.close()
        except OSError:
            return 10, 0
        return time.monotonic() - start, waited_to_run() - waited

    def clear(self):
        self.first = self.count()

    def p99(self):
        """(number of requests, p99 of the server's seconds, p99 of seconds that this process waited for a processor)"""
        pairs = [struct.unpack_from('<dd', self.map, 8 + 16 * i) for i in range(self.first, self.count())]
        return len(pairs), *(sorted(of)[int(len(of) * 0.99)] if of else 0
                             for of in ([total - own for total, own in pairs], [own for _, own in pairs]))

    def end(self):
        self.process.kill()
        self.process.join()


class Server:
    """A server under attack with options of `serve`, as a context manager."""

    def __init__(self, *options, model=os.path.join(ROOT, 'models/demo'), log=None, limits=(), health=True,
                 folder='/'):
        self.options = options
        self.model = model
        self.log_path = log
        self.limits = limits
        self.folder = folder
        self.asks_health = health  # whether /health is asked during the whole attack
        self.peak = self.base = 0
        self.health = None

    def __enter__(self):
        self.log = open(self.log_path, 'w+', encoding='utf-8') if self.log_path else tempfile.TemporaryFile('w+')
        self.process = subprocess.Popen(
            [sys.argv[1], 'serve', self.model, '--port', '0', *self.options],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, cwd=self.folder,
            preexec_fn=self.limit)
        self.pid = self.process.pid
        self.host = self.await_ready()
        self.base = self.peak = self.memory()
        self.watching = True
        self.health = HealthAsker(self.host) if self.asks_health else None
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()
        return self

    def limit(self):
        for what, most in self.limits:
            resource.setrlimit(what, (most, most))

    def __exit__(self, *_):
        self.watching = False
        self.watcher.join()
        if self.health:
            self.health.end()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def await_ready(self):
        for _ in range(600):
            time.sleep(0.1)
            ready = re.search(r'eyelet ready on https?://([^/\s]+)', self.said())
            if ready:
                return ready[1]
            if self.process.poll() is not None:
                break
        sys.exit('the server does not start: ' + self.said())

    def said(self):
        """The server's log. pread leaves the server's file offset unchanged."""
        return os.pread(self.log.fileno(), 1 << 20, 0).decode('utf-8', 'replace')

    def children(self):
        """Living descendants of the server."""
        parents = {}
        for name in os.listdir('/proc'):
            fields = status_fields(name) if name.isdigit() else None
            if fields and fields[2] != 'Z':
                parents[int(name)] = fields[1]
        found, todo = [], [self.pid]
        while todo:
            above = todo.pop()
            below = [pid for pid, parent in parents.items() if parent == above]
            found += below
            todo += below
        return found

    def workers(self):
        """Children of the server's children, each of which runs a job."""
        return [pid for pid in self.children() if (status_fields(pid) or (0, self.pid))[1] != self.pid]

    def memory(self):
        fields = [status_fields(pid) for pid in [self.pid, *self.children()]]
        return sum(f[0] for f in fields if f)

    def watch(self):
        while self.watching:
            self.peak = max(self.peak, self.memory())
            time.sleep(0.05)

    def post(self, body, timeout=60, path='/v1/chat/completions', address='127.0.0.1'):
        """Returns (status, text, seconds); status 0: the connection broke."""
        start = time.monotonic()
        connection = http.client.HTTPConnection(self.host, timeout=timeout, source_address=(address, 0))
        try:
            connection.request('POST', path, body, {'Content-Type': 'application/json'})
            reply = connection.getresponse()
            return reply.status, reply.read().decode('utf-8', 'replace'), time.monotonic() - start
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error), time.monotonic() - start
        finally:
            connection.close()

    def post_many(self, bodies, path='/v1/chat/completions'):
        replies = [None] * len(bodies)

        def run(i):
            replies[i] = self.post(bodies[i], path=path)
        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(bodies))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return replies

    def begin(self, body):
        """A connection with a request sent and no reply read."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request('POST', '/v1/chat/completions', body, {'Content-Type': 'application/json'})
        return connection

    def taken(self):
        """The peak memory above the initial memory, in MiB."""
        return (self.peak - self.base) / MIB

    def at_rest(self):
        """Measures /health for 2 s before an attack, as a baseline for this machine."""
        self.health.clear()
        time.sleep(2)
        return f'/health at rest: {self.health_figures()}'

    def health_p99(self):
        return self.health.p99()[1]

    def health_figures(self):
        n, seconds, own = self.health.p99()
        return f'p99 {1000 * seconds:.0f} ms of {n} (the asker waited {1000 * own:.0f} ms for a processor)'


def set_loopback(up, address=None):
    """Configures the loopback device of this network namespace, with a second address."""
    set_flags, set_address, is_up = 0x8914, 0x8916, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, set_flags, struct.pack('16sH14x', b'lo', is_up if up else 0))
        if address:
            fcntl.ioctl(s, set_address,
                        struct.pack('16sHH4s8x', b'lo:1', socket.AF_INET, 0, socket.inet_aton(address)))


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def get(host, path, timeout=10, key=None):
    """The status of a GET; 0: no answer."""
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        connection.request('GET', path, headers={'Authorization': f'Bearer {key}'} if key else {})
        reply = connection.getresponse()
        reply.read()
        return reply.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def wait_until(condition, seconds):
    """Waits for a condition. Returns the seconds that it took, or None on timeout."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if condition():
            return time.monotonic() - start
        time.sleep(0.05)
    return None


def require(condition, what):
    if not condition:
        sys.exit(f'NOT HELD {os.path.basename(sys.argv[0])}: {what}')


def held(what):
    print(f'held {os.path.basename(sys.argv[0])}: {what}')


def terminate(server, seconds):
    """Sends SIGTERM and returns the seconds until the server has ended."""
    start = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    try:
        server.process.wait(seconds)
    except subprocess.TimeoutExpired:
        sys.exit(f'NOT HELD {os.path.basename(sys.argv[0])}: the server did not end within {seconds} s of SIGTERM')
    return time.monotonic() - start
