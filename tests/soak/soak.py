#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py EYELET [--seconds 600] [--device cpu] [--model models/demo]: a long run of a server with mixed clients.

Two names of one small model, of which one is loaded at a time, are asked in four dialects: chats, streams, images
before and after the question, some large, some broken, and streams that are cancelled. In the last seconds of each
minute nobody asks, so that the model is unloaded; then memory is sampled. Exit status 0: every valid request was
answered, nothing is left over, and memory and the 99th percentile of the times are flat."""
import argparse
import base64
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..')
MINUTE, REST = 60, 9       # seconds: the interval, and its idle part
UNLOAD = 4                 # seconds without requests after which a model is unloaded
MEMORY_MARGIN = 24         # MiB that memory of the last minutes may exceed that of the third
GPU_MARGIN = 64            # MiB, likewise on the GPU
P99_FACTOR, P99_MORE = 1.5, 0.25  # limit of the later minutes: factor on the earlier ones, plus seconds
NAMES = ('demo', 'second')


def data_url(path):
    with open(path, 'rb') as file:
        return 'data:image/x;base64,' + base64.b64encode(file.read()).decode()


class Server:
    """`eyelet serve` with two models, and its memory, including children."""

    def __init__(self, options, folder):
        second = os.path.join(folder, 'second')
        os.symlink(os.path.abspath(options.model), second)
        self.log = open(os.path.join(folder, 'log'), 'w+')
        self.process = subprocess.Popen(
            [options.eyelet, 'serve', options.model, second, '--served-model-name', *NAMES, '--port', '0', '--device',
             options.device, '--max-loaded-models', '1', '--idle-unload', str(UNLOAD), '--max-num-seqs', '8'],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        self.host = None
        for _ in range(1200):
            time.sleep(0.1)
            ready = re.search(r'eyelet ready on https?://([^/\s]+)', self.said())
            if ready:
                self.host = ready[1]
                return
            if self.process.poll() is not None:
                break
        sys.exit('the server does not start: ' + self.said())

    def said(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode('utf-8', 'replace')

    def family(self):
        """The server and all its descendants."""
        parents = {}
        for name in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{name}/stat') as file:
                    parents[int(name)] = int(file.read().rsplit(')', 1)[1].split()[1])
            except OSError:
                pass
        found = [self.process.pid]
        for above in found:
            found += [pid for pid, parent in parents.items() if parent == above]
        return found

    def memory(self):
        """MiB of anonymous and shared memory."""
        kib = 0
        for pid in self.family():
            try:
                with open(f'/proc/{pid}/status') as file:
                    kib += sum(map(int, re.findall(r'^Rss(?:Anon|Shmem):\s+(\d+)', file.read(), re.M)))
            except OSError:
                pass
        return kib / 1024

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.process.pid}/fd'))

    def gpu_memory(self):
        """MiB of GPU memory in use by all processes; None without a GPU."""
        try:
            said = subprocess.run(['nvidia-smi', '--query-gpu=memory.used', '--format=csv,noheader,nounits'],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
            return int(said.stdout.split()[0])
        except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
            return None

    def get(self, path):
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request('GET', path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def metric(self, name):
        return sum(float(value) for value in re.findall(rf'^{name}(?:{{[^}}]*}})? (\S+)$', self.get('/metrics'), re.M))


class Clients:
    """Threads that send requests until they are stopped, and their results in this minute and in total."""

    def __init__(self, server, options):
        self.server, self.options = server, options
        self.images = [data_url(os.path.join(ROOT, 'examples', name)) for name in sorted(os.listdir(
            os.path.join(ROOT, 'examples'))) if name.endswith(('.png', '.jpg'))]
        large = os.path.join(ROOT, 'tests/golden/pictures/18-1280x720.jpg')
        self.images += [data_url(large)] if os.path.exists(large) else []
        self.lock = threading.Lock()
        self.asking = self.running = True
        self.times, self.counts, self.lost = [], {}, []
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(options.clients)]
        for thread in self.threads:
            thread.start()

    def note(self, kind, seconds=None, lost=None):
        with self.lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            if seconds is not None:
                self.times.append(seconds)
            if lost:
                self.lost.append(f'{kind}: {lost}')

    def content(self, rng, image):
        parts = [{'type': 'image_url', 'image_url': {'url': image}},
                 {'type': 'text', 'text': rng.choice(('Describe this image.', 'How many shapes are there?'))}]
        return parts[::-1] if rng.random() < 0.5 else parts

    def request(self, rng):
        """Kind, path and body of a valid request."""
        base = {'model': NAMES[rng.random() < 0.1], 'max_tokens': rng.choice((4, 16, 48)), 'temperature': 0}
        image, chance = rng.choice(self.images), rng.random()
        user = [{'role': 'user', 'content': 'Hello!'}]
        if chance < 0.5:
            user = [{'role': 'user', 'content': self.content(rng, image)}]
            return 'image', '/v1/chat/completions', {**base, 'messages': user, 'stream': rng.random() < 0.3}
        if chance < 0.65:
            return 'chat', '/v1/chat/completions', {**base, 'messages': user, 'stream': rng.random() < 0.5}
        if chance < 0.75:
            return 'messages', '/v1/messages', {'model': base['model'], 'max_tokens': 16, 'messages': user}
        if chance < 0.85:
            return 'responses', '/v1/responses', {'model': base['model'], 'input': 'Hello!', 'store': rng.random() < 0.5}
        pixels = image.split(',', 1)[1]
        user = [{'role': 'user', 'content': 'What is this?', 'images': [pixels]}]
        return 'ollama', '/api/chat', {'model': base['model'], 'messages': user, 'options': {'num_predict': 16}}

    def good(self, rng, connection):
        kind, path, body = self.request(rng)
        start = time.monotonic()
        connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
        reply = connection.getresponse()
        text = reply.read()
        lost = None if reply.status == 200 and text else f'{reply.status} {text[:200]!r}'
        self.note(kind, time.monotonic() - start, lost)

    def broken(self, rng, connection):
        """A truncated image, or a body that is not JSON: it is refused, and the connection stays open."""
        _, path, body = self.request(rng)
        text = json.dumps(body)
        if rng.random() < 0.5:
            bad = self.images[0][:rng.randint(40, 400) // 4 * 4]
            text = json.dumps({'model': NAMES[0], 'messages': [{'role': 'user', 'content': self.content(rng, bad)}]})
        else:
            text = text[:rng.randint(1, len(text) - 1)]
        connection.request('POST', path, text, {'Content-Type': 'application/json'})
        reply = connection.getresponse()
        said = reply.read()
        self.note('broken', lost=None if 400 <= reply.status < 500 else f'{reply.status} {said[:200]!r}')

    def hang_up(self, rng):
        connection = http.client.HTTPConnection(self.server.host, timeout=60)
        body = {'model': NAMES[0], 'max_tokens': 200, 'stream': True, 'min_tokens': 100, 'temperature': 1,
                'messages': [{'role': 'user', 'content': self.content(rng, rng.choice(self.images))}]}
        connection.request('POST', '/v1/chat/completions', json.dumps(body), {'Content-Type': 'application/json'})
        if rng.random() < 0.7:
            connection.getresponse().read(rng.randint(1, 600))
        connection.close()
        self.note('hung up')

    def run(self, index):
        rng = random.Random(f'{self.options.seed} {index}')
        connection = http.client.HTTPConnection(self.server.host, timeout=120)
        while self.running:
            if not self.asking:
                time.sleep(0.05)
                continue
            chance = rng.random()
            try:
                if chance < 0.1:
                    self.hang_up(rng)
                elif chance < 0.2:
                    self.broken(rng, connection)
                else:
                    self.good(rng, connection)
            except (OSError, http.client.HTTPException) as error:
                self.note('connection', lost=repr(error))
                connection.close()

    def stop(self):
        self.running = False
        for thread in self.threads:
            thread.join()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def one_minute(server, clients, number):
    """Asks, pauses until the model is unloaded, and returns the server's state."""
    start = time.monotonic()
    clients.asking = True
    time.sleep(MINUTE - REST)
    clients.asking = False
    until = time.monotonic() + 60  # running requests are answered first
    while time.monotonic() < until and server.metric('vllm:num_requests_running'):
        time.sleep(0.1)
    time.sleep(max(UNLOAD + 2, start + MINUTE - time.monotonic()))
    with clients.lock:
        times, clients.times = clients.times, []
    row = {'minute': number, 'answers': len(times), 'p50': percentile(times, 0.5), 'p99': percentile(times, 0.99),
           'mib': server.memory(), 'gpu_mib': server.gpu_memory(), 'descriptors': server.descriptors(),
           'budget': server.metric('eyelet_host_budget_used_bytes')}
    print(f'minute {number}: {row["answers"]} answers, p50 {1000 * row["p50"]:.0f} ms, p99 {1000 * row["p99"]:.0f} ms, '
          f'{row["mib"]:.1f} MiB, GPU {row["gpu_mib"]} MiB, {row["descriptors"]} descriptors', flush=True)
    return row


