"""Examples of equal content, within a split and across splits, on every route: counted, listed, said."""

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.data.example import encode_example
from shardmill.data.tfrecord import frame_record
from tests.support.command import Run, image, write_files
from tests.support.sounds import chunk, riff, wav
from tests.support.tokenizer_files import tokenizer_json

# Contents by their number: 0 and 1 are in both splits, 2 is in train twice
TRAIN, TEST = (0, 1, 2, 2, 3), (4, 1, 0, 0)
Rows = list[dict[str, Any]]


def _rows(numbers: tuple[int, ...]) -> Rows:
    return [{"id": 10 * sum(numbers) + place, "x": n, "w": f"word {n}"} for place, n in enumerate(numbers)]


def _csv(rows: Rows) -> bytes:
    return "".join(
        f"{','.join(map(str, row))}\n" for row in (("id", "x", "w"), *(row.values() for row in rows))
    ).encode()


def _json_lines(rows: Rows) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _parquet(rows: Rows) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def _avro(rows: Rows) -> bytes:
    out = io.BytesIO()
    fields = [{"name": name, "type": kind} for name, kind in (("id", "long"), ("x", "long"), ("w", "string"))]
    fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, rows)
    return out.getvalue()


def _records(rows: Rows) -> bytes:
    examples = [{"id": [row["id"]], "x": [row["x"]], "w": [row["w"].encode()]} for row in rows]
    return b"".join(frame_record(encode_example(example)) for example in examples)


def _npy(number: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.full((2, 3), number, np.float32))
    return out.getvalue()


def in_files(suffix: str, of_number: Callable[[int], bytes]) -> Mapping[str, bytes]:
    """A file a content, in the folders of their splits."""
    splits = (("train", TRAIN), ("test", TEST))
    return {
        f"{split}/any/{place}.{suffix}": of_number(n) for split, numbers in splits for place, n in enumerate(numbers)
    }


def in_rows(name: str, of_rows: Callable[[Rows], bytes]) -> Mapping[str, bytes]:
    """A file a split."""
    return {f"train/{name}": of_rows(_rows(TRAIN)), f"test/{name}": of_rows(_rows(TEST))}


def _lines(rows: Rows) -> bytes:
    return "".join(f"{row['w']}\n" for row in rows).encode()


KEY = ("--key", "id")
ROUTES: dict[str, tuple[tuple[str, ...], Mapping[str, bytes], str]] = {
    "csv": (("csv", *KEY), in_rows("a.csv", _csv), "records without 'id'"),
    "csv in order": (("csv", "--drop", "id", "--no_shuffle"), in_rows("a.csv", _csv), "records"),
    "jsonl": (("jsonl", *KEY), in_rows("a.jsonl", _json_lines), "records without 'id'"),
    "parquet": (("parquet", *KEY), in_rows("a.parquet", _parquet), "records without 'id'"),
    "avro": (("avro", *KEY), in_rows("a.avro", _avro), "records without 'id'"),
    "reshard": (("reshard", *KEY), in_rows("a.tfrecord", _records), "records without 'id'"),
    "lines": (("text",), in_rows("a.txt", _lines), "records"),
    "numbered lines": (
        ("text", "--line_numbers"),
        in_rows("a.txt", _lines),
        "records without 'filename', 'line_number'",
    ),
    "text files": (("text", "--record", "file"), in_files("txt", b"text %d".__mod__), "text files, as they are stored"),
    "images": (("images",), in_files("png", lambda n: image(n, "PNG")), "images, as they are stored"),
    "resized": (
        ("images", "--resize", "8x8"),
        in_files("png", lambda n: image(n, "PNG")),
        "images, as they are stored",
    ),
    "gzip": (("images", "--compression", "gzip"), in_files("jpg", image), "images, as they are stored"),
    "arrays": (("arrays",), in_files("npy", _npy), "arrays, as they are stored"),
    "audio": (("audio",), in_files("wav", lambda n: wav(number=n)), "audio files, as they are stored"),
}


