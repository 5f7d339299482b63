# SPDX-License-Identifier: Apache-2.0
"""Vectors and scores of tiny random models, compared with tests/golden."""
from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import DEMO, ROOT

import eyelet

GOLDEN = ROOT / "tests" / "golden"
MAKE = Path(os.environ.get("EYELET_MKCHECKPOINT") or Path(os.environ.get("EYELET_LIBRARY", "none")).parent / "mkcheckpoint")


def opened(kind: str, seed: int, folder: Path) -> eyelet.LLM:
    if not MAKE.exists():
        pytest.skip("no mkcheckpoint beside the library, nor in EYELET_MKCHECKPOINT")
    subprocess.run([str(MAKE), "--like", kind, "--seed", str(seed), str(folder / kind)], check=True,
                   stdout=subprocess.DEVNULL)
    return eyelet.LLM(folder / kind, device="ref", threads=2)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[eyelet.LLM]:
    with opened("tiny-embedding-bf16", 17, tmp_path_factory.mktemp("embed")) as llm:
        yield llm


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[eyelet.LLM]:
    with opened("tiny-reranker-bf16", 18, tmp_path_factory.mktemp("rerank")) as llm:
        yield llm


def test_vectors(embedder: eyelet.LLM) -> None:
    image = next(GOLDEN.glob("*/16-64x64.png"))
    assert embedder.task == "embed"
    alone = embedder.embed("hello")[0]
    assert alone.outputs.hidden_size == 256 and sum(x * x for x in alone.outputs.embedding) == pytest.approx(1)
    cases = {c["name"]: c for c in json.loads((GOLDEN / "tiny-embedding-bf16.json").read_text())["cases"]}
    assert alone.prompt_token_ids == cases["case00"]["ids"]
    many = embedder.embed(["a", "hello", image, {"text": "hello", "image": image}, {"text": "hello"}])
    assert many[1].outputs == alone.outputs == many[4].outputs
    assert many[2].prompt_token_ids == cases["case07"]["ids"]
    assert many[3].outputs != many[2].outputs
    assert embedder.embed("hello", instruction="Find it")[0].outputs != alone.outputs


def test_dimensions(embedder: eyelet.LLM) -> None:
    whole, cut = (embedder.embed("hello", dimensions=d)[0].outputs.embedding for d in (None, 64))
    length = sum(x * x for x in whole[:64]) ** 0.5
    assert cut == pytest.approx([x / length for x in whole[:64]], rel=1e-5)
    for dimensions in (1, 257):
        with pytest.raises(eyelet.BadRequestError, match="dimensions"):
            embedder.embed("hello", dimensions=dimensions)


def test_scores(reranker: eyelet.LLM) -> None:
    documents = ["The cat is on the house.", "Water is near the tree."]
    scores = [output.outputs.score for output in reranker.score("where is the cat?", documents)]
    cases = json.loads((GOLDEN / "tiny-reranker-bf16.json").read_text())["cases"]
    assert scores == pytest.approx([cases[0]["score"], cases[1]["score"]], abs=1e-4)


def test_who_does_what(embedder: eyelet.LLM, llm: eyelet.LLM) -> None:
    with pytest.raises(eyelet.BadRequestError, match="does not answer"):
        embedder.ask(next(GOLDEN.glob("*/16-64x64.png")), "What?")
    with pytest.raises(eyelet.BadRequestError, match="makes no vectors"):
        llm.embed("hello")
    with pytest.raises(eyelet.BadRequestError, match="without a query"):
        embedder.score("a", "b")
    with pytest.raises(TypeError):
        embedder.embed({"picture": "x"})
    with pytest.raises(eyelet.BadRequestError, match="--task draw"):
        eyelet.LLM(DEMO, task="draw")


def test_awaited(tmp_path: Path) -> None:
    inputs = ["hello", {"text": "a"}]
    with opened("tiny-embedding-bf16", 17, tmp_path) as llm:
        expected = [llm.embed(each, dimensions=64)[0].outputs for each in inputs]

    async def main() -> None:
        async with eyelet.AsyncLLM(tmp_path / "tiny-embedding-bf16", device="ref", threads=2) as llm:
            got = await asyncio.gather(*(llm.embed(each, dimensions=64) for each in inputs))
            assert [each[0].outputs for each in got] == expected
            with pytest.raises(eyelet.EyeletError):
                await llm.score("a", ["b"])

    asyncio.run(main())
