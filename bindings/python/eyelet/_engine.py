# SPDX-License-Identifier: Apache-2.0
"""An open engine, its running requests, and their behavior at close(), at fork and at exit."""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Optional, Union

from . import _ffi
from ._ffi import byref, c_char_p, c_int, c_void_p, call, lib, text_of
from .errors import BadRequestError, BusyError, ClosedError, ForkedError, RequestCancelledError

Progress = Callable[[str, int, int], object]
DETAILS = {"auto": 0, "low": 1, "high": 2, "native": 3}
WAIT_MS = 100  # how long signals such as Ctrl-C may be delayed
CLOSE_SECONDS = 60.0  # close() waits this long for calls that decode images; if they take longer, memory leaks
EXIT_SECONDS = 10.0
QUEUED_DEFAULT = 64  # the library's default of max_num_queued

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def size_of(value: Union[int, str], name: str) -> int:
    """Returns a number of bytes, given as a number or as a text such as "8151MiB"."""
    if isinstance(value, str):
        text = value.strip()
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ").rstrip()
        unit = _UNITS.get(text[len(digits):].strip().upper())
        try:
            value = int(float(digits) * unit) if unit else -1
        except (ValueError, OverflowError):
            value = -1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise ValueError(f'{name} must be a number of bytes, or a text such as "8151MiB"')
    return value


def int32(value: int, name: str) -> int:
    """Returns the number. Raises if it exceeds a C int, because ctypes would truncate it."""
    if not -2**31 <= value < 2**31:
        raise BadRequestError(f"{name} is {value}, which is out of range")
    return value


def c_text(value: str, name: str) -> bytes:
    """Returns the text as UTF-8. Raises if it contains a NUL, which would end it in C."""
    if "\0" in value:
        raise BadRequestError(f"{name} has a NUL character")
    return value.encode()


_SIZES = {"gpu_memory", "cpu_memory", "vram", "vram_used", "max_pixels"}
_KINDS: dict[str, Any] = {entry[0]: entry[1] for entry in _ffi.EngineOptions._fields_}


def options_of(model: Any, given: Mapping[str, Any]) -> _ffi.EngineOptions:
    """Returns the engine's options. None selects the default of an option."""
    options = _ffi.EngineOptions(size=ctypes.sizeof(_ffi.EngineOptions), device=b"auto")
    options.model = os.fsencode(model)
    if b"\0" in os.fsencode(model):
        raise BadRequestError("the model's name has a NUL character")
    for name, value in given.items():
        if value is None:
            continue
        if name in _SIZES:
            value = size_of(value, name)
        kind = _KINDS[name]
        try:
            if kind is c_char_p:
                setattr(options, name, c_text(value, name))
            else:
                setattr(options, name, int32(value, name) if kind is c_int else value)
        except TypeError:
            raise TypeError(f"{name} cannot be {value!r}") from None
    return options


def library_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options with the library's names, two of which differ from LLM's."""
    options = dict(given)
    limits = options.pop("limit_mm_per_prompt", None)
    if limits is not None:
        options["max_images"] = (limits["image"] or -1) if "image" in limits else 0
    if "quantization" in options:
        options["quantize"] = options.pop("quantization")
    return options


def model_path(model: Union[str, "os.PathLike[str]"]) -> Union[str, "os.PathLike[str]"]:
    """Returns the model's path or name. "demo" is the model in the package unless there is a file of that name."""
    demo = _ffi.NATIVE / "models" / "demo"
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"a model is a directory or the name of a repository, not {type(model).__name__}")
    return demo if model == "demo" and demo.is_dir() and not os.path.exists("demo") else model


# ---- grammars --------------------------------------------------------------------------------------------------------


class Grammar:
    """A compiled grammar. It is freed with its last reference."""

    def __init__(self, kind: str, text: str, choices: tuple[str, ...] = ()) -> None:
        self.handle = c_void_p()
        data = text.encode()
        if kind == "json_object":
            call("ey_grammar_of_json_object", byref(self.handle))
        elif kind == "choice":
            array = (c_char_p * len(choices))(*[c_text(choice, "a choice") for choice in choices])
            call("ey_grammar_of_choices", byref(self.handle), array, len(choices))
        else:
            call(f"ey_grammar_of_{kind}", byref(self.handle), data, len(data))

    def __del__(self) -> None:
        if self.handle:
            lib.ey_grammar_free(byref(self.handle))


@lru_cache(maxsize=64)
def grammar_of(kind: str, text: str = "", choices: tuple[str, ...] = ()) -> Grammar:
    return Grammar(kind, text, choices)


# ---- requests --------------------------------------------------------------------------------------------------------


