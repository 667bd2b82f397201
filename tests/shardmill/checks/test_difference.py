from typing import Any

import numpy as np
import pytest

from shardmill.quality.difference import describe_changes, find_differences
from shardmill.quality.profile import Profile
from tests.support.profiles import profile

CLASSES = {"action": ["buy", "click", "view"]}


def night(examples: int, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "action": random.choice(3, examples, p=[0.1, 0.3, 0.6]).tolist(),
        "amount": random.normal(9.9, 1, examples).tolist(),
        "country": random.choice(["de", "fr"], examples).tolist(),
    }


def of(columns: dict[str, Any], version: str = "1.0.2", classes: Any = CLASSES, **changes: Any) -> Profile:
    return profile({"train": columns}, classes, version, **changes)


OLD = night(20_000)


@pytest.fixture(scope="module")
def old() -> Profile:
    return of(OLD, "1.0.1", format="csv")


def test_a_bad_night(old: Profile) -> None:
    kept = [index for index, action in enumerate(OLD["action"]) if action == 1 or action == 2][:11_886]
    columns = {name: [values[index] for index in kept] for name, values in OLD.items()}
    columns |= {
        "action": [action - 1 for action in columns["action"]],
        "amount": [100.5 * amount for amount in columns["amount"]],
        "campaign": ["x"] * len(kept),
    }
    new = of(columns, classes={"action": ["click", "view"]}, format="csv")

    assert describe_changes(new, old) == (
        "since 1.0.1: 20,000 -> 11,886 rows; class buy gone; ids moved: 'click' from 1 to 0, 'view' from 2 to 1;"
        " column campaign new; amount mean 9.9 -> 995"
    )


def test_another_draw_of_the_same(old: Profile) -> None:
    assert (
        describe_changes(of(night(20_000, 7), format="csv"), old)
        == "since 1.0.1: 20,000 rows, as before; nothing else changed in its statistics"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"country": ["de"] * 20_000}, "country de 50.13% -> 100.00% of train"),
        (
            {"amount": [None if i % 4 == 0 else x for i, x in enumerate(OLD["amount"])]},
            "amount in 100.00% -> 75.00% of them",
        ),
        ({"amount": list(range(20_000))}, "column amount float32 -> int64"),
        ({"country": [["de"]] * 20_000}, "column country bytes text -> bytes text[-1]"),
    ],
)
def test_a_feature_changed(old: Profile, changes: dict[str, Any], words: str) -> None:
    assert words in describe_changes(of(OLD | changes, format="csv"), old)


def test_a_column_and_a_split_are_gone() -> None:
    both = profile({"train": {"x": [1], "y": [1]}, "test": {"x": [1], "y": [2]}}, version="1.0.0")
    one = profile({"train": {"x": [1]}}, rejected=3)

    assert (
        describe_changes(one, both) == "since 1.0.0: 2 -> 1 examples; 0 -> 3 rejected; split test gone; column y gone"
    )
    assert describe_changes(both, one).endswith("1 -> 2 examples; 3 -> 0 rejected; split test new; column y new")


def test_what_differs_has_values(old: Profile) -> None:
    (found, *_) = find_differences(of(night(10_000)), old)

    assert (found.what, found.before, found.after) == ("examples", 20_000, 10_000)
