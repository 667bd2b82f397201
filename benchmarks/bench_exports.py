"""Measure the time to read annotations: shardmill's own readers against datumaro, on the same boxes.

Each format is read in a process of its own, from annotations to the objects of images, without images being opened. The
import of datumaro counts, the import of shardmill does not.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import tables
from options import add_folder, add_rounds, add_write

from shardmill.addons.annotations.coco import CocoSource
from shardmill.addons.annotations.exports import ExportSource
from shardmill.transforms.inputs.annotations import AnnotatedImages

COCO, COCO_DATUMARO = "COCO with `--coco`", "the same file with datumaro"
_SIDE = 640  # pixels
_CLASSES = 20
Boxes = list[list[tuple[int, int, int, int, int]]]  # of each image: class, x, y, width, height


def make_boxes(annotations: int) -> Boxes:
    """Boxes of images, 7.3 in the mean, as COCO's train2017 has."""
    chance = random.Random(0)
    boxes: Boxes = [[] for _ in range(max(int(annotations / 7.3), 1))]
    for _ in range(annotations):
        width, height = chance.randrange(4, 300), chance.randrange(4, 300)
        place = chance.randrange(_SIDE - width), chance.randrange(_SIDE - height)
        chance.choice(boxes).append((chance.randrange(_CLASSES), *place, width, height))
    return boxes


def write(folder: Path, boxes: Boxes) -> None:
    """The boxes as COCO, CVAT, VIA and LabelMe have them, beside empty images."""
    names = [f"class {number}" for number in range(_CLASSES)]
    for kind in ("coco", "cvat/images", "via", "labelme"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in range(len(boxes)):
            (folder / kind / f"{number:06d}.jpg").touch()
    images: list[dict[str, object]] = []
    found: list[dict[str, object]] = []
    entries: dict[str, object] = {}
    labels = "".join(f"<label><name>{name}</name></label>" for name in names)
    cvat = [f"<annotations><meta><task><labels>{labels}</labels></task></meta>"]
    for number, of_image in enumerate(boxes):
        name = f"{number:06d}.jpg"
        images.append({"id": number, "file_name": name, "width": _SIDE, "height": _SIDE})
        cvat.append(f'<image id="{number}" name="{name}" width="{_SIDE}" height="{_SIDE}">')
        regions, shapes = [], []
        for label, x, y, width, height in of_image:
            of_coco = {"id": len(found), "image_id": number, "category_id": label + 1, "bbox": [x, y, width, height]}
            found.append(of_coco | {"area": width * height, "iscrowd": 0, "segmentation": []})
            right, bottom = x + width, y + height
            cvat.append(f'<box label="{names[label]}" xtl="{x}" ytl="{y}" xbr="{right}" ybr="{bottom}" occluded="0"/>')
            rect = {"name": "rect", "x": x, "y": y, "width": width, "height": height}
            regions.append({"shape_attributes": rect, "region_attributes": {"class": names[label]}})
            shapes.append({"label": names[label], "points": [[x, y], [right, bottom]], "shape_type": "rectangle"})
        cvat.append("</image>")
        entries[name] = {"filename": name, "size": 1, "regions": regions, "file_attributes": {}}
        content = {"shapes": shapes, "imagePath": name, "imageWidth": _SIDE, "imageHeight": _SIDE}
        (folder / "labelme" / f"{number:06d}.json").write_text(json.dumps(content))
    categories = [{"id": number, "name": name} for number, name in enumerate(names, 1)]
    coco = {"images": images, "annotations": found, "categories": categories}
    (folder / "coco/instances.json").write_text(json.dumps(coco))
    (folder / "via/via.json").write_text(json.dumps(entries))
    (folder / "cvat/annotations.xml").write_text("\n".join([*cvat, "</annotations>"]))


def read_coco(folder: Path) -> int:
    return _count(CocoSource((("", str(folder / "coco/instances.json")),), str(folder / "coco")))


def read_coco_with_datumaro(folder: Path) -> int:
    from datumaro import Dataset

    for part in ("annotations", "images"):
        (folder / "datumaro" / part).mkdir(parents=True, exist_ok=True)
    (folder / "datumaro/annotations/instances_train.json").write_bytes((folder / "coco/instances.json").read_bytes())
    return sum(len(item.annotations) for item in Dataset.import_from(str(folder / "datumaro"), "coco_instances"))


def _read(name: str) -> Callable[[Path], int]:
    return lambda folder: _count(ExportSource(str(folder / name), name, str(folder / name)))


def _count(source: CocoSource | ExportSource) -> int:
    return sum(len(item.objects.flatten()) for item in source.list_images() if isinstance(item, AnnotatedImages))


READERS: dict[str, Callable[[Path], int]] = {
    COCO: read_coco,
    COCO_DATUMARO: read_coco_with_datumaro,
    "CVAT with `--annotations` and datumaro": _read("cvat"),
    "VIA with `--annotations`": _read("via"),
    "LabelMe with `--annotations`": _read("labelme"),
}


def run(name: str, folder: Path) -> tuple[float, int]:
    """Seconds and number of annotations of one reading."""
    start = time.perf_counter()
    number = READERS[name](folder)
    return time.perf_counter() - start, number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--annotations", type=int, default=20_000)
    add_rounds(parser)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()
    args.folder /= "exports"
    write(args.folder, make_boxes(args.annotations))
    runs: dict[str, list[tuple[float, int]]] = {name: [] for name in READERS}
    for _ in range(args.rounds):
        for name in READERS:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                runs[name].append(pool.submit(run, name, args.folder).result())
    medians, rows = dict[str, float](), []
    for name, found in runs.items():
        medians[name], objects = (sorted(column)[len(found) // 2] for column in zip(*found, strict=True))
        rows.append([name, f"{medians[name]:.2f}", f"{objects:,}"])
    shown = tables.table(["", "seconds", "objects"], rows)
    slower = tables.losses({name: medians[name] for name in (COCO, COCO_DATUMARO)}, COCO)
    what = f"{args.annotations:,} boxes, medians of {args.rounds} runs:"
    tables.publish(f"{what}\n\n{shown}", args.write, losses=slower)


if __name__ == "__main__":
    main()