def stats(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "n/1.0.0/stats.json").read_text())["duplicates"]
    return found


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_counts_equal_contents(route: str, run: Run, tmp_path: Path) -> None:
    words, files, content = ROUTES[route]
    write_files(tmp_path / "in", files)

    result = run(*words, "--input", tmp_path / "in", "--output", tmp_path, "--name", "n")

    assert result.status == 0, result.err
    assert "NOTE: 3 examples of 'test' have equal content in 'train', such as 'test/" in result.out
    found = stats(tmp_path)
    pairs = found.pop("pairs")
    assert found == {
        "content": content,
        "across": {"test": {"train": 3}, "train": {"test": 2}},
        "elsewhere": {"test": 3, "train": 2},
        "within": {"test": {"examples": 2, "contents": 1}, "train": {"examples": 2, "contents": 1}},
    }
    assert [(pair["one"]["split"], pair["other"]["split"]) for pair in pairs] == [("test", "train")] * 2 + [
        ("train", "train")
    ]
    assert pairs[2] == _twice(route)
    assert {pair["other"]["name"] for pair in pairs[:2]} <= files.keys()
    page = (tmp_path / "n/builds/1.0.0.html").read_text()
    assert "<summary>3 pairs</summary>" in page
    assert "different labels" not in page


def _twice(route: str) -> dict[str, Any]:
    """Where content 2 is in train, by the names that users know."""
    _, files, _ = ROUTES[route]
    (name, *others) = (name for name in files if name.startswith("train/"))
    if others:
        return {side: {"split": "train", "name": name.replace("0.", f"{n}.")} for side, n in (("one", 2), ("other", 3))}
    first = {"csv": 4, "csv in order": 4}.get(route, 3)
    return {
        side: {"split": "train", "name": name, "line": line} for side, line in (("one", first), ("other", first + 1))
    }


def test_without_a_key_rows_that_differ_in_it_differ(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path / "in", in_rows("a.csv", _csv))

    result = run("csv", "--input", tmp_path / "in", "--output", tmp_path, "--name", "n")

    assert "equal content" not in result.out
    assert stats(tmp_path) == {"content": "records", "across": {}, "elsewhere": {}, "within": {}, "pairs": []}


def test_how_rows_are_cut_does_not_show(run: Run, tmp_path: Path) -> None:
    rows = [{"id": n, "x": n % 97, "w": f"word {n % 89}"} for n in range(2_000)]
    write_files(
        tmp_path / "in", {"train/a.csv": _csv(rows), "test/a.csv": _csv(rows[::50]), "test/b.csv": _csv(rows[7:9])}
    )
    where = ("csv", "--input", tmp_path / "in", "--drop", "id")

    assert run(*where, "--output", tmp_path / "one", "--name", "n").status == 0
    assert run(*where, "--output", tmp_path / "other", "--name", "n", "--block_size", "1KiB", "--seed", "5").status == 0

    assert stats(tmp_path / "one")["across"] == {"test": {"train": 42}, "train": {"test": 42}}
    assert stats(tmp_path / "one") == stats(tmp_path / "other")


def test_lines_of_a_manifest_are_told_apart(run: Run, tmp_path: Path) -> None:
    rows = [("a.png", "x", "train"), ("a.png", "y", "test"), ("b.png", "x", "train"), ("c.png", "x", "test")]
    lines = "".join(f"{','.join(row)}\n" for row in (("file_name", "label", "split"), *rows))
    files = {"a.png": image(1, "PNG"), "b.png": image(2, "PNG"), "c.png": image(3, "PNG"), "list.csv": lines.encode()}
    write_files(tmp_path / "in", files)

    assert run("images", "--manifest", tmp_path / "in/list.csv", "--output", tmp_path, "--name", "n").status == 0

    (pair,) = stats(tmp_path)["pairs"]
    assert pair == {
        "one": {"split": "test", "name": "a.png", "line": 3},
        "other": {"split": "train", "name": "a.png", "line": 2},
    }


