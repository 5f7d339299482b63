# SPDX-License-Identifier: Apache-2.0
"""Memory plans of models, computed without loading them."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Union

from . import _ffi
from ._engine import _KINDS, library_options, model_path, options_of
from ._ffi import byref, call, text_of


@dataclass(frozen=True)
class PlanItem:
    name: str
    device: str  #: "file", "host" or "cuda:0"
    bytes: int
    lifetime: str  #: "always", "vision", "prefill" or "loading"


@dataclass(frozen=True)
class Suggestion:
    """Options that reduce the memory, with the new total."""

    options: str
    total_bytes: int
    fits: bool


@dataclass(frozen=True)
class Plan:
    fits: bool
    total_bytes: int
    budget_bytes: int
    budget_rule: str  #: how the budget was determined
    items: list[PlanItem]
    choices: list[str]  #: options that the plan changed so that the model fits
    suggestions: list[Suggestion]
    directory: str
    device: str
    max_model_len: int
    kv_tokens: int
    max_num_seqs: int
    file_bytes: int


def plan(model: Union[str, "os.PathLike[str]"], *, vram: Union[int, str, None] = None,
         vram_used: Union[int, str, None] = None, **options: Any) -> Plan:
    """Returns the memory plan of a model on this machine, or on a GPU with `vram` of memory. Reads only the
    checkpoint's headers. The options are those of LLM."""
    named = library_options(options)
    for name in named:
        if name not in _KINDS or name in ("size", "model", "budget", "progress", "progress_user", "planned",
                                          "planned_user", "notice", "notice_user"):
            raise TypeError(f"plan() has no option {name!r}")
    given = _ffi.Plan()
    call("ey_plan_make", byref(options_of(model_path(model), {**named, "vram": vram, "vram_used": vram_used})),
         byref(given))
    return Plan(
        fits=given.fits, total_bytes=given.total_bytes, budget_bytes=given.budget_bytes,
        budget_rule=text_of(given.budget_rule),
        items=[PlanItem(text_of(item.name), text_of(item.device), item.bytes, text_of(item.lifetime))
               for item in given.items[:given.n_items]],
        choices=[text_of(choice.value) for choice in given.choices[:given.n_choices]],
        suggestions=[Suggestion(text_of(s.options), s.total_bytes, s.fits)
                     for s in given.suggestions[:given.n_suggestions]],
        directory=os.fsdecode(given.directory), device=text_of(given.device), max_model_len=given.max_model_len,
        kv_tokens=given.kv_tokens, max_num_seqs=given.max_num_seqs, file_bytes=given.file_bytes)
