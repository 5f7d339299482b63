#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captions by one worker process and by two, each with a GPU of its own and without Ray: tests/gpu/two_workers.py MODEL
FOLDER [--rounds 2] [--max-tokens 64], with a Python that has the wheel, pyarrow and two GPUs.

The workers are those of examples/python/ray_caption.py, with half of the images each. They load first and then begin
together. Exit status 1 when two are less than 1.9 times as fast as one, or a row is missing."""
import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "python"))
from ray_caption import Captioner, pieces_of, rows_done, rows_of  # noqa: E402


def work(gpu, output, model, max_tokens, pieces, ready, go, results):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)
    captioner = Captioner(output, model, "image", max_tokens, 1, on_gpu=True)
    ready.release()
    go.wait()
    failed = sum(captioner({"sources": [p["sources"]], "rows": [p["rows"]]})["failed"][0] for p in pieces)
    results.put(failed)


def seconds_of(n_workers, options, rows):
    """From the moment when all have loaded to the end of the last."""
    context = multiprocessing.get_context("spawn")
    pieces = pieces_of(rows, options.piece)
    with tempfile.TemporaryDirectory() as output:
        ready, go, results = context.Semaphore(0), context.Event(), context.Queue()
        workers = [context.Process(target=work, args=(i, output, options.model, options.max_tokens, pieces[i::n_workers],
                                                      ready, go, results)) for i in range(n_workers)]
        for worker in workers:
            worker.start()
        for _ in workers:
            if not ready.acquire(timeout=300):
                sys.exit("a worker did not load within 300 s")
        start = time.monotonic()
        go.set()
        failed = sum(results.get(timeout=600) for _ in workers)
        took = time.monotonic() - start
        for worker in workers:
            worker.join()
        if failed or rows_done(Path(output)) != set(rows):
            sys.exit(f"{n_workers} workers: {failed} failed, {len(rows_done(Path(output)))} of {len(rows)} rows")
    print(f"{n_workers} workers: {len(rows)} images in {took:.2f} s, {len(rows) / took:.1f} a second", flush=True)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--piece", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=64)
    options = parser.parse_args()
    rows = rows_of(options.folder.resolve())
    one, two = zip(*[(seconds_of(1, options, rows), seconds_of(2, options, rows)) for _ in range(options.rounds)])
    ratio = statistics.median(one) / statistics.median(two)
    print(f"two workers are {ratio:.2f} times as fast as one")
    sys.exit(ratio < 1.9)


if __name__ == "__main__":
    main()
