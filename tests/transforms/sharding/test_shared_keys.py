"""Keys that are in several splits, counted beside sets of Python."""

import numpy as np

from shardmill.transforms.shards.balance import count_shared_keys


def keys_of(*keys: int) -> np.ndarray:
    return np.array(keys, np.uint64)


def by_python(groups: list[np.ndarray]) -> int:
    found: dict[int, set[int]] = {}
    for number, keys in enumerate(groups):
        for key in keys.tolist():
            found.setdefault(key, set()).add(number)
    return sum(len(of) > 1 for of in found.values())


def test_a_key_of_several_groups_counts_once() -> None:
    rng = np.random.default_rng(3)
    few = rng.integers(0, 1 << 64, 500, np.uint64)
    groups = [rng.choice(few, size) for size in (60, 300, 0, 200, 1)]
    assert by_python(groups) > 50
    assert sum(count_shared_keys(groups)) == by_python(groups)


def test_it_is_counted_where_it_comes_a_second_time() -> None:
    assert count_shared_keys([keys_of(1, 2, 2**64 - 1), keys_of(2, 0), keys_of(2, 1, 2**64 - 1)]) == [0, 1, 2]


def test_a_key_twice_in_one_group_is_not_shared() -> None:
    assert count_shared_keys([keys_of(1, 1, 2, 2)]) == [0]
    assert count_shared_keys([keys_of(1, 1), keys_of(0, 0)]) == [0, 0]


def test_of_no_groups_nothing_is_shared() -> None:
    assert count_shared_keys([]) == []
    assert count_shared_keys([keys_of(), keys_of()]) == [0, 0]
