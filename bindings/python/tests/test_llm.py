# SPDX-License-Identifier: Apache-2.0
"""The results of the calls, and the types of images that they accept."""
from __future__ import annotations

import base64
import pickle
import threading
import time

import pytest
from conftest import DEMO, EXAMPLES, EXPECTED, GREEDY, LONG

import eyelet
from eyelet import LLM, Answer, Box, SamplingParams, StructuredOutputsParams

PNG = EXAMPLES / "shapes-4.png"
SCHEMA = {"type": "object", "properties": {"color": {"enum": ["blue", "red"]}}, "required": ["color"],
          "additionalProperties": False}


def message(image: object, text: str = "Describe this image.") -> list[dict[str, object]]:
    return [{"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": text}]}]


def test_captions_are_those_of_the_program(llm: LLM) -> None:
    names = sorted(EXPECTED)[:5]
    answers = llm.caption([EXAMPLES / name for name in names], sampling_params=GREEDY)
    assert answers == [EXPECTED[name] for name in names]


def test_an_answer_is_a_str_that_knows_its_end(llm: LLM) -> None:
    answer = llm.caption(PNG)
    assert isinstance(answer, str) and answer.finish_reason == "stop"
    assert answer.usage.image_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    copy = pickle.loads(pickle.dumps(answer))
    assert (copy, copy.finish_reason, copy.usage) == (answer, answer.finish_reason, answer.usage)
    assert llm.caption(PNG, max_tokens=3).finish_reason == "length"


def test_one_image_in_every_form(llm: LLM) -> None:
    data = PNG.read_bytes()
    forms = [str(PNG), PNG, data, bytearray(data), memoryview(data), PNG.as_uri(),
             "data:image/png;base64," + base64.b64encode(data).decode()]
    assert set(llm.caption(forms, sampling_params=GREEDY)) == {EXPECTED[PNG.name]}


def test_pil_and_numpy(llm: LLM) -> None:
    image = pytest.importorskip("PIL.Image").open(PNG)
    expected = EXPECTED[PNG.name]
    assert llm.caption(image, sampling_params=GREEDY) == expected
    assert llm.caption(image.convert("P"), sampling_params=GREEDY)
    transparent = pytest.importorskip("PIL.Image").open(EXAMPLES / "transparent.png")
    assert llm.caption(transparent, sampling_params=GREEDY) == EXPECTED["transparent.png"]
    numpy = pytest.importorskip("numpy")
    array = numpy.asarray(image.convert("RGB"))
    assert llm.caption(array, sampling_params=GREEDY) == expected
    mirrored = llm.caption(array[:, ::-1], sampling_params=GREEDY)  # not contiguous
    assert mirrored == llm.caption(numpy.ascontiguousarray(array[:, ::-1]), sampling_params=GREEDY)


def test_ask_one_and_several(llm: LLM) -> None:
    assert llm.ask(PNG, "How many shapes are there?", sampling_params=GREEDY) == "Three."
    both = llm.ask([PNG, EXAMPLES / "turned.jpg"], "Describe this image.", max_tokens=4)
    assert both.usage.image_tokens > llm.ask(PNG, "Describe this image.", max_tokens=4).usage.image_tokens


def test_read_and_scene(llm: LLM) -> None:
    assert "FRAGILE" in llm.read(EXAMPLES / "word-2.jpg")
    assert llm.scene(PNG, max_tokens=8)


def test_detect_gives_pixels(llm: LLM) -> None:
    boxes = llm.detect(PNG, "square")
    assert len(boxes) == 2 and all(isinstance(box, Box) and box.label == "square" for box in boxes)
    assert all(0 <= box.x1 < box.x2 <= 320 and 0 <= box.y1 < box.y2 <= 320 for box in boxes)


def test_extract(llm: LLM) -> None:
    assert llm.extract(PNG, SCHEMA)["color"] in ("blue", "red")
    pydantic = pytest.importorskip("pydantic")

    class Shape(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        count: int
        round: bool

    with_limit = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 0, "maximum": 9}},
                  "required": ["count"], "additionalProperties": False}
    assert 0 <= llm.extract(PNG, with_limit)["count"] <= 9
    try:
        assert isinstance(llm.extract(PNG, Shape, max_tokens=40), Shape)
    except eyelet.TooLongError as error:  # the demo model never ends a number
        assert "40 tokens" in str(error)


def test_stream(llm: LLM) -> None:
    whole = llm.ask(PNG, "Describe this image.", sampling_params=GREEDY)
    for _ in range(5):  # a reader without processor time receives many tokens as one piece
        stream = llm.ask(PNG, "Describe this image.", sampling_params=GREEDY, stream=True)
        pieces = list(stream)
        assert "".join(pieces) == whole == stream.answer
        if len(pieces) > 1:
            break
    assert len(pieces) > 1
    assert list(stream) == []
    with llm.ask(PNG, "Describe this image.", sampling_params=LONG, stream=True) as cut:
        next(cut)
    with pytest.raises(eyelet.ClosedError):
        next(cut)


