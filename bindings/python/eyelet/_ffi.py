# SPDX-License-Identifier: Apache-2.0
"""The C interface of libeyelet (include/eyelet) in ctypes, which releases the GIL during every call.

tests/test_layout.py compares the layout of each struct with that of a C compiler."""
from __future__ import annotations

import os
from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_size_t, c_uint64, c_void_p, sizeof)
from pathlib import Path
from typing import Any, Optional

from . import errors

NATIVE = Path(__file__).with_name("_native")

PROGRESS = CFUNCTYPE(None, c_void_p, c_int, c_uint64, c_uint64)
NOTICE = CFUNCTYPE(None, c_void_p, c_char_p)


class Err(Structure):
    _fields_ = [("code", c_int), ("item_kind", c_int), ("item", c_int), ("detail", c_int), ("text", c_char * 768)]


class EngineOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("model", c_char_p), ("device", c_char_p), ("cpu_mask", c_char_p), ("threads", c_int),
        ("no_huge_pages", c_bool), ("max_model_len", c_int), ("kv_tokens", c_int), ("max_num_seqs", c_int),
        ("max_num_queued", c_int), ("max_num_batched_tokens", c_int), ("max_images", c_int), ("max_pixels", c_uint64),
        ("serving", c_bool), ("quantize", c_char_p), ("group_size", c_int), ("kv_cache_dtype", c_char_p),
        ("lm_head", c_char_p), ("lm_head_rows", c_char_p), ("vision_weights", c_char_p), ("gpu_layers", c_int),
        ("cpu_memory", c_uint64), ("prefill_math", c_char_p), ("enforce_eager", c_bool),
        ("gpu_memory_utilization", c_double), ("gpu_memory", c_uint64), ("vram", c_uint64), ("vram_used", c_uint64),
        ("sm_count", c_int), ("budget", c_void_p), ("progress", PROGRESS), ("progress_user", c_void_p),
        ("planned", c_void_p), ("planned_user", c_void_p), ("notice", NOTICE), ("notice_user", c_void_p),
        ("task", c_char_p),
    ]


class EngineInfo(Structure):
    _fields_ = [
        ("directory", c_char_p), ("architecture", c_char_p), ("device", c_char_p), ("device_detail", c_char_p),
        ("threads", c_int), ("max_model_len", c_int), ("kv_tokens", c_int), ("max_num_seqs", c_int),
        ("vocab_size", c_int), ("reads_images", c_bool), ("weight_bytes", c_uint64), ("kv_bytes", c_uint64),
        ("workspace_bytes", c_uint64), ("load_seconds", c_double), ("device_seconds", c_double),
        ("device_bytes", c_uint64), ("n_layers", c_int), ("gpu_layers", c_int), ("lm_head_rows", c_char_p),
        ("tokens_per_second", c_double), ("thinks", c_bool),
    ]


class Part(Structure):
    _fields_ = [("type", c_int), ("bytes", c_char_p), ("n_bytes", c_size_t), ("detail", c_int),
                ("max_pixels", c_uint64), ("min_pixels", c_uint64)]


class Message(Structure):
    _fields_ = [("role", c_char_p), ("parts", POINTER(Part)), ("n_parts", c_size_t), ("tool_calls", c_void_p),
                ("n_tool_calls", c_size_t), ("thought", c_char_p), ("n_thought", c_size_t)]


class Sampling(Structure):
    _fields_ = [("temperature", c_float), ("top_k", c_int), ("top_p", c_float), ("min_p", c_float),
                ("repetition_penalty", c_float), ("presence_penalty", c_float), ("frequency_penalty", c_float),
                ("seed", c_uint64)]


class LogitBias(Structure):
    _fields_ = [("id", c_int), ("bias", c_float)]


class LoopGuard(Structure):
    _fields_ = [("min_pattern", c_int), ("max_pattern", c_int), ("min_count", c_int), ("min_tokens", c_int)]


class PoolingInput(Structure):
    _fields_ = [("instruction", c_char_p), ("n_instruction", c_size_t), ("parts", POINTER(Part)),
                ("n_parts", c_size_t), ("query", POINTER(Part)), ("n_query", c_size_t)]


