# SPDX-License-Identifier: Apache-2.0
"""Compares the ctypes structs with a C compiler's, and checks the package's types with mypy."""
from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from eyelet import _ffi

STRUCTS = {
    "ey_err": _ffi.Err, "ey_engine_options": _ffi.EngineOptions, "ey_engine_info": _ffi.EngineInfo,
    "ey_part": _ffi.Part, "ey_message": _ffi.Message, "ey_sampling": _ffi.Sampling, "ey_logit_bias": _ffi.LogitBias,
    "ey_request": _ffi.Request, "ey_pooling_input": _ffi.PoolingInput, "ey_pooled": _ffi.Pooled, "ey_logprob": _ffi.Logprob, "ey_token_logprobs": _ffi.TokenLogprobs,
    "ey_event": _ffi.Event, "ey_image_usage": _ffi.ImageUsage, "ey_answer": _ffi.Answer,
    "ey_prompt_info": _ffi.PromptInfo, "ey_plan_item": _ffi.PlanItem, "ey_plan": _ffi.Plan, "ey_box": _ffi.Box,
    "ey_box_list": _ffi.BoxList,
}


def test_structs_are_those_of_the_headers(tmp_path: Path) -> None:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    lines = ["#include <eyelet.h>", "#include <stdio.h>", "#include <stddef.h>", "int main(void) {"]
    expected = []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ctypes.sizeof(struct))
        for field in (entry[0] for entry in struct._fields_):
            lines.append(f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
            expected.append((getattr(struct, field).offset, getattr(struct, field).size))
    lines.append(f'printf("%d %d %d\\n", EY_EVENT_TEXT, EY_EVENT_DONE, EY_DETAIL_NATIVE);')
    source, program = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text("\n".join([*lines, "return 0; }"]))
    subprocess.run(["cc", f"-I{ROOT / 'include'}", str(source), "-o", str(program)], check=True)
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.splitlines()
    assert said == [" ".join(map(str, e)) if isinstance(e, tuple) else str(e) for e in [*expected, (2, 3, 3)]]


def test_types() -> None:
    if subprocess.run([sys.executable, "-m", "mypy", "--version"], capture_output=True).returncode:
        pytest.skip("no mypy")
    package = ROOT / "bindings" / "python" / "eyelet"
    cache = os.devnull
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, str(package)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