def test_inspect_report_and_checks_tell_of_them(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path / "in", in_rows("a.csv", _csv))
    assert run("csv", "--input", tmp_path / "in", "--output", tmp_path, "--name", "n", *KEY).status == 0
    known = stats(tmp_path)

    assert json.loads(run("inspect", tmp_path / "n", "--json").out)["duplicates"] == known
    said = run("inspect", tmp_path / "n").out
    assert "Equal contents (records without 'id'):\n  3 examples of 'test' have equal content in 'train'" in said
    assert "  2 examples of 'train' have 1 contents between them" in said
    found = json.loads(run("report", tmp_path / "n", "--json").out)
    assert found["duplicates"] == known
    (check,) = (check for check in found["verdict"]["checks"] if check["check"] == "shared_contents")
    assert (check["severity"], check["split"], check["value"]) == ("warn", "test", 0.75)
    assert run("report", tmp_path / "n", "--output", tmp_path / "r.html").status == 0
    page = (tmp_path / "r.html").read_text()
    assert "Duplicates" in page
    assert "test/a.csv:3" in page


TOGETHER = ("csv", "jsonl", "parquet", "avro", "reshard", "numbered lines", "text files", "images", "arrays", "audio")


@pytest.mark.parametrize("route", TOGETHER)
def test_equal_contents_are_in_one_split(route: str, run: Run, tmp_path: Path) -> None:
    words, files, _ = ROUTES[route]
    # Of no split by themselves; names and keys differ, so that without the flag equals are in several
    several = {f"{number}-{name.replace('/', '-')}": data for number in range(6) for name, data in files.items()}
    write_files(tmp_path / "in", several)
    flags = ("--input", tmp_path / "in", "--splits", "train=0.5,test=0.5", "--name", "n")

    apart = run(*words, *flags, "--output", tmp_path / "apart")
    assert apart.status == 0, apart.err
    assert stats(tmp_path / "apart")["across"]
    assert "--group_by content keeps equals in one split" in apart.out

    together = run(*words, *flags, "--output", tmp_path / "together", "--group_by", "content")
    assert together.status == 0, together.err
    found = stats(tmp_path / "together")
    assert found["across"] == {}
    assert sum(split["examples"] for split in found["within"].values()) > 6
    assert {split["name"] for split in json.loads((tmp_path / "together/n/1.0.0/manifest.json").read_text())["splits"]}


