# SPDX-License-Identifier: Apache-2.0
"""Sampling parameters, with vLLM's names and defaults."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union


@dataclass(frozen=True)
class StructuredOutputsParams:
    """Constrains the answer. Set exactly one field."""

    json: Union[str, Mapping[str, Any], None] = None  #: a JSON schema
    regex: Optional[str] = None
    choice: Optional[Sequence[str]] = None
    json_object: bool = False


GuidedDecodingParams = StructuredOutputsParams  # vLLM's older name


@dataclass(frozen=True)
class SamplingParams:
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: Optional[int] = None  #: None: a random seed
    stop: Union[str, Sequence[str], None] = None
    stop_token_ids: Optional[Sequence[int]] = None
    max_tokens: Optional[int] = 16  #: None: limited only by the context
    min_tokens: int = 0
    logprobs: Optional[int] = None
    ignore_eos: bool = False
    logit_bias: Optional[Mapping[int, float]] = None
    structured_outputs: Optional[StructuredOutputsParams] = None
    guided_decoding: Optional[StructuredOutputsParams] = None
