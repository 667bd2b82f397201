"""Examples of equal content, within a split and across splits, on every route: counted, listed, said; and counted a
second time by comparing what the inputs hold, of every kind in which an example is not just a row or a file."""

import json
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.archives import tar
from tests.support.command import Run, age, image, npy
from tests.support.jobs import Built, Files, Jobs
from tests.support.sounds import chunk, riff, wav
from tests.support.table_results import encode_rows, parquet, to_csv
from tests.support.tokenizer_files import END, WORDS, tokenizer_json

# Contents by their number: 0 and 1 are in both splits, 2 is in train twice
TRAIN, TEST = (0, 1, 2, 2, 3), (4, 1, 0, 0)


def _rows(numbers: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{"id": 10 * sum(numbers) + place, "x": n, "w": f"word {n}"} for place, n in enumerate(numbers)]


OF_NUMBER: dict[str, Callable[[int], bytes]] = {
    "png": lambda number: image(number, "PNG"),
    "jpg": image,
    "npy": lambda number: npy(np.full((2, 3), number, np.float32)),
    "wav": lambda number: wav(number=number),
    "txt": lambda number: b"text %d" % number,
}


def in_files(suffix: str) -> Files:
    """A file a content, in the folders of their splits."""
    splits = (("train", TRAIN), ("test", TEST))
    return {
        f"{split}/{place}.{suffix}": OF_NUMBER[suffix](n)
        for split, numbers in splits
        for place, n in enumerate(numbers)
    }


def in_rows(command: str, suffix: str) -> Files:
    """A file a split."""
    splits = (("train", TRAIN), ("test", TEST))
    return {f"{split}/a.{suffix}": encode_rows(command, _rows(numbers)) for split, numbers in splits}


LINES = {
    f"{split}/a.txt": "".join(f"word {number}\n" for number in numbers).encode()
    for split, numbers in (("train", TRAIN), ("test", TEST))
}
STORED_AS = "{}, as they are stored"
IN_TABLE = in_rows("csv", "csv")
ROUTES: dict[str, tuple[str, Files, str]] = {
    "csv": ("csv --key id", IN_TABLE, "records without 'id'"),
    "csv in order": ("csv --drop id --no_shuffle", IN_TABLE, "records"),
    "reshard": ("reshard --key id", in_rows("reshard", "tfrecord"), "records without 'id'"),
    "lines": ("text", LINES, "records"),
    "numbered lines": ("text --line_numbers", LINES, "records without 'filename', 'line_number'"),
    "text files": ("text --record file", in_files("txt"), STORED_AS.format("text files")),
    "images": ("images", in_files("png"), STORED_AS.format("images")),
    "arrays": ("arrays", in_files("npy"), STORED_AS.format("arrays")),
    "audio": ("audio", in_files("wav"), STORED_AS.format("audio files")),
}


def duplicates(made: Built) -> dict[str, Any]:
    found: dict[str, Any] = made.json("stats.json")["duplicates"]
    return found


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_counts_equal_contents(route: str, jobs: Jobs) -> None:
    line, files, content = ROUTES[route]
    made = jobs.build(line, files=files)
    assert "NOTE: 3 examples of 'test' have equal content in 'train', such as 'test/" in made.said
    found = duplicates(made)
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
    page = (made.directory.parent / "builds/1.0.0.html").read_text()
    assert "<summary>3 pairs</summary>" in page
    assert "different labels" not in page


def _twice(route: str) -> dict[str, Any]:
    """Return the places of content 2 in train, by the names that users know."""
    _, files, _ = ROUTES[route]
    (name, *others) = (name for name in files if name.startswith("train/"))
    if others:
        return {side: {"split": "train", "name": name.replace("0.", f"{n}.")} for side, n in (("one", 2), ("other", 3))}
    first = {"csv": 4, "csv in order": 4}.get(route, 3)
    return {
        side: {"split": "train", "name": name, "line": line} for side, line in (("one", first), ("other", first + 1))
    }


