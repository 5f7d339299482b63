#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/sixteen_clients.py EYELET MODEL [--seconds 300] [--clients 16] [--free 7000]: load test of a
server that has 7,000 MiB of free GPU memory and whose clients send images.

A ballast process fills the GPU, as in eight_gb.sh. Each client asks repeatedly about one of five images, which all
clients share; a tenth of the requests are cancelled midway. Prints answers, refusals by status, tokens a second,
latency, and memory of GPU and server at the start and the end. Exits 1 if any request failed or memory grew."""
import argparse
import base64
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request


def make_image(tools, folder, width, height):
    path = os.path.join(folder, f"{width}x{height}.png")
    if not os.path.exists(path):
        subprocess.run([os.path.join(tools, "make_image"), str(width), str(height), path], check=True)
    with open(path, "rb") as f:
        return base64.b64encode(f.read()).decode()


def gpu_mib():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], stdout=subprocess.PIPE, check=True)
    return int(out.stdout.split()[0])


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s*(\d+)", f.read()).group(1)) // 1024


class Client(threading.Thread):
    def __init__(self, number, url, images, until):
        super().__init__(daemon=True)
        self.random, self.url, self.images, self.until = random.Random(number), url, images, until
        self.seconds, self.tokens, self.statuses, self.left = [], 0, {}, 0

    def ask(self):
        image = self.random.choice(self.images)
        words = " ".join(self.random.choice(["describe", "what", "colour", "count", "where", "shape", "read", "why"]) for _ in range(self.random.randint(3, 40)))
        body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}}, {"type": "text", "text": words}]}],
                "max_tokens": self.random.randint(8, 96), "temperature": self.random.choice([0, 0.8]), "stream": True}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        start, chunks, leave = time.monotonic(), 0, self.random.random() < 0.1
        with urllib.request.urlopen(request, timeout=120) as answer:
            for line in answer:
                if line.startswith(b'data: {"error"'):
                    raise ValueError(line.decode())
                chunks += line.startswith(b"data: {")
                if leave and chunks > 3:
                    self.left += 1
                    return
        self.seconds.append(time.monotonic() - start)
        self.tokens += chunks

    def run(self):
        while time.monotonic() < self.until:
            try:
                self.ask()
                self.statuses[200] = self.statuses.get(200, 0) + 1
            except urllib.error.HTTPError as e:
                self.statuses[e.code] = self.statuses.get(e.code, 0) + 1
            except Exception as e:  # the type is all that can be reported
                self.statuses[type(e).__name__] = self.statuses.get(type(e).__name__, 0) + 1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("eyelet"), p.add_argument("model"), p.add_argument("--seconds", type=int, default=300), p.add_argument("--clients", type=int, default=16)
    p.add_argument("--free", type=int, default=7000)
    a = p.parse_args()
    tools = os.path.join(os.path.dirname(os.path.abspath(a.eyelet)), "tests", "gpu")
    with tempfile.TemporaryDirectory() as folder:
        images = [make_image(tools, folder, w, h) for w, h in ((320, 240), (640, 480), (1024, 768), (480, 1024), (1024, 1024))]
        ballast = subprocess.Popen([os.path.join(tools, "ballast"), str(a.free)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ballast.stdout.readline()
        with open(os.path.join(folder, "log"), "w+b") as log:
            server = subprocess.Popen([a.eyelet, "serve", "--device", "cuda", "--port", "0", "--model", a.model, "--max-model-len", "4096"], stdout=log, stderr=log)
            url = None
            while url is None and server.poll() is None:
                time.sleep(0.2)
                log.seek(0)
                found = re.search(rb"ready on (http://127\.0\.0\.1:\d+)", log.read())
                url = found and found.group(1).decode()
            if url is None:
                log.seek(0)
                sys.exit(log.read().decode())
            before = None
            clients = [Client(i, url, images, time.monotonic() + a.seconds) for i in range(a.clients)]
            start = time.monotonic()
            for c in clients:
                c.start()
            while any(c.is_alive() for c in clients):
                time.sleep(1)
                if before is None and time.monotonic() - start > min(30, a.seconds / 3):
                    before = gpu_mib(), resident_mib(server.pid)
            after = gpu_mib(), resident_mib(server.pid)
            seconds = time.monotonic() - start
            server.terminate()
            server.wait()
            log.seek(0)
            for line in re.findall(r".*(?:chosen|KV cache size|planned).*", log.read().decode())[:8]:
                print(line)
        ballast.stdin.close()
        ballast.wait()
    statuses = {}
    for c in clients:
        for k, n in c.statuses.items():
            statuses[k] = statuses.get(k, 0) + n
    took = sorted(s for c in clients for s in c.seconds)
    print(f"{a.clients} clients, {seconds:.0f} s: {statuses}, {sum(c.left for c in clients)} of them cancelled midway, {sum(c.tokens for c in clients) / seconds:.0f} tokens/s")
    print(f"an answer took {statistics.median(took):.2f} s (p99 {took[int(len(took) * 0.99)]:.2f})")
    print(f"GPU memory {before[0]} MiB after the warm-up, {after[0]} at the end; server resident {before[1]} and {after[1]} MiB")
    sys.exit(0 if set(statuses) == {200} and after[0] == before[0] and after[1] - before[1] < 64 else 1)


if __name__ == "__main__":
    main()
