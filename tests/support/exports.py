"""The same pictures annotated as labelling tools export them, with files as each tool writes them."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.command import write_files
from tests.support.detection import COLOURS, Scene, draw
from tests.support.later import Later

dm: Any = Later("datumaro")
annotation: Any = Later("datumaro.components.annotation")
media: Any = Later("datumaro.components.media")


def draw_all(folder: Path, drawn: Sequence[Scene]) -> None:
    for scene in drawn:
        draw(scene, folder)


def cvat(folder: Path, drawn: Sequence[Scene], more: str = "", images: str = "images") -> None:
    """CVAT for images 1.1: annotations.xml beside images/."""
    draw_all(folder / images, drawn)
    labels = "".join(f"<label><name>{name}</name><attributes></attributes></label>" for name in COLOURS)
    lines = ["<?xml version='1.0' encoding='utf-8'?>", "<annotations><version>1.1</version>"]
    lines.append(f"<meta><task><id>1</id><name>t</name><labels>{labels}</labels></task></meta>")
    for index, scene in enumerate(drawn):
        width, height = scene.size
        lines.append(f'<image id="{index}" name="{scene.name}" width="{width}" height="{height}">')
        for thing in scene.things:
            left, top, wide, high = thing.box
            edges = f'xtl="{left}" ytl="{top}" xbr="{left + wide}" ybr="{top + high}"'
            lines.append(f'<box label="{thing.colour}" source="manual" occluded="0" {edges} z_order="0"></box>')
        lines.append(f"{more if index == 0 else ''}</image>")
    write_files(folder, {"annotations.xml": "\n".join([*lines, "</annotations>"]).encode()})


def labelme(folder: Path, drawn: Sequence[Scene], **changes: Any) -> None:
    """LabelMe: a JSON file beside each picture, with the corners of rectangles in any order."""
    draw_all(folder, drawn)
    for scene in drawn:
        common: dict[str, Any] = {"group_id": None, "description": "", "shape_type": "rectangle", "flags": {}}
        shapes = [
            {"label": thing.colour, "points": [[left + wide, top], [left, top + high]], **common}
            for thing in scene.things
            for left, top, wide, high in [thing.box]
        ]
        width, height = scene.size
        content: dict[str, Any] = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": scene.name}
        content["imageData"] = None
        content |= {"imageHeight": height, "imageWidth": width} | changes
        (folder / f"{Path(scene.name).stem}.json").write_text(json.dumps(content))


def _via_regions(scene: Scene) -> list[dict[str, Any]]:
    return [
        {
            "shape_attributes": {"name": "rect", "x": left, "y": top, "width": wide, "height": high},
            "region_attributes": {"class": thing.colour},
        }
        for thing in scene.things
        for left, top, wide, high in [thing.box]
    ]


def via_entries(drawn: Sequence[Scene]) -> dict[str, Any]:
    common = {"size": 999, "file_attributes": {}}
    return {f"{one.name}999": {"filename": one.name, "regions": _via_regions(one), **common} for one in drawn}


def via(folder: Path, drawn: Sequence[Scene]) -> None:
    """VIA 2: annotations as JSON."""
    draw_all(folder, drawn)
    (folder / "via_region_data.json").write_text(json.dumps(via_entries(drawn)))


def via_project(folder: Path, drawn: Sequence[Scene]) -> None:
    """VIA 2: the project."""
    draw_all(folder, drawn)
    project = {"_via_settings": {"ui": {}}, "_via_img_metadata": via_entries(drawn), "_via_attributes": {"region": {}}}
    (folder / "via_project.json").write_text(json.dumps(project))


def via_1(folder: Path, drawn: Sequence[Scene]) -> None:
    """VIA 1: regions by number, in an object."""
    draw_all(folder, drawn)
    entries = via_entries(drawn)
    for entry in entries.values():
        entry["regions"] = {str(number): region for number, region in enumerate(entry["regions"])}
    (folder / "via_region_data.json").write_text(json.dumps(entries))


def via_csv(folder: Path, drawn: Sequence[Scene]) -> None:
    """VIA 2: annotations as CSV, with JSON in its cells."""
    draw_all(folder, drawn)
    text = io.StringIO()
    table = csv.writer(text)
    columns = "filename file_size file_attributes region_count region_id region_shape_attributes region_attributes"
    table.writerow(columns.split())
    for scene in drawn:
        regions = _via_regions(scene)
        for number, region in enumerate(regions or [{}]):
            cells = [json.dumps(region.get(key, {})) for key in ("shape_attributes", "region_attributes")]
            table.writerow([scene.name, 999, "{}", len(regions), number, *cells])
    (folder / "via_export_csv.csv").write_text(text.getvalue())


def _createml_of(drawn: Sequence[Scene]) -> str:
    def annotations(scene: Scene) -> list[dict[str, Any]]:
        boxes = [(thing.colour, *thing.box) for thing in scene.things]
        return [
            {"label": label, "coordinates": {"x": x + wide / 2, "y": y + high / 2, "width": wide, "height": high}}
            for label, x, y, wide, high in boxes
        ]

    return json.dumps([{"image": one.name, "verified": False, "annotations": annotations(one)} for one in drawn])


def createml(folder: Path, drawn: Sequence[Scene]) -> None:
    """CreateML as labelImg writes it: x and y are the centre."""
    draw_all(folder, drawn)
    (folder / "annotations.json").write_text(_createml_of(drawn))


def roboflow_createml(folder: Path, drawn: Sequence[Scene]) -> None:
    """Roboflow's CreateML: a file in each split's folder."""
    for split, part in (("train", drawn[:4]), ("valid", drawn[4:])):
        draw_all(folder / split, part)
        (folder / split / "_annotations.createml.json").write_text(_createml_of(part))


def label_studio(folder: Path, drawn: Sequence[Scene], **changes: Any) -> None:
    """Label Studio's JSON: percentages, and names with the prefix of uploads."""
    draw_all(folder, drawn)
    tasks = []
    for number, scene in enumerate(drawn, 1):
        width, height = scene.size
        common = {"type": "rectanglelabels", "from_name": "label", "to_name": "image", "image_rotation": 0}
        common |= {"original_width": width, "original_height": height}
        results = []
        for thing in scene.things:
            left, top, wide, high = thing.box
            value = {"x": 100 * left / width, "y": 100 * top / height, "rotation": 0, "rectanglelabels": [thing.colour]}
            value |= {"width": 100 * wide / width, "height": 100 * high / height}
            results.append({"id": f"r{number}", "value": value, **common})
        data = {"image": f"/data/upload/1/0a1b2c3d-{scene.name}"}
        given = {"id": number, "result": results, "was_cancelled": False, "ground_truth": False}
        tasks.append({"id": number, "annotations": [given], "predictions": [], "data": data} | changes)
    (folder / "project-1-at-2026-01-01.json").write_text(json.dumps(tasks))


