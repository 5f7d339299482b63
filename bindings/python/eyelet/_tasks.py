# SPDX-License-Identifier: Apache-2.0
"""The common part of LLM and AsyncLLM: converts arguments to requests, and results to return values."""
from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Optional, TypeVar, Union

from . import _ffi
from ._engine import Engine, Progress, Request, Result, c_text, grammar_of, int32, library_options, model_path, options_of
from ._ffi import byref, call, lib, text_of
from ._images import Image, bytes_of
from .errors import BadRequestError, TooLongError
from .outputs import (Answer, Box, CompletionOutput, EmbeddingOutput, EmbeddingRequestOutput, Logprob, RequestOutput,
                      ScoringOutput, ScoringRequestOutput, Usage)
from .sampling import SamplingParams, StructuredOutputsParams

T = TypeVar("T")
Message = Mapping[str, Any]
Conversation = Sequence[Message]


@dataclass
class Task(Generic[T]):
    """Requests, and the function that converts their results to a return value."""

    requests: Iterable[Request]
    finish: Callable[[list[tuple[list[int], list[Result]]]], T]


def open_engine(model: Union[str, "os.PathLike[str]"], progress: Optional[Progress],
                notice: Optional[Callable[[str], object]], options: dict[str, Any]) -> Engine:
    return Engine(options_of(model_path(model), library_options(options)), progress, notice)


# ---- sampling --------------------------------------------------------------------------------------------------------


def _apply_structure(request: Request, wanted: StructuredOutputsParams) -> None:
    if wanted.json is not None:
        schema = wanted.json if isinstance(wanted.json, str) else json.dumps(wanted.json, ensure_ascii=False)
        request.set_grammar(grammar_of("schema", schema))
    elif wanted.regex is not None:
        request.set_grammar(grammar_of("regex", wanted.regex))
    elif wanted.choice is not None:
        request.set_grammar(grammar_of("choice", "", tuple(wanted.choice)))
    elif wanted.json_object:
        request.set_grammar(grammar_of("json_object"))


def apply_sampling(request: Request, params: SamplingParams) -> None:
    if not isinstance(params, SamplingParams):
        raise TypeError(f"sampling_params is SamplingParams, not {type(params).__name__}")
    if params.n < 1:
        raise BadRequestError(f"n is {params.n}; it must be at least 1")
    struct = request.struct
    request.n = params.n
    struct.sampling = _ffi.Sampling(
        params.temperature, max(0, int32(params.top_k, "top_k")), params.top_p, params.min_p, params.repetition_penalty,
        params.presence_penalty, params.frequency_penalty,
        secrets.randbits(64) if params.seed is None else params.seed % 2**64)
    struct.max_tokens = 0 if params.max_tokens is None else int32(params.max_tokens, "max_tokens")
    if params.max_tokens == 0:
        raise BadRequestError("max_tokens is 0; it must be at least 1")
    struct.min_tokens, struct.ignore_eos = int32(params.min_tokens, "min_tokens"), params.ignore_eos
    struct.top_logprobs = -1 if params.logprobs is None else int32(params.logprobs, "logprobs")
    stop = [params.stop] if isinstance(params.stop, str) else list(params.stop or [])
    request.set_stop(stop, list(params.stop_token_ids or []))
    if params.logit_bias:
        request.set_logit_bias(params.logit_bias)
    wanted = params.structured_outputs or params.guided_decoding
    if wanted is not None:
        _apply_structure(request, wanted)


def _use(request: Request, engine: Engine, params: Optional[SamplingParams], max_tokens: Optional[int],
         greedy: bool = False) -> Request:
    """Applies the caller's parameters. Without any, uses the model's recommendation with seed 0, so that the same call
    gives the same answer."""
    if params is not None:
        apply_sampling(request, params)
    elif greedy:
        request.struct.sampling = _ffi.Sampling(top_p=1, repetition_penalty=1)
    else:
        request.struct.sampling = engine.model_sampling
    if max_tokens is not None:
        if max_tokens < 1:
            raise BadRequestError(f"max_tokens is {max_tokens}; it must be at least 1")
        request.struct.max_tokens = int32(max_tokens, "max_tokens")
    return request


# ---- questions about images ------------------------------------------------------------------------------------------


def is_several(images: object) -> bool:
    return isinstance(images, (list, tuple))


def question(engine: Engine, images: Any, text: str, params: Optional[SamplingParams], max_tokens: Optional[int],
             detail: str, greedy: bool = False) -> Request:
    if not isinstance(text, str):
        raise TypeError(f"a question is a str, not {type(text).__name__}")
    several: Sequence[Any] = images if is_several(images) else [images]
    request = _use(Request([("user", [*map(bytes_of, several), text])], detail), engine, params, max_tokens, greedy)
    if request.n != 1:
        raise BadRequestError(f"n is {request.n}, but this call returns one answer; chat() returns several")
    return request


