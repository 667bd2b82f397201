"""Tests of transforms/workers/rejects.py."""

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from shardmill.metadata.manifest import Reject
from shardmill.transforms.formats.format import Damage, reject_file
from shardmill.transforms.workers import rejects
from shardmill.transforms.workers.rejects import (
    FOLDER,
    Losses,
    Reason,
    ReasonCounter,
    RejectsPart,
    RejectsWriter,
    SortedLines,
    first_reject,
    gather_rejects,
    make_parts,
    split_lines,
)

REJECTS = [Reject(f"{n % 7}.csv", n or None, "read", f"why {n % 3} \u2028 \u00f6") for n in range(500)]


def parts(rejects: list[Reject], temporary: str | None, workers: int) -> list[RejectsPart]:
    dealt = [rejects[start::workers] for start in range(workers)]
    return [part for some in dealt for part in make_parts(some, temporary)]


def text(found: list[RejectsPart]) -> bytes:
    return b"".join(gather_rejects(found, len(REJECTS), 0)[0].chunks())


def test_the_order_depends_on_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By few workers, whose rejects lie in files, by many, whose travel; sorted in memory, or on a disk."""
    expected = "".join(
        json.dumps(reject.to_json(), ensure_ascii=False) + "\n"
        for reject in sorted(REJECTS, key=lambda r: (r.source, r.line or 0, r.stage, r.reason))
    ).encode()
    shuffled = random.Random(0).sample(REJECTS, len(REJECTS))

    assert text(parts(REJECTS, str(tmp_path), 3)) == expected
    assert len(list((tmp_path / FOLDER).iterdir())) == 3
    assert text(parts(shuffled, str(tmp_path), 250)) == expected
    monkeypatch.setattr(rejects, "SortedLines", lambda key: SortedLines(key, 999))
    monkeypatch.setattr(rejects, "SINGLE_READ_BYTES", 5000)
    assert text(parts(shuffled, str(tmp_path), 9)) == expected


def test_what_travels_is_small(tmp_path: Path) -> None:
    (few,), (many,) = make_parts(REJECTS[:3], str(tmp_path)), make_parts(REJECTS, str(tmp_path))
    assert (few.rejects, few.path, few.text.count(b"\n")) == (3, "", 3)
    assert (many.rejects, many.records, many.text) == (500, 500, b"")
    assert Path(many.path).stat().st_size == many.size_bytes > 20_000
    assert make_parts([], str(tmp_path)) == []


def test_a_dry_run_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (part,) = make_parts(REJECTS, None)
    assert part.rejects == 500
    assert len(part.text) < 3000
    assert first_reject([part]) == REJECTS[0]
    assert first_reject([]) is None
    assert list(tmp_path.iterdir()) == []


def test_losses_are_summed(tmp_path: Path) -> None:
    whole = Reject("z.csv", None, "index", "no", None, 500, "estimated")
    (part,) = make_parts([*REJECTS, whole, Reject("y", 3, "read", "no", 9, 50)], str(tmp_path))
    assert (part.rejects, part.records, part.lost_records, part.lost_bytes) == (502, 510, 10, 550)
    rejects, records = gather_rejects([part], 1010, 1050)  # 1,000 good ones of 500 bytes
    assert (rejects.records, records) == (500 + 9 + 1000, 1010 + 999)
    assert b'"source": "z.csv", "line": null, "stage": "index", "reason": "no", "records": 1000' in b"".join(
        rejects.chunks()
    )
    assert (rejects.losses.files, rejects.losses.records, rejects.losses.size_bytes) == (2, 1009, 550)


def test_the_most_frequent_reason() -> None:
    found, _ = gather_rejects(parts(REJECTS, None, 500), 500, 0)
    most = found.most_frequent
    assert most is not None
    assert (most.text, most.rejects, found.is_lower_bound, most.source) == (REJECTS[0].reason, 167, False, "0.csv")


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker holds a mebibyte of those that it finds, and whoever puts them in order some of them at once."""
    monkeypatch.setattr(rejects, "SortedLines", lambda key: SortedLines(key, 100_000))
    monkeypatch.setattr(rejects, "CHUNK_BYTES", 100_000)
    monkeypatch.setattr(rejects, "READ_BYTES", 100_000)
    monkeypatch.setattr(rejects, "CHUNK_BYTES", 100_000)
    reason = "column 'x': a value that is no number " + "x" * 1000

    def peak(rejects: int) -> int:
        tracemalloc.start()
        writer = RejectsWriter(str(tmp_path))
        for n in range(rejects):
            writer.add([Reject("a.csv", n, "read", f"{reason}{n % 100}")])
        found, _ = gather_rejects(writer.close(), rejects, 0)
        assert found.records == rejects
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(1000), peak(5000)
    assert many < few + (1 << 20)  # the others are 4 MB


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_lines_of_chunks(most: int) -> None:
    data = b"a\n\nbcd\ne\n"
    chunks = [data[start : start + most] for start in range(0, len(data), most)]
    assert list(split_lines(chunks)) == [b"a", b"", b"bcd", b"e"]