class Request:
    """An ey_request, and references to all objects that it points to."""

    def __init__(self, messages: Sequence[tuple[str, Sequence[Union[str, bytes]]]], detail: str = "auto") -> None:
        if detail not in DETAILS:
            raise ValueError(f"detail is {detail!r}; it must be one of {', '.join(DETAILS)}")
        self.struct = _ffi.Request(size=ctypes.sizeof(_ffi.Request), add_bos=True, top_logprobs=-1)
        self.keep: list[Any] = []
        self.stop_ids: frozenset[int] = frozenset()
        self.n = 1
        array = (_ffi.Message * max(1, len(messages)))()
        for message, (role, parts) in zip(array, messages):
            inner = (_ffi.Part * max(1, len(parts)))()
            for part, value in zip(inner, parts):
                image = isinstance(value, bytes)
                part.type, part.detail = int(image), DETAILS[detail]
                data = value if isinstance(value, bytes) else value.encode()
                part.bytes, part.n_bytes = data, len(data)
            message.role, message.parts, message.n_parts = c_text(role, "a role"), inner, len(parts)
            self.keep.append(inner)
        self.keep.append(array)
        self.struct.messages, self.struct.n_messages = array, len(messages)

    def set_pooling(self, instruction: Optional[str], dimensions: int) -> None:
        """Requests a vector of the last message, or its score if there are two messages: the first is the query."""
        messages = self.struct.messages
        document, query = messages[self.struct.n_messages - 1], messages[0]
        given = _ffi.PoolingInput(parts=document.parts, n_parts=document.n_parts)
        if self.struct.n_messages > 1:
            given.query, given.n_query = query.parts, query.n_parts
        if instruction is not None:
            data = instruction.encode()
            given.instruction, given.n_instruction = data, len(data)
        self.keep.append(given)
        self.struct.messages, self.struct.n_messages = None, 0
        self.struct.sampling = _ffi.Sampling(top_p=1, repetition_penalty=1)  # unused, but the library checks it
        self.struct.pool, self.struct.input = True, ctypes.pointer(given)
        self.struct.dimensions = int32(dimensions, "dimensions")

    def set_grammar(self, grammar: Grammar) -> None:
        self.keep.append(grammar)
        self.struct.grammar = grammar.handle

    def set_stop(self, texts: Sequence[str], ids: Sequence[int]) -> None:
        if texts:
            stop = (c_char_p * len(texts))(*[c_text(text, "a stop text") for text in texts])
            self.struct.stop, self.struct.n_stop = stop, len(texts)
            self.keep.append(stop)
        if ids:
            self.stop_ids = frozenset(ids)
            stop_ids = (c_int * len(ids))(*[int32(i, "a stop token") for i in ids])
            self.struct.stop_ids, self.struct.n_stop_ids = stop_ids, len(ids)
            self.keep.append(stop_ids)

    def set_logit_bias(self, bias: Mapping[int, float]) -> None:
        entries = [_ffi.LogitBias(int32(int(i), "a token of logit_bias"), b) for i, b in bias.items()]
        array = (_ffi.LogitBias * max(1, len(bias)))(*entries)
        self.struct.logit_bias, self.struct.n_logit_bias = array, len(bias)
        self.keep.append(array)


class Result:
    """A copy of an ey_answer as Python objects."""

    def __init__(self, answer: _ffi.Answer, stop_ids: frozenset[int]) -> None:
        self.text = ctypes.string_at(answer.text, answer.n_text).decode("utf-8", "replace") if answer.text else ""
        self.finish_reason = text_of(lib.ey_finish_text(answer.finish_reason))
        self.token_ids = answer.tokens[:answer.n_tokens] if answer.n_tokens else []
        self.prompt_tokens: int = answer.prompt_tokens
        self.completion_tokens: int = answer.completion_tokens
        self.image_tokens: int = answer.image_tokens
        self.cached_tokens: int = answer.cached_tokens
        self.image_sizes = [(answer.images[i].width, answer.images[i].height) for i in range(answer.n_images)]
        self.seconds: float = (answer.queue_seconds + answer.vision_seconds + answer.prefill_seconds
                               + answer.decode_seconds)
        self.stop_reason: Union[int, str, None] = None
        if answer.stop_text is not None:
            self.stop_reason = text_of(answer.stop_text)
        elif answer.stop_id in stop_ids:
            self.stop_reason = answer.stop_id
        pooled = lib.ey_answer_pooled(byref(answer))
        self.vector: list[float] = pooled.vector[:pooled.n_vector] if pooled.n_vector else []
        self.score: float = pooled.score
        self.logprobs = [
            [(entry.id, float(entry.logprob), text_of(entry.token))
             for entry in [token.chosen, *token.top[:token.n_top]]]
            for token in answer.logprobs[:answer.n_logprobs]
        ] if answer.n_logprobs else None


