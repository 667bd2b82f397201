"""Equal contents, counted a second time by comparing what the inputs hold, of every kind of data set in which an
example is not just a row or a file: each example's split is read back, and nothing is hashed."""

import json
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.archives import tar
from tests.support.command import Run, image
from tests.support.jobs import Files, Jobs
from tests.support.masks import encoded
from tests.support.table_results import parquet, to_csv
from tests.support.tokenizer_files import END, WORDS, tokenizer_json

DRAWN = "--splits train=0.6,test=0.3,more=0.1"
Name = str | tuple[str, int]  # of a file, or of a line of one


@dataclass(frozen=True)
class Source:
    """An input in folder `in`."""

    line: str
    files: Files
    held: Mapping[Hashable, tuple[Name, Hashable]]  # by an example's identity: its name in pairs, and what it holds
    content: str  # what is compared, in words
    identity: Callable[[Mapping[str, Any]], Hashable] = lambda example: example["filename"].decode()
    splits: Mapping[Hashable, str] | None = None  # by identity, where examples cannot be asked
    labels: Mapping[Hashable, str] = field(default_factory=dict)  # by identity, where conflicts are told


def _some(number: int, different: int, seed: int) -> list[int]:
    """Numbers of contents, some of them there once, some often."""
    chance = random.Random(seed)
    return [min(chance.randrange(different), chance.randrange(different)) for _ in range(number)]


def _masks() -> Source:
    """Equal pictures have other masks: they are equal all the same."""
    held: dict[Hashable, tuple[Name, Hashable]] = {}
    files: dict[str, bytes] = {}
    for place, number in enumerate(_some(60, 40, 1)):
        name, picture = f"{'ab'[place % 2]}/{place}.png", image(number, "PNG", (12, 9))
        files |= {f"images/{name}": picture, f"masks/{name}": encoded(np.full((9, 12), place % 3, np.uint8))}
        held[name] = (name, picture)
    line = f"images --input in/images --masks in/masks {DRAWN}"
    labels = {name: str(name)[0] for name in held}
    return Source(line, files, held, "images, as they are stored", labels=labels)


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
    "masks": _masks,
    "annotations": _coco,
    "tars": _tars,
    "a column of images": lambda: _columns_of_images("image"),
    "two columns of images": lambda: _columns_of_images("left", "right"),
    "packed tokens": _packed,
    "sequences": _sequences,
}


def _counted(held: Mapping[Hashable, tuple[Name, Hashable]], splits: Mapping[Hashable, str]) -> dict[str, Any]:
    """What stats.json is to say, by comparing each two examples."""
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
    """Of blocks there are far fewer: every document of test is in train, which is all of them, and not 12 times all."""
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


def test_nobody_is_told_of_a_flag_that_sequences_have_not(jobs: Jobs) -> None:
    source = _sequences()
    said = jobs.build(source.line, files=source.files).said
    assert "have equal content in 'train'" in said
    assert "--group_by" not in said