class Request(Structure):
    _fields_ = [
        ("size", c_size_t), ("messages", POINTER(Message)), ("n_messages", c_size_t), ("text", c_char_p),
        ("n_text", c_size_t), ("ids", POINTER(c_int)), ("n_ids", c_size_t), ("gone", c_void_p),
        ("gone_user", c_void_p), ("budget", c_void_p), ("budget_held", c_uint64), ("tools", POINTER(c_char_p)),
        ("n_tools", c_size_t),
        ("add_vision_id", c_bool), ("add_bos", c_bool), ("parse_special_tokens", c_bool), ("max_tokens", c_int),
        ("no_prefix_cache", c_bool), ("ignore_eos", c_bool), ("min_tokens", c_int), ("sampling", Sampling),
        ("stop", POINTER(c_char_p)), ("n_stop", c_size_t), ("stop_ids", POINTER(c_int)), ("n_stop_ids", c_size_t),
        ("logit_bias", POINTER(LogitBias)), ("n_logit_bias", c_size_t), ("grammar", c_void_p),
        ("top_logprobs", c_int), ("on_event", c_void_p), ("event_user", c_void_p), ("thinking", c_int),
        ("thinking_budget", c_int), ("loop_guard", LoopGuard),
        ("prompt_logprobs", c_bool), ("top_prompt_logprobs", c_int),
        ("pool", c_bool), ("input", POINTER(PoolingInput)), ("truncate", c_bool), ("max_prompt_tokens", c_int),
        ("dimensions", c_int), ("raw_vector", c_bool),
        ("thinking_end", c_char_p), ("continue_answer", c_bool), ("parts", POINTER(Part)), ("n_parts", c_size_t),
    ]


class Logprob(Structure):
    _fields_ = [("id", c_int), ("token", c_char_p), ("logprob", c_float), ("bytes", c_void_p), ("n_bytes", c_size_t)]


class TokenLogprobs(Structure):
    _fields_ = [("chosen", Logprob), ("top", POINTER(Logprob)), ("n_top", c_size_t)]


class Event(Structure):
    _fields_ = [("type", c_int), ("phase", c_int), ("done", c_int), ("total", c_int), ("text", c_void_p),
                ("n_text", c_size_t), ("n_tokens", c_int)]


EVENT_NONE, EVENT_PHASE, EVENT_TEXT, EVENT_DONE = range(4)


class ImageUsage(Structure):
    _fields_ = [("width", c_int), ("height", c_int), ("used_width", c_int), ("used_height", c_int), ("tokens", c_int),
                ("cached", c_bool)]


class Repetition(Structure):
    _fields_ = [("pattern_tokens", c_int), ("copies", c_int)]


class Answer(Structure):
    _fields_ = [
        ("text", c_void_p), ("n_text", c_size_t), ("approximate", c_bool), ("finish_reason", c_int),
        ("seed", c_uint64), ("tokens", POINTER(c_int)), ("n_tokens", c_int), ("prompt_tokens", c_int),
        ("completion_tokens", c_int), ("image_tokens", c_int), ("cached_tokens", c_int),
        ("images", POINTER(ImageUsage)), ("n_images", c_size_t), ("logprobs", POINTER(TokenLogprobs)),
        ("n_logprobs", c_size_t), ("stop_text", c_char_p), ("stop_id", c_int), ("queue_seconds", c_double),
        ("vision_seconds", c_double), ("prefill_seconds", c_double), ("decode_seconds", c_double), ("thought", c_void_p),
        ("n_thought", c_size_t), ("thought_tokens", c_int), ("repetition", Repetition),
        ("prompt_logprobs", POINTER(TokenLogprobs)), ("prompt_ranks", POINTER(c_int)),
        ("n_prompt_logprobs", c_size_t), ("owner", c_void_p),
    ]


class Pooled(Structure):
    _fields_ = [("vector", POINTER(c_float)), ("n_vector", c_size_t), ("score", c_double)]


class PromptInfo(Structure):
    _fields_ = [("ids", POINTER(c_int)), ("n_ids", c_size_t), ("images", POINTER(ImageUsage)), ("n_images", c_size_t),
                ("image_tokens", c_int), ("kv_bytes", c_uint64)]


class PlanItem(Structure):
    _fields_ = [("name", c_char_p), ("device", c_char_p), ("bytes", c_uint64), ("lifetime", c_char_p)]


class Suggestion(Structure):
    _fields_ = [("options", c_char * 96), ("total_bytes", c_uint64), ("fits", c_bool)]


class Plan(Structure):
    _fields_ = [
        ("directory", c_char * 4096), ("device", c_char_p), ("on_gpu", c_bool), ("items", PlanItem * 20),
        ("n_items", c_size_t), ("file_bytes", c_uint64), ("total_bytes", c_uint64), ("budget_bytes", c_uint64),
        ("budget_rule", c_char * 160), ("fits", c_bool), ("choices", (c_char * 160) * 8), ("n_choices", c_size_t),
        ("max_model_len", c_int), ("kv_tokens", c_int), ("max_num_seqs", c_int), ("n_layers", c_int),
        ("gpu_layers", c_int), ("tokens_per_second", c_double), ("max_pixels", c_uint64),
        ("suggestions", Suggestion * 16), ("n_suggestions", c_size_t), ("shared_bytes", c_uint64),
        ("resident", c_bool),
    ]


class Box(Structure):
    _fields_ = [("x1", c_double), ("y1", c_double), ("x2", c_double), ("y2", c_double), ("label", c_char_p)]


