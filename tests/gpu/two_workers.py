#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/two_workers.py MODEL FOLDER [--workers 2] [--rounds 2] [--max-tokens 64] [--make N] [--json FILE]:
compares the speed of captioning by one worker process and by several, each with its own GPU and without Ray. Needs a
Python with the wheel and pyarrow, and a GPU for each worker. --make first fills FOLDER with N different images of
1024x768 (numpy, PIL).

The workers are those of examples/python/ray_caption.py, with an equal share of the images. Each is bound to its share
of the processors, near its GPU if Linux knows where that is; a single worker also has one share. All load first and
begin together. Exits 1 if N workers are less than 0.95 N times as fast as one, or a row is missing."""
import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "python"))
from ray_caption import Captioner, pieces_of, rows_done, rows_of  # noqa: E402

LEAST = 0.95  # of N times the speed of one worker


def make_images(folder, n):
    """n different JPEG files of smooth colors and noise, as large as photos; no cache holds them."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        coarse = random.integers(0, 256, (12, 16, 3), dtype=numpy.uint8)
        smooth = numpy.asarray(Image.fromarray(coarse).resize((1024, 768), Image.Resampling.BICUBIC), numpy.int16)
        noise = random.integers(-8, 9, smooth.shape, dtype=numpy.int16)
        Image.fromarray((smooth + noise).clip(0, 255).astype(numpy.uint8)).save(folder / f"{i:05}.jpg", quality=85)


def processors_in(text):
    """The numbers in a list such as 0-15,32-47."""
    ends = [part.split("-") for part in text.strip().split(",") if part]
    return {number for part in ends for number in range(int(part[0]), int(part[-1]) + 1)}


def processors_next_to(gpu):
    """The processors on the GPU's NUMA node, or all that this process may use if Linux does not know them."""
    allowed = os.sched_getaffinity(0)
    try:
        said = subprocess.run(["nvidia-smi", "-i", str(gpu), "--query-gpu=pci.bus_id", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True).stdout.strip()
        device = Path("/sys/bus/pci/devices", said.lower()[-12:])  # sysfs has four digits of the PCI domain, nvidia-smi eight
        near = processors_in((device / "local_cpulist").read_text())
    except (OSError, subprocess.CalledProcessError, ValueError):
        return allowed
    return near & allowed or allowed


def shares_of(n_workers):
    """Processors of each worker; workers whose GPUs share a node divide its processors."""
    near = [processors_next_to(gpu) for gpu in range(n_workers)]
    shares = []
    for gpu, here in enumerate(near):
        rivals = [other for other in range(n_workers) if near[other] == here]
        size = max(1, len(here) // len(rivals))
        first = rivals.index(gpu) * size
        shares.append(set(sorted(here)[first:first + size]) or here)
    return shares


def work(gpu, share, output, model, max_tokens, pieces, ready, go, results):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)
    os.sched_setaffinity(0, share)
    captioner = Captioner(output, model, "image", max_tokens, len(share), on_gpu=True)
    ready.release()
    go.wait()
    failed = sum(captioner({"sources": [p["sources"]], "rows": [p["rows"]]})["failed"][0] for p in pieces)
    results.put(failed)


def seconds_of(n_workers, shares, options, rows):
    """Seconds from the end of loading until the last worker is done."""
    context = multiprocessing.get_context("spawn")
    pieces = pieces_of(rows, options.piece)
    with tempfile.TemporaryDirectory() as output:
        ready, go, results = context.Semaphore(0), context.Event(), context.Queue()
        workers = [context.Process(target=work, args=(i, shares[i], output, options.model, options.max_tokens,
                                                      pieces[i::n_workers], ready, go, results))
                   for i in range(n_workers)]
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
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--piece", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--make", type=int, metavar="N", help="fill FOLDER with N images first")
    parser.add_argument("--json", type=Path, help="where the seconds are written")
    options = parser.parse_args()
    if options.make:
        make_images(options.folder, options.make)
    rows = rows_of(options.folder.resolve())
    shares = shares_of(options.workers)
    print(f"{len(rows)} images; processors of each worker: {[len(share) for share in shares]}", flush=True)
    counts = (1, options.workers)
    one, many = zip(*[[seconds_of(n, shares, options, rows) for n in counts] for _ in range(options.rounds)])
    ratio = statistics.median(one) / statistics.median(many)
    print(f"{options.workers} workers are {ratio:.2f} times as fast as one")
    if options.json:
        options.json.write_text(json.dumps({"images": len(rows), "processors": [len(share) for share in shares],
                                            "seconds of one": one, "seconds of all": many, "ratio": ratio}))
    sys.exit(ratio < LEAST * options.workers)


if __name__ == "__main__":
    main()
