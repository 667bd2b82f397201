"""Notebooks of docs/notebooks/: their code runs, and prints what they show."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "docs/notebooks").glob("*.ipynb"))
OTHERS = [path for path in NOTEBOOKS if path.stem != "pytorch"]  # tests/checks/check_notebook.py runs that one
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("notebook", OTHERS, ids=lambda path: path.stem)
@pytest.mark.tensorflow
def test_cells(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), notebook.name, "exec"), namespace)
        shown = "".join("".join(out["text"]) for out in cell["outputs"] if out["output_type"] == "stream")
        if "accuracy" not in "".join(cell["source"]):  # it differs a little between machines
            assert printed.getvalue() == shown
