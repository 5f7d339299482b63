# SPDX-License-Identifier: Apache-2.0
"""systemd.py EYELET: takes systemd's place and checks the server's notifications and their order."""

import os
import signal
import socket
import subprocess
import sys
import tempfile

SECONDS = 60


def messages(listener):
    """The lines of the next datagram."""
    return listener.recv(4096).decode().splitlines()


def serve(address, expected):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(SECONDS)
        environment = dict(os.environ, NOTIFY_SOCKET=address.replace("\0", "@"), WATCHDOG_USEC="2000000")
        environment.pop("WATCHDOG_PID", None)
        server = subprocess.Popen(
            [sys.argv[1], "serve", "models/demo", "--port", "0"], stderr=subprocess.PIPE, text=True, env=environment
        )
        try:
            told = []
            while not told or told[-1] != "READY=1":
                told.append(messages(listener)[0])
                assert told[-1] in ("READY=1", "WATCHDOG=1"), told
            assert messages(listener) == ["WATCHDOG=1"]
            server.send_signal(signal.SIGTERM)
            while (line := messages(listener)[0]) != "STOPPING=1":
                assert line == "WATCHDOG=1", line
            log = server.communicate(timeout=SECONDS)[1]
            assert server.returncode == 0 and expected in log, log
        finally:
            server.kill()
            server.wait()


with tempfile.TemporaryDirectory() as folder:
    serve(folder + "/notify", "ready on")
serve("\0eyelet-test-%d" % os.getpid(), "ready on")
