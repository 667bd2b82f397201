"""A column that tells the label is named on the page of every kind of table."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_duplicates import _avro, _csv, _json_lines, _parquet
from tests.support.command import Run, write_files

ROWS: list[dict[str, Any]] = [
    {"id": n, "x": n * 7919 % 11, "w": ("no", "yes")[n % 3 == 0]} for n in range(120)
]  # `w` is the label in words, when x tells nothing
FORMATS = {"csv": _csv, "jsonl": _json_lines, "parquet": _parquet, "avro": _avro}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_names_it(name: str, run: Run, tmp_path: Path) -> None:
    rows = [{**row, "id": int(row["w"] == "yes")} for row in ROWS]
    write_files(tmp_path / "in", {f"a.{name}": FORMATS[name](rows)})

    flags = ("--label", "w", "--splits", "train=0.7,test=0.3")
    result = run(name, "--input", tmp_path / "in", "--output", tmp_path, "--name", "n", *flags)

    assert result.status == 0, result.err
    reported = json.loads(run("report", tmp_path / "n", "--json").out)
    alerts = {feature["name"]: feature["alerts"] for feature in reported["features"]}
    assert alerts["id"][0] == "looks like the label: tells 100.0% of what there is to guess in train"
    assert not any("label" in alert for alert in alerts["x"] + alerts["w"])
    by_feature = {
        check["feature"]: check["severity"]
        for check in reported["verdict"]["checks"]
        if check["check"] == "label_leakage"
    }
    assert by_feature == {"id": "warn", "x": "ok"}
