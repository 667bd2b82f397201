"""What a job asks of Flink's network memory, by its plan: whether it fits does not hang on what happens to run at once.

Flink runs whatever has its input: vertices that are joined by pipelined exchanges, a region, at once, and a region as
soon as all blocking exchanges into it are there. While a vertex runs, each blocking exchange out of it holds 512
buffers for each of its subtasks (taskmanager.network.sort-shuffle.min-buffers), of the 4,096 that a TaskManager has by
default: with two slots that is room for four, less what pipelined exchanges take.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FlinkPlan:
    """A job as Flink lays it out.

    Attributes:
      vertices: how many there are.
      blocking: how many exchanges between them are written whole before they are read.
      at_once: the most of these that are ever written at once, whatever happens to take how long.
    """

    vertices: int
    blocking: int
    at_once: int

    @classmethod
    def of(cls, nodes: Sequence[Mapping[str, Any]]) -> "FlinkPlan":
        """The plan whose `nodes` are as /jobs/<id>/plan has them."""
        exchanges = [
            (source["id"], node["id"], source["exchange"] == "blocking")
            for node in nodes
            for source in node.get("inputs", ())
        ]
        region = {node["id"]: node["id"] for node in nodes}
        for one, other, is_blocking in exchanges:
            if not is_blocking:
                joined, gone = region[one], region[other]
                region = {name: joined if of == gone else of for name, of in region.items()}
        writes = dict.fromkeys(region.values(), 0)
        after: dict[str, set[str]] = {name: set() for name in writes}
        for one, other, is_blocking in exchanges:
            if is_blocking:
                writes[region[one]] += 1
                after[region[one]].add(region[other])
        return cls(len(nodes), sum(writes.values()), _most_at_once(writes, after))


def _most_at_once(weights: Mapping[str, int], after: Mapping[str, set[str]]) -> int:
    """The greatest weight of regions none of which comes after another."""
    beyond: dict[str, frozenset[str]] = {}

    def descendants(name: str) -> frozenset[str]:
        if name not in beyond:
            beyond[name] = frozenset().union(after[name], *(descendants(other) for other in after[name]))
        return beyond[name]

    names = sorted((name for name in weights if weights[name]), key=lambda name: -weights[name])
    related = {
        name: frozenset(other for other in names if other in descendants(name) or name in descendants(other))
        for name in names
    }

    def greatest(left: Sequence[str]) -> int:
        if not left:
            return 0
        first, rest = left[0], left[1:]
        with_it = weights[first] + greatest([name for name in rest if name not in related[first]])
        return with_it if not related[first] & set(rest) else max(with_it, greatest(rest))

    return greatest(names)
