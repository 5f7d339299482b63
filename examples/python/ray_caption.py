# SPDX-License-Identifier: Apache-2.0
"""A caption for each image of a folder or of Parquet files, on all machines of a Ray cluster, as Parquet files:

    pip install "ray[data]" dist/eyelet-*.whl
    ray_caption.py photos captions --model Qwen/Qwen3-VL-2B-Instruct-FP8 --gpus 1
    ray_caption.py images.parquet captions --column image --cpus 4

One actor for each GPU (or --cpus processors) has an engine of its own. An actor reads the images of one piece at a
time, so there is never more in memory than --piece images each, or a row group of a Parquet file. It writes a file
under a temporary name, and renames it when it is whole: a piece whose worker or machine died is done again by another
one and has the same name. Run the same command again after a stop, and only rows that are missing are asked about.
SOURCE and OUTPUT are on a file system that all machines share. Rows: source, row (in its Parquet file; 0 of an image's
own file), caption, finish_reason, error.
"""
import argparse
import hashlib
import os
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eyelet import LLM, EyeletError, SamplingParams

IMAGES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".heic", ".avif"}
ROWS = pa.schema([("source", pa.string()), ("row", pa.int64()), ("caption", pa.string()), ("finish_reason", pa.string()),
                  ("error", pa.string())])


def rows_of(source):
    """(file, row) of every image: those of a folder, or of a Parquet file or a folder of them."""
    files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
    tables = [path for path in files if path.suffix == ".parquet"]
    if tables:
        return [(str(path), row) for path in tables for row in range(pq.read_metadata(path).num_rows)]
    return [(str(path), 0) for path in files if path.suffix.lower() in IMAGES]


def rows_done(output):
    """(file, row) of what earlier runs have written; what they left half written is removed."""
    for path in output.glob("*.part"):
        path.unlink()
    done = set()
    for path in output.glob("*.parquet"):
        table = pq.read_table(path, columns=["source", "row"]).to_pydict()
        done.update(zip(table["source"], table["row"]))
    return done


def pieces_of(rows, size):
    """At most `size` rows of one folder or one table each."""
    pieces = []
    for source, row in rows:
        table = source.endswith(".parquet")
        if not pieces or len(pieces[-1]["rows"]) == size or table and pieces[-1]["sources"][-1] != source:
            pieces.append({"sources": [], "rows": []})
        pieces[-1]["sources"].append(source)
        pieces[-1]["rows"].append(row)
    return pieces


def images_of(sources, rows, column):
    """A path for each, or the bytes that stand in the column."""
    if not sources[0].endswith(".parquet"):
        return sources
    file, values, first = pq.ParquetFile(sources[0]), [], 0
    for group in range(file.num_row_groups):
        n = file.metadata.row_group(group).num_rows
        here = [row - first for row in rows if first <= row < first + n]
        if here:
            values += file.read_row_group(group, columns=[column]).column(0).take(here).to_pylist()
        first += n
    # Hugging Face's data sets have {"bytes": ..., "path": ...}
    return [value["bytes"] if isinstance(value, dict) else value for value in values]


class Captioner:
    """An actor: an engine that answers one piece after the other."""

    def __init__(self, output, model, column, max_tokens, cpus, on_gpu):
        self.output, self.column = Path(output), column
        place = {} if on_gpu else {"device": "cpu", "threads": cpus}
        self.llm = LLM(model, **place)
        self.params = SamplingParams(temperature=0, max_tokens=max_tokens)

    def caption(self, image):
        try:
            answer = self.llm.caption(image, sampling_params=self.params)
            return str(answer), answer.finish_reason, None
        except (EyeletError, OSError, TypeError) as error:
            return None, None, str(error)

    def captions(self, images):
        try:
            return [(str(a), a.finish_reason, None) for a in self.llm.caption(images, sampling_params=self.params)]
        except (EyeletError, OSError, TypeError):  # one of them is bad: which?
            return [self.caption(image) for image in images]

    def write(self, table, sources, rows):
        name = hashlib.sha256(repr(list(zip(sources, rows))).encode()).hexdigest()[:24]
        half = self.output / f"{name}.{os.uname().nodename}.{os.getpid()}.part"
        pq.write_table(table, half)
        os.replace(half, self.output / f"{name}.parquet")

    def __call__(self, batch):
        sources, rows = list(batch["sources"][0]), [int(row) for row in batch["rows"][0]]
        answers = self.captions(images_of(sources, rows, self.column))
        columns = [sources, rows, *map(list, zip(*answers))]
        self.write(pa.table(columns, schema=ROWS), sources, rows)
        return {"n": [len(rows)], "failed": [sum(error is not None for error in columns[-1])]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--column", default="image", help="of Parquet files: the bytes or paths of images")
    parser.add_argument("--actors", type=int, help="as many as the cluster has room for, unless given")
    parser.add_argument("--gpus", type=float, default=0, help="of an actor")
    parser.add_argument("--cpus", type=int, default=1, help="of an actor")
    parser.add_argument("--piece", type=int, default=32, help="images of a file of the output")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--address", help="of a Ray cluster; without it this machine is one")
    options = parser.parse_args()
    if min(options.cpus, options.piece, options.max_tokens) < 1:
        parser.error("--cpus, --piece and --max-tokens are at least 1")

    source, output = options.source.resolve(), options.output.resolve()
    if not source.exists():
        parser.error(f"{source} does not exist")
    output.mkdir(parents=True, exist_ok=True)
    done = rows_done(output)
    rows = [row for row in rows_of(source) if row not in done]
    pieces = pieces_of(rows, options.piece)
    print(f"{len(rows)} images to do, {len(done)} done before", flush=True)
    if not pieces:
        return 0

    import ray

    ray.init(address=options.address, log_to_driver=False)
    resources = ray.cluster_resources()
    room = resources.get("GPU", 0) // options.gpus if options.gpus else resources.get("CPU", 1) // options.cpus
    actors = int(min(options.actors or room, len(pieces)))
    if actors < 1:
        parser.error("the cluster has no room for an actor; see --gpus and --cpus")
    # an actor that dies is started again, maybe elsewhere; with a machine gone there may be fewer
    results = ray.data.from_items(pieces, override_num_blocks=len(pieces)).map_batches(
        Captioner, batch_size=1, batch_format="numpy", num_cpus=options.cpus, num_gpus=options.gpus or None,
        concurrency=(1, actors, actors), max_restarts=-1, max_task_retries=-1,
        fn_constructor_args=(str(output), options.model, options.column, options.max_tokens, options.cpus,
                             options.gpus > 0))
    start, n, failed = time.monotonic(), 0, 0
    for result in results.iter_rows():
        n, failed = n + result["n"], failed + result["failed"]
        print(f"\r{n} of {len(rows)}, {n / (time.monotonic() - start):.1f} a second", end="", file=sys.stderr, flush=True)
    print(f"\n{n} images, {failed} with an error, {time.monotonic() - start:.1f} s, {actors} actors")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
