"""The rows of a page's images: each a class, or what is extreme of them, with words for whoever sees none. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.pipelines.reports.html.pictures import Picture, Pictures

_BYTES = 450_000  # of all images on a page, as text
_WHY_NONE = {
    False: "cannot be read",
    True: "does not decode",
}  # there is nothing to look at, by whether there are bytes


@dataclass(frozen=True, slots=True)
class PictureRows:
    """The rows of images, each with its title: pairs that look alike, and the others, the extreme ones first."""

    look_alikes: list[dict[str, Any]]
    others: list[dict[str, Any]]


def picture_rows(pictures: Pictures) -> PictureRows:
    """The rows of images; as soon as there is no more room on the page, images are words alone."""
    pairs = [(_apart(bits), shown) for bits, shown in pictures.look_alikes]
    groups: list[tuple[str, Sequence[Picture]]] = [(f"the {what}", shown) for what, shown in pictures.extremes]
    groups += [(name or "images", shown) for name, shown in pictures.classes]
    rows, left = [], _BYTES
    for title, shown in (*pairs, *groups):
        images, left = _images(shown, left)
        rows.append({"title": title, "images": images})
    return PictureRows(rows[: len(pairs)], rows[len(pairs) :])


def _apart(bits: int) -> str:
    return f"look alike, {bits} bit{'' if bits == 1 else 's'} apart"


def _images(shown: Sequence[Picture], left: int) -> tuple[list[dict[str, Any]], int]:
    from shardmill.pipelines.reports.html.thumbnails import thumbnail  # Pillow only where there are images

    images = []
    for picture in shown:
        small = thumbnail(picture.image, picture.objects, picture.masks, picture.others)
        fits = len(small.source) <= left
        size = f"{small.width:,} × {small.height:,} pixels" if small.width else "of no known size"
        label = f"{picture.label}, " if picture.label else ""
        images.append(
            {
                "source": small.source if fits else "",
                "instead": "no room on this page" if not fits else _WHY_NONE[bool(picture.image)],
                "words": f"{label}{picture.file or 'an image'} in {picture.split}, {size}",
                "width": small.shown_width,
                "height": small.shown_height,
                "crisp": small.is_crisp,
                "split": picture.split,
                "size": size.removesuffix(" pixels"),
                "file": picture.file,
            }
        )
        left -= len(small.source) if fits else 0
    return images, left