def verdicts(rows, clients, server, options):
    """(passed, what) for each condition."""
    settled = rows[2:] or rows
    first, last = settled[0], settled[-3:]
    rise = min(row['mib'] for row in last) - first['mib']
    yield rise <= MEMORY_MARGIN, f'memory is flat: {rise:+.1f} MiB from minute {first["minute"]} to the last three'
    if options.gpu_alone and first['gpu_mib'] is not None:
        gpu = min(row['gpu_mib'] for row in last) - first['gpu_mib']
        yield gpu <= GPU_MARGIN, f'the GPU\'s memory is flat: {gpu:+d} MiB'
    more = min(row['descriptors'] for row in last) - first['descriptors']
    yield more <= 8, f'descriptors are flat: {more:+d}'
    half = len(settled) // 2
    before = percentile([row['p99'] for row in settled[:half] or settled], 0.5)
    after = percentile([row['p99'] for row in settled[half:]], 0.5)
    yield after <= P99_FACTOR * before + P99_MORE, f'p99 is flat: {before:.2f} s, later {after:.2f} s'
    yield not clients.lost, f'nothing is lost: {len(clients.lost)} of {clients.counts} {clients.lost[:3]}'
    left = [server.metric(name) for name in ('vllm:num_requests_running', 'vllm:num_requests_waiting',
                                             'eyelet_kv_blocks_used', 'eyelet_host_budget_used_bytes')]
    yield not any(left), f'nothing is left over: running, waiting, blocks, budget {left}'
    loads = server.said().count('unload')
    yield loads >= len(rows) - 1, f'models were unloaded: {loads} lines of it in the log'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('eyelet')
    parser.add_argument('--seconds', type=float, default=600)
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--model', default=os.path.join(ROOT, 'models/demo'))
    parser.add_argument('--clients', type=int, default=8)
    parser.add_argument('--seed', default='1')
    parser.add_argument('--gpu-alone', action='store_true', help='no other program uses the GPU: check its memory, too')
    parser.add_argument('--report', help='JSON file for the minutes')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(options, folder)
        clients = Clients(server, options)
        rows = [one_minute(server, clients, number + 1) for number in range(max(1, int(options.seconds // MINUTE)))]
        clients.stop()
        results = list(verdicts(rows, clients, server, options))
        server.process.terminate()
        status = server.process.wait(60)
        results.append((status == 0, f'SIGTERM ended it with status {status}'))
        for holds, what in results:
            print(f'  {"ok" if holds else "FAILED":6} {what}')
        if options.report:
            with open(options.report, 'w') as file:
                json.dump({'minutes': rows, 'counts': clients.counts}, file, indent=1)
        failed = sum(not holds for holds, _ in results)
        if failed:
            print(server.said()[-4000:])
    print(f'{len(results) - failed} passed, {failed} failed')
    sys.exit(failed > 0)


if __name__ == '__main__':
    main()
