# SPDX-License-Identifier: Apache-2.0
"""Bad input, closed engines, forks and exits raise clear exceptions; nothing hangs or crashes."""
from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import DEMO, EXAMPLES, GREEDY, LONG

import eyelet
from eyelet import LLM, SamplingParams

PNG = EXAMPLES / "shapes-4.png"
Script = Callable[[str], "subprocess.CompletedProcess[str]"]


class Odd:
    """An object that is not an image."""


def user(content: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": content}]


WRONG_TYPES: list[Callable[[Any], object]] = [
    lambda llm: llm.caption(None), lambda llm: llm.caption(7), lambda llm: llm.caption([PNG, Odd()]),
    lambda llm: llm.ask(PNG, None), lambda llm: llm.ask(PNG, b"What?"), lambda llm: llm.detect(PNG, 3),
    lambda llm: llm.extract(PNG, 3), lambda llm: llm.extract(PNG, Odd), lambda llm: llm.chat("Hi"),
    lambda llm: llm.chat([]), lambda llm: llm.chat([[7]]), lambda llm: llm.chat(user(7)),
    lambda llm: llm.chat(user([{"type": "audio"}])), lambda llm: llm.chat([{"content": "Hi"}]),
    lambda llm: llm.chat(user("Hi"), {"temperature": 0}),
    lambda llm: llm.chat(user("Hi"), SamplingParams(temperature="hot")),  # type: ignore[arg-type]
    lambda llm: LLM(None), lambda llm: LLM(DEMO, max_model_len="many"), lambda llm: LLM(DEMO, speed=3),
    lambda llm: eyelet.plan(DEMO, colour="red"),
]


@pytest.mark.parametrize("number", range(len(WRONG_TYPES)))
def test_wrong_types(llm: LLM, number: int) -> None:
    with pytest.raises(TypeError):
        WRONG_TYPES[number](llm)


BAD: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda llm: llm.caption("nowhere.png"), FileNotFoundError, "nowhere.png"),
    (lambda llm: llm.caption(b""), eyelet.BadImageError, ""),
    (lambda llm: llm.caption(b"GIF89a"), eyelet.BadImageError, ""),
    (lambda llm: llm.caption([PNG, EXAMPLES / "expected.json"]), eyelet.BadImageError, ""),
    (lambda llm: llm.caption("https://example.org/cat.jpg"), eyelet.BadRequestError, "does not download"),
    (lambda llm: llm.caption("data:image/png;base64,@@"), eyelet.BadRequestError, "base64"),
    (lambda llm: llm.caption(PNG, detail="best"), ValueError, "best"),
    (lambda llm: llm.caption(PNG, max_tokens=0), ValueError, "at least 1"),
    (lambda llm: llm.ask(PNG, "x" * 200_000), eyelet.TooLongError, ""),
    (lambda llm: llm.ask(PNG, "\ud800"), ValueError, ""),
    (lambda llm: llm.detect(PNG, " , "), eyelet.BadRequestError, "at least one object"),
    (lambda llm: llm.extract(PNG, "{"), eyelet.BadRequestError, ""),
    (lambda llm: llm.extract(PNG, {"type": "nothing"}), eyelet.BadRequestError, "nothing"),
    (lambda llm: llm.extract(PNG, {"type": "string"}, max_tokens=1), eyelet.TooLongError, "max_tokens"),
    (lambda llm: llm.chat(user("Hi"), SamplingParams(top_p=2)), eyelet.BadRequestError, "top_p"),
    (lambda llm: llm.chat(user("Hi"), SamplingParams(n=0)), eyelet.BadRequestError, "n is 0"),
    (lambda llm: llm.caption(PNG, sampling_params=SamplingParams(n=2)), eyelet.BadRequestError, "chat() returns"),
    (lambda llm: llm.chat([{"role": "poet", "content": "Hi"}]), eyelet.BadRequestError, "poet"),
    (lambda llm: llm.chat([user("Hi")] * 2, [GREEDY]), ValueError, "1 sampling_params for 2"),
    (lambda llm: llm.chat(user("Hi"), SamplingParams(max_tokens=2**32 + 5)), eyelet.BadRequestError, "out of range"),
    (lambda llm: llm.chat(user("Hi"), SamplingParams(stop_token_ids=[2**40])), eyelet.BadRequestError, "out of range"),
    (lambda llm: llm.chat(user("Hi"), SamplingParams(logit_bias={-2**33: 1.0})), eyelet.BadRequestError, "range"),
    (lambda llm: llm.chat(user("Hi"), SamplingParams(stop="a\0b")), eyelet.BadRequestError, "NUL"),
    (lambda llm: llm.chat(user("Hi"), SamplingParams(temperature=float("nan"))), eyelet.BadRequestError, "temperature"),
    (lambda llm: llm.detect(PNG, "car\0"), eyelet.BadRequestError, "NUL"),
    (lambda llm: LLM("demo\0"), eyelet.BadRequestError, "NUL"),
    (lambda llm: LLM("/nowhere/at/all"), eyelet.NotFoundError, "/nowhere/at/all"),
    (lambda llm: LLM(DEMO, device="abacus"), eyelet.BadRequestError, "abacus"),
    (lambda llm: LLM(DEMO, max_num_seqs=2**40), ValueError, "max_num_seqs"),
    (lambda llm: LLM(DEMO, gpu_memory="lots"), ValueError, "gpu_memory"),
    (lambda llm: eyelet.plan(DEMO, vram="8151 XiB"), ValueError, "vram"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_values(llm: LLM, number: int) -> None:
    call, kind, says = BAD[number]
    with pytest.raises(kind) as raised:
        call(llm)
    assert says in str(raised.value)


def test_more_answers_than_the_queue_holds() -> None:
    with LLM(DEMO, device="cpu", threads=1, max_num_seqs=1, max_num_queued=2) as small:
        assert len(small.chat(user("Hi"), SamplingParams(n=3, max_tokens=1))[0].outputs) == 3
        with pytest.raises(eyelet.BadRequestError, match="n is 4; this engine runs and queues at most 3"):
            small.chat(user("Hi"), SamplingParams(n=4, max_tokens=1))


def test_an_array_must_be_an_rgb_image(llm: LLM) -> None:
    numpy = pytest.importorskip("numpy")
    for shape, kind in (((8, 8), "uint8"), ((8, 8, 4), "uint8"), ((8, 8, 3), "float32"), ((0, 8, 3), "uint8")):
        with pytest.raises(TypeError, match="uint8, height x width x 3"):
            llm.caption(numpy.zeros(shape, kind))


def test_one_bad_conversation_ends_the_others(llm: LLM) -> None:
    good = user([{"type": "image", "image": PNG}, "Describe this image."])
    with pytest.raises(eyelet.BadImageError):
        llm.chat([good, user([{"type": "image", "image": b"none"}]), good], LONG)
    assert llm.caption(PNG)


def test_a_second_engine_that_does_not_fit(llm: LLM) -> None:
    with pytest.raises(eyelet.EyeletError) as raised:
        LLM(DEMO, device="cpu", kv_tokens=2_000_000_000)
    assert isinstance(raised.value, (eyelet.NoMemoryError, eyelet.BadRequestError)) and str(raised.value)
    assert llm.caption(PNG)


def test_an_exception_in_progress_comes_out() -> None:
    def progress(*_: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        LLM(DEMO, device="cpu", progress=progress)


def test_a_closed_engine() -> None:
    llm = LLM(DEMO, device="cpu")
    stream = llm.ask(PNG, "Describe this image.", sampling_params=LONG, stream=True)
    next(stream)
    llm.close()
    llm.close()
    calls: list[Callable[[], object]] = [lambda: llm.caption(PNG), lambda: llm.detect(PNG, "x"), lambda: next(stream),
                                         lambda: llm.chat(user("Hi")), lambda: llm.model]
    for call in calls:
        with pytest.raises(eyelet.ClosedError):
            call()
    stream.close()


def test_close_while_requests_run() -> None:
    llm = LLM(DEMO, device="cpu", max_num_seqs=2)
    ended: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                llm.caption(PNG, sampling_params=LONG)
        except BaseException as error:
            ended.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    llm.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert [type(error) for error in ended] == [eyelet.ClosedError] * 6


def test_a_fork_after_load(script: Script) -> None:
    done = script("""
        llm = LLM(DEMO, device="cpu")
        stream = llm.ask(IMAGE, "Describe this image.", sampling_params=LONG, stream=True)
        next(stream)
        child = os.fork()
        if not child:
            for call in (lambda: llm.caption(IMAGE), lambda: next(stream), lambda: llm.model):
                try:
                    call()
                except ForkedError as error:
                    print("forked" if "spawn" in str(error) else error, flush=True)
            stream.close()
            llm.close()
            with LLM(DEMO, device="cpu") as own:
                print(own.caption(IMAGE, max_tokens=3), flush=True)
            sys.exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), llm.caption(IMAGE, max_tokens=3))
    """)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr  # CPython 3.12 warns of the fork
    assert done.stdout.splitlines() == ["forked"] * 3 + ["An orange", "0 An orange"]


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "raise SystemExit(0)"])
def test_the_interpreter_exits_with_requests_running(script: Script, end: str) -> None:
    done = script(f"""
        llm = LLM(DEMO, device="cpu", max_num_seqs=4)
        def work():
            try:
                while True:
                    llm.caption(IMAGE, sampling_params=LONG)
            except ClosedError as error:
                print("closed", flush=True)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        stream = llm.ask(IMAGE, "Describe this image.", sampling_params=LONG, stream=True)
        next(stream)
        {end}
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace("closed", "").strip() == ""


def test_ctrl_c_ends_a_request(script: Script) -> None:
    done = script("""
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore SIGINT
        llm = LLM(DEMO, device="cpu")
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            while True:
                llm.caption(IMAGE, sampling_params=LONG)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - start < 5, llm.caption(IMAGE, max_tokens=3))
    """)
    assert (done.stdout, done.returncode) == ("interrupted True An orange\n", 0), done.stderr
