"""A column that tells the label is named on the page of every route whose examples have columns."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_duplicates import _avro, _csv, _json_lines, _npy, _parquet, _records
from tests.support.command import Run, image, write_files
from tests.support.sounds import wav

ROWS: list[dict[str, Any]] = [
    {"id": n, "x": n * 7919 % 11, "w": ("no", "yes")[n % 3 == 0]} for n in range(120)
]  # `w` is the label in words, when x tells nothing
FORMATS = {"csv": _csv, "jsonl": _json_lines, "parquet": _parquet, "avro": _avro}
RECORDS = {"reshard": _records}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_names_it(name: str, run: Run, tmp_path: Path) -> None:
    rows = [{**row, "id": int(row["w"] == "yes")} for row in ROWS]
    write_files(tmp_path / "in", {f"a.{name}": FORMATS[name](rows)})

    flags = ("--label", "w", "--splits", "train=0.7,test=0.3")
    result = run(name, "--input", tmp_path / "in", "--output", tmp_path, "--name", "n", *flags)

    assert result.status == 0, result.err
    found = told(run, tmp_path)
    assert found == {"id": "warn", "x": "ok"}


def told(run: Run, folder: Path) -> dict[str, str]:
    """The severity of each feature that is held against the label, where that is what the page says of it, too."""
    reported = json.loads(run("report", folder / "n", "--json").out)
    severities = {
        check["feature"]: check["severity"]
        for check in reported["verdict"]["checks"]
        if check["check"] == "label_leakage"
    }
    for feature in reported["features"]:
        said = [alert for alert in feature["alerts"] if "label" in alert]
        expected = ["looks like the label: reduces errors in predicting it by 100.0% in train"]
        assert said == (expected if severities.get(feature["name"]) == "warn" else [])
    return severities


SPLITS = ("--splits", "train=0.7,test=0.3")


@pytest.mark.parametrize("name", ["csv", "reshard"])
def test_a_label_of_numbers_is_told_too(name: str, run: Run, tmp_path: Path) -> None:
    """It has no class names: 0 and 1, as a click is."""
    rows = [{**row, "id": int(row["w"] == "yes")} for row in ROWS]
    write_files(tmp_path / "in", {f"a.{'csv' if name == 'csv' else 'tfrecord'}": (FORMATS | RECORDS)[name](rows)})

    flags = ("--label", "id", *SPLITS)
    result = run(name, "--input", tmp_path / "in", "--output", tmp_path, "--name", "n", *flags)

    assert result.status == 0, result.err
    assert told(run, tmp_path) == {"w": "warn", "x": "ok"}


@pytest.mark.parametrize("named", [True, False])
def test_existing_records_name_it(named: bool, run: Run, tmp_path: Path) -> None:
    """Of ids with names, and of strings, which are none."""
    rows = [{**row, "id": int(row["w"] == "yes")} for row in ROWS]
    files = write_files(tmp_path / "in", {"a.tfrecord": _records(rows), "names.txt": b"no\nyes\n"})

    label = ("--label", "id", "--labels_file", files / "names.txt") if named else ("--label", "w")
    result = run("reshard", "--input", files / "a.tfrecord", "--output", tmp_path, "--name", "n", *label, *SPLITS)

    assert result.status == 0, result.err
    assert told(run, tmp_path) == {"w" if named else "id": "warn", "x": "ok"}


FILES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "images": ("jpg", image),
    "arrays": ("npy", _npy),
    "audio": ("wav", lambda number: wav(number=number)),
}


@pytest.mark.parametrize("rename", [(), ("--rename", "code=meta/code")])
@pytest.mark.parametrize("name", FILES)
def test_manifests_columns_are_counted(name: str, rename: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    """`code` is the label; `x` and the lists tell nothing; `note` is missing in nearly all."""
    suffix, of_number = FILES[name]
    write_files(tmp_path / "in", {f"{n}.{suffix}": of_number(n) for n in range(12)})
    lines = [
        {
            "file_name": f"{n % 12}.{suffix}",
            "label": row["w"],
            "code": ["a", "b"][row["w"] == "yes"],
            "x": row["x"] / 2,
            "pair": [row["x"], n],
            "any": list(range(n % 3)),
            **({"note": True} if n == 5 else {}),
        }
        for n, row in enumerate(ROWS)
    ]
    lines.append({**lines[0], "file_name": f"missing.{suffix}", "x": 1e6})
    (tmp_path / "in" / "m.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    flags = ("--manifest", tmp_path / "in" / "m.jsonl", "--max_reject_fraction", "0.1", *SPLITS, *rename)
    result = run(name, *flags, "--output", tmp_path, "--name", "n", "--group_by", "x")

    assert result.status == 0, result.err
    code = "meta/code" if rename else "code"
    assert told(run, tmp_path) == {code: "warn", "x": "ok", "note": "ok"}
    splits = json.loads((tmp_path / "n/1.0.0/stats.json").read_text())["splits"]
    features = [split["features"] for split in splits.values()]
    assert sum(found["x"]["count"] for found in features) == len(ROWS)  # and not what was rejected
    assert max(found["x"]["max"] for found in features) == 5.0
    assert sum(found["note"]["missing"] for found in features) == len(ROWS) - 1
    assert {found["pair"]["values_per_example"]["min"] for found in features} == {2}
    assert {found["any"]["values_per_example"]["max"] for found in features} == {2}
    assert "values_per_example" not in features[0]["x"]
    assert {value["value"] for found in features for value in found[code]["top_values"]} == {"a", "b"}
    page = (tmp_path / "n/builds/1.0.0.html").read_text()
    assert "looks like the label" in page
