"""What `retain` deletes and what stays, as a table, on a disk and on object stores alike."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from shardmill.addons.nightly.recipe import RetainOptions
from shardmill.addons.nightly.retention import retain
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.catalog import find_damage
from shardmill.transforms.publishing.lease import Owner
from shardmill.transforms.stores import storage
from tests.support.buckets import Bucket
from tests.support.command import tree_bytes
from tests.support.small_data_set import make_version

DAY = 86_400.0
_SILENT = 7.0  # hours after which a cluster's job counts as dead
_VERSIONS = 5  # 1.0.0 is 40 days old, each of the others 10 days younger


@dataclass(frozen=True)
class Case:
    """What is asked of five versions, and what is left.

    Attributes:
      min_versions, max_age: what the recipe says; the age in days.
      kept: the last numbers of the versions that are left.
      says: how the only sentence, or the first, begins.
      files: that stand beside the versions: LATEST and tags.
      stay: versions that the build reads.
      gone: a file that an interrupted deletion had deleted.
      built: a version that another job builds.
      left: hours ago when a cluster's job, whose launcher has ended, last wrote a file of 1.0.5; its lease was
        renewed two days ago.
    """

    min_versions: int | None
    max_age: float | None
    kept: tuple[int, ...]
    says: str = ""
    files: Mapping[str, bytes] = field(default_factory=lambda: {"LATEST": b"1.0.4\n"})
    stay: tuple[str, ...] = ()
    gone: str = ""
    built: str = ""
    left: float | None = None


CASES = {
    "both allow it": Case(1, 5, (4,), "deleted 1.0.0, which is older than 5d; the newest stays"),
    "min_versions forbids": Case(4, 5, (1, 2, 3, 4), "deleted 1.0.0, which is older than 5d; the newest 4 stay"),
    "max_age forbids": Case(1, 25, (2, 3, 4), "deleted 1.0.0, which is older than 25d"),
    "nobody asks": Case(None, None, (0, 1, 2, 3, 4)),
    "LATEST was rolled back": Case(1, 5, (0, 4), "deleted 1.0.1", {"LATEST": b"1.0.0\n"}),
    "a tag": Case(1, 5, (1, 4), "deleted 1.0.0", {"LATEST": b"1.0.4\n", "TAGS/good": b"1.0.1\n"}),
    "the baseline": Case(1, 5, (3, 4), "deleted 1.0.0", stay=("1.0.3",)),
    "LATEST names nothing": Case(1, 5, (0, 1, 2, 3, 4), "LATEST names 'x', which is no version", {"LATEST": b"x"}),
    "a tag names nothing": Case(
        *(1, 5, (0, 1, 2, 3, 4), "TAGS/odd names '', which is no version", {"LATEST": b"1.0.4\n", "TAGS/odd": b""})
    ),
    "there is no LATEST": Case(1, 5, (0, 1, 2, 3, 4), files={}),
    "a deletion was interrupted": Case(4, 5, (0, 1, 3, 4), "deleted 1.0.2", gone="1.0.2/_SUCCESS"),
    "another job builds": Case(1, 5, (0, 1, 2, 3, 4), "1.0.5 is being built, or its job", built="1.0.5"),
    "a cluster builds": Case(1, 5, (0, 1, 2, 3, 4), "1.0.5 is being built, or its job", left=5),
    "a cluster builds no more": Case(1, 15, (3, 4), "deleted 1.0.0", left=_SILENT),
    "what a cluster left, alone": Case(7, 15, (0, 1, 2, 3, 4), "deleted what a job", left=_SILENT),
}


@cache
def _five() -> dict[str, bytes]:
    with TemporaryDirectory() as name:
        for index in range(_VERSIONS):
            make_version(Path(name), f"1.0.{index}")
        return tree_bytes(Path(name))


def check_retained(place: Bucket, case: Case) -> None:
    """Make five versions in a place, let some go, and look at what is left."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda item: place.put(f"n/{item[0]}", item[1]), {**_five(), **case.files}.items()))
    for index in range(_VERSIONS):
        place.older(f"n/1.0.{index}/", (_VERSIONS - 1 - index) * 10 * DAY)
    parent = f"{place.url}/n"
    storage.delete([f"{parent}/{case.gone}"] if case.gone else [])
    held = lease.take_lease(f"{parent}/{case.built}", "beam-temp-n-0123", "0123") if case.built else None
    if case.left is not None:
        owner = Owner.this_process("0123", lease.DETACHED_LEASE_SECONDS, detached=True)
        place.put("n/1.0.5/LOCK", replace(owner, boot="another", host="web7").to_json().encode())
        place.put("n/1.0.5/beam-temp-n-0123/runs/1", b"x")
        place.older("n/1.0.5/LOCK", 2 * DAY)
        place.older("n/1.0.5/beam-temp-n-0123/", case.left * 3600)
    before = place.names("n/")
    try:
        options = RetainOptions(min_versions=case.min_versions, max_age=case.max_age and case.max_age * DAY)
        said = retain(parent, options, case.stay)
    finally:
        if held is not None:
            held.leave()

    assert (said[0] if said else "").startswith(case.says), said
    assert bool(said) == bool(case.says)
    versions = [f"n/1.0.{index}/" for index in range(_VERSIONS) if index not in case.kept]
    versions += ["n/1.0.5/"] if case.left == _SILENT else []
    assert sorted(place.names("n/")) == sorted(name for name in before if not name.startswith(tuple(versions)))
    assert [find_damage(f"{parent}/1.0.{index}") for index in case.kept] == [""] * len(case.kept)
