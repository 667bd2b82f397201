"""Rejects as a job gathers them, without a job."""

import json
from collections.abc import Iterable

from shardmill.metadata.manifest import Reject
from shardmill.transforms.workers.rejects import Rejects, RejectsPart, gather_rejects, make_parts


def rejects_of(*rejects: Reject) -> Rejects:
    """All of them, found by workers of their own."""
    parts = [part for reject in rejects for part in make_parts([reject], None)]
    return gather_rejects(parts, len(rejects), 0)[0]


def rejects_in(parts: Iterable[RejectsPart]) -> list[Reject]:
    """The rejects that travel with some parts, in their order."""
    return [Reject(**json.loads(line)) for part in parts for line in part.text.splitlines()]
