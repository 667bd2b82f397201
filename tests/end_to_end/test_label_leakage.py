"""A column that tells the label is named on the page of every route whose examples have columns."""

import json
from typing import Any

import pytest

from tests.end_to_end.test_duplicates import OF_NUMBER, _avro, _csv, _json_lines, _parquet, _records
from tests.support.command import Run
from tests.support.jobs import Jobs

# `w` is the label in words, and `id` in numbers, where that is asked; x tells nothing
ROWS: list[dict[str, Any]] = [{"id": n, "x": n * 7919 % 11, "w": ("no", "yes")[n % 3 == 0]} for n in range(120)]
LABELLED = [{**row, "id": int(row["w"] == "yes")} for row in ROWS]
FILES = {
    "a.csv": _csv(LABELLED),
    "a.jsonl": _json_lines(LABELLED),
    "a.parquet": _parquet(LABELLED),
    "a.avro": _avro(LABELLED),
    "a.tfrecord": _records(LABELLED),
    "names.txt": b"no\nyes\n",
}
SPLITS = "--splits train=0.7,test=0.3"


def told(run: Run) -> dict[str, str]:
    """The severity of each feature that is held against the label, where that is what the page says of it, too."""
    reported = json.loads(run("report", "out/n", "--json").out)
    checks = [check for check in reported["verdict"]["checks"] if check["check"] == "label_leakage"]
    severities = {check["feature"]: check["severity"] for check in checks}
    for feature in reported["features"]:
        said = [alert for alert in feature["alerts"] if "label" in alert]
        expected = ["looks like the label: reduces errors in predicting it by 100.0% in train"]
        assert said == (expected if severities.get(feature["name"]) == "warn" else [])
    return severities


@pytest.mark.parametrize(
    ("line", "leak"),
    [
        *((f"{name} --input in/a.{name} --label w", "id") for name in ("csv", "jsonl", "parquet", "avro")),
        # of numbers, which have no class names: 0 and 1, as a click is
        ("csv --input in/a.csv --label id", "w"),
        ("reshard --input in/a.tfrecord --label id", "w"),
        ("reshard --input in/a.tfrecord --label id --labels_file in/names.txt", "w"),
        ("reshard --input in/a.tfrecord --label w", "id"),
    ],
)
def test_each_format_names_it(line: str, leak: str, run: Run, jobs: Jobs) -> None:
    jobs.build(f"{line} {SPLITS}", files=FILES)
    assert told(run) == {leak: "warn", "x": "ok"}


@pytest.mark.parametrize("rename", ["", "--rename code=meta/code"])
@pytest.mark.parametrize(("name", "suffix"), [("images", "jpg"), ("arrays", "npy"), ("audio", "wav")])
def test_manifests_columns_are_counted(name: str, suffix: str, rename: str, run: Run, jobs: Jobs) -> None:
    """`code` is the label; `x` and the lists tell nothing; `note` is missing in nearly all."""
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
    files = {f"{n}.{suffix}": OF_NUMBER[suffix](n) for n in range(12)}
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    flags = f"--manifest in/m.jsonl --max_reject_fraction 0.1 --group_by x {SPLITS} {rename}"
    made = jobs.build(f"{name} {flags}", files={**files, "m.jsonl": text})

    code = "meta/code" if rename else "code"
    assert told(run) == {code: "warn", "x": "ok", "note": "ok"}
    features = [split["features"] for split in made.json("stats.json")["splits"].values()]
    assert sum(found["x"]["count"] for found in features) == len(ROWS)  # and not what was rejected
    assert max(found["x"]["max"] for found in features) == 5.0
    assert sum(found["note"]["missing"] for found in features) == len(ROWS) - 1
    assert {found["pair"]["values_per_example"]["min"] for found in features} == {2}
    assert {found["any"]["values_per_example"]["max"] for found in features} == {2}
    assert "values_per_example" not in features[0]["x"]
    assert {value["value"] for found in features for value in found[code]["top_values"]} == {"a", "b"}
    assert "looks like the label" in (made.directory.parent / "builds/1.0.0.html").read_text()