def test_without_a_key_rows_that_differ_in_it_differ(jobs: Jobs) -> None:
    made = jobs.build("csv", files=IN_TABLE)
    assert "equal content" not in made.said
    assert duplicates(made) == {"content": "records", "across": {}, "elsewhere": {}, "within": {}, "pairs": []}


def test_how_rows_are_cut_does_not_show(jobs: Jobs) -> None:
    rows = [{"id": n, "x": n % 97, "w": f"word {n % 89}"} for n in range(2_000)]
    jobs.write(
        {
            "train/a.csv": encode_rows("csv", rows),
            "test/a.csv": encode_rows("csv", rows[::50]),
            "test/b.csv": encode_rows("csv", rows[7:9]),
        }
    )
    one = duplicates(jobs.build("csv --drop id"))
    assert one["across"] == {"test": {"train": 42}, "train": {"test": 42}}
    assert one == duplicates(jobs.build("csv --drop id --block_size 1KiB --seed 5 --overwrite"))


def test_lines_of_a_manifest_are_told_apart(jobs: Jobs) -> None:
    rows = ("a.png,x,train", "a.png,y,test", "b.png,x,train", "c.png,x,test")
    pictures = {f"{name}.png": image(number, "PNG") for number, name in enumerate("abc")}
    lines = "\n".join(["file_name,label,split", *rows, ""])
    made = jobs.build("images --manifest in/list.csv", files={**pictures, "list.csv": lines})
    (pair,) = duplicates(made)["pairs"]
    sides = (("one", "test", 3), ("other", "train", 2))
    assert pair == {side: {"split": split, "name": "a.png", "line": line} for side, split, line in sides}


def test_inspect_report_and_checks_tell_of_them(jobs: Jobs, run: Run) -> None:
    known = duplicates(jobs.build("csv --key id", files=IN_TABLE))
    assert json.loads(run("inspect", "out/n", "--json").out)["duplicates"] == known
    said = run("inspect", "out/n").out
    assert "Equal contents (records without 'id'):\n  3 examples of 'test' have equal content in 'train'" in said
    assert "  2 examples of 'train' have 1 contents between them" in said
    found = json.loads(run("report", "out/n", "--json").out)
    assert found["duplicates"] == known
    (check,) = (check for check in found["verdict"]["checks"] if check["check"] == "shared_contents")
    assert (check["severity"], check["split"], check["value"]) == ("warn", "test", 0.75)
    assert run("report", "out/n", "--output", "r.html").status == 0
    page = Path("r.html").read_text()
    assert "Duplicates" in page
    assert "test/a.csv:3" in page


TOGETHER = ("csv", "images")


@pytest.mark.parametrize("route", TOGETHER)
def test_equal_contents_are_in_one_split(route: str, jobs: Jobs) -> None:
    line, files, _ = ROUTES[route]
    # Of no split by themselves; names and keys differ, so that without the flag equals are in several
    jobs.write({f"{number}-{name.replace('/', '-')}": data for number in range(6) for name, data in files.items()})
    apart = jobs.build(f"{line} --splits train=0.5,test=0.5")
    assert duplicates(apart)["across"]
    assert "--group_by content keeps equals in one split" in apart.said
    together = jobs.build(f"{line} --splits train=0.5,test=0.5 --group_by content --overwrite")
    found = duplicates(together)
    assert found["across"] == {}
    copies = sum(split["examples"] - split["contents"] for split in found["within"].values())
    assert copies > 3
    assert (f"{copies} files are copies of another in the same split, such as" in together.said) == (route == "images")


