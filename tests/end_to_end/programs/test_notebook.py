"""A real notebook: progress, results and errors, as a kernel sends them."""

import re
from typing import Any, NamedTuple

import pytest

from tests.support.command import SOURCE, image_tree, write_files

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

FAILING = """
open("in/cat/empty.jpg", "w").close()
try:
    shardmill.convert("images", **pets, version="1.0.3", max_reject_fraction=0, progress=True)
except shardmill.JobError as error:
    print(error)
"""
CELLS = {
    "import": "import shardmill\npets = {'input': 'in', 'output': 'out', 'name': 'pets'}",
    "progress": "shardmill.convert('images', **pets, progress=True)",
    "convert": "shardmill.convert('images', **pets, version='1.0.1')",
    "versions": "shardmill.versions('out/pets')",
    "inspect": "shardmill.inspect('out/pets', contact_sheet=True)",
    "verify": "shardmill.verify('out/pets', progress=True)",
    "info": "shardmill.info('out/pets')",
    "plan": "shardmill.plan('images', **pets, version='1.0.2')",
    "failing": FAILING,
}


class Notebook(NamedTuple):
    """The outputs of a notebook by cell, and the texts that were displayed while it ran."""

    outputs: dict[str, list[Any]]
    updates: list[str]


class _Client(nbclient.NotebookClient):  # type: ignore[name-defined]
    """A client that keeps what is displayed only for a while."""

    updates: list[str]

    def process_message(self, message: dict[str, Any], *where: Any) -> Any:
        if message["msg_type"] in ("display_data", "update_display_data"):
            self.updates.append(message["content"]["data"]["text/plain"])
        return super().process_message(message, *where)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    folder = write_files(tmp_path_factory.mktemp("notebook") / "in", image_tree(("cat", "dog"), 6)).parent
    made = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS.values())))
    client = _Client(made, resources={"metadata": {"path": str(folder)}})
    client.updates = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SOURCE))
        client.execute()
    return Notebook({name: cell.outputs for name, cell in zip(CELLS, made.cells, strict=True)}, client.updates)


def test_a_job_leaves_one_bar_and_its_result(notebook: Notebook) -> None:
    bar, result = notebook.outputs["progress"]
    assert (bar.output_type, result.output_type) == ("display_data", "execute_result")
    assert bar.data["text/html"].startswith('<progress max="1" value="1.000"')
    assert bar.data["text/plain"].startswith("pets: done after ")
    assert "<td>train</td><td>12</td>" in result.data["text/html"]
    assert notebook.outputs["verify"][0].data["text/plain"].startswith("pets, verify: done after ")


def test_the_bar_tells_what_the_job_does(notebook: Notebook) -> None:
    assert notebook.updates[0] == "pets: listing and planning"
    assert any(re.match(r"pets: \d+ s, \w+", text) for text in notebook.updates)


def test_a_job_that_fails_leaves_its_bar_and_its_error(notebook: Notebook) -> None:
    bar, error = notebook.outputs["failing"]
    assert bar.data["text/plain"].startswith("pets: stopped after ")
    assert 'value="0.000"' in bar.data["text/html"]
    assert "rejected" in error.text


@pytest.mark.parametrize("cell", ["convert", "versions", "inspect", "info", "plan"])
def test_without_progress_there_is_only_the_result(notebook: Notebook, cell: str) -> None:
    (result,) = notebook.outputs[cell]
    assert result.output_type == "execute_result"
    assert result.data.keys() - {"text/html"} == {"text/plain"}
    assert notebook.outputs["import"] == []


def test_results_are_tables_and_pictures(notebook: Notebook) -> None:
    def html(cell: str) -> str:
        return str(notebook.outputs[cell][-1].data["text/html"])

    def text(cell: str) -> str:
        return str(notebook.outputs[cell][-1].data["text/plain"])

    assert text("versions").startswith("version ")
    assert "data:image/png;base64," in html("inspect")
    assert "12 examples in 1 shard, no fault" in text("verify")
    assert "Would write out/pets/1.0.2" in text("plan")
