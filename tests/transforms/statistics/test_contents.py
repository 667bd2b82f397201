"""Tests of transforms/statistics/contents.py."""

from collections import Counter, defaultdict
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.quality.duplicates import MAX_PAIRS, Duplicates, ExampleSource, RepeatedContents
from shardmill.transforms.statistics import duplicates
from shardmill.transforms.statistics.contents import (
    PART_BITS,
    Contents,
    Section,
    combine_with_lines,
    contents_of_digests,
    count_ranges,
    digest_content,
    encode_names,
    hash_file_names,
    hash_lines,
    invert_positions,
    make_section,
    range_bounds,
    sort_by_split,
)
from shardmill.transforms.statistics.duplicates import find_duplicates, find_repeated
from shardmill.transforms.stores import storage

SPLITS = ("test", "train", "validation")
Row = tuple[str, str, int]  # split, content, line of the file that is called like the split


def sections(rows: list[Row], path: Path, cuts: list[int]) -> list[Section]:
    """The rows in sections, cut before each of `cuts`; of a file each."""
    found = []
    for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        for split in SPLITS:
            mine = [row for row in rows[start:stop] if row[0] == split]
            if mine:
                places = hash_lines(f"{split}.csv", np.array([line for _, _, line in mine]))
                contents = contents_of_digests(
                    b"".join(digest_content(content.encode()) for _, content, _ in mine), places
                )
                (contents,) = sort_by_split(contents, np.zeros(len(mine), np.int64), 1)
                name = str(path / f"{start}-{split}")
                section, parts = make_section(contents, split, name, 0, encode_names([f"{split}.csv", "other.csv"]))
                storage.write_parts(name, parts)
                found.append(section)
    return found


def found(sections: list[Section], at_once: int = 1 << 20) -> Duplicates:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "CONTENTS_AT_ONCE", at_once)
        return find_duplicates("rows", sections)


def expected(rows: list[Row]) -> tuple[dict[str, RepeatedContents], dict[str, dict[str, int]], dict[str, int]]:
    """Counted the slow way: every two rows."""
    by_content: dict[str, Counter[str]] = defaultdict(Counter)
    for split, content, _ in rows:
        by_content[content][split] += 1
    within: dict[str, RepeatedContents] = {}
    across: dict[str, dict[str, int]] = defaultdict(dict)
    elsewhere: dict[str, int] = {}
    for split in SPLITS:
        repeated = [counts[split] for counts in by_content.values() if counts[split] > 1]
        if repeated:
            within[split] = RepeatedContents(sum(repeated), len(repeated))
        if shared := sum(counts[split] for counts in by_content.values() if len(counts) > 1 and split in counts):
            elsewhere[split] = shared
    for split, other in product(SPLITS, SPLITS):
        examples = sum(counts[split] for counts in by_content.values() if split in counts and other in counts)
        if split != other and examples:
            across[split][other] = examples
    return within, dict(across), elsewhere


rows_in_pieces = st.lists(st.tuples(st.sampled_from(SPLITS), st.text("ab", max_size=3)), max_size=40).flatmap(
    lambda rows: st.tuples(
        st.just([(split, content, line) for line, (split, content) in enumerate(rows)]),
        st.lists(st.integers(0, len(rows)), max_size=3).map(sorted),
        st.sampled_from([1, 2, 1024]),
    )
)


@given(rows_in_pieces)
@settings(max_examples=50)
def test_counts_are_those_of_all_pairs(drawn: tuple[list[Row], list[int], int]) -> None:
    rows, cuts, at_once = drawn
    with TemporaryDirectory() as folder, TemporaryDirectory() as other:
        duplicates = found(sections(rows, Path(folder), cuts), at_once)
        whole = found(sections(rows, Path(other), []))

    assert (duplicates.within, duplicates.across, duplicates.elsewhere) == expected(rows)
    assert duplicates == whole
    contents = {(f"{split}.csv", line): content for split, content, line in rows}
    for pair in duplicates.pairs:
        one, other_one = ((member.name, member.line or 0) for member in (pair.one, pair.other))
        assert one != other_one
        assert contents[one] == contents[other_one]
        assert (pair.one.split, pair.other.split) == (one[0][:-4], other_one[0][:-4])
    assert len(duplicates.pairs) == sum(number > 1 for number in Counter(content for _, content, _ in rows).values())


def test_pairs_in_two_splits_are_listed_first(tmp_path: Path) -> None:
    rows = [("train", f"{n % 150}", n) for n in range(300)] + [("test", f"{n}", n) for n in range(30)]

    duplicates = found(sections(rows, tmp_path, [100]), 60)

    assert [pair.one.split != pair.other.split for pair in duplicates.pairs] == [True] * 30 + [False] * (MAX_PAIRS - 30)
    assert duplicates.within == {"train": RepeatedContents(300, 150)}
    assert duplicates.across == {"test": {"train": 30}, "train": {"test": 60}}
    assert ExampleSource("test", "test.csv", 0) in {pair.one for pair in duplicates.pairs}


