"""How much of Flink's network memory a plan can take at once, whatever takes how long."""

from typing import Any

import pytest

from tests.support.clusters.plans import FlinkPlan


def nodes(*exchanges: str) -> list[dict[str, Any]]:
    """Of exchanges such as `a>b`, which are pipelined, and `a!b`, which are blocking."""
    inputs: dict[str, list[dict[str, str]]] = {name: [] for exchange in exchanges for name in exchange[::2]}
    for source, kind, target in map(tuple, exchanges):
        inputs[target].append({"id": source, "exchange": "blocking" if kind == "!" else "pipelined"})
    return [{"id": name, "inputs": inputs[name]} for name in sorted(inputs)]


@pytest.mark.parametrize(
    ("exchanges", "expected"),
    [
        (["a>b", "b>c"], FlinkPlan(3, 0, 0)),
        (["a!b", "b!c"], FlinkPlan(3, 2, 1)),
        (["a!b", "a!c"], FlinkPlan(3, 2, 2)),
        (["a!b", "a!c", "b!d", "b!e", "c!e"], FlinkPlan(5, 5, 3)),  # b and c run at once
        (["a!b", "a!c", "b!d", "b!e", "c>b"], FlinkPlan(5, 4, 2)),  # c is of the region of b
        (["a!b", "b!c", "b!d", "a!e", "e!f", "f!d"], FlinkPlan(6, 6, 3)),  # b beside e, or beside f
    ],
)
def test_the_most_that_is_written_at_once(exchanges: list[str], expected: FlinkPlan) -> None:
    assert FlinkPlan.of(nodes(*exchanges)) == expected