def answer_of(result: Result) -> Answer:
    usage = Usage(result.prompt_tokens, result.completion_tokens, result.cached_tokens, result.image_tokens)
    return Answer(result.text, result.finish_reason, usage)


def ask(engine: Engine, images: Any, text: str, params: Optional[SamplingParams], max_tokens: Optional[int],
        detail: str) -> Task[Answer]:
    return Task([question(engine, images, text, params, max_tokens, detail)], lambda done: answer_of(done[0][1][0]))


def each(engine: Engine, images: Any, text: str, params: Optional[SamplingParams], max_tokens: Optional[int],
         detail: str) -> Task[list[Answer]]:
    """Asks the question about each image separately."""
    return Task((question(engine, image, text, params, max_tokens, detail) for image in images),
                lambda done: [answer_of(results[0]) for _ids, results in done])


def prompt_text(name: str) -> str:
    return text_of(getattr(lib, f"ey_{name}_prompt")())


# ---- detect ----------------------------------------------------------------------------------------------------------


def boxes_of(text: str, what: str, size: tuple[int, int]) -> list[Box]:
    boxes = _ffi.BoxList()
    data = text.encode()
    corners = (_ffi.c_int * 4)()
    out = []
    try:
        call("ey_boxes_read", byref(boxes), data, len(data))
        call("ey_boxes_check", byref(boxes), data, len(data))
        for box in boxes.boxes[:boxes.n]:
            lib.ey_box_to_pixels(byref(box), size[0], size[1], corners)
            out.append(Box(text_of(box.label) or what, *corners))
    finally:
        lib.ey_boxes_free(byref(boxes))
    return out


def detect(engine: Engine, image: Any, what: str, max_tokens: Optional[int], detail: str) -> Task[list[Box]]:
    if not isinstance(what, str):
        raise TypeError(f"detect() takes the names of objects as a str, not {type(what).__name__}")
    if not what.strip(" ,"):
        raise BadRequestError("detect() needs at least one object to look for")
    asked = _ffi.take_text("ey_detect_prompt", c_text(what, "the list of objects"))
    request = question(engine, image, asked, None, max_tokens, detail, True)
    request.set_grammar(grammar_of("regex", text_of(lib.ey_detect_pattern())))

    def finish(done: list[tuple[list[int], list[Result]]]) -> list[Box]:
        result = done[0][1][0]
        return boxes_of(result.text, what, result.image_sizes[0])

    return Task([request], finish)


# ---- extract ---------------------------------------------------------------------------------------------------------


def _schema_of(schema: Any) -> tuple[str, Callable[[str], Any]]:
    """Returns the JSON schema as text and the function that parses an answer. Accepts models of pydantic 1 and 2,
    a dict, or a text."""
    if hasattr(schema, "model_json_schema"):
        return json.dumps(schema.model_json_schema()), schema.model_validate_json
    if hasattr(schema, "parse_raw") and hasattr(schema, "schema_json"):
        return schema.schema_json(), schema.parse_raw
    if isinstance(schema, Mapping):
        return json.dumps(schema, ensure_ascii=False), json.loads
    if isinstance(schema, str):
        return schema, json.loads
    raise TypeError(f"extract() takes a pydantic model or a JSON schema, not {schema!r:.80}")


def extract(engine: Engine, image: Any, schema: Any, prompt: Optional[str], max_tokens: Optional[int],
            detail: str) -> Task[Any]:
    text, read = _schema_of(schema)
    grammar = grammar_of("schema", text)
    data = text.encode()
    asked = prompt if prompt is not None else _ffi.take_text("ey_extract_prompt", data, len(data))
    request = question(engine, image, asked, None, max_tokens, detail, True)
    request.set_grammar(grammar)

    def finish(done: list[tuple[list[int], list[Result]]]) -> Any:
        result = done[0][1][0]
        if result.finish_reason == "length":
            raise TooLongError(f"the answer was truncated after {result.completion_tokens} tokens; use a larger "
                               f"{'max_tokens' if max_tokens is not None else 'max_model_len'}")
        return read(result.text)

    return Task([request], finish)


# ---- vectors and scores ----------------------------------------------------------------------------------------------


