"""The notebook about PyTorch: the environment of the tests makes its data set, and PyTorch's reads it.

`make check NAME=torch` runs it.
"""

import contextlib
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/notebooks/pytorch.ipynb"


def test_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    python = Path(os.environ["SHARDMILL"]).with_name("python")
    before = next(number for number, cell in enumerate(cells) if "import torch\n" in cell["source"])
    source = "\n".join("".join(cell["source"]) for cell in cells[:before])
    made = subprocess.run([python, "-c", source], capture_output=True, text=True, check=True).stdout
    namespace: dict[str, Any] = {}
    exec("import shardmill\nfrom pathlib import Path\nimport numpy as np", namespace)

    assert made == _shown(cells[before - 1])
    for cell in cells[before:]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), namespace)
        if "accuracy" not in "".join(cell["source"]):  # it differs a little between machines
            assert printed.getvalue() == _shown(cell)


def _shown(cell: dict[str, Any]) -> str:
    return "".join("".join(out["text"]) for out in cell["outputs"] if out["output_type"] == "stream")
