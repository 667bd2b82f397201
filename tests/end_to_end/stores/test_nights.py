"""The same nights on a disk, on gs:// and on s3://: what each command ends with, what it prints, what lies there then.

A row of STEPS is a command, or what happens before one; the rows follow each other on one data set, and every row is a
test of its own.
"""

import importlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines import cli
from tests.end_to_end.stores.conftest import a_new_bucket
from tests.support.buckets import Bucket, Disk, without_source
from tests.support.command import PROGRESS, Process, Result
from tests.support.faults import kill

pytestmark = pytest.mark.slow

_RECIPE = """\
name: events
output: ${WHERE}/sets
csv:
  input: ${WHERE}/in
  label: kind
  splits: train=0.8,test=0.2
"""
_KINDS = ("buy", "click", "view")
_MORE_KINDS = ("add", *_KINDS)  # one that sorts before the others, and gets the last id where those are kept
_LIKE = "like: LATEST\n"
_KEEP = "  on_new_label: append\nlabels: keep\nschema: keep\nfreshness: {warn_after: 26h, error_after: 50h}\n"


def put(place: Bucket, number: int = 100, kinds: Sequence[str] = _KINDS, more: str = "", hours: float = 0) -> None:
    """The input of a night: so many events of these kinds, perhaps a column more, written so many hours ago."""
    lines = [f"{n},{kinds[n * 7 % len(kinds)]},{n * 13 % 101 / 10}{',1' if more else ''}\n" for n in range(number)]
    place.put("in/a.csv", f"id,kind,amount{more}\n{''.join(lines)}".encode())
    place.older("in/", hours * 3600)


def recipe(place: Bucket, more: str = "") -> None:
    place.put("recipes/events.yaml", (_RECIPE + more).encode())


@dataclass(frozen=True)
class Step:
    """What happens, the command then, and what comes of it.

    Attributes:
      words: of the command; PLACE stands for where all lies.
      status: it ends with.
      says: what is among what it prints.
      latest: what LATEST names then.
      happens: before it.
      dies: the function in which the command is killed, in a process of its own.
    """

    words: str
    status: int
    says: Sequence[str]
    latest: str
    happens: Sequence[Callable[[Bucket], object]] = field(default=())
    dies: str = ""


_REBUILD = "rebuild PLACE/recipes/events.yaml --set WHERE=PLACE"

STEPS = {
    "the source has stopped before the first": Step(
        _REBUILD,
        3,
        ["60h ago; freshness: error_after 50h allows no more: has the source stopped? Nothing was published"],
        "",
        [partial(put, hours=60), partial(recipe, more=_KEEP)],
    ),
    "a dry run": Step(
        f"{_REBUILD} --dry_run",
        0,
        ["there is no version yet: 1.0.0 would be built", "PLACE/in: 1 file", "click"],
        "",
        [put, partial(recipe, more=_LIKE)],
    ),
    "the first, like none": Step(
        _REBUILD, 0, ["no version yet whose labels or schema could be kept", "events 1.0.0 is published: "], "1.0.0"
    ),
    "nothing new": Step(_REBUILD, 0, ["events: unchanged since 1.0.0: 1 file"], "1.0.0"),
    "a new class, like LATEST": Step(
        _REBUILD,
        2,
        [
            "the types of 3 columns are those of 1.0.0",
            "the ids of 3 classes are those of 1.0.0; a new one fails",
            "class 'add' is in the input but not in the kept labels of version 1.0.0; give --on_new_label append",
        ],
        "1.0.0",
        [partial(put, kinds=_MORE_KINDS)],
    ),
    "a new class with kept labels, a column with a kept schema, and late": Step(
        _REBUILD,
        0,
        [
            "30h ago, more than freshness: warn_after 26h",
            "the ids of 3 classes are those of 1.0.0; a new one gets the next id",
            "events 1.0.1 is published",
            "class add new",
            "left out what the kept schema of version 1.0.0 does not have: column 'age'",
            "classes_new: 1 class is new since 1.0.0: 'add'",
        ],
        "1.0.1",
        [partial(put, kinds=_MORE_KINDS, more=",age", hours=30), partial(recipe, more=_KEEP)],
    ),
    "killed as it renames": Step(
        _REBUILD,
        9,
        ["0 files new, 1 changed, 0 gone"],
        "1.0.1",
        [partial(put, number=110, kinds=_MORE_KINDS)],
        dies="shardmill.transforms.publishing.publication._check_placed",
    ),
    "what was killed is completed first, of its own input": Step(
        _REBUILD,
        0,
        [
            "completed the publication of PLACE/sets/events/1.0.2, in which an earlier run was interrupted",
            "events 1.0.3 is published",
            "since 1.0.2: 110 -> 120 rows",
        ],
        "1.0.3",
        [partial(put, number=120, kinds=_MORE_KINDS)],
    ),
    "a backfill": Step(
        f"{_REBUILD} --version 0.9.0",
        0,
        ["events 0.9.0 is published", "LATEST was not moved: it names 1.0.3, which is newer; `shardmill rollback "],
        "1.0.3",
        [partial(put, number=130, kinds=_MORE_KINDS)],
    ),
    "a backfill that is to be used": Step(
        f"{_REBUILD} --version 0.9.1 --set_latest", 0, ["events 0.9.1 is published"], "0.9.1"
    ),
    "diff": Step("diff PLACE/sets/events 1.0.0 1.0.1", 0, ["since 1.0.0: 100 rows, as before; class add new"], "0.9.1"),
    "diff as JSON": Step("diff PLACE/sets/events 1.0.1 1.0.3 --json", 0, ['"since 1.0.1: 100 -> 120 rows"'], "0.9.1"),
    "a page": Step(
        "report PLACE/sets/events/1.0.1 --output PLACE/page.html", 0, ["page.html: events 1.0.1, look at it"], "0.9.1"
    ),
    "inspect as JSON": Step(
        "inspect PLACE/sets/events/1.0.1 --json", 0, ['"class_names": ["buy", "click", "view", "add"]'], "0.9.1"
    ),
    "versions": Step("versions PLACE/sets/events", 0, ["LATEST    passed", "0 errors, 1 warning"], "0.9.1"),
}


