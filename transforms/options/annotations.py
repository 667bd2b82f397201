"""Where it is said what is in images, and what becomes of boxes that are no good."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.features import object_detection
from shardmill.transforms.options.boxes import bad_box_flag, boxes_seen_flag
from shardmill.transforms.options.declare import Options, ValueMistake, flag
from shardmill.transforms.options.output import parse_path

TFDS = "tfds"
_SPLIT = re.compile(r"(\w+)=(.+)")


def parse_files(value: Any) -> tuple[tuple[str, str], ...]:
    """(split, path) of each `train=a.json`, "" where there is no split; or pairs, or a mapping.

    Raises:
      ValueMistake: one of them is no path, or a split or a file is there twice, or some have a split and others not.
    """
    items = value.items() if isinstance(value, dict) else (value,) if isinstance(value, str) else value
    pairs = []
    for item in items:
        match = _SPLIT.fullmatch(item) if isinstance(item, str) else None
        split, path = match.groups() if match else ("", item) if isinstance(item, str) else item
        pairs.append((str(split), parse_path(path)))
    if len({bool(split) for split, _ in pairs}) > 1:
        raise ValueMistake("some files have a split and others not; give each one, as in train=a.json")
    for what, values in (("split", [split for split, _ in pairs if split]), ("file", [path for _, path in pairs])):
        if twice := [name for name in values if values.count(name) > 1]:
            raise ValueMistake(f"the {what} {twice[0]} is there twice")
    return tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class AnnotationOptions(Options):
    """Object detection."""

    title: ClassVar[str] = "objects in images"

    coco: tuple[tuple[str, str], ...] = flag(
        (),
        "a file of COCO's annotations, such as instances.json, or one for each split; repeat",
        parse=parse_files,
        repeats=True,
        metavar="[SPLIT=]FILE",
        shapes=False,
    )
    voc: str | None = flag(
        None, "a folder of Pascal VOC's: Annotations/, or the one that it is in", parse=parse_path, shapes=False
    )
    yolo: str | None = flag(None, "a data.yaml of YOLO's", parse=parse_path, shapes=False)
    on_bad_box: str = bad_box_flag()
    boxes_seen: str = boxes_seen_flag()
    feature_names: str = flag(
        TFDS,
        "what features are called: as TFDS's data sets of objects, or by the keys of TensorFlow's Object Detection API",
        choices=(TFDS, object_detection.NAME),
        group="output",
        told=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(given := self._given) > 1:
            raise UserError(f"{given[0]} and {given[1]} both say what is in the images; give one")
        for name, value in (
            ("--on_bad_box", self.on_bad_box),
            ("--boxes_seen", self.boxes_seen),
            ("--feature_names", self.feature_names),
        ):
            if not given and not self.has_objects and value not in ("reject", "", TFDS):
                raise UserError(
                    f"{name} {value} is about the objects that --coco, --voc or --yolo annotate, or a column of a"
                    " manifest"
                )

    @property
    def has_objects(self) -> bool:
        """Whether something says what is in the images."""
        return bool(self._given)

    @property
    def _given(self) -> list[str]:
        found = {"--coco": self.coco, "--voc": self.voc, "--yolo": self.yolo}
        return [name for name, value in found.items() if value]

    @property
    def annotations(self) -> str:
        """What the user gave, in words; "" for nothing."""
        if self.coco:
            return " ".join(f"--coco {split}={path}" if split else f"--coco {path}" for split, path in self.coco)
        return f"--voc {self.voc}" if self.voc is not None else f"--yolo {self.yolo}" if self.yolo is not None else ""
