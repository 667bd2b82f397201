from typing import Any

import pytest

from shardmill.quality.limits import Limits

BOTH = Limits(warn=0.1, error=0.3)
GROUND = Limits(warn=0.9, error=0.5)


@pytest.mark.parametrize(
    ("limits", "value", "floor", "expected"),
    [
        (BOTH, 0.1, 0.0, ("ok", 0.1)),
        (BOTH, 0.2, 0.0, ("warn", 0.1)),
        (BOTH, 0.4, 0.0, ("error", 0.3)),
        (BOTH, 0.2, 0.25, ("ok", 0.1)),
        (BOTH, 0.4, 0.5, ("ok", 0.1)),
        (Limits(error=0.3), 0.2, 0.0, ("ok", 0.3)),
        (Limits(), 9.0, 0.0, ("ok", None)),
    ],
)
def test_over(limits: Limits, value: float, floor: float, expected: Any) -> None:
    assert limits.over(value, floor) == expected


@pytest.mark.parametrize(
    ("limits", "value", "floor", "expected"),
    [
        (GROUND, 0.9, None, ("ok", 0.9)),
        (GROUND, 0.8, None, ("warn", 0.9)),
        (GROUND, 0.8, 0.7, ("ok", 0.9)),
        (GROUND, 0.4, 0.7, ("error", 0.5)),
        (GROUND, 0.4, 0.3, ("ok", 0.9)),
        (GROUND, 0.0, None, ("error", 0.5)),
    ],
)
def test_under(limits: Limits, value: float, floor: float | None, expected: Any) -> None:
    assert limits.under(value, floor) == expected


def test_off() -> None:
    assert Limits().is_off
    assert not Limits(warn=0.0).is_off
