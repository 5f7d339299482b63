# SPDX-License-Identifier: Apache-2.0
"""The return values. An answer is a str with finish_reason and usage; chat() returns vLLM's outputs."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Optional, Union


@dataclass(frozen=True)
class Usage:
    """The token counts of a request, under the OpenAI API's names."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    image_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Answer(str):
    """The text of an answer."""

    finish_reason: str  #: "stop", or "length" if the answer was truncated
    usage: Usage

    def __new__(cls, text: str, finish_reason: str, usage: Usage) -> Answer:
        answer = super().__new__(cls, text)
        answer.finish_reason = finish_reason
        answer.usage = usage
        return answer

    def __getnewargs__(self) -> tuple[str, str, Usage]:  # type: ignore[override]
        return str(self), self.finish_reason, self.usage


class Box(NamedTuple):
    """The bounding box of an object, in pixels of the upright image."""

    label: str
    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True)
class Logprob:
    """The log-probability of a token, in vLLM's form."""

    logprob: float
    rank: Optional[int] = None
    decoded_token: Optional[str] = None


@dataclass
class CompletionOutput:
    """One answer."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: Optional[float] = None
    logprobs: Optional[list[dict[int, Logprob]]] = None
    finish_reason: Optional[str] = None
    stop_reason: Union[int, str, None] = None


@dataclass
class RequestOutput:
    """The answers to one conversation."""

    request_id: str
    prompt: Optional[str]
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput] = field(default_factory=list)
    finished: bool = True
    num_cached_tokens: int = 0


@dataclass
class EmbeddingOutput:
    """A vector, normalized to length 1."""

    embedding: list[float]

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)


@dataclass
class EmbeddingRequestOutput:
    """The vector of one input."""

    request_id: str
    outputs: EmbeddingOutput
    prompt_token_ids: list[int]
    finished: bool = True


@dataclass
class ScoringOutput:
    """How relevant a document is to a query, from 0 to 1."""

    score: float


@dataclass
class ScoringRequestOutput:
    """The score of one document."""

    request_id: str
    outputs: ScoringOutput
    prompt_token_ids: list[int]
    finished: bool = True