class Nights:
    """What came of the steps in one place."""

    def __init__(self, place: Bucket, folder: Path) -> None:
        self._place, self._folder = place, folder
        self.results: dict[str, Result] = {}
        self.latest: dict[str, str] = {}
        self.files: dict[str, bytes] = {}

    def go(self) -> None:
        for name, step in STEPS.items():
            for happens in step.happens:
                happens(self._place)
            words = [word.replace("PLACE", self._place.url) for word in step.words.split()] + self._place.flags
            result = self._killed(name, step.dies, words) if step.dies else _run(words)
            self.results[name] = Result(result.status, self._alike(result.out), self._alike(result.err))
            named = self._place.files("sets/events/LATEST")
            self.latest[name] = named.get("sets/events/LATEST", b"").decode().strip()

        self.files = self._place.files("sets/")

    def _killed(self, name: str, moment: str, words: Sequence[str]) -> Result:
        before = partial(_dies_at, moment, dict(self._place.environment))
        return Process(self._folder / name, *words, before=before).result()

    def _alike(self, text: str) -> str:
        """`text` as it would be anywhere, at any time, on a machine that is not busy; a disk gets no requests."""
        text = re.sub(r"Requests to stores: about [\d,]+\n", "", text)
        text = PROGRESS.sub("", text.replace(self._place.url, "PLACE"))
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?|\d+ (ms|s)\b", "TIME", text)


def _run(words: Sequence[str]) -> Result:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        status = cli.main(words)
    return Result(status, out.getvalue(), err.getvalue())


def _dies_at(moment: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    module, _, name = moment.rpartition(".")
    setattr(importlib.import_module(module), name, lambda *_, **__: kill())


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    nights = Nights(Disk(tmp_path_factory.mktemp("nights")), tmp_path_factory.mktemp("processes"))
    nights.go()
    return nights


@pytest.fixture(scope="module", params=["gs", "s3"])
def there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    with a_new_bucket(request.param, request) as bucket:
        nights = Nights(bucket, tmp_path_factory.mktemp("processes"))
        nights.go()
        yield nights


@pytest.mark.parametrize("step", STEPS)
def test_a_step_on_a_disk(on_disk: Nights, step: str) -> None:
    expected, result = STEPS[step], on_disk.results[step]
    assert (result.status, on_disk.latest[step]) == (expected.status, expected.latest), result
    assert [said for said in expected.says if said not in result.out + result.err] == [], result


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_the_same_there(on_disk: Nights, there: Nights, step: str) -> None:
    assert there.results[step] == on_disk.results[step]
    assert there.latest[step] == on_disk.latest[step]


def test_all_that_lies_there_is_the_same(on_disk: Nights, there: Nights) -> None:
    """Every byte of every version; of the records of builds, which hold times, and of pages all but those."""
    one, other = on_disk.files, there.files
    assert one.keys() == other.keys()
    assert without_source(other) == without_source(one)
    for name in one:
        if name.endswith(".json") and "/builds/" in name:
            assert _record(other[name]) == _record(one[name])


def _record(data: bytes) -> BuildRecord:
    """A record without times and places, and the digests of those."""
    record = BuildRecord.from_json(data, "record")
    notices = tuple(re.sub(r"(?<=rollback )\S+(?=/sets/)", "", notice) for notice in record.notices)
    return replace(record, started="", seconds=0, code_version="", data_version="", notices=notices)
