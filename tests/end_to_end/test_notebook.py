"""A real notebook: progress, results and errors, as a kernel sends them."""

from typing import Any

import pytest

from tests.support.command import SOURCE, image_tree, write_files

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

CELLS = [
    "import shardmill\nshown = {'input': 'in', 'output': 'out', 'name': 'pets'}",
    "shardmill.convert('images', **shown, progress=True)",
    "shardmill.convert('images', **shown, version='1.0.1')",
    "shardmill.versions('out/pets')",
    "shardmill.inspect('out/pets', contact_sheet=True)",
    "shardmill.verify('out/pets', progress=True)",
    "shardmill.info('out/pets')",
    "shardmill.plan('images', **shown, version='1.0.2')",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What each cell displays."""
    folder = write_files(tmp_path_factory.mktemp("notebook") / "in", image_tree(("cat", "dog"), 6)).parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SOURCE))
        notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)))
        nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells]


def test_a_job_leaves_one_bar_and_its_result(outputs: list[list[Any]]) -> None:
    bar, result = outputs[1]
    assert (bar.output_type, result.output_type) == ("display_data", "execute_result")
    assert bar.data["text/html"].startswith('<progress max="1" value="1.000"')
    assert bar.data["text/plain"].startswith("pets: done after ")
    assert "<td>train</td><td>12</td>" in result.data["text/html"]


def test_without_progress_there_is_nothing_but_the_result(outputs: list[list[Any]]) -> None:
    for displayed in (
        outputs[0],
        outputs[2][1:],
        *(found[1:] for found in outputs[3:5]),
        *(found[1:] for found in outputs[6:]),
    ):
        assert displayed == []
    assert all(found[-1].output_type == "execute_result" for found in outputs[1:])
    assert all({"text/html", "text/plain"} <= found[-1].data.keys() for found in outputs[1:])


def test_results_are_tables_and_pictures(outputs: list[list[Any]]) -> None:
    assert "<td>1.0.1</td>" in outputs[3][0].data["text/html"]
    assert outputs[3][0].data["text/plain"].startswith("version ")
    assert "data:image/png;base64," in outputs[4][0].data["text/html"]
    assert "12 examples in 1 shard, no fault" in outputs[5][-1].data["text/html"]
    assert outputs[5][0].data["text/plain"].startswith("pets, verify: done after ")
    assert "Would write out/pets/1.0.2" in outputs[7][0].data["text/html"]