def test_chat_has_vllms_outputs(llm: LLM) -> None:
    conversations = [message(EXAMPLES / name) for name in sorted(EXPECTED)]
    outputs = llm.chat(conversations, SamplingParams(temperature=0, max_tokens=64))
    assert [output.outputs[0].text for output in outputs] == [EXPECTED[name] for name in sorted(EXPECTED)]
    first = outputs[0]
    assert first.finished and first.outputs[0].finish_reason == "stop" and first.outputs[0].index == 0
    assert first.prompt_token_ids and first.outputs[0].token_ids
    assert [int(output.request_id) for output in outputs] == sorted(int(output.request_id) for output in outputs)


def test_sampling_parameters(llm: LLM) -> None:
    one = message(PNG)
    params = SamplingParams(n=2, temperature=5.0, seed=7, max_tokens=12, logprobs=2)
    first, again = (llm.chat(one, params)[0] for _ in range(2))
    assert [o.text for o in first.outputs] == [o.text for o in again.outputs]
    assert len(first.outputs) == 2 and first.outputs[0].text != first.outputs[1].text
    assert first.outputs[0].logprobs is not None and len(first.outputs[0].logprobs) >= 12
    stopped = llm.chat(one, SamplingParams(temperature=0, max_tokens=64, stop=" blue"))[0].outputs[0]
    assert stopped.stop_reason == " blue" and stopped.text == "An orange heart, a"
    ends = stopped.token_ids[2]
    stopped = llm.chat(one, SamplingParams(temperature=0, max_tokens=64, stop_token_ids=[ends]))[0].outputs[0]
    assert stopped.stop_reason == ends and stopped.finish_reason == "stop" and len(stopped.token_ids) == 2
    choice = StructuredOutputsParams(choice=["yes", "no"])
    assert llm.chat(one, SamplingParams(structured_outputs=choice))[0].outputs[0].text in ("yes", "no")
    assert llm.chat(one)[0].outputs[0].finish_reason == "stop"  # as the model recommends


def test_answers_do_not_depend_on_the_queue() -> None:
    params = SamplingParams(n=2, temperature=5.0, seed=7, max_tokens=12)
    hi = [{"role": "user", "content": "Hi"}]
    texts = []
    for places in (64, 1):  # with a queue of 1, the second answer to a conversation does not fit and is started again
        with LLM(DEMO, device="cpu", threads=1, max_num_seqs=2, max_num_queued=places) as llm:
            texts.append([[answer.text for answer in output.outputs] for output in llm.chat([hi] * 4, params)])
    assert texts[0] == texts[1] and texts[0][0] == texts[0][3]


def test_threads_share_a_batch(llm: LLM) -> None:
    answers: dict[str, Answer] = {}

    def work(name: str) -> None:
        answers[name] = llm.caption(EXAMPLES / name, sampling_params=GREEDY)

    threads = [threading.Thread(target=work, args=(name,)) for name in EXPECTED]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == EXPECTED


def test_the_gil_is_free_meanwhile(llm: LLM) -> None:
    worker = threading.Thread(target=llm.caption, args=(PNG,), kwargs={"sampling_params": LONG, "max_tokens": 200})
    worker.start()
    ticks = 0
    while worker.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ticks > 10


def test_plan_needs_no_gpu() -> None:
    small = eyelet.plan(DEMO, vram="8151MiB", vram_used="1 GiB")
    assert small.fits and small.device == "cuda" and small.total_bytes > 0
    assert sum(item.bytes for item in small.items) > 0 and {item.device for item in small.items} >= {"cuda:0"}
    assert not eyelet.plan(DEMO, vram=8151 << 20, vram_used="8100MiB").fits
    assert eyelet.plan(DEMO, device="cpu", max_model_len=512).max_model_len == 512
    whole, quantized = (eyelet.plan(DEMO, vram="8GiB", quantization=kind, limit_mm_per_prompt={"image": 2})
                        for kind in (None, "int4"))
    assert quantized.total_bytes != whole.total_bytes < small.total_bytes


def test_no_images_are_allowed() -> None:
    with LLM(DEMO, device="cpu", limit_mm_per_prompt={"image": 0}) as llm:
        assert llm.chat([{"role": "user", "content": "a"}], SamplingParams(max_tokens=1))
        with pytest.raises(eyelet.BadRequestError, match="at most 0"):
            llm.caption(PNG)


def test_progress_and_notices() -> None:
    said: list[tuple[str, int, int]] = []
    with LLM(DEMO, device="cpu", progress=lambda *what: said.append(what), notice=lambda text: None) as llm:
        assert ("loading", 0, 1) == said[0] and said[-1] == ("loading", 1, 1)
        assert llm.device == "cpu" and llm.model == str(DEMO)
