#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/nginx/eyelet-by-conversation.conf with three servers that report their names: a conversation stays at its
server, conversations are spread, and another server replaces one that is down. Last line: "N passed, N failed"."""
import collections
import http.client
import http.server
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Named(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.gone:  # a connection that nginx had kept open
            self.close_connection = True
            return
        text = str(self.server.server_port).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def start_upstream():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Named)
    server.daemon_threads, server.gone = True, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, conversation=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/v1/chat/completions", b"{}", {"X-Conversation": conversation} if conversation else {})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return text if reply.status == 200 else f"status {reply.status}"


def start_nginx(folder, upstreams):
    port = free_port()
    site = (ROOT / "packaging/nginx/eyelet-by-conversation.conf").read_text().replace("listen 8000", f"listen 127.0.0.1:{port}")
    for i, upstream in enumerate(upstreams):
        site = site.replace(f"127.0.0.1:{8001 + i}", f"127.0.0.1:{upstream.server_port}")
    paths = " ".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    Path(folder, "nginx.conf").write_text(f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;\n"
                                          f"events {{}}\nhttp {{ access_log off; {paths}\n{site}\n}}\n")
    environment = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin")
    return port, subprocess.Popen(["nginx", "-p", folder, "-c", f"{folder}/nginx.conf"], env=environment)


def main():
    upstreams = [start_upstream() for _ in range(3)]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        port, nginx = start_nginx(folder, upstreams)
        try:
            for _ in range(200):
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            names = [f"conversation {i}" for i in range(60)]
            first = {name: ask(port, name) for name in names}
            results.append(first == {name: ask(port, name) for name in names})
            spread = collections.Counter(first.values())
            results.append(len(spread) == 3 and min(spread.values()) >= 8)
            results.append(len({ask(port) for _ in range(30)}) == 3)
            gone = str(upstreams[0].server_port)
            upstreams[0].gone = True
            upstreams[0].shutdown()
            upstreams[0].server_close()
            after = {name: ask(port, name) for name in names}
            results.append(all(after[n] == first[n] if first[n] != gone else after[n] in spread and after[n] != gone
                               for n in names))
            print(f"60 conversations: {sorted(spread.values())} at three servers; one gone: "
                  f"{sum(after[n] != first[n] for n in names)} moved")
        finally:
            nginx.kill()
            nginx.wait()
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