BAD = Reject("a.csv", 3, "read", "the row has 2 fields")
GROUP = Reject("b.parquet", 101, "read", "row group 1", 900, 5000)
REST = Reject("c.csv.gz", 41, "read", "damaged", 60, 700, "estimated")
CUT = Reject("d.csv.gz", 7, "read", "ends too early", 1, 0, "at least")


def losses(*rejects: Reject) -> Losses:
    counted = Losses()
    for reject in sorted(rejects, key=lambda reject: reject.source):
        counted.add(reject)
    return counted


def test_losses_in_words() -> None:
    assert str(losses(BAD, GROUP)) == "900 records in 1 damaged file cannot be read, 5,000 bytes"
    assert str(losses(GROUP, REST)) == "about 960 records in 2 damaged files cannot be read, 5,700 bytes"
    words = ", and how many more were in 1 file cut short or unlisted nobody knows"
    assert str(losses(CUT)) == f"at least 1 record in 1 damaged file cannot be read{words}"
    assert str(losses(CUT, REST, BAD)) == f"about 61 records in 2 damaged files cannot be read, 700 bytes{words}"
    assert losses(BAD).files == 0
    assert losses(GROUP, CUT, GROUP, CUT).files == losses(CUT, GROUP).files == 2
    assert losses(CUT, GROUP, CUT).uncounted_files == 1


def test_what_is_known_for_certain_does_not_fail_a_job() -> None:
    assert losses(BAD, GROUP).failure("fail", "") is None
    assert losses(BAD, CUT, REST).failure("reject", "") is None
    words = losses(BAD, CUT, REST).failure("fail", " --max_reject_fraction 0.5")
    assert words is not None
    assert words.startswith("about 61 records in 2 damaged files")
    assert "such as 'c.csv.gz': damaged; " in words
    assert "--on_damaged_file reject --max_reject_fraction 0.5 to go" in words


def test_files_of_which_nothing_was_read_are_estimated_by_all_others() -> None:
    whole = reject_file("e.csv.gz", 500, "no")
    rest = Damage("x", 100, 0.5).make_reject("c", 1, "x", 20, 300)
    rejects, records = gather_rejects(make_parts([BAD, rest, whole], None), 221 + 10 + 1, 2200 + 100 + 500)
    assert (rejects.records, records) == (1 + 10 + 50, 221 + 10 + 50)
    assert rejects.losses.records == 60
    rejects, records = gather_rejects(make_parts([whole], None), 1, 500)
    assert (rejects.records, records) == (1, 1)
    assert rejects.losses.largest_uncertain == Reject("e.csv.gz", None, "index", "no", 1, 500, "estimated")


def test_few_reasons_are_counted() -> None:
    assert ReasonCounter().most_frequent() is None
    counter = ReasonCounter(2)
    for source, reason, records in (("a", "x", 1), ("b", "y", 5), ("c", "x", 1), ("d", "z", 5)):
        counter.add(reason, records, source)
    found = counter.most_frequent()
    assert found == Reason("x", "a", 2, 2)
    assert list(counter.by_records(9).items()) == [("x", 2), ("y", 5), ("z", 5)]
    assert counter.by_records(2) == {"y": 5, "z": 5}
    assert counter.by_records(1) == {"y": 5}
    assert not counter.has_dropped


def test_of_very_many_reasons_the_frequent_ones_stay() -> None:
    counter = ReasonCounter(10)
    for row in range(10_000):
        counter.add("often" if row % 3 == 0 else f"once {row}", 1, str(row))
    found = counter.most_frequent()
    assert found is not None
    assert (found.text, found.rejects, found.source) == ("often", 3334, "0")
    assert counter.has_dropped
    assert len(counter.by_records(1000)) <= 20
    assert counter.is_counted("often")
    assert not counter.is_counted("once 5000")
