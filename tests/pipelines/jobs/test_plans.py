"""A dry run in words, of files and of records inside files, and notices about a schema."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardmill.data.features import Feature
from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.jobs.file_kinds import images_route
from shardmill.pipelines.jobs.record_features import schema_notices
from shardmill.pipelines.jobs.record_graphs import Records
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.columns.types import Inferred
from shardmill.transforms.findings import Findings, IgnoredNames
from shardmill.transforms.inputs.folders import FolderRoles
from shardmill.transforms.inputs.summary import InputSummary, summarize_files
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.records.staging import StagedFindings
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.workers.rejects import make_parts

FEATURES = (Feature("id", "int64"), Feature("city", "bytes", "text", required=False))


@pytest.mark.parametrize(
    ("kind", "features", "shown"),
    [
        ("csv", FEATURES, ["Features: 2", "  id: int64", "  city: bytes, may be missing"]),
        ("csv", (), ["Features: none, as no row can be read; the job says why of each"]),
        ("reshard", (), ["Features: those of the records"]),
    ],
)
def test_a_plan_of_records(kind: str, features: tuple[Feature, ...], shown: list[str]) -> None:
    config = KINDS[kind].make_config({"name": "n", "input": "x", "output": "out"})
    assert isinstance(config, RecordsConfig)
    layout = TableLayout({}, features, (), {}, ("train", "test"), (Fraction(3, 4), Fraction(1, 4)), ("odd",))
    plan = Records(config).make_plan(summarize_files([("a", 10)]), layout, [], [Inferred({}, 7)], [1], 1, (), None)

    assert plan.describe(config) == [
        "Dry run: nothing is written. Would write out/n/1.0.0",
        "Input: --input x: 1 file, 10 B, 7 rows",
        "Split train: 0.75 of the rows",
        "Split test: 0.25 of the rows",
        *shown,
        "NOTE: odd",
    ]


def test_notices_of_rows_beside_a_schema() -> None:
    stats = TableStats()
    stats.add(pa.record_batch({"id": pa.array([1, 2])}), np.zeros(2, np.uint64))
    staged = StagedFindings(record_count=2, stats={"train": stats})
    layout = TableLayout({}, FEATURES, (), {}, ("train",), None)
    given, not_given = (TableOptions("--input x", schema=schema) for schema in (FEATURES, None))

    assert schema_notices(layout, staged, given) == ["--schema has feature 'city', of which no record has a value"]
    assert schema_notices(layout, staged, not_given) == schema_notices(layout, StagedFindings(), given) == []
    findings = Findings.of(IgnoredNames(frozenset({"town"})))
    assert findings.notices(given, 2) == ["left out what --schema does not have: column 'town'"]
    assert findings.notices(not_given, 2) == []


CONFIG = ImagesConfig(input="photos", output="out", name="flowers")
NOTICES = ("passed over 1 .txt file",)
SUMMARY = InputSummary(records=1234, size_bytes=5_000_000)
LAYOUT = Layout(("train", "test", "rest"), None, FolderRoles(0, 1), ClassNames(("ant", "bee")), notices=NOTICES)
COUNTS = [
    (("train", 1), 500, 2_000_000, {0: 500}),
    (("train", 0), 501, 2_100_000, {0: 500, 1: 1}),
    (("test", 0), 233, 900_000, {0: 233}),
]


def lines_of(summary: InputSummary = SUMMARY, rejects: Any = (), **changes: Any) -> list[str]:
    return images_route(CONFIG).make_plan(summary, replace(LAYOUT, **changes), rejects, COUNTS).describe(CONFIG)


def test_a_plan_of_files() -> None:
    assert lines_of() == [
        "Dry run: nothing is written. Would write out/flowers/1.0.0",
        "Input: --input photos: 1,234 files, 5.0 MB",
        "Split train: 1,001 examples, about 4.1 MB, in 2 shards of 500 to 501 examples, 2.0 MB to 2.1 MB",
        "Split test: 233 examples, about 900.0 kB, in 1 shard of 233 examples, 900.0 kB",
        "Split rest: empty",
        "Classes: 2",
        "  0 ant: 1,000 train, 233 test, 0 rest",
        "  1 bee: 1 train, 0 test, 0 rest",
        "NOTE: passed over 1 .txt file",
    ]


def test_rejects_and_unlabelled_images() -> None:
    rejects = make_parts([Reject("a b.jpg", None, "index", "no split")] * 2, None)
    lines = lines_of(rejects=rejects, class_names=None)

    assert "Rejected so far: 2, such as 'a b.jpg': no split" in lines
    assert "Classes: none; the images are unlabelled" in lines


def test_many_classes_are_counted() -> None:
    lines = lines_of(class_names=ClassNames(tuple(f"class{index:04}" for index in range(1000))))

    assert "Classes: 1,000" in lines
    assert "  … and 987 more …" in lines
    assert lines[-2].startswith("  999 class0999: ")
    assert len(lines) == 5 + 1 + 10 + 1 + 3 + 1


def test_objects_in_images_are_counted() -> None:
    summary = replace(SUMMARY, objects=Counter({"ant": 7, "bee": 1200}))

    for found, objects in ((summary, "Objects: 1,207, most often bee"), (SUMMARY, "Objects: 0")):
        lines = lines_of(found, object_classes=ClassNames(("ant", "bee")))
        assert lines[-3:-1] == ["Classes of objects: 2: ant, bee", objects]
