#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/scale/litellm_proxy.py EYELET LITELLM [--clients 6]: LiteLLM's proxy with packaging/litellm/config.yaml in
front of three servers of the demo model, under load.

One server is killed (SIGKILL), then another hangs (SIGSTOP), then both come back. Each request must end once, with
the complete right answer or with one error status. Last line: "N passed, N failed"."""
import argparse
import base64
import collections
import http.client
import json
import os
import re
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = json.loads((ROOT / "examples" / "expected.json").read_text())
NAMES = ["shapes-1.png", "shapes-4.png", "word-1.png", "both-1.png"]
TIMEOUT = 6  # instead of the configured 30 s, to keep the test short
COOLDOWN = 5
WAIT = 60
START = 300  # for LiteLLM, whose imports take 20 s of processor time
KEY = "sk-" + secrets.token_hex(32)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, eyelet):
        self.eyelet, self.port = eyelet, free_port()
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.eyelet, "serve", ROOT / "models" / "demo", "--port", str(self.port),
                                         "--served-model-name", "eyelet", "--threads", "1"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_answers(self.port, "/ready")


def until_answers(port, path, seconds=WAIT):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.2)
    raise AssertionError(f"port {port} does not answer {path}")


def configuration(servers, folder):
    text = (ROOT / "packaging" / "litellm" / "config.yaml").read_text()
    for i, server in enumerate(servers):
        text = text.replace(f"127.0.0.1:{8001 + i}/", f"127.0.0.1:{server.port}/")
    text, n = re.subn(r"(\n\s+(?:stream_)?timeout: )30", rf"\g<1>{TIMEOUT}", text)
    text, m = re.subn(r"(\n\s+cooldown_time: )20", rf"\g<1>{COOLDOWN}", text)
    assert (n, m) == (2, 1)
    path = Path(folder) / "config.yaml"
    path.write_text(text)
    return path


def body_of(name, stream):
    url = "data:image/png;base64," + base64.b64encode((ROOT / "examples" / name).read_bytes()).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Describe this image."}]
    return json.dumps({"model": "eyelet", "temperature": 0, "stream": stream,
                       "messages": [{"role": "user", "content": content}]})


def outcome_of(status, text, stream, expected):
    """"answer", "refused", "cut" (a stream that ended with an error), or what is wrong."""
    if status != 200:
        return "refused" if json.loads(text).get("error") else f"status {status} without an error"
    if not stream:
        choices = json.loads(text)["choices"]
        said = [choice["message"]["content"] for choice in choices]
        return "answer" if said == [expected] else f"wrong answer: {said}"
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    said = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e.get("choices"))
    if any("error" in e for e in events):
        return "cut" if expected.startswith(said) else f"wrong beginning of a cut stream: {said}"
    if lines.count("[DONE]") == 1 and said == expected:
        return "answer"
    return f"wrong stream: {said!r}, {lines.count('[DONE]')} [DONE]"


class Load:
    def __init__(self, port, clients):
        self.port, self.stopped, self.phase = port, False, "all three run"
        self.outcomes = collections.defaultdict(list)
        self.threads = [threading.Thread(target=self.client, args=(k,), daemon=True) for k in range(clients)]
        for thread in self.threads:
            thread.start()

    def ask(self, name, stream):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            connection.request("POST", "/v1/chat/completions", body_of(name, stream),
                               {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
            reply = connection.getresponse()
            return outcome_of(reply.status, reply.read().decode(), stream, EXPECTED[name])
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            connection.close()

    def client(self, k):
        while not self.stopped:
            phase, start = self.phase, time.monotonic()
            outcome = self.ask(NAMES[k % len(NAMES)], k % 2 == 1)
            self.outcomes[phase].append((outcome, time.monotonic() - start))
            k += 1

    def during(self, phase, seconds):
        self.phase = phase
        time.sleep(seconds)

    def end(self):
        self.stopped = True
        for thread in self.threads:
            thread.join(WAIT)
        return all(not thread.is_alive() for thread in self.threads)


def report(phase, outcomes):
    count = collections.Counter(outcome for outcome, _ in outcomes)
    took = sorted(seconds for _, seconds in outcomes)
    print(f"{phase}: {dict(count)}, median {statistics.median(took):.2f} s, slowest {took[-1]:.2f} s", flush=True)
    wrong = [outcome for outcome in count if outcome not in ("answer", "refused", "cut")]
    answers = count["answer"] / len(outcomes)
    return not wrong and answers >= 0.9


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("eyelet")
    parser.add_argument("litellm")
    parser.add_argument("--clients", type=int, default=6)
    options = parser.parse_args()
    servers, proxy, results = [], None, []
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w+") as log:
        try:
            servers = [Server(options.eyelet) for _ in range(3)]
            port = free_port()
            environment = dict(os.environ, LITELLM_TELEMETRY="False", LITELLM_LOCAL_MODEL_COST_MAP="True",
                               LITELLM_LOG="ERROR", LITELLM_MASTER_KEY=KEY)
            proxy = subprocess.Popen([options.litellm, "--config", configuration(servers, folder), "--host", "127.0.0.1",
                                      "--port", str(port)], stdout=log, stderr=log, env=environment)
            until_answers(port, "/health/liveliness", START)
            load = Load(port, options.clients)
            load.during("all three run", 10)
            servers[0].process.kill()
            servers[0].process.wait()
            load.during("one was killed", 10)
            servers[1].process.send_signal(signal.SIGSTOP)
            load.during("another one hangs", 20)
            servers[1].process.send_signal(signal.SIGCONT)
            servers[0].start()
            load.during("both are back", 10)
            results.append(load.end())
            results += [report(phase, outcomes) for phase, outcomes in load.outcomes.items()]
        finally:
            for process in [proxy, *(server.process for server in servers)]:
                if process:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                    process.wait()
            if not all(results) or not results:
                log.seek(0)
                print(log.read()[-3000:])
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(not results or not all(results))


if __name__ == "__main__":
    main()
