# SPDX-License-Identifier: Apache-2.0
"""eyelet: vision-language models on an NVIDIA GPU or a CPU, in this process.

    from eyelet import LLM
    with LLM("demo") as llm:
        print(llm.caption("photo.jpg"))

docs/guides/python.md has more."""
from ._ffi import lib as _lib
from .async_llm import AsyncLLM, AsyncStream
from .errors import (BadImageError, BadModelError, BadRequestError, BusyError, ClosedError, EyeletError, ForkedError,
                     InternalError, NoDeviceError, NoMemoryError, NotFoundError, RequestCancelledError, SystemIoError,
                     TooLongError)
from .llm import LLM, Stream
from .outputs import (Answer, Box, CompletionOutput, EmbeddingOutput, EmbeddingRequestOutput, Logprob, RequestOutput,
                      ScoringOutput, ScoringRequestOutput, Usage)
from .plan import Plan, PlanItem, plan
from .sampling import GuidedDecodingParams, SamplingParams, StructuredOutputsParams

__version__: str = _lib.ey_version().decode()

__all__ = [
    "LLM", "AsyncLLM", "SamplingParams", "StructuredOutputsParams", "GuidedDecodingParams", "plan", "Plan", "PlanItem",
    "Answer", "Usage", "Box", "Stream", "AsyncStream", "RequestOutput", "CompletionOutput", "Logprob",
    "EmbeddingOutput", "EmbeddingRequestOutput", "ScoringOutput", "ScoringRequestOutput",
    "EyeletError", "BadRequestError", "BadImageError", "TooLongError", "NotFoundError", "BadModelError",
    "NoMemoryError", "NoDeviceError", "BusyError", "RequestCancelledError", "SystemIoError", "InternalError",
    "ClosedError", "ForkedError",
]
