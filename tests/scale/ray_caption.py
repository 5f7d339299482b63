#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/scale/ray_caption.py [--images 2000]: examples/python/ray_caption.py on a local Ray cluster of two nodes.
Needs a Python with ray[data] and the wheel.

With a folder: one node dies with its actor; later the program is killed and restarted, and then a worker is killed.
Every image must have one row with the demo model's answer; the two broken images have an error. With Parquet: a node
dies, and the program completes. Last line: "N passed, N failed"."""
import argparse
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "python" / "ray_caption.py"
EXPECTED = json.loads((ROOT / "examples" / "expected.json").read_text())
SECONDS = 120
MEMORY = 128 << 20  # of a node's object store: rows contain only names


def make_folder(folder, n):
    """Makes n images, two of them damaged; returns the expected row for each path."""
    expected = {}
    names = [name for name in EXPECTED if name != "both-2.png"]
    for i in range(n):
        name = names[i % len(names)]
        path = folder / f"{i // 500}" / f"{i:05}-{name}"
        path.parent.mkdir(exist_ok=True)
        if i in (n // 3, n - 1):
            path.write_bytes(b"no image")
            expected[str(path)] = None
        else:
            shutil.copy(ROOT / "examples" / name, path)
            expected[str(path)] = EXPECTED[name]
    return expected


def make_table(path, n):
    names = list(EXPECTED)[:4]
    images = [(ROOT / "examples" / names[i % 4]).read_bytes() for i in range(n)]
    pq.write_table(pa.table({"id": list(range(n)), "image": images}), path, row_group_size=20)
    return [EXPECTED[names[i % 4]] for i in range(n)]


def rows_in(output):
    return [row for path in sorted(output.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


class Program:
    def __init__(self, address, *arguments):
        command = [sys.executable, PROGRAM, *arguments, "--model", ROOT / "models" / "demo", "--address", address]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=subprocess.STDOUT)

    def said(self):
        self.log.seek(0)
        return self.log.read().replace("\r", "\n")

    def until(self, output, n):
        """Waits for n files."""
        end = time.monotonic() + SECONDS
        while len(list(output.glob("*.parquet"))) < n:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"no {n} files:\n{self.said()[-3000:]}")
            time.sleep(0.05)

    def end(self):
        return self.process.wait(SECONDS)


def actors():
    """Processes of this cluster's actors."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            name = (entry / "cmdline").read_bytes()
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if name.startswith(b"ray::MapWorker") and b"EYELET_RAY_TEST=%d" % os.getpid() in environment:
            found.append(int(entry.name))
    return found


def check_rows(rows, expected, what):
    count = collections.Counter((row["source"], row["row"]) for row in rows)
    assert set(count.values()) == {1}, f"{what}: doubled: {[k for k, n in count.items() if n > 1][:5]}"
    assert set(count) == set(expected), f"{what}: {len(count)} rows, {len(expected)} expected"
    for row in rows:
        wanted = expected[row["source"], row["row"]]
        assert row["caption"] == wanted, (row, wanted)
        assert (row["error"] is None) == (wanted is not None), row


def folder_with_a_dead_node(cluster, second, work, n):
    photos, output = work / "photos", work / "captions"
    photos.mkdir()
    expected = {(path, 0): text for path, text in make_folder(photos, n).items()}
    files = -(-n // 16)
    start = time.monotonic()
    program = Program(cluster.address, photos, output, "--piece", 16)
    program.until(output, files // 4)
    assert len(actors()) == 2, (actors(), program.said())
    cluster.remove_node(second, allow_graceful=False)
    program.until(output, files // 2)
    program.process.send_signal(signal.SIGKILL)
    program.end()
    time.sleep(1)
    before = len(rows_in(output))
    assert 0 < before < n
    again = Program(cluster.address, photos, output, "--piece", 20)
    again.until(output, len(list(output.glob("*.parquet"))) + 1)
    for process in actors():
        os.kill(process, signal.SIGKILL)
    status = again.end()
    assert status == 1, again.said()[-3000:]  # two have an error
    assert f"{n - before} images to do, {before} done before" in again.said(), again.said()[:1000]
    check_rows(rows_in(output), expected, "folder")
    assert not list(output.glob("*.part"))
    print(f"folder: {n} images, {before} of them before the second start, {time.monotonic() - start:.0f} s in all")
    last = Program(cluster.address, photos, output)
    assert last.end() == 0 and f"0 images to do, {n} done" in last.said(), last.said()


def parquet_with_a_dead_node(cluster, work, n):
    second = cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    table, output = work / "images.parquet", work / "of-parquet"
    expected = {(str(table), row): text for row, text in enumerate(make_table(table, n))}
    program = Program(cluster.address, table, output, "--piece", 8)
    program.until(output, 2)
    assert len(actors()) == 2, (actors(), program.said())
    cluster.remove_node(second, allow_graceful=False)
    assert program.end() == 0, program.said()[-3000:]
    check_rows(rows_in(output), expected, "Parquet")
    print(f"Parquet: {n} images, a node died, the program went on to its end")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=2000)
    options = parser.parse_args()
    os.environ.update(EYELET_RAY_TEST=str(os.getpid()), RAY_USAGE_STATS_ENABLED="0", RAY_DATA_DISABLE_PROGRESS_BARS="1",
                      RAY_health_check_period_ms="500", RAY_health_check_failure_threshold="4")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={
        "num_cpus": 1, "object_store_memory": MEMORY, "include_dashboard": False})
    passed = failed = 0
    with tempfile.TemporaryDirectory() as work:
        try:
            second = cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
            for test in (lambda: folder_with_a_dead_node(cluster, second, Path(work), options.images),
                         lambda: parquet_with_a_dead_node(cluster, Path(work), max(64, options.images // 10))):
                try:
                    test()
                    passed += 1
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    print("FAILED", error)
                    failed += 1
        finally:
            cluster.shutdown()
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
