"""Listings of many objects, several ranges of their names at once: a store gives a thousand in an answer, for the next
thousand it wants the last of their names, and each answer is a wait."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from shardmill.transforms.stores.ahead import one_ahead
from shardmill.transforms.stores.protocol import FileStat

# What is held ahead of whoever asks: so many pages of each of so many ranges, some ten megabytes
_RANGES, _PAGES = 8, 4

Page = Sequence[FileStat]
Pages = Callable[[str, str], Iterator[Page]]


def list_at_once(pages: Pages, folders: Callable[[str], Sequence[str]], prefix: str) -> Iterator[FileStat]:
    """Each object whose URL starts with `prefix`, sorted, as if one page had been asked for after the other.

    Names are cut where folders begin, into ranges of some pages as far as the first two pages tell.

    Args:
      pages: (first, end) -> the objects below `prefix` from the first of these URLs on, before the other; "" for none.
      folders: (prefix) -> names of folders just below it, all or the first of them, sorted.
      prefix: of URLs.
    """
    first = pages("", "")
    head = list(itertools.islice(first, 2))
    for page in head:
        yield from page
    if len(head) < 2:
        return
    cuts = find_cuts(prefix, head[-1][-1].path, folders) if head[-1] else []
    if not cuts:
        following = one_ahead(first)
    else:
        following = _in_order([partial(_before, first, cuts[0])] + [partial(pages, *cut) for cut in _ranges(cuts)])
    for page in following:
        yield from page


def find_cuts(prefix: str, last: str, folders: Callable[[str], Sequence[str]]) -> list[str]:
    """Folders after the object `last`, the last one of two pages, at which to cut what follows into ranges of some four
    pages; sorted. Arguments as of `list_at_once`."""
    path = last[len(prefix) :].split("/")[:-1]
    above = [prefix + "".join(f"{name}/" for name in path[:depth]) for depth in range(max(1, len(path)))]
    found = sorted(f"{folder}{name}/" for folder in above for name in folders(folder))
    seen = sum(folder <= last for folder in found)
    return found[seen :: max(1, seen * _PAGES // 2)]


def _ranges(cuts: Sequence[str]) -> Iterator[tuple[str, str]]:
    return itertools.pairwise([*cuts, ""])


def _before(pages: Iterator[Page], end: str) -> Iterator[Page]:
    """What is left of `pages`, but for objects from `end` on."""
    for page in pages:
        yield [found for found in page if found.path < end]
        if page and page[-1].path >= end:
            return


def _in_order(ranges: Sequence[Callable[[], Iterator[Page]]]) -> Iterator[Page]:
    """The pages of each of `ranges`, one after the other, asked for in several of them at once."""
    with ThreadPoolExecutor(_RANGES, "shardmill-list") as pool:
        waiting = iter(ranges)
        begun: deque[Future[tuple[list[Page], Iterator[Page]]]] = deque()
        try:
            begun.extend(pool.submit(_begin, some) for some in itertools.islice(waiting, _RANGES))
            while begun:
                pages, rest = begun.popleft().result()
                begun.extend(pool.submit(_begin, some) for some in itertools.islice(waiting, 1))
                yield from pages
                yield from one_ahead(rest) if len(pages) == _PAGES else ()
        finally:
            for future in begun:
                future.cancel()


def _begin(some: Callable[[], Iterator[Page]]) -> tuple[list[Page], Iterator[Page]]:
    pages = some()
    return list(itertools.islice(pages, _PAGES)), pages
