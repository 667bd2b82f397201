"""The smallest, the largest and the most elongated images, and where their records lie: a page shows them, and nobody
looks for them among a million others. Which they are depends on the images alone, in whatever order they are merged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from shardmill.stats_file import Extreme

KEPT = 4  # of each
SMALLEST, LARGEST, ELONGATED = "smallest", "largest", "most elongated"


@dataclass(slots=True)
class Extremes:
    """By what is extreme of them, that first which is most so."""

    found: dict[str, list[Extreme]] = field(default_factory=dict)

    @classmethod
    def of(cls, images: Sequence[Extreme]) -> "Extremes":
        """Those of some images."""
        if not images:
            return cls()
        places = range(len(images))
        by_area = sorted(places, key=[(image.width * image.height, image.file) for image in images].__getitem__)
        by_ratio = sorted(places, key=[(_ratio(image), image.file) for image in images].__getitem__)
        ranked = {SMALLEST: by_area[:KEPT], LARGEST: by_area[: -KEPT - 1 : -1], ELONGATED: by_ratio[: -KEPT - 1 : -1]}
        return cls({what: [images[place] for place in chosen] for what, chosen in ranked.items()})

    def merge(self, other: "Extremes") -> None:
        """Add those of others."""
        for what, images in other.found.items():
            self.found[what] = _first(what, chain(self.found.get(what, ()), images))

    def lie_in(self, shard: str, start: int) -> None:
        """Say that the records lie in a shard, counted from this byte of it."""
        for what, images in self.found.items():
            self.found[what] = [replace(image, shard=shard, offset=image.offset + start) for image in images]

    def summary(self) -> dict[str, tuple[Extreme, ...]] | None:
        """What stands in stats.json; None where nothing was measured."""
        return {what: tuple(images) for what, images in self.found.items()} or None


def _first(what: str, images: Iterable[Extreme]) -> list[Extreme]:
    if what == ELONGATED:
        return sorted(images, key=lambda image: (_ratio(image), image.file), reverse=True)[:KEPT]
    by_area = sorted(images, key=lambda image: (image.width * image.height, image.file), reverse=what == LARGEST)
    return by_area[:KEPT]


def _ratio(image: Extreme) -> float:
    wide, high = image.width, image.height
    return (wide / high if wide > high else high / wide) if wide and high else 0.0
