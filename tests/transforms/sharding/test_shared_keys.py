"""Keys that are in several splits, counted beside sets of Python."""

import numpy as np

from transforms.sharding.divisions import Grouped
from transforms.sharding.shared_keys import deal_out, shared_keys

SPLITS = ("train", "test", "validation")


def parts() -> list[Grouped]:
    """Keys of three splits in seven parts, some of them in several."""
    rng = np.random.default_rng(3)
    few = rng.integers(0, 1 << 64, 500, np.uint64)
    found: list[Grouped] = []
    for number in range(7):
        mine = SPLITS[: 1 + number % 3]
        nothing = np.zeros(0, np.uint64)
        found.append({split: (rng.choice(few, 60), nothing, nothing) for split in mine})
    return found


def by_python() -> int:
    splits: dict[int, set[str]] = {}
    for part in parts():
        for split, (keys, *_) in part.items():
            for key in keys.tolist():
                splits.setdefault(key, set()).add(split)
    return sum(len(found) > 1 for found in splits.values())


def test_every_key_meets_its_equals() -> None:
    met: dict[int, list[tuple[str, bytes]]] = {}
    for part in parts():
        for index, found in deal_out(part, lambda keys: keys):
            met.setdefault(index, []).append(found)
    assert by_python() > 0
    assert sum(map(shared_keys, met.values())) == by_python()


def test_a_key_twice_in_one_split_is_not_shared() -> None:
    one = np.array([1, 2], np.uint64).tobytes()
    assert shared_keys([("train", one), ("train", one)]) == 0
    assert shared_keys([("train", one), ("train", one), ("test", np.array([2], np.uint64).tobytes())]) == 1
