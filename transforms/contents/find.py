"""Equal contents, found by one worker in what all have left: a range of hashes at a time, which bounds its memory."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from shardmill.statistics.duplicates import Conflict, Conflicts, Duplicates, Member, Pair, Repeated
from shardmill.transforms.contents.count import Counted, Place, Quarrel, Twins, count_range
from shardmill.transforms.contents.section import Section, number_of_ranges, range_of

_AT_ONCE = 1 << 23  # contents that are looked through at once: 64 MB of halves, and as much while they are sorted
_READERS = 32  # at once, for each may be a request to a store


def find_duplicates(
    content: str, sections: Sequence[Section], class_names: Sequence[str] = (), at_once: int = _AT_ONCE
) -> Duplicates:
    """Which contents are there more than once.

    Args:
      content: what was compared, in words.
      sections: where all contents lie.
      class_names: by their ids.
      at_once: how many are looked through at once, about.
    """
    number = number_of_ranges(sum(section.examples for section in sections), at_once)
    counted = Counted()
    with ThreadPoolExecutor(_READERS, "shardmill-contents") as pool:
        for index in range(number):
            counted = counted.merge(count_range(range_of(index, number), sections, pool.map))
        return named(content, counted, pool.map, class_names)


def named(
    content: str,
    counted: Counted,
    map_: Callable[..., Iterable[Any]] = map,
    class_names: Sequence[str] = (),
) -> Duplicates:
    """What was counted, with the names of what is listed."""
    members = _members([*counted.twins, *counted.quarrels], map_)
    pairs = [
        (twins.within, Pair(*sorted((members[twins.one], members[twins.other]), key=_by_name)))
        for twins in counted.twins
    ]
    across: dict[str, dict[str, int]] = defaultdict(dict)
    for (split, other), examples in sorted(counted.across.items()):
        across[split][other] = examples
    return Duplicates(
        content,
        {split: Repeated(counted.within[split], counted.contents[split]) for split in sorted(counted.within)},
        dict(across),
        dict(sorted(counted.elsewhere.items())),
        tuple(pair for _, pair in sorted(pairs, key=_order)),
        _conflicts(counted, members, class_names),
    )


def _conflicts(counted: Counted, members: Mapping[Place, Member], class_names: Sequence[str]) -> Conflicts | None:
    if not counted.disputes:
        return None
    pairs = []
    for quarrel in counted.quarrels:
        sides = zip((members[quarrel.one], members[quarrel.other]), quarrel.labels, strict=True)
        one, other = sorted(
            ((member, _class(label, class_names)) for member, label in sides), key=lambda side: _by_name(side[0])
        )
        pairs.append(Conflict(one[0], other[0], (one[1], other[1])))
    pairs.sort(key=lambda pair: (_by_name(pair.one), _by_name(pair.other)))
    return Conflicts(counted.disputes, dict(sorted(counted.disputed.items())), tuple(pairs))


def _class(label: int, class_names: Sequence[str]) -> str:
    return class_names[label] if label < len(class_names) else str(label)


def _order(found: tuple[bool, Pair]) -> tuple[Any, ...]:
    within, pair = found
    return within, _by_name(pair.one), _by_name(pair.other)


def _by_name(member: Member) -> tuple[str, str, int]:
    return member.split, member.name, member.line or 0


def _members(twins: Iterable[Twins | Quarrel], map_: Callable[..., Iterable[Any]]) -> dict[Place, Member]:
    wanted: dict[Section, set[int]] = defaultdict(set)
    places = [place for two in twins for place in (two.one, two.other)]
    for place in places:
        wanted[place.section].add(place.place)
    found = dict(zip(wanted, map_(lambda item: item[0].find(item[1]), wanted.items()), strict=True))
    return {place: Member(place.split, *found[place.section][place.place]) for place in places}
