"""What the tests of bad tables share."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.table_results import Table

TOLERANT = ("--max_reject_fraction", "0.9", "--on_damaged_file", "reject")


def check_consistent(table: Table) -> None:
    """Check that all that describes a data set is JSON to the letter, and that its numbers add up."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    for file in table.directory.rglob("*.json"):
        json.loads(file.read_text(), parse_constant=refuse)
    manifest, rejects = table.dataset.manifest, table.rejects()
    for reject in rejects:
        lost = {"records", "size_bytes", "count"} if "records" in reject else set()
        assert reject.keys() == {"source", "line", "stage", "reason"} | lost
        assert all(reject[key] for key in ("source", "stage", "reason"))
    rejected = sum(reject.get("records", 1) for reject in rejects)
    assert manifest.input["records"] == len(table.rows) + rejected
    assert manifest.rejects["records"] == rejected
    assert sum(manifest.rejects["reasons"].values()) == rejected or len(rejects) > 100
    assert {split.name: split.examples for split in manifest.splits} == {
        name: len(rows) for name, rows in table.splits.items()
    }
    stats = json.loads((table.directory / "stats.json").read_text())["splits"]
    assert {name: split["examples"] for name, split in stats.items()} == {
        name: len(rows) for name, rows in table.splits.items()
    }


def parquet(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()
