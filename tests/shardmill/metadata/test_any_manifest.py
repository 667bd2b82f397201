"""Whatever stands in a manifest: readers give the examples that are there, or a named error, and nothing from
elsewhere."""

import json
from pathlib import Path

import pytest

import shardmill
from shardmill.errors import CorruptDataError, UserError
from shardmill.pipelines.commands.inspect import inspect_dataset
from shardmill.reading.dataset import open_dataset
from tests.shardmill.metadata.test_manifest import content_at, places
from tests.support.reading import make_rows

ODD = (None, "../x\x1b[2J", 10**30)
EXAMPLES = 4


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set whose `_SUCCESS` says nothing of the manifest, as in those made before it did."""
    directory = make_rows(tmp_path_factory.mktemp("rows"), rows=EXAMPLES)
    (directory / "_SUCCESS").write_bytes(b"")
    return directory


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_each_value_becomes_another(rows: Path, value: object) -> None:
    path = rows / "manifest.json"
    written = path.read_text()
    refused = read = 0
    for place in places(json.loads(written)):
        content = json.loads(written)
        content_at(content, *place[:-1])[place[-1]] = value
        path.write_text(json.dumps(content))
        try:
            assert len(list(shardmill.examples(rows))) == EXAMPLES, place
            assert str(shardmill.info(rows)).replace("\n", "").isprintable()
            dataset = open_dataset(rows)
            assert inspect_dataset(dataset, dataset.manifest.splits, 1).text
            read += 1
        except (CorruptDataError, UserError):  # and no other exception
            refused += 1
        finally:
            path.write_text(written)
    assert refused > 80
    assert read > 0
