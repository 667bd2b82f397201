"""Small pictures with coloured rectangles in them, annotated as COCO, Pascal VOC and YOLO would have it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.support.masks import encoded

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
CATEGORIES = [{"id": 3, "name": "red"}, {"id": 7, "name": "green"}, {"id": 9, "name": "blue"}]  # with gaps, as COCO's
_IDS = {str(category["name"]): int(str(category["id"])) for category in CATEGORIES}
_EXIF_ORIENTATION = 0x0112
MASK_VALUES = {name: number for number, name in enumerate(COLOURS, 1)}  # 0 is the background


@dataclass(frozen=True)
class Thing:
    """A rectangle: its colour, and [x, y, width, height] in pixels."""

    colour: str
    box: tuple[int, int, int, int]


@dataclass(frozen=True)
class Scene:
    """A picture: its file's name, its size, and what is in it."""

    name: str
    size: tuple[int, int] = (64, 48)
    things: Sequence[Thing] = field(default_factory=tuple)
    orientation: int = 1


def scenes(number: int, seed: int = 0) -> list[Scene]:
    """Pictures of none to three rectangles that do not touch, one in each third of the width."""
    random = np.random.default_rng(seed)
    made = []
    for index in range(number):
        width, height = (64, 48) if index % 2 else (48, 64)
        things = []
        for third in range(3):
            if random.random() < 0.6:
                colour = list(COLOURS)[int(random.integers(3))]
                wide, high = int(random.integers(6, width // 3 - 2)), int(random.integers(8, height - 4))
                left, top = third * (width // 3) + 1, int(random.integers(0, height - high))
                things.append(Thing(colour, (left, top, wide, high)))
        made.append(Scene(f"{index:03d}.png", (width, height), tuple(things)))
    return made


def draw(scene: Scene, folder: Path) -> None:
    """Write the picture; its EXIF says that it is to be turned, if it has an orientation."""
    width, height = scene.size
    pixels = np.full((height, width, 3), 128, np.uint8)
    for thing in scene.things:
        left, top, wide, high = map(int, thing.box)
        pixels[max(top, 0) : top + high, max(left, 0) : left + wide] = COLOURS[thing.colour]
    path = folder / scene.name
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels)
    if scene.orientation != 1:
        exif = Image.Exif()
        exif[_EXIF_ORIENTATION] = scene.orientation
        image.save(path, exif=exif)
    else:
        image.save(path)


def coco_of(drawn: Iterable[Scene], first_id: int = 1) -> dict[str, Any]:
    """A COCO file's content, annotations in no order of images."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, scene in enumerate(drawn, 1):
        width, height = scene.size
        images.append({"id": 100 + number, "file_name": scene.name, "width": width, "height": height})
        for thing in scene.things:
            left, top, wide, high = thing.box
            annotations.append(
                {
                    "id": first_id + len(annotations),
                    "image_id": 100 + number,
                    "category_id": _IDS[thing.colour],
                    "bbox": list(thing.box),
                    "area": wide * high,
                    "iscrowd": (len(annotations) % 5 == 4 and 1) or 0,
                    "segmentation": [[left, top, left + wide, top, left + wide, top + high, left, top + high]],
                }
            )
    return {"info": {}, "images": images, "annotations": annotations[::-1], "categories": CATEGORIES}


def write_coco(folder: Path, drawn: Sequence[Scene], name: str = "instances.json", images: str = "") -> Path:
    """Pictures and their COCO file in a folder; the file's path."""
    for scene in drawn:
        draw(scene, folder / images if images else folder)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(coco_of(drawn)))
    return path


def voc_of(scene: Scene) -> str:
    """A VOC annotation's text."""
    width, height = scene.size
    objects = "".join(
        f"<object><name>{thing.colour}</name><pose>Left</pose><truncated>{index % 2}</truncated>"
        f"<difficult>{(index + 1) % 2}</difficult><bndbox><xmin>{thing.box[0]}</xmin><ymin>{thing.box[1]}</ymin>"
        f"<xmax>{thing.box[0] + thing.box[2]}</xmax><ymax>{thing.box[1] + thing.box[3]}</ymax></bndbox></object>"
        for index, thing in enumerate(scene.things)
    )
    return (
        f"<annotation><filename>{scene.name}</filename><size><width>{width}</width><height>{height}</height>"
        f"<depth>3</depth></size>{objects}</annotation>"
    )


def write_voc(folder: Path, by_split: dict[str, Sequence[Scene]]) -> Path:
    """A VOC folder, with the lists of its splits."""
    for name in ("Annotations", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    for split, drawn in by_split.items():
        for scene in drawn:
            draw(scene, folder / "JPEGImages")
            (folder / "Annotations" / f"{Path(scene.name).stem}.xml").write_text(voc_of(scene))
        (folder / f"ImageSets/Main/{split}.txt").write_text("".join(f"{Path(s.name).stem}\n" for s in drawn))
    return folder


def yolo_of(scene: Scene) -> str:
    """A YOLO annotation's text."""
    width, height = scene.size
    return "".join(
        f"{list(COLOURS).index(thing.colour)} {(left + wide / 2) / width!r} {(top + high / 2) / height!r}"
        f" {wide / width!r} {high / height!r}\n"
        for thing in scene.things
        for left, top, wide, high in [thing.box]
    )


def write_yolo(folder: Path, by_split: dict[str, Sequence[Scene]]) -> Path:
    """A YOLO folder; pictures without things have no file of labels. The path of its data.yaml."""
    for split, drawn in by_split.items():
        for scene in drawn:
            draw(scene, folder / "images" / split)
            path = folder / "labels" / split / f"{Path(scene.name).stem}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            if scene.things:
                path.write_text(yolo_of(scene))
    lines = [f"{split}: images/{split}" for split in by_split]
    names = [f"  {index}: {name}" for index, name in enumerate(COLOURS)]
    path = folder / "data.yaml"
    path.write_text("\n".join(["path: .", *lines, "names:", *names, ""]))
    return path


def mask_of(scene: Scene) -> np.ndarray:
    """The mask of a picture as it is stored: a number for each colour, 0 for the background."""
    width, height = scene.size
    mask = np.zeros((height, width), np.uint8)
    for thing in scene.things:
        left, top, wide, high = thing.box
        mask[top : top + high, left : left + wide] = MASK_VALUES[thing.colour]
    return mask


def write_masks(folder: Path, drawn: Sequence[Scene]) -> Path:
    """A mask for each picture."""
    folder.mkdir(parents=True, exist_ok=True)
    for scene in drawn:
        (folder / scene.name).write_bytes(encoded(mask_of(scene)))
    return folder