def test_equal_pictures_with_other_objects_are_equal(jobs: Jobs) -> None:
    """And by content they are in one split, whatever is annotated in them."""
    files = {f"{n}.jpg": image(n // 2, "JPEG", (40, 30)) for n in range(24)}
    images = [{"id": n, "file_name": name, "width": 40, "height": 30} for n, name in enumerate(files)]
    box = {"category_id": 1, "area": 81, "iscrowd": 0}
    boxes = [{"id": n, "image_id": n, "bbox": [n, 1, 9, 9], **box} for n in range(24)]
    objects = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    line = "images --input in --coco objects.json --splits train=0.5,test=0.5"
    assert duplicates(jobs.build(line, files={**files, "../objects.json": json.dumps(objects)}))["across"]
    together = duplicates(jobs.build(f"{line} --group_by content --overwrite"))
    assert together["across"] == {}
    assert sum(found["examples"] for found in together["within"].values()) == 24


def test_a_column_that_is_called_content_is_that_column(jobs: Jobs) -> None:
    rows = "".join(f"{place % 7},{place}\n" for place in range(200))
    made = jobs.build("csv --splits train=0.5,test=0.5 --group_by content", files={"a.csv": f"content,x\n{rows}"})
    train, test = ({example["content"] for example in made.examples(split)} for split in ("train", "test"))
    assert train | test == set(range(7))
    assert not train & test


DISPUTED = {
    "images": ("images", "png"),
    "reused images": ("images --reuse record", "png"),
    "text files": ("text --record file", "txt"),
}


@pytest.mark.parametrize("route", DISPUTED)
def test_equal_contents_of_different_classes_are_a_conflict(route: str, run: Run, jobs: Jobs) -> None:
    """1 is a cat in train and a dog in test, 2 is both in train, 3 is a dog twice: nothing to quarrel about."""
    line, suffix = DISPUTED[route]
    trained = {"cat/a": 1, "cat/c": 2, "dog/d": 2, "dog/e": 3, "cat/g": 4}
    places = {f"train/{name}": number for name, number in trained.items()} | {"test/dog/b": 1, "test/dog/f": 3}
    made = jobs.build(line, files={f"{name}.{suffix}": OF_NUMBER[suffix](n) for name, n in places.items()})
    said = f"4 examples, of 2 contents, have equal content and different labels, such as 'test/dog/b.{suffix}' (dog)"
    assert f"NOTE: {said}" in made.said
    conflicts = duplicates(made)["conflicts"]
    assert (conflicts["contents"], conflicts["examples"]) == (2, {"test": 1, "train": 3})
    found = [(pair["one"]["name"], pair["other"]["name"], pair["labels"]) for pair in conflicts["pairs"]]
    assert found == [
        (f"test/dog/b.{suffix}", f"train/cat/a.{suffix}", ["dog", "cat"]),
        (f"train/cat/c.{suffix}", f"train/dog/d.{suffix}", ["cat", "dog"]),
    ]
    assert said in run("inspect", "out/n").out
    checks = json.loads(run("report", "out/n", "--json").out)["verdict"]["checks"]
    (check,) = (check for check in checks if check["check"] == "conflicting_labels")
    assert (check["severity"], round(check["value"], 3)) == ("warn", 0.571)
    assert "<td>dog</td><td>test</td>" in Path("out/n/builds/1.0.0.html").read_text()


def test_by_content_what_is_reused_stays_where_it_is_and_what_is_unreadable_is_a_reject(jobs: Jobs) -> None:
    """20 contents, each twice, and a file that is no image; the next night two more of contents that are there."""
    jobs.write({f"a/{n}-{copy}.png": image(n, "PNG") for n in range(20) for copy in "xy"} | {"a/bad.png": b"no image"})
    age(Path("in/a"))
    line = "images --group_by content --splits train=0.5,test=0.5 --max_reject_fraction 0.1"
    before = jobs.build(f"{line} --reuse record").contents.split_of
    again = jobs.build(f"{line} --reuse LATEST --version 1.1.0")
    more = {f"a/{n}-z.png": image(n, "PNG") for n in (3, 4)}
    later = jobs.build(f"{line} --reuse LATEST --version 1.2.0", files=more)

    assert len(before) == 40
    assert set(before.values()) == {"train", "test"}
    assert again.contents.split_of == before
    assert "41 of 41 files taken from 1.0.0, none read" in again.said
    after = later.contents.split_of
    assert {name: after[name] for name in before} == before
    for name in ("a/3", "a/4"):
        assert after[f"{name}-z.png"] == after[f"{name}-x.png"] == after[f"{name}-y.png"]
    for done in (again, later):
        assert "have equal content in" not in done.said
        assert "files taken from" in done.said


def _wav_with_chunk(number: int) -> bytes:
    return riff(wav(number=number % 2)[12:], chunk(b"note", b"%04d" % number))


def _commented(number: int) -> bytes:
    return image(number % 2, comment=b"comment %d" % number)


# Files that differ; two contents are stored
STORED: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "images --resize 8x8 --near_duplicates": ("jpg", _commented),
    "audio --decode_audio": ("wav", _wav_with_chunk),
    "arrays --stacked": ("npy", lambda n: npy(np.full((6, 3), n % 2, np.float32))),
    "text --record file": ("txt", lambda n: b"\xef\xbb\xbf" * (n % 3 > 0) + b"text %d" % (n % 2)),
    "csv --key id": ("csv", lambda n: b"id,x\n%d,%b\n" % (n, (b"1.0", b"1.00", b"2.0", b"2.00")[n % 4])),
    "text --tokenizer t.json": ("txt", lambda n: (b"w1 w2\n", b"w1  w2\n", b"w3 w2\n", b"w3 w2 \n")[n % 4]),
    "text --pack_to 4 --tokenizer t.json": ("txt", lambda n: b"w1 w2 w3 w%d\n" % (n % 2)),
}


@pytest.mark.parametrize("line", STORED)
def test_groups_are_of_what_is_stored(line: str, jobs: Jobs) -> None:
    suffix, of_number = STORED[line]
    files = {f"{number}.{suffix}": of_number(number) for number in range(24)} | {"../t.json": tokenizer_json()}
    together = jobs.build(f"{line} --splits train=0.5,test=0.5 --group_by content", files=files)
    found = duplicates(together)
    assert found["across"] == {}
    assert "have equal content in" not in together.said
    assert sum(split["examples"] for split in found["within"].values()) >= 20


DRAWN = "--splits train=0.6,test=0.3,more=0.1"
Name = str | tuple[str, int]  # of a file, or of a line of one


@dataclass(frozen=True)
class Source:
    """An input in folder `in`."""

    line: str
    files: Files
    held: Mapping[Hashable, tuple[Name, Hashable]]  # by an example's identity: its name in pairs, and what it holds
    content: str  # the name of what is compared
    identity: Callable[[Mapping[str, Any]], Hashable] = lambda example: example["filename"].decode()
    splits: Mapping[Hashable, str] | None = None  # by identity, where examples cannot be asked
    labels: Mapping[Hashable, str] = field(default_factory=dict)  # by identity, if the page has conflicts


def _some(number: int, different: int, seed: int) -> list[int]:
    """Numbers of contents, some of them there once, some often."""
    chance = random.Random(seed)
    return [min(chance.randrange(different), chance.randrange(different)) for _ in range(number)]


def _coco() -> Source:
    held: dict[Hashable, tuple[Name, Hashable]] = {}
    files: dict[str, bytes | str] = {}
    images, boxes = [], []
    for place, number in enumerate(_some(60, 40, 2)):
        name = f"{place}.png"
        files[name] = picture = image(number, "PNG", (12, 9))
        images.append({"id": place, "file_name": name, "width": 12, "height": 9})
        box = {"bbox": [place % 5, 1, 4, 4], "area": 16, "iscrowd": 0}
        boxes.append({"id": place, "image_id": place, "category_id": 1, **box})
        held[name] = ((name, place + 1), picture)
    content = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    files["../objects.json"] = json.dumps(content)
    return Source(f"images --input in --coco objects.json {DRAWN}", files, held, "images, as they are stored")


def _tars() -> Source:
    """Equal pictures have other captions and classes."""
    held: dict[Hashable, tuple[Name, Hashable]] = {}
    labels: dict[Hashable, str] = {}
    members = []
    for place, number in enumerate(_some(60, 40, 3)):
        name, picture = f"{place:03}", image(number, "JPEG", (12, 9))
        members += [(f"{name}.jpg", picture), (f"{name}.cls", b"%d" % (place % 3)), (f"{name}.txt", b"%d" % place)]
        held[name], labels[name] = (("a.tar", place + 1), picture), str(place % 3)
    line = f"webdataset --label label {DRAWN}"
    return Source(line, {"a.tar": tar(members)}, held, "images of 'image', as they are stored", labels=labels)


def _columns_of_images(*names: str) -> Source:
    held: dict[Hashable, tuple[Name, Hashable]] = {}
    labels: dict[Hashable, str] = {}
    rows = []
    for place, number in enumerate(_some(60, 30, 4)):
        pictures = [image(number + 100 * (at * place % 2), "PNG", (12, 9)) for at, _ in enumerate(names)]
        kind = ("ant", "bee", "cat")[place // 7 % 3]
        rows.append({"id": place, **dict(zip(names, pictures, strict=True)), "kind": kind})
        held[place], labels[place] = (("a.parquet", place + 1), tuple(pictures)), kind
    line = f"parquet --image {','.join(names)} --label kind {DRAWN}"
    said = f"images of {', '.join(map(repr, names))}, as they are stored"
    files = {"a.parquet": parquet(pa.Table.from_pylist(rows))}
    return Source(line, files, held, said, lambda example: int(example["id"]), labels=labels)


def _packed() -> Source:
    """Documents, whose splits their folders say: in blocks nobody sees where one begins."""
    chance = random.Random(5)
    texts = [" ".join(chance.choices(WORDS, k=chance.randrange(1, 9))) for _ in range(30)]
    held: dict[Hashable, tuple[Name, Hashable]] = {}
    splits: dict[Hashable, str] = {}
    files: dict[str, bytes | str] = {"../t.json": tokenizer_json()}
    for split, size, seed in (("train", 80, 6), ("test", 25, 7)):
        name, lines = f"{split}/a.txt", [texts[number] for number in _some(size, 30, seed)]
        files[name] = "".join(f"{line}\n" for line in lines)
        for line, text in enumerate(lines, 1):
            held[split, line], splits[split, line] = ((name, line), text), split
    return Source(
        f"text --tokenizer t.json --pack_to 16 --end_of_text '{END}'", files, held, "documents", splits=splits
    )


def _sequences() -> Source:
    """The same steps of another user are the same sequence; its rows lie in two files, in any order."""
    chance = random.Random(8)
    walks = [
        tuple((step, chance.randrange(3), "xy"[step % 2]) for step in range(chance.randrange(1, 6))) for _ in "a" * 25
    ]
    rows = [(user, *row) for user, number in enumerate(_some(80, 25, 9)) for row in walks[number]]
    chance.shuffle(rows)
    held: dict[Hashable, tuple[Name, Hashable]] = {}
    files = {}
    for name, mine in (("a.csv", rows[::2]), ("b.csv", rows[1::2])):
        files[name] = to_csv(("user", "step", "value", "word"), mine)
        for line, (user, step, *_) in enumerate(mine, 2):
            if step == 0:
                held[user] = ((name, line), tuple(sorted(row[1:] for row in rows if row[0] == user)))
    line_of_command = f"csv --sequence_by user --order_by step {DRAWN}"
    return Source(line_of_command, files, held, "sequences without 'user'", lambda example: int(example["user"]))


SOURCES: Mapping[str, Callable[[], Source]] = {
    "annotations": _coco,
    "tars": _tars,
    "columns of images": lambda: _columns_of_images("left", "right"),
    "packed tokens": _packed,
    "sequences": _sequences,
}


def _counted(held: Mapping[Hashable, tuple[Name, Hashable]], splits: Mapping[Hashable, str]) -> dict[str, Any]:
    """Return the figures of stats.json, made by comparing each two examples."""
    names = sorted(set(splits.values()))
    of = {split: [held[one][1] for one in held if splits[one] == split] for split in names}
    within = {split: [content for content in mine if mine.count(content) > 1] for split, mine in of.items()}
    across = {
        split: {other: sum(content in of[other] for content in of[split]) for other in names if other != split}
        for split in names
    }
    elsewhere = {
        split: sum(any(content in of[other] for other in names if other != split) for content in of[split])
        for split in names
    }
    return {
        "within": {
            split: {"examples": len(found), "contents": len(set(found))} for split, found in within.items() if found
        },
        "across": {
            split: {other: number for other, number in found.items() if number}
            for split, found in across.items()
            if any(found.values())
        },
        "elsewhere": {split: number for split, number in elsewhere.items() if number},
    }


@pytest.mark.parametrize("name", SOURCES)
def test_equal_contents_are_those_that_compare_equal(name: str, run: Run, jobs: Jobs) -> None:
    source = SOURCES[name]()
    made = jobs.build(source.line, files=source.files)
    splits = source.splits or {
        source.identity(example): split for split in ("train", "test", "more") for example in made.examples(split)
    }
    assert splits.keys() == source.held.keys()
    found = made.json("stats.json")["duplicates"]
    expected = _counted(source.held, splits)
    assert found["content"] == source.content
    assert {key: found[key] for key in expected} == expected
    assert expected["across"]
    assert expected["within"]
    _check_pairs(found["pairs"], source, splits)
    _check_conflicts(found.get("conflicts"), source, splits)
    assert found.get("documents") == (Counter(splits.values()) if name == "packed tokens" else None)
    assert run("report", made.directory, "--output", "page.html").status == 0
    if name == "sequences":  # which no flag keeps in one split
        assert "have equal content in 'train'" in made.said
        assert "--group_by" not in made.said


def _check_pairs(pairs: list[Any], source: Source, splits: Mapping[Hashable, str]) -> None:
    """One of each content that is there more than once, all of them by names that users know."""
    known = {name: (splits[one], content) for one, (name, content) in source.held.items()}
    contents = Counter(content for _, content in source.held.values())
    listed = []
    for pair in pairs:
        one, other = (known[(side["name"], side["line"]) if "line" in side else side["name"]] for side in pair.values())
        assert one[1] == other[1]
        assert (one[0], other[0]) == (pair["one"]["split"], pair["other"]["split"])
        listed.append(one[1])
    assert sorted(map(repr, listed)) == sorted(repr(content) for content, number in contents.items() if number > 1)


def _check_conflicts(conflicts: Any, source: Source, splits: Mapping[Hashable, str]) -> None:
    of_content: dict[Hashable, set[str]] = {}
    for one, label in source.labels.items():
        of_content.setdefault(source.held[one][1], set()).add(label)
    disputed = {content for content, labels in of_content.items() if len(labels) > 1}
    if not disputed:
        assert conflicts is None
        return
    assert conflicts["contents"] == len(disputed)
    assert conflicts["examples"] == Counter(
        splits[one] for one, (_, content) in source.held.items() if content in disputed
    )
    known = {name: (content, source.labels[one]) for one, (name, content) in source.held.items()}
    for pair in conflicts["pairs"]:
        sides = [
            known[(pair[side]["name"], pair[side]["line"]) if "line" in pair[side] else pair[side]["name"]]
            for side in ("one", "other")
        ]
        assert sides[0][0] == sides[1][0]
        assert [label for _, label in sides] == pair["labels"]


def test_the_share_of_documents_is_of_documents(run: Run, jobs: Jobs) -> None:
    """Every document of test is in train: the share is 1, and not 12, although there are far fewer blocks."""
    source = _packed()
    made = jobs.build(source.line, files={**source.files, "test/a.txt": source.files["train/a.txt"]})

    assert "NOTE: 80 documents of 'test' have equal content in 'train', such as 'test/a.txt:" in made.said
    found = json.loads(run("report", "out/n", "--json").out)
    (check,) = (check for check in found["verdict"]["checks"] if check["check"] == "shared_contents")
    assert check["value"] == 1
    assert check["sentence"] == "80 of 80 documents of 'test' have the content of a document of another split"
    page = (made.directory.parent / "builds/1.0.0.html").read_text()
    assert ">documents</th>" in page
    assert "100 %" in page
    assert " documents of 'test' have " in run("inspect", "out/n").out
