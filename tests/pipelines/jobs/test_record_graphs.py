"""A dry run of records inside files in words, and notices about a schema."""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardmill.data.features import Feature
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.jobs.graph_steps import RecordsDryRun, schema_notices
from shardmill.pipelines.jobs.record_graphs import describe_records_plan
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.columns.types import Inferred
from shardmill.transforms.inputs.summary import summarize_files
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.records.staging import StagedFindings
from shardmill.transforms.statistics.tables import TableStats

FEATURES = (Feature("id", "int64"), Feature("city", "bytes", "text", required=False))


@pytest.mark.parametrize(
    ("kind", "features", "shown"),
    [
        ("csv", FEATURES, ["Features: 2", "  id: int64", "  city: bytes, may be missing"]),
        ("csv", (), ["Features: none, as no row can be read; the job says why of each"]),
        ("reshard", (), ["Features: those of the records"]),
    ],
)
def test_what_would_be_done(kind: str, features: tuple[Feature, ...], shown: list[str]) -> None:
    config = KINDS[kind].make_config({"name": "n", "input": "x", "output": "out"})
    assert isinstance(config, RecordsConfig)
    layout = TableLayout({}, features, (), {}, ("train", "test"), (Fraction(3, 4), Fraction(1, 4)), ("odd",))
    plan = RecordsDryRun(summarize_files([("a", 10)]), Inferred({}, 7), layout, [], 1, 1, 1)

    assert describe_records_plan(plan, config).splitlines() == [
        "Dry run: nothing is written. Would write out/n/1.0.0",
        "Input: --input x: 1 file, 10 B, 7 rows",
        "Split train: 0.75 of the rows",
        "Split test: 0.25 of the rows",
        *shown,
        "NOTE: odd",
    ]


@pytest.mark.parametrize(
    ("schema", "notices"),
    [
        (
            FEATURES,
            [
                "left out what --schema does not have: column 'town'",
                "--schema has feature 'city', of which no record has a value",
            ],
        ),
        (None, []),
    ],
)
def test_rows_beside_a_schema(schema: Any, notices: list[str]) -> None:
    stats = TableStats()
    stats.add(pa.record_batch({"id": pa.array([1, 2])}), np.zeros(2, np.uint64))
    staged = StagedFindings(record_count=2, stats={"train": stats}, ignored_names=frozenset({"town"}))
    layout = TableLayout({}, FEATURES, (), {}, ("train",), None)

    assert schema_notices(layout, staged, TableOptions("--input x", schema=schema)) == notices
    assert schema_notices(layout, StagedFindings(), TableOptions("--input x", schema=schema)) == []
