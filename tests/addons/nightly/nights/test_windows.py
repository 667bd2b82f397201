"""A window of seven days of which one is bad: by default the night stops, and by flags that day alone is left out."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.support.archives import tar
from tests.support.avro_files import avro, record
from tests.support.command import Run
from tests.support.framed_records import records
from tests.support.table_results import parquet

DAYS = [f"2026-11-{day:02}" for day in range(14, 21)]
ROWS = 40
RECIPE = """\
name: events
output: sets
window: 7d
{command}:
  input: in/dt={{YYYY}}-{{MM}}-{{DD}}/*
"""
REJECT = "  on_damaged_file: reject\n  on_other_columns: reject\n  max_reject_fraction: 0.3\n"
ALLOWED = "checks: {rejects_over: {error: 0.3}}\n"


def numbers(day: int) -> list[int]:
    return [day * 1000 + number for number in range(ROWS)]


def csv(day: int) -> bytes:
    return b"n,kind\n" + "".join(f"{n},k{n % 3}\n" for n in numbers(day)).encode()


def jsonl(day: int) -> bytes:
    return "".join(json.dumps({"n": n, "kind": f"k{n % 3}"}) + "\n" for n in numbers(day)).encode()


def columnar(day: int) -> bytes:
    return parquet(pa.table({"n": numbers(day), "kind": [f"k{n % 3}" for n in numbers(day)]}), row_group_size=10)


def packed(day: int) -> bytes:
    rows = [{"n": n, "kind": f"k{n % 3}"} for n in numbers(day)]
    return avro(record(n="long", kind="string"), rows)


def samples(day: int) -> bytes:
    return tar([(f"{n}.json", json.dumps({"n": n}).encode()) for n in numbers(day)])


def examples(day: int) -> bytes:
    return records(1000 + day * 20)


NOISE = np.random.default_rng(0).bytes(3_000)
QUOTE = b'9,"k1\n'
# (command, name of files, a good day, the bad day); the day's other bytes may be lost, no other day's. Files that are
# compressed or cut are in tests/transforms/formats/test_damage.py
DAMAGES: dict[str, tuple[str, str, Callable[[int], bytes], Callable[[bytes], bytes]]] = {
    "CSV, an unclosed quote": ("csv", "a.csv", csv, lambda data: data + QUOTE),
    "CSV, an unclosed quote in the first row": ("csv", "a.csv", csv, lambda data: b'"n,kind\n' + data),
    "CSV, stray quotes around rows": (
        *("csv", "a.csv", csv),
        lambda data: data.replace(b"3000,k0", b'3000,"k0').replace(b"3020,k2", b'3020,k2"'),
    ),
    "CSV, a Parquet file": ("csv", "a.csv", csv, lambda _: columnar(1)),
    "JSON lines, UTF-16": ("jsonl", "a.jsonl", jsonl, lambda data: data.decode().encode("utf-16")),
    "Parquet, noise": ("parquet", "a.parquet", columnar, lambda _: NOISE),
    "Avro, noise": ("avro", "a.avro", packed, lambda _: NOISE),
    "tar, noise": ("webdataset", "a.tar", samples, lambda _: NOISE),
    "TFRecords, noise": ("reshard", "a.tfrecord", examples, lambda _: NOISE),
}


def write_days(name: str, good: Callable[[int], bytes], bad: int, damage: Callable[[bytes], bytes]) -> None:
    """Write the days, one of them damaged."""
    for day, date in enumerate(DAYS):
        path = Path(f"in/dt={date}/{name}")
        path.parent.mkdir(parents=True)
        path.write_bytes(damage(good(day)) if day == bad else good(day))


def rebuild(run: Run, command: str, flags: str) -> tuple[int, str]:
    Path("events.yaml").write_text(RECIPE.format(command=command) + flags)
    result = run("rebuild", "events.yaml", "--date", DAYS[-1])
    return result.status, result.err


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_day(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.chdir(tmp_path)
    command, name, good, damage = DAMAGES[how]
    write_days(name, good, 3, damage)

    status, _ = rebuild(run, command, "")
    assert status in (1, 2), "the default stops"
    assert not Path("sets/events/1.0.0/_SUCCESS").exists()

    flags = REJECT if command in ("csv", "parquet", "avro") else REJECT.replace("  on_other_columns: reject\n", "")
    # By their bytes, some of these files would hold more rows than all others
    status, err = rebuild(run, command, (flags + ALLOWED).replace("0.3", "0.9"))

    assert status == 0, err
    version = Path("sets/events/1.0.0")
    manifest = json.loads((version / "manifest.json").read_text())
    lines = [json.loads(line) for line in (version / "rejects/rejects-00000-of-00001.jsonl").read_text().splitlines()]
    assert {line["source"] for line in lines} == {f"dt={DAYS[3]}/{name}"}
    assert all(line["reason"] for line in lines)
    written = sum(shard["examples"] for split in manifest["splits"] for shard in split["shards"])
    each = 20 if command == "reshard" else ROWS
    assert 6 * each <= written < 7 * each


def test_a_day_with_another_header(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is the first: the columns of most files are the usual ones."""
    monkeypatch.chdir(tmp_path)
    write_days("a.csv", csv, 0, lambda data: data.replace(b"n,kind", b"n,typ"))

    status, err = rebuild(run, "csv", "")
    assert (status, "--on_other_columns union" in err) == (2, True)

    assert rebuild(run, "csv", REJECT + ALLOWED)[0] == 0
    manifest = json.loads(Path("sets/events/1.0.0/manifest.json").read_text())
    assert [feature["name"] for feature in manifest["features"]] == ["n", "kind"]
    assert (manifest["input"]["records"], manifest["rejects"]["records"]) == (7 * ROWS, ROWS)
    assert "lost" not in manifest["rejects"]

    status, err = rebuild(run, "csv", "  on_other_columns: union\n")
    assert status == 0, err
    manifest = json.loads(Path("sets/events/1.0.1/manifest.json").read_text())
    assert {feature["name"] for feature in manifest["features"]} == {"n", "kind", "typ"}
    assert manifest["rejects"]["records"] == 0
