"""Rejects as a job gathers them, without a job."""

import json
from collections.abc import Iterable

from shardmill.metadata.rejects import Reject
from shardmill.transforms.rejects.gathered import Rejects, gather
from shardmill.transforms.rejects.part import RejectsPart, parts_of


def rejects_of(*rejects: Reject) -> Rejects:
    """All of them, found by workers of their own."""
    parts = [part for reject in rejects for part in parts_of([reject], None)]
    return gather(parts, len(rejects), 0)[0]


def rejects_in(parts: Iterable[RejectsPart]) -> list[Reject]:
    """The rejects that travel with some parts, in their order."""
    return [Reject(**json.loads(line)) for part in parts for line in part.text.splitlines()]
