# SPDX-License-Identifier: Apache-2.0
"""AsyncLLM: the calls of LLM as coroutines; a cancelled task cancels its request."""
from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable

import pytest
from conftest import DEMO, EXAMPLES, EXPECTED, GREEDY, LONG

import eyelet
from eyelet import AsyncLLM

PNG = EXAMPLES / "shapes-4.png"


async def opened() -> AsyncLLM:
    return AsyncLLM(DEMO, device="cpu", threads=2, max_num_seqs=4)


def test_the_same_calls() -> None:
    async def main() -> None:
        async with await opened() as llm:
            names = sorted(EXPECTED)
            answers = await asyncio.gather(*(llm.caption(EXAMPLES / name, sampling_params=GREEDY) for name in names))
            assert list(answers) == [EXPECTED[name] for name in names]
            assert len(await llm.detect(PNG, "square")) == 2
            both = await llm.caption([PNG, PNG], sampling_params=GREEDY)
            assert both == [EXPECTED[PNG.name]] * 2
            chat = await llm.chat([{"role": "user", "content": "Hi"}], eyelet.SamplingParams(max_tokens=2))
            assert chat[0].outputs[0].finish_reason == "length"
            schema = {"enum": ["blue", "red"]}
            assert await llm.extract(PNG, schema) in ("blue", "red")
            with pytest.raises(FileNotFoundError):
                await llm.caption("nowhere.png")
            with pytest.raises(TypeError):
                await llm.ask(PNG, 7)  # type: ignore[call-overload]
        with pytest.raises(eyelet.ClosedError):
            await llm.caption(PNG)

    asyncio.run(main())


def test_a_stream() -> None:
    async def main() -> None:
        async with await opened() as llm:
            for _ in range(5):  # a reader without processor time receives many tokens as one piece
                stream = await llm.ask(PNG, "Describe this image.", sampling_params=GREEDY, stream=True)
                pieces = [piece async for piece in stream]
                assert "".join(pieces) == EXPECTED[PNG.name] == stream.answer
                if len(pieces) > 1:
                    break
            assert len(pieces) > 1
            cut = await llm.ask(PNG, "Describe this image.", sampling_params=LONG, stream=True)
            async for _ in cut:
                break
            await cut.aclose()
            assert [piece async for piece in cut] == []

    asyncio.run(main())


def test_a_cancelled_task_cancels_its_request() -> None:
    async def main() -> None:
        async with await opened() as llm:
            tasks = [asyncio.create_task(llm.caption(PNG, sampling_params=LONG)) for _ in range(8)]
            await asyncio.sleep(0.2)
            for task in tasks:
                task.cancel()
            start = time.monotonic()
            assert {type(r) for r in await asyncio.gather(*tasks, return_exceptions=True)} == {asyncio.CancelledError}
            # all slots are free long before the cancelled answers would have ended
            assert await llm.caption(PNG, sampling_params=GREEDY) == EXPECTED[PNG.name]
            assert time.monotonic() - start < 5

    asyncio.run(main())


def test_the_loop_ends_with_requests_running(script: Callable[[str], "subprocess.CompletedProcess[str]"]) -> None:
    done = script("""
        async def main():
            llm = AsyncLLM(DEMO, device="cpu")
            tasks = [asyncio.create_task(llm.caption(IMAGE, sampling_params=LONG)) for _ in range(3)]
            await asyncio.sleep(0.3)
            print("end")
        asyncio.run(main())
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
