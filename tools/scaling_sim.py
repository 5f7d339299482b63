#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulates how long answers take on many replicas: tools/scaling_sim.py [--replicas 64] [--rate 40] [--routing two].

    tools/scaling_sim.py --table        prints the table of docs/guides/scaling.md (takes some minutes)

Service times are those of bench/results (2B, random weights, one H200 per replica). A replica works on one image at a
time (encoder and prompt, while decode waits) and decodes up to --max-num-seqs sequences together, at the speed that was
measured for that number. Users start conversations at random times (Poisson) and ask --questions (4 on average) about
one image, a few seconds apart. A question about an image whose keys and values are still in the replica's cache costs
no image. Routing is `random`, `two` (the less busy of two random replicas) or `prefix` (the replica that has the image,
unless it is much busier). The script needs only Python's standard library. The same --seed gives the same numbers.
"""
import argparse
import bisect
import collections
import heapq
import json
import math
import pathlib
import random

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "bench" / "results"
TOKENS = 64  # length of the measured answers


class Measured:
    """The measured speed of a replica: decode by number of sequences, and the time of an image of 1024x768."""

    def __init__(self, model="qwen3-vl-2b-fp8", tokens=TOKENS):
        results = json.loads((RESULTS / "2026-11-26-h200-sequences.json").read_text())["results"]
        after = {r["sequences"]: r["tokens_per_second"] for r in results
                 if r["model"] == model and r["build"] == "after"}
        self.sequences = sorted(after)
        self.speeds = [after[n] for n in self.sequences]
        self.tokens = tokens
        # under load an answer takes the time of its image and its share of decode; the rest after decode is the image
        self.image = 1 / self.answers_a_second(32) - TOKENS / self.decode(32)

    @staticmethod
    def answers_a_second(clients):
        results = json.loads((RESULTS / "2026-11-26-h200-images.json").read_text())["results"]
        name = f"answers a second, 1024x768 + 64 tokens, {clients} clients, in a row"
        return next(r["after"][0] for r in results if r["what"] == name)

    def decode(self, n):
        """Returns the tokens a second of n sequences together, interpolated between measured numbers."""
        i = bisect.bisect_left(self.sequences, n)
        if i == len(self.sequences):
            return self.speeds[-1]
        if self.sequences[i] == n or i == 0:
            return self.speeds[i]
        a, b = self.sequences[i - 1], self.sequences[i]
        return self.speeds[i - 1] + (self.speeds[i] - self.speeds[i - 1]) * (n - a) / (b - a)


class Replica:
    """One server. `given` counts the tokens that each running sequence has received since the start, so a sequence that
    needs k more ends when it reaches given + k."""

    def __init__(self, speeds, image, tokens, slots, cached):
        self.speeds, self.image, self.tokens, self.slots, self.cached = speeds, image, tokens, slots, cached
        self.waiting = collections.deque()
        self.images = collections.deque()
        self.decoding = []
        self.kept = collections.OrderedDict()  # conversations whose image is in the prefix cache, oldest first
        self.given = 0.0
        self.now = 0.0
        self.image_ends = None
        self.version = 0

    def load(self):
        return len(self.waiting) + len(self.images) + len(self.decoding)

    def next_event(self):
        if self.image_ends is not None:
            return self.image_ends
        if not self.decoding:
            return math.inf
        return self.now + max(0.0, self.decoding[0][0] - self.given) / self.speeds[len(self.decoding)]

    def advance(self, now):
        if self.image_ends is None and self.decoding:
            self.given += (now - self.now) * self.speeds[len(self.decoding)]
        self.now = now

    def touch(self, conversation):
        self.kept[conversation] = True
        self.kept.move_to_end(conversation)
        if len(self.kept) > self.cached:
            self.kept.popitem(last=False)

    def admit(self):
        while self.waiting and len(self.images) + len(self.decoding) < self.slots:
            request = self.waiting.popleft()
            request.hit = request.conversation in self.kept
            if request.hit:
                self.touch(request.conversation)
                self.start_decoding(request)
            else:
                self.images.append(request)
        if self.images and self.image_ends is None:
            self.image_ends = self.now + self.image

    def start_decoding(self, request):
        heapq.heappush(self.decoding, (self.given + self.tokens, request.number, request))

    def step(self):
        """Processes the event at the time of next_event(). Returns the requests that end."""
        if self.image_ends is not None:
            request = self.images.popleft()
            self.image_ends = None
            self.touch(request.conversation)
            self.start_decoding(request)
            ended = []
        else:
            ended = [heapq.heappop(self.decoding)[2]]
        self.admit()
        return ended


class Request:
    __slots__ = ("number", "conversation", "arrived", "hit")

    def __init__(self, number, conversation, arrived):
        self.number, self.conversation, self.arrived, self.hit = number, conversation, arrived, False


def arrivals(rng, rate, questions, pause, until):
    """Returns requests in order of time. Conversations begin at random, with `questions` on average, `pause` s apart."""
    found, start, conversation = [], -3 * pause * questions, 0
    while True:
        start += rng.expovariate(rate / questions)
        if start > until:
            break
        conversation += 1
        at = start
        while at <= until:
            if at >= 0:
                found.append((at, conversation))
            if rng.random() < 1 / questions:
                break
            at += rng.expovariate(1 / pause)
    return sorted(found)


class Router:
    def __init__(self, rng, replicas, routing, patience):
        self.rng, self.replicas, self.routing, self.patience = rng, replicas, routing, patience
        self.home = {}

    def less_busy_of_two(self):
        n = len(self.replicas)
        a, b = int(self.rng.random() * n), int(self.rng.random() * n)
        return a if self.replicas[a].load() <= self.replicas[b].load() else b

    def choose(self, conversation):
        if self.routing == "random":
            return int(self.rng.random() * len(self.replicas))
        other = self.less_busy_of_two()
        if self.routing == "two":
            return other
        home = self.home.get(conversation, other)
        if self.replicas[home].load() > self.replicas[other].load() + self.patience:
            home = other
        self.home[conversation] = home
        return home


def percentile(values, share):
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else math.inf


def simulate(measured, replicas=1, rate=40.0, routing="two", seconds=60.0, warm=10.0, questions=4.0, pause=2.0, slots=32,
             cached=500, patience=8, seed=1):
    """`rate`: questions per second and replica. Returns p50 and p99 in seconds, the share of questions that cost no
    image, the ratio of answers to questions in the measured time, and the number of measured requests."""
    rng = random.Random(seed)
    speeds = [0.0] + [measured.decode(n) / n for n in range(1, slots + 1)]
    servers = [Replica(speeds, measured.image, measured.tokens, slots, cached) for _ in range(replicas)]
    router = Router(rng, servers, routing, patience)
    events, took, hits, asked, ended_in_time = [], [], 0, 0, 0

    def schedule(i):
        servers[i].version += 1
        at = servers[i].next_event()
        if at < math.inf:
            heapq.heappush(events, (at, i, servers[i].version))

    def run_until(time):
        nonlocal hits, ended_in_time
        while events and events[0][0] <= time:
            at, i, version = heapq.heappop(events)
            server = servers[i]
            if version != server.version:
                continue
            server.advance(at)
            for request in server.step():
                ended_in_time += warm <= at <= seconds
                if request.arrived >= warm:
                    took.append(at - request.arrived)
                    hits += request.hit
            schedule(i)

    for number, (at, conversation) in enumerate(arrivals(rng, rate * replicas, questions, pause, seconds)):
        run_until(at)
        asked += at >= warm
        i = router.choose(conversation)
        servers[i].advance(at)
        servers[i].waiting.append(Request(number, conversation, at))
        servers[i].admit()
        schedule(i)
    run_until(math.inf)
    took.sort()
    return {"p50": percentile(took, 0.5), "p99": percentile(took, 0.99), "mean": sum(took) / max(1, len(took)),
            "hits": hits / max(1, len(took)), "kept_up": ended_in_time / max(1, asked), "requests": len(took)}


def simulate_clients(measured, clients, answers, slots=32):
    """Returns the answers a second of one replica if each client asks about a new image when it has its answer."""
    speeds = [0.0] + [measured.decode(n) / n for n in range(1, slots + 1)]
    server = Replica(speeds, measured.image, measured.tokens, slots, 1)
    number = 0
    for number in range(clients):
        server.waiting.append(Request(number, number, 0.0))
    server.admit()
    done, began = 0, 0.0
    while done < answers:
        server.advance(server.next_event())
        for _ in server.step():
            done += 1
            if done == answers // 4:
                began = server.now
            number += 1
            server.waiting.append(Request(number, number, server.now))
        server.admit()
    return (answers - answers // 4) / (server.now - began)


def table(measured, seed):
    columns = [(1, "two"), (8, "two"), (8, "prefix"), (64, "two"), (64, "prefix"), (1000, "two"), (1000, "prefix")]
    names = [f"{n:,}" + {"two": ", any", "prefix": ", prefix"}[routing] * (n > 1) for n, routing in columns]
    print("| questions a second and replica | " + " | ".join(names) + " |")
    print("| --- " * (1 + len(columns)) + "|")
    full = set()  # columns that cannot keep up at a lower rate
    for rate in (20, 40, 50, 60, 80, 100):
        cells = []
        for column in columns:
            replicas, routing = column
            seconds = {1: 200, 8: 40, 64: 12}.get(replicas, 2)
            if column not in full:
                result = simulate(measured, replicas, rate, routing, 7 + seconds, 7, pause=1, seed=seed)
                if result["kept_up"] < 0.95:
                    full.add(column)
            cells.append("too much" if column in full else f"{result['p50']:.2f}, {result['p99']:.2f}")
        print(f"| {rate} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--rate", type=float, default=40, help="questions a second and replica")
    parser.add_argument("--routing", choices=["random", "two", "prefix"], default="two")
    parser.add_argument("--questions", type=float, default=4, help="about an image, on average")
    parser.add_argument("--pause", type=float, default=2, help="seconds between them")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=14, help="seconds at the start that are not measured")
    parser.add_argument("--max-num-seqs", type=int, default=32)
    parser.add_argument("--cached", type=int, default=500, help="images whose keys and values a replica keeps")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="length of an answer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if min(options.replicas, options.max_num_seqs, options.tokens) < 1 or options.rate <= 0 or options.pause <= 0:
        parser.error("--replicas, --max-num-seqs, --tokens, --rate and --pause must be greater than 0")
    if options.questions < 1 or options.cached < 0 or options.warm >= options.seconds:
        parser.error("--questions must be at least 1, --cached at least 0, and --warm less than --seconds")
    measured = Measured(tokens=options.tokens)
    if options.table:
        table(measured, options.seed)
        return
    result = simulate(measured, options.replicas, options.rate, options.routing, options.seconds, options.warm,
                      options.questions, options.pause, options.max_num_seqs, options.cached, seed=options.seed)
    print(json.dumps({name: round(value, 4) for name, value in result.items()}))


if __name__ == "__main__":
    main()
