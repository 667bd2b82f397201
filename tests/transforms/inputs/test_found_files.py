"""The input found; A folder of masks."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from shardmill.metadata.manifest import Reject
from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.inputs import found_files
from shardmill.transforms.inputs.listing import ListingItem, Skipped, list_input, list_singly
from shardmill.transforms.inputs.manifest_files import ManifestFile
from shardmill.transforms.inputs.manifest_table import ManifestNames
from shardmill.transforms.inputs.sources import ListFiles, ReadManifest, index_listing
from shardmill.transforms.inputs.summary import InputSummary, summarize_batch
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import FileStat
from tests.support.builds import rejects_in
from tests.support.command import write_files

REJECT = Reject("bad.jpg", None, "index", "why")


def test_a_listing_in_any_order_has_one_summary() -> None:
    items: list[ListingItem] = [FileStat("cat/a.jpg", 5), REJECT, FileStat("dog/b.jpg", 7), Skipped("x", ".txt file")]

    summaries = [list(index_listing(order))[-1].value for order in (items, items[::-1])]

    assert summaries[0] == summaries[1]
    assert (summaries[0].records, summaries[0].rejected, summaries[0].size_bytes) == (2, 1, 12)
    assert summaries[0].folders == Counter(cat=1, dog=1)
    assert summaries[0].skipped == {".txt file": (1, "x")}
    assert [output.value for output in index_listing([])] == [InputSummary()]


def rows(*names: str, **columns: Any) -> Any:
    empty: dict[str, list[Any]] = {field.name: [None] * len(names) for field in found_files.FOUND}
    known = {"name": list(names), "line": [index + 2 for index in range(len(names))]}
    return convert_batch(list((empty | known | columns).values()), found_files.FOUND)


def test_measure(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.jpg": b"12345", "c.jpg": b"123"})
    batch = rows("a.jpg", "b.jpg", "c", uri=[None, None, str(tmp_path / "c.jpg")])

    measured, rejects = found_files.measure_rows(batch, str(tmp_path))

    assert (measured["name"].to_pylist(), measured["size"].to_pylist()) == (["a.jpg", "c"], [5, 3])
    assert measured.schema == found_files.FOUND.append(found_files.REVISION)
    assert rejects == [Reject("b.jpg", 3, "index", "no such file")]


def test_types_count_the_rows_with_a_value() -> None:
    box = ColumnType("int64", 2, 9)
    columns = {"n": [1, None], "box": [[1, 2], [3, 4]], "none": [None, None], "\0key:n": [b"1", None]}
    batch = found_files.with_columns(rows("a", "b"), {name: pa.array(values) for name, values in columns.items()})

    assert found_files.present_types(batch, {"n": ColumnType("int64", None, 9), "box": box}) == {
        "n": ColumnType("int64", None, 1),
        "box": ColumnType("int64", 2, 2),
    }


def check(make: Callable[[], Any], read: Callable[[Any], Any], rejects: list[Any], files: Any, summary: Any) -> None:
    """Run a transform; compare its rejects, its files by `read`, and its summary."""
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        indexed = pipeline | make()
        found = indexed.files | "Files" >> beam.FlatMap(read)
        refused = indexed.rejects | "Rejects" >> beam.FlatMap(
            lambda part: [(reject.source, reject.line) for reject in rejects_in([part])]
        )
        counts = indexed.summary | "Summary" >> beam.Map(
            lambda s: (s.records, s.rejected, s.size_bytes, dict(s.labels), {k: v.dtype for k, v in s.columns.items()})
        )
        assert_that(found, equal_to(files), label="CheckFiles")
        assert_that(refused, equal_to(rejects), label="CheckRejects")
        assert_that(counts, equal_to([summary]), label="CheckSummary")


def test_list_files(tmp_path: Path) -> None:
    write_files(tmp_path, dict.fromkeys(("cat/a.jpg", "dog/b.jpg", "dog/notes.txt"), b"123"))
    (tmp_path / "dog" / "gone.jpg").symlink_to("nowhere")

    names, rejects = ["cat/a.jpg", "dog/b.jpg"], [("dog/gone.jpg", None)]
    check(lambda: ListFiles(str(tmp_path)), lambda of: of["name"].to_pylist(), rejects, names, (2, 1, 6, {}, {}))


def test_read_manifest(tmp_path: Path) -> None:
    lines = ["file_name,label,price", "a.jpg,cat,1", "b.jpg,dog,2.5", "gone.jpg,cat,3", "a.jpg,cat,1", "../x.jpg,cat,4"]
    write_files(tmp_path, {"a.jpg": b"123", "b.jpg": b"123", "meta.csv": "\n".join(lines).encode()})

    names = ManifestNames(flags=TableOptions("--manifest"))
    check(
        lambda: ReadManifest([ManifestFile(str(tmp_path / "meta.csv"))], str(tmp_path), False, names=names),
        lambda batch: zip(*(batch[name].to_pylist() for name in ("name", "size", "label", "line"))),
        [("gone.jpg", 4), ("a.jpg", 5), ("../x.jpg", 6)],
        [("a.jpg", 3, "cat", 2), ("b.jpg", 3, "dog", 3)],
        (2, 3, 6, {"cat": 1, "dog": 1}, {"price": "float32"}),
    )


@pytest.mark.parametrize("allow_outside", [False, True])
def test_files_and_links_are_measured_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow_outside: bool
) -> None:
    files = {"outside.jpg": b"1234567", "in/a.jpg": b"12345", "in/b/c.jpg": b"123", "elsewhere/d.jpg": b"1"}
    write_files(tmp_path, files)
    folder = tmp_path / "in"
    (folder / "link.jpg").symlink_to("a.jpg")
    (folder / "out.jpg").symlink_to("../outside.jpg")
    (folder / "linked").symlink_to("../elsewhere")
    (folder / "broken.jpg").symlink_to("nothing")
    os.mkfifo(folder / "fifo.jpg")
    for path in (folder / "a.jpg", folder / "b" / "c.jpg"):
        os.utime(path, ns=(1, 1_700_000_000_123_456_789))
    names = [
        *("a.jpg", "b/c.jpg", "b/../a.jpg", "link.jpg", "out.jpg", "linked/d.jpg", "broken.jpg", "fifo.jpg", "b", "no"),
    ]
    batch = rows(*names)

    found = found_files.measure_rows(batch, str(folder), allow_outside, identities=True)
    monkeypatch.setattr("shardmill.transforms.inputs.found_files.stat_plain_file", lambda path: None)
    expected = found_files.measure_rows(batch, str(folder), allow_outside, identities=True)

    assert found == expected
    assert found[0].num_rows == (6 if allow_outside else 4)


def test_the_fingerprint_is_that_of_the_files() -> None:
    items: list[ListingItem] = [FileStat(f"{index}.jpg", index) for index in range(25_000)]
    outputs = list(index_listing(items))
    batches, summary = outputs[:-1], outputs[-1].value

    assert [len(batch) for batch in batches] == [10_000, 10_000, 5_000]
    assert summary.fingerprint == sum(summarize_batch(batch).fingerprint for batch in batches) % (1 << 128)
    assert list(index_listing(items[::-1]))[-1].value.fingerprint == summary.fingerprint


@pytest.mark.parametrize("error", [OSError("503"), TimeoutError("timed out")])
def test_a_store_that_fails_is_asked_again_and_a_disk_is_not(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def fails(path: str) -> FileStat:
        raise error

    monkeypatch.setattr("shardmill.transforms.inputs.found_files.storage.stat_file", fails)
    batch = rows("a.jpg")

    assert found_files.measure_rows(batch, "folder")[1][0].reason.startswith("cannot be read")
    with pytest.raises(type(error)):
        found_files.measure_rows(batch, "gs://bucket/folder")


def test_files_that_are_read_at_once_have_the_revisions_of_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmill.transforms.inputs.listing._FILES_AT_ONCE", 20)
    paths = [str(tmp_path / f"{number:02}.jpg") for number in range(50)]
    for number, path in enumerate(paths):
        Path(path).write_bytes(b"x" * number)
        os.utime(path, ns=(0, (number - 24) * 38 * 10**16 + number))  # the last one exceeds 64 bits
    data, statuses = storage.read_small(paths)
    listed = [item for item in list_singly(list_input(str(tmp_path))) if isinstance(item, FileStat)]
    stats = [storage.stat_file(path) for path in paths]
    stated = list(map(found_files.hash_revision, stats))

    assert None not in data[:-1]
    assert found_files.hash_statuses(statuses[:-1]).tolist() == stated[:-1]
    assert {replace(item, path=storage.join(str(tmp_path), item.path)) for item in listed} == set(stats)
    assert len(set(stated)) > 45


@pytest.mark.parametrize("changed", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (4096, 10**9, 7), (0, 4_000_000, 0)])
def test_a_revision_that_differs_has_another_hash(changed: tuple[int, int, int]) -> None:
    random = np.random.default_rng(0)
    before = np.stack([random.integers(0, top, 20_000) for top in (10**6, 2 * 10**18, 10**8)], axis=1)
    same = found_files.hash_statuses(before) == found_files.hash_statuses(before + np.array(changed))

    assert same.sum() <= 3
