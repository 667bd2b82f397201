"""TFRecord files of anyone in object stores: inspected, verified, read by number and shown."""

import json
from pathlib import Path

import pytest

import shardmill
from tests.addons.view.test_view import Page
from tests.end_to_end.stores.test_reading import environment_of
from tests.support.buckets import Bucket
from tests.support.command import Run, local_files

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("layout", ["od", "tfx", "zlib", "spark", "bad.tfrecord"])
def test_a_store_is_read_as_a_disk_is(
    layout: str, layouts: Path, bucket: Bucket, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = layouts / layout
    bucket.put_all(layout, local_files(here)) if here.is_dir() else bucket.put(layout, here.read_bytes())
    there = f"{bucket.url}/{layout}"

    for command in (("inspect", "--json"), ("verify",)):
        mine, other = (run(command[0], path, *command[1:], *bucket.flags) for path in (here, there))
        assert (other.status, other.out.replace(there, str(here))) == (mine.status, mine.out), other.err
    if layout in (
        "bad.tfrecord",
        "tfx",
        "zlib",
    ):  # the reader refuses damage, and compressed files have no random access
        return
    assert list(map(repr, shardmill.examples(there, "all"))) == list(map(repr, shardmill.examples(here, "all")))
    assert repr(shardmill.source(there, "all")[-1]) == repr(shardmill.source(here, "all")[-1])
    for name, value in environment_of(bucket).items():
        monkeypatch.setenv(name, value)
    shown = [shardmill.view([str(path)]) for path in (here, there)]
    try:
        cards = [json.dumps(Page(view).ask("examples")).replace(there, str(here)) for view in shown]
        assert cards[0] == cards[1]
    finally:
        for view in shown:
            view.stop()
