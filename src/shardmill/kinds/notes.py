"""What a Schema has no field for, in the annotation of a feature: `shape:-1,4` and `element:uint8`."""

import re
from typing import Any

from shardmill.features.arrays import ELEMENTS
from shardmill.features.feature import Feature

NOTE = re.compile(rf"shape:(-1|\d+)?(,\d+)*|element:({'|'.join(ELEMENTS)})|format:(REL_YXYX|mask)")


def notes_of(proto: Any) -> dict[str, str]:
    """What a Schema's feature has noted, by key; what is no note of ours is passed over."""
    return dict(tag.split(":", 1) for tag in proto.annotation.tag if NOTE.fullmatch(tag))


def shape_note(feature: Feature) -> str:
    """The note of a feature's shape."""
    return "shape:" + ",".join("-1" if size is None else str(size) for size in feature.shape)


def shape_of(note: str) -> tuple[int | None, ...]:
    """The shape that a note's text says."""
    return tuple(None if size == "-1" else int(size) for size in note.split(",") if size)