class Cancel:
    """Cancels the requests that were started with it, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generations: list[Generation] = []
        self.requested = False

    def add(self, generation: Generation) -> None:
        with self._lock:
            self._generations.append(generation)
            requested = self.requested
        if requested:
            generation.cancel()

    def cancel(self) -> None:
        with self._lock:
            self.requested = True
            generations, self._generations = self._generations, []
        for generation in generations:
            generation.cancel()


class Generation:
    """An answer in progress. The object exists before the answer starts, so that an interrupted caller can still free
    the handle. The handle is freed exactly once: by collect(), by discard(), or with the engine."""

    def __init__(self, engine: Engine, stop_ids: frozenset[int]) -> None:
        self._engine = engine
        self._stop_ids = stop_ids
        self.handle = c_void_p()  # set by the library, and cleared when it frees the answer
        self._event = _ffi.Event()
        self._reading = threading.Lock()  # held while a thread waits for events
        self._guard = threading.Lock()  # held while the answer is cancelled or freed

    def next(self, timeout_ms: int = WAIT_MS) -> tuple[int, str]:
        """Waits for the next event and returns its type and its text."""
        with self._reading:
            self._engine.check()
            if not self.handle:
                raise ClosedError("the engine or the stream was closed while this request ran")
            lib.ey_generation_next(self.handle, timeout_ms, byref(self._event))
            event = self._event
            text = ctypes.string_at(event.text, event.n_text).decode() if event.type == _ffi.EVENT_TEXT else ""
            return event.type, text

    def collect(self) -> Result:
        """Returns the answer, after the event DONE, and frees the handle."""
        answer = _ffi.Answer()
        try:
            with self._reading, self._guard:
                if not self.handle:
                    raise ClosedError("the engine or the stream was closed while this request ran")
                call("ey_generation_collect", byref(self.handle), byref(answer))
            result = Result(answer, self._stop_ids)
        finally:
            lib.ey_answer_free(byref(answer))
            self._engine.forget(self)
        if self._engine.closing and result.finish_reason == "cancelled":
            raise ClosedError("the engine was closed while this request ran")
        return result

    def cancel(self) -> None:
        with self._guard:
            if self.handle and not self._engine.is_forked():
                lib.ey_generation_cancel(self.handle)

    def discard(self) -> None:
        """Cancels the answer, waits until it has ended, and drops it. A second call does nothing."""
        if self._engine.is_forked():
            return
        self.cancel()
        answer = _ffi.Answer()
        with self._reading, self._guard:
            if self.handle:
                lib.ey_generation_collect(byref(self.handle), byref(answer), None)
        lib.ey_answer_free(byref(answer))
        self._engine.forget(self)


def discard_all(generations: Iterable[Generation]) -> None:
    every = list(generations)
    for generation in every:  # cancel all first, or a waiting answer would start when another ends
        generation.cancel()
    for generation in every:
        generation.discard()


# ---- engines ---------------------------------------------------------------------------------------------------------

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


class _Running:
    """The answers to a request, and the ids of its prompt."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.generations: list[Generation] = []


