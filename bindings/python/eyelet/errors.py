# SPDX-License-Identifier: Apache-2.0
"""The exceptions. Their text is the engine's message, which says what is wrong and what to do."""
from __future__ import annotations

from typing import Optional


class EyeletError(Exception):
    """The base class. `item` is the index of the image that caused the error, or None if no single image did."""

    def __init__(self, text: str, item: Optional[int] = None) -> None:
        super().__init__(text)
        self.item = item


class BadRequestError(EyeletError, ValueError):
    """The request or an option is invalid."""


class BadImageError(EyeletError, ValueError):
    """An image cannot be decoded."""


class TooLongError(EyeletError, ValueError):
    """Prompt and answer do not fit the context."""


class NotFoundError(EyeletError, LookupError):
    """There is no such model or file."""


class BadModelError(EyeletError, RuntimeError):
    """A checkpoint is damaged or unsupported, or a model's answer cannot be parsed."""


class NoMemoryError(EyeletError, MemoryError):
    """The model does not fit, or an allocation failed."""


class NoDeviceError(EyeletError, RuntimeError):
    """There is no usable GPU."""


class BusyError(EyeletError, RuntimeError):
    """The queue of requests is full."""


class RequestCancelledError(EyeletError, RuntimeError):
    """The request was cancelled."""


class SystemIoError(EyeletError, RuntimeError):
    """The operating system reported an error while reading or writing."""


class InternalError(EyeletError, RuntimeError):
    """A bug in eyelet."""


class ClosedError(EyeletError, RuntimeError):
    """The engine was closed, before or while the request ran."""


class ForkedError(EyeletError, RuntimeError):
    """The process was forked after the engine was loaded: its threads are in the parent only."""


# In the order of EY_CODES (include/eyelet/error.h), without EY_OK.
BY_CODE: tuple[type[EyeletError], ...] = (
    BadRequestError, BadImageError, TooLongError, NotFoundError, BadModelError, NoMemoryError, NoDeviceError,
    BusyError, RequestCancelledError, SystemIoError, InternalError,
)
