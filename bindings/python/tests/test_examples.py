# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/python, the notebook, and the examples of the guide."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DEMO, EXAMPLES, ROOT

PNG = EXAMPLES / "shapes-4.png"


def run(program: str, *arguments: object, **options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, EXAMPLES / "python" / program, "--model", DEMO, *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, **options)


def test_caption_image() -> None:
    done = run("caption_image.py", PNG, ROOT / "README.md", EXAMPLES / "none.png")
    assert done.stdout.startswith(f"{PNG}: An orange heart") and done.returncode == 1
    assert len(done.stderr.splitlines()) == 2 and "README.md" in done.stderr and "none.png" in done.stderr


def test_vqa() -> None:
    assert run("vqa.py", PNG, "How many shapes are there?").stdout == "Three.\n"
    asked = run("vqa.py", PNG, input="How many shapes are there?\nHow many shapes are there?\n")
    assert asked.stdout == "Three.\nThree.\n"


def test_analyze_scene() -> None:
    said = json.loads(run("analyze_scene.py", PNG, "square").stdout)
    assert set(said) == {"description", "text", "boxes", "tokens"} and said["description"]
    assert [set(box) for box in said["boxes"]] == [{"label", "x1", "y1", "x2", "y2"}] * 2


def in_guide() -> list[str]:
    text = (ROOT / "docs" / "guides" / "python.md").read_text()
    return re.findall(r"^_Run by [^\n]*\n\n```python\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.parametrize("number", range(2))
def test_what_the_guide_shows(number: int) -> None:
    code = in_guide()[number].replace('"demo"', repr(str(DEMO)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.long
def test_the_notebook() -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    path = EXAMPLES / "python" / "tour.ipynb"
    notebook = nbformat.read(path, as_version=4)
    os.environ["EYELET_TOUR_MODEL"] = str(DEMO)
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3",
                            resources={"metadata": {"path": str(path.parent)}}).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


def test_the_notebook_is_stored_as_it_ran() -> None:
    cells = json.loads((EXAMPLES / "python" / "tour.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])
    assert not any(str(Path.home()) in line for cell in code for o in cell["outputs"] for line in o.get("text", []))
