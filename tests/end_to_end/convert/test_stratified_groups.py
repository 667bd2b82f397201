"""--group_by with --stratify_by on every route: groups are whole, classes even, and a dry run says what a job says."""

import json
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shardmill
from tests.support.archives import tar
from tests.support.command import image, npy, tree_bytes
from tests.support.jobs import Built, Jobs
from tests.support.later import Later
from tests.support.sounds import wav
from tests.support.table_results import encode_rows

pd = Later("pandas")
# 1 to 4 rows of each of 24 users, in up to three classes, and one of a fourth class
_OF_USERS = [(f"u{user:02}", "abc"[(user * 5 + row * row) % 3]) for user in range(24) for row in range(user % 4 + 1)]
ROWS = [{"user": user, "kind": kind} for user, kind in [*_OF_USERS, ("u07", "rare")]]
CLASSES = Counter(row["kind"] for row in ROWS)
_SPLITS = ("--splits", "train=0.5,test=0.5")
_COLUMNS = "--group_by user --label kind --stratify_by kind"
_NAMES = "--group_by '(?P<group>u..)-.*' --stratify_by label"
FEW = "1 class is in fewer groups than there are splits, so not in all splits, such as 'rare' in 1 group"
ROUTES: dict[str, str] = {
    **dict.fromkeys(("csv", "jsonl", "parquet", "avro", "webdataset"), _COLUMNS),
    "reshard": "--group_by user --stratify_by kind",
    "sql": f"--url sqlite:///shop.db --query 'SELECT * FROM rows' {_COLUMNS}",
    "text": "--group_by content --stratify_by label",
    "images": _NAMES,
    "images of folders": "--folders label/group --stratify_by label",
    "images of a manifest": "--manifest in/m.csv --group_by user --label_column kind --stratify_by kind",
    "images of content": "--group_by content --stratify_by label",
    "images of a function": f"{_NAMES} --map functions.py:keep",
    "audio": _NAMES,
    "arrays": _NAMES,
}


_FILES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "images": ("png", lambda n: image(n, "PNG")),
    "audio": ("wav", lambda n: wav(number=n)),
    "arrays": ("npy", npy),
}


def _write_input(jobs: Jobs, route: str) -> None:
    """Write ROWS as the files that a route reads."""
    command, _, how = route.partition(" ")
    if command == "sql":
        pd.DataFrame(ROWS).to_sql("rows", sqlite3.connect("shop.db"), index=False)
    elif command == "text":
        jobs.write({f"{k}/a.txt": "".join(f"{row['user']}\n" for row in ROWS if row["kind"] == k) for k in CLASSES})
    elif command == "webdataset":
        jobs.write({"a.tar": tar((f"{n}.json", json.dumps(row).encode()) for n, row in enumerate(ROWS))})
    elif command not in _FILES:
        jobs.write({f"{part}.{command}": encode_rows(command, ROWS[part::2]) for part in range(2)})
    else:
        suffix, make = _FILES[command]
        mark = "/" if how == "of folders" else "-"
        contents = [int(row["user"][1:]) if how == "of content" else n for n, row in enumerate(ROWS)]
        names = [f"{row['kind']}/{row['user']}{mark}{n}.{suffix}" for n, row in enumerate(ROWS)]
        (jobs.folder / "functions.py").write_text("def keep(image, **columns):\n    return image\n")
        jobs.write({name: make(content) for name, content in zip(names, contents, strict=True)})
        if how == "of a manifest":
            jobs.write({"m.csv": encode_rows("csv", [{"file_name": n} | row for n, row in zip(names, ROWS)])})


def _examples(built: Built) -> list[tuple[str, str, str]]:
    """Return the user, class and split of each example."""
    names = next((feature.class_names for feature in built.manifest.features if feature.class_names), ())
    found = []
    for split in built.splits:
        for example in built.examples(split):
            user = re.search(r"u\d\d", str(example.get("user", example.get("text", example.get("filename")))))
            kind = example.get("kind", example.get("label"))
            found.append((user[0], names[kind] if names else kind.decode(), split))  # type: ignore[index, union-attr]
    return found


@pytest.mark.parametrize("route", ROUTES)
def test_groups_stay_whole_and_classes_even(jobs: Jobs, route: str) -> None:
    _write_input(jobs, route)
    line = f"{route.partition(' ')[0]} {ROUTES[route]}"
    dry, built = jobs.run(f"{line} --dry_run", *_SPLITS), jobs.build(line, *_SPLITS)
    found = _examples(built)
    assert Counter((user, kind) for user, kind, _ in found) == Counter((row["user"], row["kind"]) for row in ROWS)
    has_class = route in ("text", "images of folders")  # equal lines have one label, and a folder lies in one
    splits = {(user, kind * has_class, split) for user, kind, split in found}
    assert len({(user, kind) for user, kind, _ in splits}) == len(splits)
    for kind in "abc":
        assert Counter(split for _, its, split in found if its == kind) == {"train": 10, "test": 10}
    for said in (dry.out, *(notice for notice in built.notices if "--stratify_by" in notice)):
        assert FEW in said
        assert "with whole groups" not in said
    assert any(FEW in notice for notice in built.notices)


def test_programs_blocks_and_processes_give_one_result(jobs: Jobs) -> None:
    jobs.write({f"{n}.csv": encode_rows("csv", random.Random(3).sample(ROWS, len(ROWS))) for n in range(40)})
    line = f"csv {_COLUMNS} --num_shards 2"
    processes = "--direct_running_mode multi_processing --direct_num_workers 2 --block_size 1KiB"
    one, many = jobs.build(line, *_SPLITS), jobs.build(f"{line} {processes} --output many", *_SPLITS)
    options: dict[str, Any] = {"label": "kind", "group_by": "user", "stratify_by": "kind", "num_shards": 2}
    frame = pd.DataFrame(ROWS * 40)
    written = shardmill.write(frame, output="frame", name="n", splits={"train": 0.5, "test": 0.5}, **options)
    shards = [
        {name: data for name, data in tree_bytes(Path(folder)).items() if "tfrecord" in name}
        for folder in (one.directory, many.directory, written.directory)
    ]
    assert len(shards[0]) == 4
    assert shards[0] == shards[1] == shards[2]