def test_equal_pictures_with_other_objects_are_equal(run: Run, tmp_path: Path) -> None:
    """And by content they are in one split, whatever is annotated in them."""
    files = {f"{n}.jpg": image(n // 2, "JPEG", (40, 30)) for n in range(24)}
    write_files(tmp_path / "in", files)
    images = [{"id": n, "file_name": name, "width": 40, "height": 30} for n, name in enumerate(files)]
    boxes = [
        {"id": n, "image_id": n, "category_id": 1, "bbox": [n, 1, 9, 9], "area": 81, "iscrowd": 0} for n in range(24)
    ]
    objects = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    (tmp_path / "objects.json").write_text(json.dumps(objects))
    flags = ("--input", tmp_path / "in", "--coco", tmp_path / "objects.json", "--name", "n")
    for name, more in (("apart", ()), ("together", ("--group_by", "content"))):
        result = run("images", *flags, "--output", tmp_path / name, "--splits", "train=0.5,test=0.5", *more)
        assert result.status == 0, result.err

    apart, together = (stats(tmp_path / name) for name in ("apart", "together"))
    assert apart["across"]
    assert together["across"] == {}
    assert sum(found["examples"] for found in together["within"].values()) == 24


def test_a_column_that_is_called_content_is_that_column(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{place % 7},{place}\n" for place in range(200))
    write_files(tmp_path / "in", {"a.csv": f"content,x\n{rows}".encode()})
    flags = ("--splits", "train=0.5,test=0.5", "--name", "n", "--group_by", "content")
    assert run("csv", "--input", tmp_path / "in", "--output", tmp_path, *flags).status == 0
    splits = {
        split: {example["content"] for example in shardmill.examples(tmp_path / "n", split)}
        for split in ("train", "test")
    }
    assert splits["train"] | splits["test"] == set(range(7))
    assert not splits["train"] & splits["test"]


def _of(suffix: str) -> Callable[[int], bytes]:
    return {
        "png": lambda number: image(number, "PNG"),
        "npy": _npy,
        "wav": lambda number: wav(number=number),
        "txt": lambda number: b"text %d" % number,
    }[suffix]


DISPUTED = {
    "images": (("images",), "png"),
    "reused images": (("images", "--reuse", "record"), "png"),
    "arrays": (("arrays",), "npy"),
    "audio": (("audio",), "wav"),
    "text files": (("text", "--record", "file"), "txt"),
}


@pytest.mark.parametrize("route", DISPUTED)
def test_equal_contents_of_different_classes_are_a_conflict(route: str, run: Run, tmp_path: Path) -> None:
    """1 is a cat in train and a dog in test, 2 is both in train, 3 is a dog twice: nothing to quarrel about."""
    words, suffix = DISPUTED[route]
    places = {
        "train/cat/a": 1,
        "test/dog/b": 1,
        "train/cat/c": 2,
        "train/dog/d": 2,
        "train/dog/e": 3,
        "test/dog/f": 3,
        "train/cat/g": 4,
    }
    write_files(tmp_path / "in", {f"{name}.{suffix}": _of(suffix)(number) for name, number in places.items()})

    result = run(*words, "--input", tmp_path / "in", "--output", tmp_path, "--name", "n")

    assert result.status == 0, result.err
    said = f"4 examples, of 2 contents, have equal content and different labels, such as 'test/dog/b.{suffix}' (dog)"
    assert f"NOTE: {said}" in result.out
    conflicts = stats(tmp_path)["conflicts"]
    assert (conflicts["contents"], conflicts["examples"]) == (2, {"test": 1, "train": 3})
    found = [(pair["one"]["name"], pair["other"]["name"], pair["labels"]) for pair in conflicts["pairs"]]
    assert found == [
        (f"test/dog/b.{suffix}", f"train/cat/a.{suffix}", ["dog", "cat"]),
        (f"train/cat/c.{suffix}", f"train/dog/d.{suffix}", ["cat", "dog"]),
    ]
    assert said in run("inspect", tmp_path / "n").out
    checks = json.loads(run("report", tmp_path / "n", "--json").out)["verdict"]["checks"]
    assert [(c["severity"], round(c["value"], 3)) for c in checks if c["check"] == "conflicting_labels"] == [
        ("warn", 0.571)
    ]
    assert "<td>dog</td><td>test</td>" in (tmp_path / "n/builds/1.0.0.html").read_text()


def test_by_content_what_is_reused_stays_where_it_is_and_what_is_unreadable_is_a_reject(
    run: Run, tmp_path: Path
) -> None:
    """20 contents, each twice, and a file that is no image; the next night two more of contents that are there."""
    files = {f"a/{n}-{copy}.png": image(n, "PNG") for n in range(20) for copy in "xy"}
    write_files(tmp_path / "in", {**files, "a/bad.png": b"no image"})
    for path in (tmp_path / "in" / "a").iterdir():  # what has just been written may change again without a trace
        os.utime(path, (1e9, 1e9))
    flags = ("--output", tmp_path, "--name", "n", "--group_by", "content", "--splits", "train=0.5,test=0.5")
    base = ("images", "--input", tmp_path / "in", *flags, "--max_reject_fraction", "0.1")

    assert run(*base, "--reuse", "record").status == 0
    before = _splits(tmp_path / "n/1.0.0")
    again = run(*base, "--reuse", "LATEST", "--version", "1.1.0")
    write_files(tmp_path / "in", {"a/3-z.png": image(3, "PNG"), "a/4-z.png": image(4, "PNG")})
    more = run(*base, "--reuse", "LATEST", "--version", "1.2.0")

    assert len(before) == 40
    assert set(before.values()) == {"train", "test"}
    assert _splits(tmp_path / "n/1.1.0") == before
    assert "41 of 41 files taken from 1.0.0, none read" in again.out
    after = _splits(tmp_path / "n/1.2.0")
    assert {name: after[name] for name in before} == before
    for name in ("a/3", "a/4"):
        assert after[f"{name}-z.png"] == after[f"{name}-x.png"] == after[f"{name}-y.png"]
    for done in (again, more):
        assert "have equal content in" not in done.out
        assert "files taken from" in done.out


def _splits(version: Path) -> dict[str, str]:
    """The split of each file."""
    return {
        example["filename"].decode(): split
        for split in ("train", "test")
        for example in shardmill.examples(str(version), split)
    }


def _ordered_npy(number: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(np.full((2, 3), number % 2, np.float32), order="CF"[number % 3 > 0]))  # type: ignore[call-overload]
    return out.getvalue()


def _stacked(number: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.full((6, 3), number % 2, np.float32))
    return out.getvalue()


def _commented(number: int) -> bytes:
    return image(number % 2, comment=b"comment %d" % number)


def _wav_with_chunk(number: int) -> bytes:
    data = wav(number=number % 2)
    return riff(data[12:], chunk(b"note", b"%04d" % number))


# Files that differ, and of which only two contents are stored
STORED: dict[str, tuple[tuple[str, ...], str, Callable[[int], bytes]]] = {
    "png": (("images", "--image_format", "png"), "jpg", _commented),
    "jpeg": (("images", "--image_format", "jpeg"), "jpg", _commented),
    "resized": (("images", "--resize", "8x8", "--near_duplicates"), "jpg", _commented),
    "decoded audio": (("audio", "--decode_audio"), "wav", _wav_with_chunk),
    "arrays": (("arrays",), "npy", _ordered_npy),
    "stacked arrays": (("arrays", "--stacked"), "npy", _stacked),
    "text files": (("text", "--record", "file"), "txt", lambda n: b"\xef\xbb\xbf" * (n % 3 > 0) + b"text %d" % (n % 2)),
    "csv": (("csv", *KEY), "csv", lambda n: b"id,x\n%d,%b\n" % (n, (b"1.0", b"1.00", b"2.0", b"2.00")[n % 4])),
    "jsonl": (
        ("jsonl", *KEY),
        "jsonl",
        lambda n: b'{"id":%d,"x":%b}\n' % (n, (b"1.0", b"1.00", b"2.0", b"20e-1")[n % 4]),
    ),
    "dropped": (("csv", "--drop", "id"), "csv", lambda n: b"id,x\n%d,%d\n" % (n, n % 2)),
    "tokens": (
        ("text", "--tokenizer", "TOKENIZER"),
        "txt",
        lambda n: (b"w1 w2\n", b"w1  w2\n", b"w3 w2\n", b"w3 w2 \n")[n % 4],
    ),
    "packed": (("text", "--pack_to", "4", "--tokenizer", "TOKENIZER"), "txt", lambda n: b"w1 w2 w3 w%d\n" % (n % 2)),
}


@pytest.mark.parametrize("route", STORED)
def test_groups_are_of_what_is_stored(route: str, run: Run, tmp_path: Path) -> None:
    words, suffix, of_number = STORED[route]
    write_files(tmp_path, {"tokenizer.json": tokenizer_json()})
    write_files(tmp_path / "in", {f"{number}.{suffix}": of_number(number) for number in range(24)})
    words = tuple(str(tmp_path / "tokenizer.json") if word == "TOKENIZER" else word for word in words)
    flags = ("--input", tmp_path / "in", "--splits", "train=0.5,test=0.5", "--name", "n")

    apart = run(*words, *flags, "--output", tmp_path / "apart")
    together = run(*words, *flags, "--output", tmp_path / "together", "--group_by", "content")

    assert apart.status == together.status == 0, together.err
    assert stats(tmp_path / "apart")["across"] or route in (
        "packed",
        "tokens",
        "dropped",
        "materialized",
    )  # grouped without the flag
    assert stats(tmp_path / "together")["across"] == {}
    assert "have equal content in" not in together.out
    assert sum(split["examples"] for split in stats(tmp_path / "together")["within"].values()) >= 20
