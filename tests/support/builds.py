"""Builds of a data set of flowers, ready to be published, and rejects as a job gathers them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import google_crc32c

from shardmill.data.codecs import PLAIN_CODEC
from shardmill.data.features import Feature
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName
from shardmill.metadata.manifest import Reject
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.description import Build, PublishOptions
from shardmill.transforms.shards.balance import ShardCount
from shardmill.transforms.shards.divisions import Division, Divisions, to_cuts
from shardmill.transforms.shards.sources import ShardInfo
from shardmill.transforms.statistics.files import ImageStats, merge_by_split
from shardmill.transforms.workers.rejects import Rejects, RejectsPart, gather_rejects, make_parts
from tests.support.command import local_files

FEATURES = (Feature("image", "bytes", "image"), Feature("label", "int64", "class_label", class_names=("ant", "bee")))
SHARDS = {"train": 4, "test": 2}
REJECT = Reject("bad.jpg", None, "write", "the file is empty")


def options(output: Path, **changes: object) -> PublishOptions:
    counts = {"": ShardCount(4), "test": ShardCount(2)}
    made = PublishOptions(
        output=str(output),
        name="flowers",
        codec=PLAIN_CODEC,
        max_reject_fraction=0.1,
        shard_counts=counts,
        source="photos/",
        configuration={},
        versions={},
        job="1",
        overwrite=True,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def own(directory: Path, job: str) -> None:
    """Give a job the lease; its launcher has ended, so any other may take it."""
    lease.take_lease(str(directory), file_names.temporary_folder("flowers", job), job).leave()


def build(directory: Path, attempt: str = "1", rejects: int = 0, counts: Mapping[str, int] = SHARDS) -> Build:
    """A build whose shards of ten examples lie in a temporary directory of `directory`."""
    temporary = directory / file_names.temporary_folder("flowers", attempt)
    own(directory, attempt)
    temporary.mkdir(exist_ok=True)
    divisions: Divisions = {
        split: Division(10 * number, to_cuts([(index, 0) for index in range(1, number)]))
        for split, number in counts.items()
    }
    shards = []
    for split, number in counts.items():
        for index in range(number):
            path = temporary / f"{split}-{index}"
            path.write_text(f"{attempt}: {split} {index}")
            rejected = rejects if (split, index) == ("train", number - 1) else 0
            crc32c = google_crc32c.value(path.read_bytes())
            stats = ImageStats(labels=Counter({0: 5, 1: 5}))
            name = ShardName("flowers", split, index, number)
            shards.append(ShardInfo(name, str(path), 10, 10 - rejected, rejected, path.stat().st_size, crc32c, stats))
    by_split = merge_by_split((shard.name.split, shard.stats) for shard in shards if shard.stats is not None)
    return Build(
        10 * sum(counts.values()), 0, 0, ("train", "test"), divisions, shards, rejects_of(*[REJECT] * rejects), by_split
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {name: data for name, data in local_files(directory).items() if Path(name).name != file_names.LOCK}


def rejects_of(*rejects: Reject) -> Rejects:
    """All of them, found by workers of their own."""
    parts = [part for reject in rejects for part in make_parts([reject], None)]
    return gather_rejects(parts, len(rejects), 0)[0]


def rejects_in(parts: Iterable[RejectsPart]) -> list[Reject]:
    """The rejects that travel with some parts, in their order."""
    return [Reject(**json.loads(line)) for part in parts for line in part.text.splitlines()]
