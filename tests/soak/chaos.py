#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chaos.py EYELET [--seconds 540] [--seed N]: a server under all kinds of failures.

Clients constantly ask for chats, streams and images, also by URL, and know the right answers. Meanwhile, in random
order: the server is killed, terminated, stopped and continued, and so are its decoders; its weights are truncated;
the disk of its log is full; the network is down; it is attacked, and scripts of tests/abuse run at the same time. It
is restarted as by systemd. Exit status 0: no answer was wrong, every request between the events was answered, the
server recovered within 30 s after each event, and its exit statuses were right.

Runs in its own network and mount namespaces if the system allows that; otherwise it neither cuts the network nor
fills a disk."""
import argparse
import contextlib
import ctypes
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'abuse'))
import abuse  # noqa: E402
from abuse import ROOT, SlowCrowd, chat, chat_with_image, data_file, free_port, get, png, post_head  # noqa: E402
from abuse import set_loopback, status_fields, wait_until  # noqa: E402

MEDIA_ADDRESS = '93.184.216.34'  # images come from public addresses only
DISK_BYTES = 512 << 10
WELL_SECONDS, CALM_SECONDS = 30, 2
SHARDS = ('model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors')
WEIGHTS_LOST = 74
JSON_BOMB = b'{"messages":[' + b','.join([b'{"a":1.5,"b":1.5,"c":1.5,"d":1.5,"e":1.5,"f":1.5}'] * 32000) + b']}'


def enter_namespaces():
    """Restarts in new namespaces; returns whether there are any."""
    if os.environ.get('EY_CHAOS') == 'namespaces':
        return True
    if os.environ.get('EY_CHAOS') or os.system('unshare -rnm true 2>/dev/null') != 0:
        return False
    os.environ['EY_CHAOS'] = 'namespaces'
    os.execvp('unshare', ['unshare', '-rnm', sys.executable, *sys.argv])


class Disk:
    """A small disk for the log, and the file that fills it."""

    def __init__(self, folder):
        self.path = os.path.join(folder, 'disk')
        os.mkdir(self.path)

    def __enter__(self):
        options = f'size={DISK_BYTES}'.encode()
        if ctypes.CDLL(None).mount(b'tmpfs', self.path.encode(), b'tmpfs', 0, options) != 0:
            sys.exit(f'{self.path}: no tmpfs can be mounted')
        return self.path

    def __exit__(self, *_):
        ctypes.CDLL(None).umount(self.path.encode())


def test_image(name):
    with open(os.path.join(ROOT, 'tests/image/data', name), 'rb') as file:
        return file.read()


class MediaHandler(http.server.BaseHTTPRequestHandler):
    image = png(64, 48)

    def do_GET(self):
        try:
            self.send_response(200)
            self.send_header('Content-Type', 'image/png')
            self.send_header('Content-Length', str(len(self.image)))
            self.end_headers()
            self.wfile.write(self.image)
        except OSError:
            pass  # the server was killed

    def log_message(self, *_):
        pass


class Supervised(abuse.Server):
    """A server that is restarted whenever it ends."""

    def __init__(self, eyelet, folder, log_folder):
        super().__init__(health=False)
        self.eyelet, self.log_path = eyelet, os.path.join(log_folder, 'log')
        self.model = os.path.join(folder, 'model')
        shutil.copytree(os.path.join(ROOT, 'models/demo'), self.model)
        self.host = f'127.0.0.1:{free_port()}'
        self.ended, self.starts = [], 0     # exit statuses
        self.may_start = threading.Lock()   # held while it must not be started
        self.process, self.running = None, True
        self.thread = threading.Thread(target=self.supervise)
        self.thread.start()

    def supervise(self):
        while self.running:
            with self.may_start, open(self.log_path, 'a') as log:
                if not self.running:
                    return
                self.process = subprocess.Popen(
                    [self.eyelet, 'serve', self.model, '--port', self.host.split(':')[1], '--device', 'cpu',
                     '--host-memory', '256M', '--drain-seconds', '5', '--allowed-media-domains', MEDIA_ADDRESS],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            self.starts += 1
            status = self.process.wait()
            if self.running:
                self.ended.append(status)
            time.sleep(0.2)

    @property
    def pid(self):
        return self.process.pid if self.process else 0

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self):
        with self.may_start:
            self.running = False
            if self.process:
                self.process.terminate()
        self.thread.join()
        return self.process.returncode if self.process else None


class Clients:
    """Threads that send requests, and the errors that they found."""

    def __init__(self, server, kinds, truths):
        self.server, self.kinds, self.truths = server, kinds, truths
        self.lock = threading.Lock()
        self.disturbances, self.disturbed = 0, False
        self.right, self.refused, self.wrong = 0, 0, []
        self.running = True
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(4)]
        for thread in self.threads:
            thread.start()

    def run(self, index):
        rng = random.Random(index)
        while self.running:
            kind = rng.choice(sorted(self.kinds))
            before = None if self.disturbed else self.disturbances
            status, text, _ = self.server.post(self.kinds[kind])
            calm = before == self.disturbances
            with self.lock:
                if status == 200 and is_whole(text):
                    right = is_answer(text, self.truths[kind])
                    self.right += right
                    if not right:
                        self.wrong.append(f'{kind}: {text[:300]}')
                elif calm:
                    self.wrong.append(f'{kind} in calm: {status} {text[:300]}')
                else:
                    self.refused += 1
            time.sleep(0.05)

    def disturb(self, on):
        self.disturbances += on
        self.disturbed = on

    def stop(self):
        self.running = False
        for thread in self.threads:
            thread.join()


def is_whole(text):
    """Whether a stream ended properly and without an error."""
    return not text.startswith('data:') or ('[DONE]' in text and '"error"' not in text)


def answer(text):
    if not text.startswith('data:'):
        return json.loads(text)['choices'][0]['message']['content']
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith('data: {')]
    return ''.join(choice['delta'].get('content') or '' for chunk in chunks for choice in chunk.get('choices', []))


def is_answer(text, truth):
    try:
        return answer(text) == truth
    except (ValueError, KeyError, IndexError, TypeError):
        return False


class Chaos:
    """The events. Each returns the expected exit statuses of the server, and errors."""

    def __init__(self, server, disk, rng):
        self.server, self.disk, self.rng = server, disk, rng  # disk: None without namespaces

    def events(self):
        names = ['killed', 'told_to_stop', 'paused', 'hung_up', 'decoders_killed', 'decoders_paused', 'weights_cut_off',
                 'attacked']
        return names + (['disk_full', 'network_gone'] if self.disk else [])

    def killed(self):
        children = self.server.children()
        self.server.signal(signal.SIGKILL)
        gone = wait_until(lambda: all((status_fields(pid) or (0, 0, 'Z'))[2] == 'Z' for pid in children), 5)
        return {-signal.SIGKILL}, None if gone is not None else 'children outlive it'

    def told_to_stop(self):
        self.server.signal(self.rng.choice((signal.SIGTERM, signal.SIGINT)))
        return {0}, None

    def paused(self):
        self.server.signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(1, 4))
        self.server.signal(signal.SIGCONT)
        return set(), None

    def hung_up(self):
        for _ in range(50):
            self.server.signal(signal.SIGHUP)
            time.sleep(0.01)
        return set(), None

    def each_decoder(self, number):
        for pid in self.server.children():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def decoders_killed(self):
        end = time.monotonic() + 3
        while time.monotonic() < end:
            self.each_decoder(signal.SIGKILL)
            time.sleep(0.05)
        return set(), None

    def decoders_paused(self):
        self.each_decoder(signal.SIGSTOP)
        time.sleep(self.rng.uniform(1, 4))
        self.each_decoder(signal.SIGCONT)
        return set(), None

    def weights_cut_off(self):
        with self.server.may_start:
            for name in SHARDS:
                os.truncate(os.path.join(self.server.model, name), 0)
            wait_until(lambda: self.server.process.poll() is not None, 15)
            for name in SHARDS:
                whole = os.path.join(self.server.model, name)
                shutil.copy(os.path.join(ROOT, 'models/demo', name), whole + '.new')
                os.rename(whole + '.new', whole)
        return {WEIGHTS_LOST}, None

    def fill(self, path):
        with open(path, 'wb', buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def disk_full(self):
        ballast = os.path.join(self.disk, 'ballast')
        self.fill(ballast)
        statuses = {get(self.server.host, '/nothing') for _ in range(200)}
        out = os.path.join(self.disk, 'out.gguf')
        done = subprocess.run([self.server.eyelet, 'convert', os.path.join(ROOT, 'models/demo'), out, '--float32',
                               '--quiet'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        left = [name for name in os.listdir(self.disk) if name not in ('ballast', 'log')]
        os.unlink(ballast)
        size = os.path.getsize(self.server.log_path)
        logs = wait_until(lambda: get(self.server.host, '/nothing') == 404 and
                          os.path.getsize(self.server.log_path) > size, 5)
        os.truncate(self.server.log_path, 0)
        wrong = [what for is_wrong, what in (
            (statuses != {404}, f'with its log full it gives {statuses}'),
            (done.returncode != 1 or len(done.stderr.splitlines()) != 1, f'convert: {done.returncode} {done.stderr}'),
            (left, f'convert leaves {left}'), (logs is None, 'the log does not go on')) if is_wrong]
        return set(), '; '.join(wrong) or None

    def network_gone(self):
        set_loopback(False)
        time.sleep(self.rng.uniform(1, 4))
        set_loopback(True)
        return set(), None

    def attacked(self):
        how = self.rng.choice(('headers', 'bodies', 'JSON', 'texts', 'images'))
        if how == 'headers':
            with SlowCrowd(self.server, 280, self.rng.choice((1, 70)), b'GET /version HTTP/1.1\r\nX: '):
                time.sleep(6)
        elif how == 'bodies':
            with SlowCrowd(self.server, 300, 1, post_head(1000000) + b'{'):
                time.sleep(6)
        elif how == 'JSON':
            self.server.post_many([JSON_BOMB] * 60)
        elif how == 'texts':
            self.server.post_many([chat('What a text this is! ' * 100000)] * 40)
        else:
            names = ['claims-64.avif', 'grid-64.heic', 'claims-itself.avif', 'grid-honest.heic'] * 6
            self.server.post_many([chat_with_image(data_file(name)) for name in names])
        return set(), None


def is_well(server, kinds, truths):
    if get(server.host, '/ready', timeout=2) != 200:
        return False
    replies = {kind: server.post(body, timeout=10) for kind, body in kinds.items()}
    return all(status == 200 and is_whole(text) and is_answer(text, truths[kind])
               for kind, (status, text, _) in replies.items())


def replay(eyelet, rng, seconds):
    """Runs an attack against another server. Returns its name (None: no time left) and the error (None: it held)."""
    names = sorted(name for name in os.listdir(os.path.join(ROOT, 'tests/abuse'))
                   if name.endswith('.py') and name != 'abuse.py')
    if seconds < 75:
        return None, None
    name = rng.choice(names)
    done = subprocess.run(['timeout', '-k', '5', '60', sys.executable, f'tests/abuse/{name}', eyelet], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return name, None if done.returncode == 0 else f'{name}: {done.returncode} {done.stdout}'


def make_kinds(media_port):
    user = [{'role': 'user', 'content': 'Hello'}]
    stream = {'model': '', 'max_tokens': 24, 'temperature': 0, 'stream': True, 'messages': user}
    kinds = {'chat': chat('Hello'), 'stream': json.dumps(stream).encode(), 'JPEG': chat_with_image(test_image('420.jpg')),
             'PNG': chat_with_image(png(640, 480)), 'AVIF': chat_with_image(test_image('alpha.avif'))}
    if media_port:
        url = {'type': 'image_url', 'image_url': {'url': f'http://{MEDIA_ADDRESS}:{media_port}/a.png'}}
        kinds['URL'] = json.dumps({'model': '', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': [url]}]}).encode()
    return {kind: body.replace(b'"max_tokens": 1', b'"temperature": 0, "max_tokens": 8') for kind, body in kinds.items()}


def serve_media():
    set_loopback(True, MEDIA_ADDRESS)
    media = http.server.ThreadingHTTPServer((MEDIA_ADDRESS, 0), MediaHandler)
    threading.Thread(target=media.serve_forever, daemon=True).start()
    return media.server_address[1]


def happen(options, chaos, clients, end, results):
    """Runs events until the time is up."""
    server, rng, kinds, truths = chaos.server, chaos.rng, clients.kinds, clients.truths
    todo = []
    while time.monotonic() < end - WELL_SECONDS:
        if not todo:
            todo = rng.sample(chaos.events(), len(chaos.events()))
        event, n_ended = todo.pop(), len(server.ended)
        clients.disturb(True)
        expected, wrong = getattr(chaos, event)()
        well = wait_until(lambda: is_well(server, kinds, truths), WELL_SECONDS)
        ended = set(server.ended[n_ended:])
        wrong = wrong or (f'it ended with {ended}' if ended != expected else
                          f'not well within {WELL_SECONDS} s' if well is None else None)
        if os.path.getsize(server.log_path) > DISK_BYTES // 2:
            os.truncate(server.log_path, 0)
        clients.disturb(False)
        time.sleep(CALM_SECONDS)
        results.append((wrong is None, f'{event}: {wrong or f"well after {well:.1f} s"}'))
        print(f'{event}: {results[-1][1].split(": ", 1)[1]}', flush=True)
        if event == 'attacked':
            clients.disturb(True)
            name, wrong = replay(options.eyelet, rng, end - time.monotonic())
            clients.disturb(False)
            if name:
                results.append((wrong is None, f'replayed {name}: {wrong or "held"}'))
                print(results[-1][1], flush=True)


def run_events(options, server, kinds, results, disk):
    rng = random.Random(options.seed)
    end = time.monotonic() + options.seconds
    if wait_until(lambda: get(server.host, '/ready') == 200, 60) is None:
        raise RuntimeError('the server does not start')
    truths = {kind: answer(server.post(body)[1]) for kind, body in kinds.items()}
    clients = Clients(server, kinds, truths)
    try:
        happen(options, Chaos(server, disk, rng), clients, end, results)
    finally:
        clients.stop()
    return clients


def run(options, folder, disk, results):
    kinds = make_kinds(serve_media() if disk else None)
    server = Supervised(options.eyelet, folder, disk or folder)
    try:
        clients = run_events(options, server, kinds, results, disk)
    finally:  # else its thread would keep this program running
        status = server.finish()
    results.append((status == 0, f'SIGTERM ends it with {status}'))
    results.append((not clients.wrong, f'{clients.right} right answers, {clients.refused} refused or broken during events, '
                    f'{len(clients.wrong)} wrong {clients.wrong[:3]}'))
    if not all(ok for ok, _ in results):
        with open(server.log_path, errors='replace') as log:
            print(log.read()[-4000:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('eyelet', type=os.path.abspath)
    parser.add_argument('--seconds', type=float, default=540)
    parser.add_argument('--seed', default=str(int(time.time())))
    options = parser.parse_args()
    has_namespaces = enter_namespaces()
    print(f'seed {options.seed}' + ('' if has_namespaces else '; no namespaces: network and disk events are left out'))
    results = []
    with tempfile.TemporaryDirectory() as folder:
        with Disk(folder) if has_namespaces else contextlib.nullcontext() as disk:
            run(options, folder, disk, results)
    failed = [what for ok, what in results if not ok]
    for what in failed:
        print(f'FAILED {what}')
    print(results[-1][1])
    print(f'{len(results) - len(failed)} passed, {len(failed)} failed')
    sys.exit(bool(failed))


if __name__ == '__main__':
    main()