class Engine:
    def __init__(self, options: _ffi.EngineOptions, progress: Optional[Progress] = None,
                 notice: Optional[Callable[[str], object]] = None) -> None:
        self._pid = os.getpid()
        self._idle = threading.Condition()
        self._callers: set[object] = set()  # library calls that currently use the engine's handle
        self._generations: set[Generation] = set()
        self._handle = c_void_p()
        self.closing = False
        failed: list[BaseException] = []

        def guarded(function: Callable[..., object], *arguments: object) -> None:
            try:
                if not failed:
                    function(*arguments)
            except BaseException as error:  # exceptions must not pass through C code
                failed.append(error)

        if progress is not None:
            told = progress
            options.progress = _ffi.PROGRESS(
                lambda _user, phase, done, total: guarded(told, text_of(lib.ey_phase_text(phase)), done, total))
        if notice is not None:
            noted = notice
            options.notice = _ffi.NOTICE(lambda _user, text: guarded(noted, text_of(text)))
        call("ey_engine_open", byref(self._handle), byref(options))
        _engines.add(self)
        if failed:
            self.close()
            raise failed[0]
        self.info: _ffi.EngineInfo = lib.ey_engine_describe(self._handle)
        self.task: str = ("generate", "embed", "rerank")[lib.ey_engine_task(self._handle)]
        self.max_answers: int = self.info.max_num_seqs + (options.max_num_queued or QUEUED_DEFAULT)
        self.model_sampling: _ffi.Sampling = lib.ey_model_sampling(self._handle)

    # ---- lifetime ----

    def is_forked(self) -> bool:
        return os.getpid() != self._pid

    def check(self) -> None:
        if self.is_forked():
            raise ForkedError("this process was forked after the engine was loaded, and the engine's threads are in "
                              "the parent; load the model in the child, or start processes with \"spawn\"")
        if self.closing:
            raise ClosedError("the engine was closed")

    @contextmanager
    def _calling(self) -> Iterator[c_void_p]:
        token = object()
        self.check()
        try:
            with self._idle:
                self.check()
                self._callers.add(token)
            yield self._handle
        finally:
            with self._idle:
                self._callers.discard(token)
                self._idle.notify_all()

    def forget(self, generation: Generation) -> None:
        if not self.is_forked():
            with self._idle:
                self._generations.discard(generation)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Ends running requests with ClosedError and frees the model. A second call does nothing."""
        if self.is_forked():
            return
        with self._idle:
            first, self.closing = not self.closing, True
            running = list(self._generations)
        if not first or not self._handle:
            return
        discard_all(running)
        with self._idle:
            done = self._idle.wait_for(lambda: not self._callers, timeout)
            running = list(self._generations)  # answers that other threads started meanwhile
        discard_all(running)
        if done:
            lib.ey_engine_close(byref(self._handle))
        self._handle = c_void_p()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and not self.closing:
            self.close()

    # ---- requests ----

    def start(self, request: Request, started: list[Generation], cancel: Optional[Cancel] = None) -> list[int]:
        """Starts request.n answers, appends them to `started`, and returns the ids of the prompt. Raises BusyError if
        the queue is full. After an exception, the caller must discard the answers in `started`."""
        if request.n > self.max_answers:
            raise BadRequestError(f"n is {request.n}; this engine runs and queues at most {self.max_answers} answers: "
                                  "use a smaller n or a larger max_num_queued")
        prompt = c_void_p()
        seed = request.struct.sampling.seed
        with self._calling() as handle:
            try:
                call("ey_prompt_prepare", handle, byref(request.struct), byref(prompt))
                info = lib.ey_prompt_describe(prompt)
                ids: list[int] = info.ids[:info.n_ids]
                for i in range(request.n):
                    generation = Generation(self, request.stop_ids)
                    started.append(generation)
                    with self._idle:
                        self._generations.add(generation)
                    request.struct.sampling.seed = (seed + i) % 2**64
                    call("ey_generation_start", handle, prompt, byref(request.struct), byref(generation.handle))
                    if cancel is not None:
                        cancel.add(generation)
                return ids
            finally:
                request.struct.sampling.seed = seed  # the caller may start the request again
                lib.ey_prompt_free(byref(prompt))

    def run(self, requests: Iterable[Request], cancel: Optional[Cancel] = None) -> list[tuple[list[int], list[Result]]]:
        """Answers all requests. Returns the prompt ids and the results of each. An error cancels the other requests."""
        window = 2 * max(1, self.info.max_num_seqs)  # decodes the next images while the device works
        running: deque[_Running] = deque()
        out: list[tuple[list[int], list[Result]]] = []
        try:
            for request in requests:
                while len(running) >= window:
                    out.append(self._finish(running))
                self._start_when_free(request, running, out, cancel)
            while running:
                out.append(self._finish(running))
        finally:
            discard_all(generation for one in running for generation in one.generations)
        return out

    def _start_when_free(self, request: Request, running: deque[_Running],
                         out: list[tuple[list[int], list[Result]]], cancel: Optional[Cancel]) -> None:
        while True:
            if cancel is not None and cancel.requested:
                raise RequestCancelledError("the request was cancelled")
            one = _Running()
            running.append(one)
            try:
                one.ids = self.start(request, one.generations, cancel)
                return
            except BusyError:
                discard_all(one.generations)
                running.pop()
            if running:
                out.append(self._finish(running))
            else:
                time.sleep(0.005)  # the queue is full of other threads' requests

    def _finish(self, running: deque[_Running]) -> tuple[list[int], list[Result]]:
        """Waits for the answers of the first request and returns them."""
        first, *others = running
        results = []
        for generation in first.generations:
            while generation.next()[0] != _ffi.EVENT_DONE:
                for other in others:
                    for unread in other.generations:  # an answer pauses if nobody reads its text
                        unread.next(0)
            results.append(generation.collect())
        running.popleft()
        return first.ids, results


def _close_all() -> None:
    for engine in list(_engines):
        engine.close(EXIT_SECONDS)


atexit.register(_close_all)
