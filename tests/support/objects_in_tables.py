"""Parquet files of pictures with `objects`, as datasets writes them, and what becomes of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.reading.dataset import open_dataset
from tests.support.detection import COLOURS, Scene, draw, scenes
from tests.support.later import Later

datasets = Later("datasets")
SCENES = scenes(12)
NAMES = list(COLOURS)
MOST = ("--max_reject_fraction", 0.95)
BOX = [[1.0, 2.0, 3.0, 4.0]]


def ids(scene: Scene) -> list[int]:
    """The classes of what is in a picture, by their places in NAMES."""
    return [NAMES.index(thing.colour) for thing in scene.things]


def said_of(scene: Scene) -> dict[str, Any]:
    """What data sets such as cppe-5 say of objects."""
    boxes = [list(map(float, thing.box)) for thing in scene.things]
    count = len(boxes)
    return {"id": list(range(count)), "area": [7.5] * count, "bbox": boxes, "category": ids(scene)}


def features_of(form: str) -> Any:
    label = datasets.ClassLabel(names=NAMES) if form in ("lists", "list of objects") else datasets.Value("int64")
    label = datasets.Value("string") if form == "names" else label
    item = {
        "id": datasets.Value("int64"),
        "area": datasets.Value("float32"),
        "bbox": datasets.List(datasets.Value("float32"), length=4),
        "category": label,
    }
    objects = datasets.List(item) if form == "list of objects" else {k: datasets.List(v) for k, v in item.items()}
    return datasets.Features({"image": datasets.Image(), "name": datasets.Value("string"), "objects": objects})


def write_parquet(path: Path, form: str = "lists", drawn: Sequence[Scene] = SCENES, **more: Any) -> Path:
    """A file as datasets writes it; `more` are further columns."""
    rows = []
    for scene in drawn:
        draw(scene, path.parent / "drawn")
        said = said_of(scene)
        if form == "names":
            said["category"] = [NAMES[index] for index in said["category"]]
        items = [dict(zip(said, values, strict=True)) for values in zip(*said.values(), strict=True)]
        data = (path.parent / "drawn" / scene.name).read_bytes()
        rows.append(
            {
                "image": {"bytes": data, "path": None},
                "name": scene.name,
                "objects": items if form == "list of objects" else said,
            }
        )
    table = datasets.Dataset.from_list(rows, features=features_of(form))
    for name, values in more.items():
        table = table.add_column(name, values)
    table.to_parquet(str(path))
    return path


def features(directory: Path) -> Any:
    return open_dataset(str(directory)).manifest.features


def feature_of(directory: Path, name: str) -> Any:
    return {each.name: each for each in features(directory)}[f"objects/{name}"]


def write_raw(path: Path, values: Sequence[Any], orientation: int = 1, **more: Sequence[Any]) -> Path:
    """A Parquet file of a picture beside each of the values, as datasets would have typed it."""
    typed = datasets.Features(
        {
            "image": datasets.Image(),
            "objects": {
                "bbox": datasets.List(datasets.List(datasets.Value("float32"))),
                "category": datasets.List(datasets.ClassLabel(names=NAMES)),
            },
        }
    )
    images = []
    for number in range(len(values)):
        draw(Scene(f"{number}.png", (64 + number, 48), (), orientation), path.parent / "raw")
        images.append({"bytes": (path.parent / "raw" / f"{number}.png").read_bytes(), "path": None})
    schema = typed.arrow_schema
    columns = [pa.array(images, schema.field("image").type), pa.array(values, schema.field("objects").type)]
    table = pa.Table.from_arrays(columns, schema=schema)
    for name, of_rows in more.items():
        table = table.append_column(name, pa.array(of_rows))
    pq.write_table(table, path)
    return path