def mask_of_box(box: Any, size: tuple[int, int]) -> Any:
    """Return datumaro's mask of all pixels in a box."""
    pixels = np.zeros(size[::-1], bool)
    x, y, width, height = map(int, box.get_bbox())
    pixels[y : y + height, x : x + width] = True
    return annotation.Mask(pixels, label=box.label, id=box.id, group=box.group)


def exporter(name: str, labels: bool = False, masks: bool = False) -> Callable[[Path, Sequence[Scene]], None]:
    """Return what writes the pictures with datumaro's own exporter of a format; with `labels`, a class for each; with
    `masks`, a mask for each thing."""

    def write(folder: Path, drawn: Sequence[Scene]) -> None:
        draw_all(folder.parent / "drawn", drawn)
        items = []
        for position, scene in enumerate(drawn):
            boxes = [
                annotation.Bbox(*thing.box, label=list(COLOURS).index(thing.colour), id=100 * position + number)
                for number, thing in enumerate(scene.things, 1)
            ]
            if masks:
                boxes = [mask_of_box(box, scene.size) for box in boxes]
            if labels:
                boxes = [annotation.Label(position % 2)]
            width, height = scene.size
            picture = media.Image.from_file(path=str(folder.parent / "drawn" / scene.name), size=(height, width))
            split = "train" if position < 4 else "val"
            item = dm.DatasetItem(Path(scene.name).stem, subset=split, media=picture, annotations=boxes)
            items.append(item.wrap(attributes={"frame": position}))
        backend: Any = Later("datumaro.util.image")
        backend.IMAGE_BACKEND.set(backend.ImageBackend.cv2)  # which datumaro sets for the first thread alone
        made = dm.Dataset.from_iterable(items, categories=list(COLOURS), media_type=media.Image)
        made.export(str(folder), name, save_media=True)

    return write
