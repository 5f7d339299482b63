# SPDX-License-Identifier: Apache-2.0
"""AsyncLLM, with the calls of LLM as coroutines. Cancelling a task cancels its request."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Optional, TypeVar, Union, overload

from . import _ffi, _tasks
from ._engine import Cancel, Generation, discard_all
from ._images import Image, Images
from ._tasks import Conversation, Task
from .llm import Input, _Model
from .outputs import Answer, Box, EmbeddingRequestOutput, RequestOutput, ScoringRequestOutput
from .sampling import SamplingParams

T = TypeVar("T")
M = TypeVar("M")


def _settle(future: asyncio.Future[T], result: Optional[T], error: Optional[BaseException]) -> None:
    if future.done():  # its task was cancelled
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)  # type: ignore[arg-type]


async def _in_thread(function: Callable[[], T], cancelled: Callable[[], object]) -> T:
    """Runs a blocking function in a daemon thread and awaits its result. Calls cancelled() if the task is cancelled."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        result: Optional[T] = None
        error: Optional[BaseException] = None
        try:
            result = function()
        except StopIteration:
            error = RuntimeError("StopIteration")
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(_settle, future, result, error)
        except RuntimeError:
            pass  # the loop was closed meanwhile, so nobody waits for the result

    threading.Thread(target=work, name="eyelet", daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        cancelled()
        raise


def _pump(start: Callable[[list[Generation], Cancel], object], cancel: Cancel,
          post: Callable[[Union[str, Answer, BaseException]], None]) -> None:
    """Posts the pieces of an answer, and then the answer or the exception. It holds no reference to the stream, so that
    dropping the stream cancels the answer."""
    generations: list[Generation] = []
    try:
        start(generations, cancel)
        while True:
            event, text = generations[0].next()
            if event == _ffi.EVENT_TEXT:
                post(text)
            elif event == _ffi.EVENT_DONE:
                break
        post(_tasks.answer_of(generations[0].collect()))
    except BaseException as error:
        post(error)
    finally:
        discard_all(generations)


class AsyncStream:
    """An answer while it is generated: `async for text in stream`. `answer` is set when the answer is complete."""

    def __init__(self, start: Callable[[list[Generation], Cancel], object]) -> None:
        self._cancel = Cancel()
        self._queue: asyncio.Queue[Union[str, Answer, BaseException]] = asyncio.Queue()
        self._ended = False
        self.answer: Optional[Answer] = None
        loop, cancel, queue = asyncio.get_running_loop(), self._cancel, self._queue

        def post(item: Union[str, Answer, BaseException]) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop was closed meanwhile, so nobody reads the answer
                cancel.cancel()

        threading.Thread(target=_pump, args=(start, cancel, post), name="eyelet", daemon=True).start()

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> str:
        if self._ended:
            raise StopAsyncIteration
        try:
            item = await self._queue.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if isinstance(item, BaseException):
            self._ended = True
            raise item
        if isinstance(item, Answer):
            self._ended = True
            self.answer = item
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        """Cancels the rest of the answer."""
        self._ended = True
        self._cancel.cancel()

    def __del__(self) -> None:
        self._cancel.cancel()


class AsyncLLM(_Model):
    """LLM for asyncio. The constructor blocks until the model is loaded. Requests of all tasks run in one batch."""

    async def _run(self, make: Callable[[], Task[T]]) -> T:
        self._engine.check()
        cancel = Cancel()

        def work() -> T:
            task = make()  # reads and converts images
            return task.finish(self._engine.run(task.requests, cancel))

        return await _in_thread(work, cancel.cancel)

    async def chat(self, messages: Union[Conversation, Sequence[Conversation]],
                   sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None, *,
                   detail: str = "auto") -> list[RequestOutput]:
        return await self._run(lambda: _tasks.chat(self._engine, messages, sampling_params, detail, self._counter))

    @overload
    async def ask(self, image: Images, question: str, *, sampling_params: Optional[SamplingParams] = ...,
                  max_tokens: Optional[int] = ..., detail: str = ..., stream: Literal[False] = ...) -> Answer: ...

    @overload
    async def ask(self, image: Images, question: str, *, sampling_params: Optional[SamplingParams] = ...,
                  max_tokens: Optional[int] = ..., detail: str = ..., stream: Literal[True]) -> AsyncStream: ...

    async def ask(self, image: Images, question: str, *, sampling_params: Optional[SamplingParams] = None,
                  max_tokens: Optional[int] = None, detail: str = "auto",
                  stream: bool = False) -> Any:
        self._engine.check()
        if stream:
            return AsyncStream(lambda started, cancel: self._engine.start(
                _tasks.question(self._engine, image, question, sampling_params, max_tokens, detail), started, cancel))
        return await self._run(
            lambda: _tasks.ask(self._engine, image, question, sampling_params, max_tokens, detail))

    @overload
    async def caption(self, images: Union[list[Any], tuple[Any, ...]], *,
                      sampling_params: Optional[SamplingParams] = ..., max_tokens: Optional[int] = ...,
                      detail: str = ...) -> list[Answer]: ...

    @overload
    async def caption(self, images: Image, *, sampling_params: Optional[SamplingParams] = ...,
                      max_tokens: Optional[int] = ..., detail: str = ...) -> Answer: ...

    async def caption(self, images: Any, *, sampling_params: Optional[SamplingParams] = None,
                      max_tokens: Optional[int] = None, detail: str = "auto") -> Any:
        text = _tasks.prompt_text("caption")
        if _tasks.is_several(images):
            return await self._run(
                lambda: _tasks.each(self._engine, images, text, sampling_params, max_tokens, detail))
        return await self._run(lambda: _tasks.ask(self._engine, images, text, sampling_params, max_tokens, detail))

    async def scene(self, image: Image, *, sampling_params: Optional[SamplingParams] = None,
                    max_tokens: Optional[int] = None, detail: str = "auto") -> Answer:
        return await self.ask(image, _tasks.prompt_text("scene"), sampling_params=sampling_params,
                              max_tokens=max_tokens, detail=detail)

    async def read(self, image: Image, *, max_tokens: Optional[int] = None, detail: str = "auto") -> Answer:
        return await self.ask(image, _tasks.prompt_text("read"), max_tokens=max_tokens, detail=detail,
                              sampling_params=SamplingParams(temperature=0, max_tokens=None))

    async def detect(self, image: Image, what: str, *, max_tokens: Optional[int] = None,
                     detail: str = "auto") -> list[Box]:
        return await self._run(lambda: _tasks.detect(self._engine, image, what, max_tokens, detail))

    @overload
    async def extract(self, image: Image, schema: type[M], *, prompt: Optional[str] = ...,
                      max_tokens: Optional[int] = ..., detail: str = ...) -> M: ...

    @overload
    async def extract(self, image: Image, schema: Union[Mapping[str, Any], str], *, prompt: Optional[str] = ...,
                      max_tokens: Optional[int] = ..., detail: str = ...) -> Any: ...

    async def extract(self, image: Image, schema: Any, *, prompt: Optional[str] = None,
                      max_tokens: Optional[int] = None, detail: str = "auto") -> Any:
        return await self._run(lambda: _tasks.extract(self._engine, image, schema, prompt, max_tokens, detail))

    async def embed(self, inputs: Union[Input, Sequence[Input]], *, instruction: Optional[str] = None,
                    dimensions: Optional[int] = None) -> list[EmbeddingRequestOutput]:
        return await self._run(lambda: _tasks.embed(inputs, instruction, dimensions, self._counter))

    async def score(self, query: Input, documents: Union[Input, Sequence[Input]], *,
                    instruction: Optional[str] = None) -> list[ScoringRequestOutput]:
        return await self._run(lambda: _tasks.score(query, documents, instruction, self._counter))

    async def close(self) -> None:
        """Frees the model. Running requests end with ClosedError."""
        await _in_thread(self._engine.close, lambda: None)

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