def _parts_of_input(given: Any) -> list[Union[str, bytes]]:
    """Returns the parts of an input: a str is a text, a dict has "text" and "image", anything else is an image."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Mapping):
        return [bytes_of(given)]
    unknown = sorted(set(map(str, given)) - {"text", "image"})
    if unknown or not given:
        raise TypeError(f'an input is a text, an image or a dict with "text" and "image"; this has {unknown}')
    parts: list[Union[str, bytes]] = [bytes_of(given["image"])] if given.get("image") is not None else []
    if given.get("text") is not None:
        parts.append(c_text(given["text"], "a text").decode())
    return parts


def is_one_input(inputs: object) -> bool:
    return isinstance(inputs, (str, Mapping)) or not isinstance(inputs, Sequence) or isinstance(
        inputs, (bytes, bytearray, memoryview))


def embed(inputs: Any, instruction: Optional[str], dimensions: Optional[int],
          counter: Counter) -> Task[list[EmbeddingRequestOutput]]:
    def requests() -> Iterable[Request]:
        for given in [inputs] if is_one_input(inputs) else inputs:
            request = Request([("user", _parts_of_input(given))])
            request.set_pooling(instruction, dimensions or 0)
            yield request

    def finish(done: list[tuple[list[int], list[Result]]]) -> list[EmbeddingRequestOutput]:
        return [EmbeddingRequestOutput(counter.next(), EmbeddingOutput(results[0].vector), ids)
                for ids, results in done]

    return Task(requests(), finish)


def score(query: Any, documents: Any, instruction: Optional[str],
          counter: Counter) -> Task[list[ScoringRequestOutput]]:
    def requests() -> Iterable[Request]:
        asked = _parts_of_input(query)
        for document in [documents] if is_one_input(documents) else documents:
            request = Request([("user", asked), ("user", _parts_of_input(document))])
            request.set_pooling(instruction, 0)
            yield request

    def finish(done: list[tuple[list[int], list[Result]]]) -> list[ScoringRequestOutput]:
        return [ScoringRequestOutput(counter.next(), ScoringOutput(results[0].score), ids) for ids, results in done]

    return Task(requests(), finish)


# ---- chat ------------------------------------------------------------------------------------------------------------


def _part_of(part: Any) -> Union[str, bytes]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, str):
        return part
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if kind == "image_url":
        url = part.get("image_url")
        return bytes_of(url.get("url") if isinstance(url, Mapping) else url)
    if kind in ("image_pil", "image"):
        return bytes_of(part.get(kind))
    raise TypeError("a part of a message is a text or an image: {\"type\": \"text\", \"text\": ...}, "
                    "{\"type\": \"image_url\", \"image_url\": {\"url\": ...}} or "
                    "{\"type\": \"image\", \"image\": ...}; "
                    f"this is {part!r:.80}")


def _conversation(messages: Conversation, detail: str) -> Request:
    turns = []
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise TypeError(f"a message is a dict with a role and a content; this is {message!r:.80}")
        content = message.get("content")
        parts = content if isinstance(content, (list, tuple)) else [content]
        turns.append((message["role"], [_part_of(part) for part in parts]))
    return Request(turns, detail)


def _logprobs(result: Result) -> Optional[list[dict[int, Logprob]]]:
    if result.logprobs is None:
        return None
    out = []
    for chosen, *top in result.logprobs:
        ranks = {token: Logprob(logprob, rank, text) for rank, (token, logprob, text) in enumerate(top, 1)}
        ranks.setdefault(chosen[0], Logprob(chosen[1], None, chosen[2]))
        out.append(ranks)
    return out


def _completion(index: int, result: Result) -> CompletionOutput:
    logprobs = _logprobs(result)
    total = sum(entries[0][1] for entries in result.logprobs) if result.logprobs is not None else None
    return CompletionOutput(index, result.text, result.token_ids, total, logprobs, result.finish_reason,
                            result.stop_reason)


@dataclass
class Counter:
    """Numbers requests from "0", as vLLM does."""

    value: int = field(default=-1)

    def next(self) -> str:
        self.value += 1
        return str(self.value)


def chat(engine: Engine, messages: Any, params: Any, detail: str, counter: Counter) -> Task[list[RequestOutput]]:
    if not is_several(messages) or not messages:
        raise TypeError("chat() takes a conversation (a list of messages) or a list of conversations")
    conversations: Sequence[Conversation] = [messages] if isinstance(messages[0], Mapping) else messages
    each_params: Sequence[Any] = params if is_several(params) else [params] * len(conversations)
    if len(each_params) != len(conversations):
        raise ValueError(f"{len(each_params)} sampling_params for {len(conversations)} conversations")

    def requests() -> Iterable[Request]:
        for conversation, one in zip(conversations, each_params):
            if not is_several(conversation):
                raise TypeError(f"a conversation is a list of messages, not {type(conversation).__name__}")
            yield _use(_conversation(conversation, detail), engine, one, None)

    def finish(done: list[tuple[list[int], list[Result]]]) -> list[RequestOutput]:
        return [RequestOutput(counter.next(), None, ids, [_completion(i, r) for i, r in enumerate(results)],
                              num_cached_tokens=results[0].cached_tokens) for ids, results in done]

    return Task(requests(), finish)


__all__ = ["Image", "Task", "T"]