class BoxList(Structure):
    _fields_ = [("boxes", POINTER(Box)), ("n", c_size_t), ("result", c_int), ("truncated", c_bool),
                ("owner", c_void_p)]


# name: (type of the result, types of the arguments)
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ey_version": (c_char_p, ()),
    "ey_free": (None, (c_void_p,)),
    "ey_engine_open": (c_bool, (POINTER(c_void_p), POINTER(EngineOptions), POINTER(Err))),
    "ey_engine_close": (None, (POINTER(c_void_p),)),
    "ey_engine_describe": (EngineInfo, (c_void_p,)),
    "ey_model_sampling": (Sampling, (c_void_p,)),
    "ey_phase_text": (c_char_p, (c_int,)),
    "ey_finish_text": (c_char_p, (c_int,)),
    "ey_prompt_prepare": (c_bool, (c_void_p, POINTER(Request), POINTER(c_void_p), POINTER(Err))),
    "ey_prompt_describe": (PromptInfo, (c_void_p,)),
    "ey_prompt_free": (None, (POINTER(c_void_p),)),
    "ey_generation_start": (c_bool, (c_void_p, c_void_p, POINTER(Request), POINTER(c_void_p), POINTER(Err))),
    "ey_generation_next": (None, (c_void_p, c_int, POINTER(Event))),
    "ey_generation_cancel": (None, (c_void_p,)),
    "ey_generation_collect": (c_bool, (POINTER(c_void_p), POINTER(Answer), POINTER(Err))),
    "ey_answer_free": (None, (POINTER(Answer),)),
    "ey_answer_pooled": (Pooled, (POINTER(Answer),)),
    "ey_engine_task": (c_int, (c_void_p,)),
    "ey_token_text": (c_char_p, (c_void_p, c_int)),
    "ey_grammar_of_schema": (c_bool, (POINTER(c_void_p), c_char_p, c_size_t, POINTER(Err))),
    "ey_grammar_of_json_object": (c_bool, (POINTER(c_void_p), POINTER(Err))),
    "ey_grammar_of_regex": (c_bool, (POINTER(c_void_p), c_char_p, c_size_t, POINTER(Err))),
    "ey_grammar_of_choices": (c_bool, (POINTER(c_void_p), POINTER(c_char_p), c_size_t, POINTER(Err))),
    "ey_grammar_free": (None, (POINTER(c_void_p),)),
    "ey_plan_make": (c_bool, (POINTER(EngineOptions), POINTER(Plan), POINTER(Err))),
    "ey_caption_prompt": (c_char_p, ()),
    "ey_scene_prompt": (c_char_p, ()),
    "ey_read_prompt": (c_char_p, ()),
    "ey_detect_prompt": (c_bool, (POINTER(c_void_p), c_char_p, POINTER(Err))),
    "ey_detect_pattern": (c_char_p, ()),
    "ey_extract_prompt": (c_bool, (POINTER(c_void_p), c_char_p, c_size_t, POINTER(Err))),
    "ey_boxes_read": (c_bool, (POINTER(BoxList), c_char_p, c_size_t, POINTER(Err))),
    "ey_boxes_check": (c_bool, (POINTER(BoxList), c_char_p, c_size_t, POINTER(Err))),
    "ey_boxes_free": (None, (POINTER(BoxList),)),
    "ey_box_to_pixels": (None, (POINTER(Box), c_int, c_int, c_int * 4)),
}


def _open() -> CDLL:
    path = os.environ.get("EYELET_LIBRARY") or str(NATIVE / "libeyelet.so.0")  # set to the library of a build tree
    library = CDLL(path)
    for name, (returns, takes) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = returns
        function.argtypes = takes
    return library


lib = _open()


def error_of(err: Err) -> errors.EyeletError:
    kind: type[errors.EyeletError] = errors.InternalError
    if 1 <= err.code <= len(errors.BY_CODE):
        kind = errors.BY_CODE[err.code - 1]
    return kind(err.text.decode("utf-8", "replace"), err.item if err.item_kind == 1 else None)


def call(name: str, *arguments: Any) -> None:
    """Calls a function whose last argument is an ey_err. If it fails, raises the error as an exception."""
    err = Err()
    if not getattr(lib, name)(*arguments, byref(err)):
        raise error_of(err)


def text_of(value: Optional[bytes]) -> str:
    return value.decode("utf-8", "replace") if value else ""


def take_text(name: str, *arguments: Any) -> str:
    """Calls a function that stores a newly allocated text in its first argument. Returns a copy and frees the text."""
    made = c_void_p()
    call(name, byref(made), *arguments)
    try:
        return text_of(c_char_p(made.value).value)
    finally:
        lib.ey_free(made)


__all__ = ["lib", "call", "byref", "sizeof", "c_void_p", "c_char_p", "c_int"]
