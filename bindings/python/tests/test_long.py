# SPDX-License-Identifier: Apache-2.0
"""Tests of some minutes (make nightly PART=python): memory over 10,000 calls, and the overhead of a call."""
from __future__ import annotations

import gc
import statistics
import time
from pathlib import Path

import pytest
from conftest import DEMO

from eyelet import LLM, SamplingParams
from eyelet._engine import Request

pytestmark = pytest.mark.long
ONE = SamplingParams(temperature=0, max_tokens=1)
HI = [{"role": "user", "content": "Hi"}]


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def test_memory_is_flat_over_10000_calls() -> None:
    with LLM(DEMO, device="cpu", threads=1, max_model_len=512) as llm:
        def calls(n: int) -> int:
            for _ in range(n):
                llm.chat(HI, ONE)
            gc.collect()
            return resident_kib()

        before = calls(1000)
        after = calls(9000)
    assert after - before < 2048, f"{before} KiB after 1,000 calls, {after} after 10,000"


def test_a_call_costs_less_than_a_fifth_of_a_millisecond(llm: LLM) -> None:
    """Measures the overhead over the engine's own time. On a busy machine, some calls are delayed."""
    beside = []
    for _ in range(500):
        start = time.perf_counter()
        request = Request([("user", ["Hi"])])
        request.struct.max_tokens = 1
        request.struct.sampling = llm._engine.model_sampling
        result = llm._engine.run([request])[0][1][0]
        beside.append(time.perf_counter() - start - result.seconds)
    each = statistics.quantiles(beside, n=4)[0]
    assert each < 0.2e-3, f"{each * 1e6:.0f} us"


def test_a_token_costs_nothing_that_is_measured(llm: LLM) -> None:
    request = Request([("user", ["Hi"])])
    request.struct.max_tokens, request.struct.ignore_eos = 500, True
    request.struct.sampling = llm._engine.model_sampling
    start, began = time.thread_time(), time.perf_counter()
    result = llm._engine.run([request])[0][1][0]
    spent, took = time.thread_time() - start, time.perf_counter() - began
    assert result.completion_tokens == 500
    assert spent < 0.05 * took, f"{spent * 1e3:.1f} of {took * 1e3:.1f} ms, which is not the engine's"
