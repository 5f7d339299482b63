# SPDX-License-Identifier: Apache-2.0
"""The demo model, loaded once. examples/expected.json has its answers about the example images."""
from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import eyelet

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
DEMO = ROOT / "models" / "demo"
EXPECTED: dict[str, str] = json.loads((EXAMPLES / "expected.json").read_text())
GREEDY = eyelet.SamplingParams(temperature=0, max_tokens=None)
LONG = eyelet.SamplingParams(temperature=0, max_tokens=None, ignore_eos=True)  # until the context is full


@pytest.fixture(scope="session")
def llm() -> Iterator[eyelet.LLM]:
    with eyelet.LLM(DEMO, device="cpu", threads=2, max_num_seqs=4) as opened:
        yield opened


@pytest.fixture
def script() -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a Python program, which must end by itself."""

    def run(text: str) -> subprocess.CompletedProcess[str]:
        head = (f"import asyncio, os, sys, threading, time\nimport eyelet\nfrom eyelet import *\n"
                f"DEMO, IMAGE = {str(DEMO)!r}, {str(EXAMPLES / 'shapes-4.png')!r}\n"
                "LONG = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True)\n")
        return subprocess.run([sys.executable, "-c", head + textwrap.dedent(text)], capture_output=True, text=True,
                              timeout=30)

    return run
