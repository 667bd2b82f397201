"""The smallest, the largest and the most elongated images, and where their records lie: a page shows them, and nobody
looks for them among a million others. Which they are depends on the images alone, in whatever order they are merged."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from operator import mul

from shardmill.statistics.extremes import Extreme

KEPT = 4  # of each
SMALLEST, LARGEST, ELONGATED = "smallest", "largest", "most elongated"


@dataclass(slots=True)
class Extremes:
    """By what is extreme of them, that first which is most so."""

    found: dict[str, list[Extreme]] = field(default_factory=dict)

    @classmethod
    def of(cls, images: Sequence[Extreme]) -> "Extremes":
        """Those of some images."""
        names, widths, heights = [[getattr(image, name) for image in images] for name in ("file", "width", "height")]
        return cls.among(names, widths, heights, images.__getitem__)

    @classmethod
    def among(
        cls, names: Sequence[str], widths: Sequence[int], heights: Sequence[int], image: Callable[[int], Extreme]
    ) -> "Extremes":
        """Those of some images, of which `image` is asked by index: nothing is made for the many others."""
        if not names:
            return cls()
        by_area = sorted(zip(map(mul, widths, heights), names, count()))
        by_ratio = sorted(zip(map(_ratio, widths, heights), names, count()))
        ranked = {SMALLEST: by_area[:KEPT], LARGEST: by_area[: -KEPT - 1 : -1], ELONGATED: by_ratio[: -KEPT - 1 : -1]}
        return cls({what: [image(place) for *_, place in chosen] for what, chosen in ranked.items()})

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
        return sorted(images, key=lambda image: (_ratio(image.width, image.height), image.file), reverse=True)[:KEPT]
    by_area = sorted(images, key=lambda image: (image.width * image.height, image.file), reverse=what == LARGEST)
    return by_area[:KEPT]


def _ratio(wide: int, high: int) -> float:
    return (wide / high if wide > high else high / wide) if wide and high else 0.0
