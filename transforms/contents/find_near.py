"""Pictures that look alike, found by one worker in what the writers of all shards have left.

It holds about 160 bytes a picture at once, 1.6 GB of 10 million, and sorts 15 times; how long that takes is measured by
benchmarks/bench_near_duplicates.py.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from shardmill.statistics.duplicates import Member
from shardmill.statistics.near_duplicates import NearDuplicates, NearPair, Seen
from shardmill.transforms.contents.count_near import Near, Pictures, count_near
from shardmill.transforms.contents.looks import LooksSection
from shardmill.transforms.contents.near import DISTANCE

_READERS = 32  # at once, for each may be a request to a store


def find_near(method: str, sections: Iterable[LooksSection], distance: int = DISTANCE) -> NearDuplicates:
    """Which pictures look alike.

    Args:
      method: how a picture is hashed, in words.
      sections: where all looks lie.
      distance: the most bits in which near hashes differ.
    """
    known = list(sections)
    if not known:
        return NearDuplicates(method, distance)
    known = sorted(known, key=lambda section: (section.split, section.shard))
    splits = sorted({section.split for section in known})
    with ThreadPoolExecutor(_READERS, "shardmill-looks") as pool:
        looks = list(pool.map(LooksSection.looks, known))
        hashes, contents, places = (np.concatenate(parts) for parts in zip(*looks, strict=True))
        owners = np.repeat(np.arange(len(known)), [section.compared for section in known])
        of_split = np.array([splits.index(section.split) for section in known], np.int64)
        found = count_near(Pictures(hashes, contents, places, of_split[owners]), len(splits), distance)
        seen = _seen(found, owners, places, known, pool.map) if found.pairs else {}
    pairs = []
    for two in found.pairs:
        one, other = sorted((seen[two.one], seen[two.other]), key=_by_name)
        pairs.append((two.within, NearPair(one, other, two.distance)))
    across: dict[str, dict[str, int]] = defaultdict(dict)
    for (split, there), number in sorted(found.across.items()):
        across[splits[split]][splits[there]] = number
    return NearDuplicates(
        method,
        distance,
        compared=sum(section.compared for section in known),
        flat=sum(section.flat for section in known),
        undecodable=sum(section.undecodable for section in known),
        number_of_pairs=found.number_of_pairs,
        within={splits[split]: number for split, number in sorted(found.within.items())},
        across=dict(across),
        elsewhere={splits[split]: number for split, number in sorted(found.elsewhere.items())},
        pairs=tuple(pair for _, pair in sorted(pairs, key=_order)),
    )


def _seen(
    found: Near, owners: Any, places: Any, sections: Sequence[LooksSection], map_: Callable[..., Iterable[Any]]
) -> dict[int, Seen]:
    """The pictures of all pairs, by their rows."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for two in found.pairs:
        for row in (two.one, two.other):
            wanted[int(owners[row])].add(row)
    asked = list(wanted.items())
    answers = map_(lambda item: sections[item[0]].find([int(places[row]) for row in item[1]]), asked)
    seen = {}
    for (owner, rows), places_found in zip(asked, answers, strict=True):
        for row in rows:
            name, line, offset, length = places_found[int(places[row])]
            seen[row] = Seen(Member(sections[owner].split, name, line), sections[owner].shard, offset, length)
    return seen


def _order(found: tuple[bool, NearPair]) -> tuple[Any, ...]:
    within, pair = found
    return within, pair.distance, _by_name(pair.one), _by_name(pair.other)


def _by_name(seen: Seen) -> tuple[str, str, int]:
    return seen.member.split, seen.member.name, seen.member.line or 0