@pytest.mark.parametrize("at_once", [1, 100])
def test_ranges_smaller_than_a_part_of_a_section(at_once: int, tmp_path: Path) -> None:
    rows = [("train", f"{n % 400}", n) for n in range(500)]

    assert found(sections(rows, tmp_path, [90]), at_once).within == {"train": RepeatedContents(200, 100)}


def test_halves_that_are_equal_are_not_enough(tmp_path: Path) -> None:
    places = hash_lines("a", np.arange(4))
    contents = Contents(np.array([7, 7, 8, 8], np.uint64), np.array([1, 2, 3, 3], np.uint64), places)
    section, parts = make_section(contents, "train", str(tmp_path / "one"), 0, encode_names(["a"]))
    storage.write_parts(section.path, parts)

    assert found([section]).within == {"train": RepeatedContents(2, 1)}


@pytest.mark.parametrize(("examples", "ranges"), [(0, 1), (1, 1), (10, 1), (11, 2), (41, 8)])
def test_ranges(examples: int, ranges: int) -> None:
    assert count_ranges(examples, 10) == ranges
    bounds = [range_bounds(index, ranges) for index in range(ranges)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == (1 << 64) - 1
    assert all(low == high + 1 for (_, high), (low, _) in pairwise(bounds))


@pytest.mark.parametrize("bounds", [range_bounds(0, 1), range_bounds(1, 4), range_bounds(700, 1024)])
@pytest.mark.parametrize("number", [0, 1, 300, 200_000])
def test_repeated_values_are_found_however_many_are_sorted_at_once(number: int, bounds: tuple[int, int]) -> None:
    chance = np.random.default_rng(number)
    low, high = bounds
    values = chance.integers(low, high, number, np.uint64, endpoint=True)
    values[: number // 3] = values[number // 2 : number // 2 + number // 3]
    some = np.array([low, high, high, low, low], np.uint64)  # at the ends of the range
    parts = [part[np.argsort(part >> np.uint64(56), kind="stable")] for part in (*np.array_split(values, 7), some)]

    found = find_repeated(parts, bounds)

    counted = Counter(np.concatenate(parts).tolist())
    assert found.tolist() == sorted(value for value, times in counted.items() if times > 1)
    assert {low, high} <= set(found.tolist())


@given(
    st.sets(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), min_size=1),
    st.lists(st.integers(0, 1 << 40), unique=True),
    st.data(),
)
def test_places_are_found_again(names: set[str], lines: list[int], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(names)))
    places = hash_lines(name, np.array(lines, np.int64)).tolist()

    blob = "\0".join(sorted(names)).encode()
    assert invert_positions(places, blob) == {place: (name, line) for place, line in zip(places, lines, strict=True)}
    hashes = hash_file_names([name] * len(lines) + ["another"])
    assert combine_with_lines(hashes, np.array([*lines, 7])).tolist() == [
        *places,
        *hash_lines("another", np.array([7])),
    ]


ROW = st.tuples(st.integers(0, 299), st.integers(0, (1 << 64) - 1))  # more splits than a byte counts


@given(st.lists(ROW), st.booleans())
def test_contents_by_split_and_part(rows: list[tuple[int, int]], labelled: bool) -> None:
    places = np.arange(len(rows), dtype=np.uint64)
    high = np.array([value for _, value in rows], np.uint64)
    contents = Contents(high, ~high, places, places + np.uint64(1) if labelled else None)

    for split, mine in enumerate(sort_by_split(contents, np.array([split for split, _ in rows], np.int64), 300)):
        expected = sorted(
            ((value >> 64 - PART_BITS, place) for place, (other, value) in enumerate(rows) if other == split)
        )
        assert [
            (value >> 64 - PART_BITS, place) for value, place in zip(mine.high.tolist(), mine.positions.tolist())
        ] == expected
        assert mine.low.tolist() == (~mine.high).tolist()
        assert (mine.labels is None) is not labelled
        assert mine.labels is None or (mine.labels - 1).tolist() == mine.positions.tolist()
        if expected:
            section, parts = make_section(mine, "train", "path", 0, b"")
            begin = np.frombuffer(memoryview(parts[0]), "<u4").tolist()  # type: ignore[arg-type]
            assert begin == [sum(part < number for part, _ in expected) for number in range((1 << PART_BITS) + 1)]
            assert section.examples == len(expected)
