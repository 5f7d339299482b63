# SPDX-License-Identifier: Apache-2.0
"""LLM, a model in this process. Any number of threads may use it; their requests run in one batch."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Optional, TypeVar, Union, overload

from . import _ffi, _tasks
from ._engine import Engine, Generation, Progress, Request, discard_all
from ._ffi import text_of
from ._images import Image, Images
from ._tasks import Conversation, Counter, Task
from .outputs import Answer, Box, EmbeddingRequestOutput, RequestOutput, ScoringRequestOutput
from .sampling import SamplingParams

T = TypeVar("T")
Input = Union[Image, Mapping[str, Any]]
M = TypeVar("M")


class Stream:
    """An iterator over the text of an answer while it is generated. `answer` is set when the answer is complete."""

    def __init__(self, engine: Engine, request: Request) -> None:
        self._generations: list[Generation] = []
        self.answer: Optional[Answer] = None
        engine.start(request, self._generations)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.answer is not None:
            raise StopIteration
        generation = self._generations[0]
        while True:
            event, text = generation.next()
            if event == _ffi.EVENT_TEXT:
                return text
            if event == _ffi.EVENT_DONE:
                self.answer = _tasks.answer_of(generation.collect())
                raise StopIteration

    def close(self) -> None:
        """Cancels the rest of the answer."""
        discard_all(self._generations)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class _Model:
    """The constructor and the properties that LLM and AsyncLLM share."""

    def __init__(self, model: Union[str, "os.PathLike[str]"], *, progress: Optional[Progress] = None,
                 notice: Optional[Callable[[str], object]] = None, device: Optional[str] = None,
                 max_model_len: Optional[int] = None, max_num_seqs: Optional[int] = None,
                 max_num_queued: Optional[int] = 4096, max_num_batched_tokens: Optional[int] = None,
                 gpu_memory_utilization: Optional[float] = None, gpu_memory: Union[int, str, None] = None,
                 cpu_memory: Union[int, str, None] = None, kv_cache_dtype: Optional[str] = None,
                 kv_tokens: Optional[int] = None, quantization: Optional[str] = None,
                 group_size: Optional[int] = None, enforce_eager: bool = False,
                 limit_mm_per_prompt: Optional[Mapping[str, int]] = None, max_pixels: Optional[int] = None,
                 threads: Optional[int] = None, cpu_mask: Optional[str] = None, no_huge_pages: bool = False,
                 gpu_layers: Optional[int] = None, lm_head: Optional[str] = None, lm_head_rows: Optional[str] = None,
                 vision_weights: Optional[str] = None, prefill_math: Optional[str] = None,
                 task: Optional[str] = None) -> None:
        options = {name: value for name, value in locals().items()
                   if name not in ("self", "model", "progress", "notice", "__class__")}
        self._engine = _tasks.open_engine(model, progress, notice, options)
        self._counter = Counter()

    @property
    def model(self) -> str:
        """The path of the checkpoint."""
        self._engine.check()
        return text_of(self._engine.info.directory)

    @property
    def device(self) -> str:
        self._engine.check()
        return text_of(self._engine.info.device)

    @property
    def max_model_len(self) -> int:
        return int(self._engine.info.max_model_len)

    @property
    def max_num_seqs(self) -> int:
        return int(self._engine.info.max_num_seqs)

    @property
    def task(self) -> str:
        """"generate", "embed" or "rerank"."""
        return self._engine.task


class LLM(_Model):
    """A loaded model, such as LLM("Qwen/Qwen3-VL-2B-Instruct-FP8") or LLM("demo"). close(), the end of `with`, or the
    end of the program frees it.

    `progress(phase, done, total)` is called while the model loads, and `notice(text)` with notes for the user. The
    other options are those of `eyelet serve`, with vLLM's names; None selects the default."""

    def _run(self, task: Task[T]) -> T:
        return task.finish(self._engine.run(task.requests))

    def chat(self, messages: Union[Conversation, Sequence[Conversation]],
             sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None, *,
             detail: str = "auto") -> list[RequestOutput]:
        """Answers one conversation, or several in a batch. Messages are those of the OpenAI API; images may also be
        {"type": "image", "image": ...}. Without sampling_params, sampling follows the model's recommendation, and only
        the context limits the length."""
        self._engine.check()
        return self._run(_tasks.chat(self._engine, messages, sampling_params, detail, self._counter))

    @overload
    def ask(self, image: Images, question: str, *, sampling_params: Optional[SamplingParams] = ...,
            max_tokens: Optional[int] = ..., detail: str = ..., stream: Literal[False] = ...) -> Answer: ...

    @overload
    def ask(self, image: Images, question: str, *, sampling_params: Optional[SamplingParams] = ...,
            max_tokens: Optional[int] = ..., detail: str = ..., stream: Literal[True]) -> Stream: ...

    def ask(self, image: Images, question: str, *, sampling_params: Optional[SamplingParams] = None,
            max_tokens: Optional[int] = None, detail: str = "auto", stream: bool = False) -> Any:
        """Answers a question about an image, or about a list of images together. With `stream`, returns an iterator
        over the answer's text."""
        self._engine.check()
        if stream:
            return Stream(self._engine, _tasks.question(self._engine, image, question, sampling_params, max_tokens,
                                                        detail))
        return self._run(_tasks.ask(self._engine, image, question, sampling_params, max_tokens, detail))

    @overload
    def caption(self, images: Union[list[Any], tuple[Any, ...]], *, sampling_params: Optional[SamplingParams] = ...,
                max_tokens: Optional[int] = ..., detail: str = ...) -> list[Answer]: ...

    @overload
    def caption(self, images: Image, *, sampling_params: Optional[SamplingParams] = ...,
                max_tokens: Optional[int] = ..., detail: str = ...) -> Answer: ...

    def caption(self, images: Any, *, sampling_params: Optional[SamplingParams] = None,
                max_tokens: Optional[int] = None, detail: str = "auto") -> Any:
        """Returns a caption of an image, or a list of captions for a list of images, which run in a batch."""
        self._engine.check()
        text = _tasks.prompt_text("caption")
        if _tasks.is_several(images):
            return self._run(_tasks.each(self._engine, images, text, sampling_params, max_tokens, detail))
        return self._run(_tasks.ask(self._engine, images, text, sampling_params, max_tokens, detail))

    def scene(self, image: Image, *, sampling_params: Optional[SamplingParams] = None,
              max_tokens: Optional[int] = None, detail: str = "auto") -> Answer:
        """Returns a detailed description of the image."""
        return self.ask(image, _tasks.prompt_text("scene"), sampling_params=sampling_params, max_tokens=max_tokens,
                        detail=detail)

    def read(self, image: Image, *, max_tokens: Optional[int] = None, detail: str = "auto") -> Answer:
        """Returns all text in the image, decoded greedily."""
        return self.ask(image, _tasks.prompt_text("read"), max_tokens=max_tokens, detail=detail,
                        sampling_params=SamplingParams(temperature=0, max_tokens=None))

    def detect(self, image: Image, what: str, *, max_tokens: Optional[int] = None, detail: str = "auto") -> list[Box]:
        """Returns the boxes of objects ("car", "car, person") in pixels of the upright image."""
        self._engine.check()
        return self._run(_tasks.detect(self._engine, image, what, max_tokens, detail))

    @overload
    def extract(self, image: Image, schema: type[M], *, prompt: Optional[str] = ..., max_tokens: Optional[int] = ...,
                detail: str = ...) -> M: ...

    @overload
    def extract(self, image: Image, schema: Union[Mapping[str, Any], str], *, prompt: Optional[str] = ...,
                max_tokens: Optional[int] = ..., detail: str = ...) -> Any: ...

    def extract(self, image: Image, schema: Any, *, prompt: Optional[str] = None, max_tokens: Optional[int] = None,
                detail: str = "auto") -> Any:
        """Reads data from the image. Returns an instance of a pydantic model, or a value that follows a JSON schema."""
        self._engine.check()
        return self._run(_tasks.extract(self._engine, image, schema, prompt, max_tokens, detail))

    def embed(self, inputs: Union[Input, Sequence[Input]], *, instruction: Optional[str] = None,
              dimensions: Optional[int] = None) -> list[EmbeddingRequestOutput]:
        """Returns vectors of texts (str), images, or both ({"text": ..., "image": ...}), in a batch. Needs an embedding
        model. The path of an image must be a Path, or a member of a dict. `dimensions` truncates each vector and
        normalizes it again."""
        self._engine.check()
        return self._run(_tasks.embed(inputs, instruction, dimensions, self._counter))

    def score(self, query: Input, documents: Union[Input, Sequence[Input]], *,
              instruction: Optional[str] = None) -> list[ScoringRequestOutput]:
        """Returns the relevance of each document to the query. Needs a reranker."""
        self._engine.check()
        return self._run(_tasks.score(query, documents, instruction, self._counter))

    def close(self) -> None:
        """Frees the model. Running requests end with ClosedError."""
        self._engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


__all__ = ["LLM", "Stream"]
