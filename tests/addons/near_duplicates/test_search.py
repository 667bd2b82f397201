"""Every two hashes that are near each other are found, once, and the counts are exact."""

from collections import Counter
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shardmill.addons.near_duplicates import search
from shardmill.quality.duplicates import MAX_PAIRS

hashes = st.lists(st.integers(0, 2**64 - 1), max_size=12)
flips = st.lists(st.tuples(st.integers(0, 11), st.lists(st.integers(0, 63), max_size=6)), max_size=12)


def _bits(one: int, other: int) -> int:
    return (one ^ other).bit_count()


@given(hashes, flips, st.integers(0, 4))
@settings(max_examples=60)
def test_every_near_pair_is_found_once(found: list[int], changed: list[tuple[int, list[int]]], distance: int) -> None:
    """Random hashes are never near: some are others with some bits flipped."""
    for place, bits in changed:
        if place < len(found):
            found.append(found[place] ^ sum(1 << bit for bit in set(bits)))
    known = np.array(sorted(set(found)), np.uint64)

    pairs = [
        (*sorted((int(known[a]), int(known[b]))), int(apart))
        for one, other, apart in search.find_near_pairs(known, distance)
        for a, b, apart in zip(one, other, apart, strict=True)
    ]

    values = known.tolist()
    expected = [(a, b, _bits(a, b)) for a, b in combinations(values, 2) if _bits(a, b) <= distance]
    assert sorted(pairs) == expected


def test_many_hashes_that_share_their_bands_are_compared_too() -> None:
    """All differ in the same bits, so that in most orders all stand together."""
    known = np.arange(600, dtype=np.uint64) << np.uint64(27)

    found = sum(len(one) for one, _, _ in search.find_near_pairs(known, 4))

    assert found == sum(_bits(a, b) <= 4 for a, b in combinations(known.tolist(), 2))


pictures = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 3, 0xFF, 0xFE, 1 << 40, (1 << 40) | 7, 2**64 - 1]), st.integers(0, 2), st.integers(0, 2)
    ),
    max_size=14,
)


@given(pictures, st.randoms())
@settings(max_examples=60)
def test_the_counts_are_those_of_looking_at_all_two_by_two(rows: list[tuple[int, int, int]], random: Any) -> None:
    """(hash, content, split) of each picture; equal ones are no pair."""
    # A content has one hash
    known = [(look, (look % 1000) * 10 + content, place, split) for place, (look, content, split) in enumerate(rows)]

    found = _counted(known)

    near = [(one, two) for one, two in permutations(known, 2) if one[1] != two[1] and _bits(one[0], two[0]) <= 4]
    assert found.number_of_pairs == len({frozenset((one[1], other[1])) for one, other in near})
    assert found.within_splits == Counter(one[3] for one in {one for one, other in near if one[3] == other[3]})
    expected = {(one, other[3]) for one, other in near if one[3] != other[3]}
    assert found.across_splits == Counter((one[3], split) for one, split in expected)
    assert found.in_other_splits == Counter(one[3] for one in {one for one, _ in expected})
    by_place = {picture[2]: picture for picture in known}
    for two in found.pairs:
        one, other = by_place[two.one], by_place[two.other]
        assert one[1] != other[1]
        assert _bits(one[0], other[0]) == two.distance
        assert two.is_within_split == (one[3] == other[3])
    shuffled = random.sample(known, len(known))
    places = [picture[2] for picture in shuffled]
    again = _counted(shuffled)
    assert [(two[:4], places[two.one], places[two.other]) for two in again.pairs] == [
        (two[:4], known[two.one][2], known[two.other][2]) for two in found.pairs
    ]


def _counted(known: list[tuple[int, int, int, int]]) -> search.SimilarCounts:
    columns: list[NDArray[np.uint64]] = [np.array([row[n] for row in known], np.uint64) for n in range(3)]
    splits = np.array([row[3] for row in known], np.int64)
    return search.count_similar(search.ComparedImages(columns[0], columns[1], columns[2], splits), 3, 4)


@pytest.mark.parametrize("splits", [1, 2])
def test_of_many_pairs_the_nearest_are_listed(splits: int) -> None:
    """200 twins a bit apart and 30 equal in hash: those of two splits first, the nearest first."""
    random = np.random.default_rng(5)
    twins = [(int(look) << 1, n) for n, look in enumerate(random.integers(0, 2**63, 200))]
    rows = [
        (look ^ bit, 2 * n + bit, 2 * n + bit, (n % 3 == 0) * bit * (splits - 1)) for look, n in twins for bit in (0, 1)
    ]
    equal = enumerate(random.integers(0, 2**63, 30).tolist())
    rows += [(look, 1000 + 2 * n + k, 1000 + 2 * n + k, 0) for n, look in equal for k in (0, 1)]

    found = _counted(rows)

    assert len(found.pairs) == MAX_PAIRS
    ranks = [(two.is_within_split, two.distance) for two in found.pairs]
    assert ranks == sorted(ranks)
    assert sum(not two.is_within_split for two in found.pairs) == (67 if splits == 2 else 0)
