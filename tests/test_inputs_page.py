"""docs/inputs.md says which command takes which data: every one of them is run, on data that lie as it says."""

import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.support.command import REPOSITORY, Run, image, write_files
from tests.support.detection import draw, scenes, write_coco, write_masks, write_voc, write_yolo
from tests.support.masks import encoded
from tests.support.sounds import wav
from tests.support.tars import tar
from tests.support.tokenizer_files import tokenizer_json
from tests.support.zips import zipped


def rows() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The command of each line, and the features that it says come out."""
    for line in (REPOSITORY / "docs" / "inputs.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1].startswith("`shardmill "):
            words = cells[2].split("`")[1::2]
            yield cells[1].strip("`"), tuple(words)


ROWS = list(rows())


def write_boxes(path: Path, folder: Path, rows: list[dict[str, Any]]) -> None:
    """A table as Hugging Face has it of the image files in a folder, with what rows of its metadata say of each."""
    label = {"names": ["thing"], "_type": "ClassLabel"}
    told = {"image": {"_type": "Image"}, "objects": {"categories": {"feature": label, "_type": "List"}}}
    table = pa.Table.from_pylist(
        [{"image": {"bytes": (folder / row["file_name"]).read_bytes()}, "objects": row["objects"]} for row in rows]
    )
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": told}})}), path)


def write_pets(path: Path, images: list[bytes]) -> None:
    """A table as Hugging Face has it, with a column of plain bytes beside."""
    told = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    files = pa.array([{"bytes": image, "path": None} for image in images])
    table = pa.table({"image": files, "label": [0, 1] * (len(images) // 2), "photo": images})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": told}})}), path)


def depth_of(jpeg: bytes) -> bytes:
    """A mask of 16 bits of an image's size."""
    with Image.open(io.BytesIO(jpeg)) as opened:
        return encoded(np.full(opened.size[::-1], 1000, np.uint16))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all of it lies."""
    folder = tmp_path_factory.mktemp("data")
    jpegs = [image(number) for number in range(4)]
    named = "".join(f"{json.dumps({'file_name': f'{number}.jpg', 'label': 'ab'[number % 2]})}\n" for number in range(4))
    write_files(
        folder,
        {
            **{f"photos/{'cat' if number % 2 else 'dog'}/{number}.jpg": jpeg for number, jpeg in enumerate(jpegs)},
            "photos.zip": zipped(
                {f"photos/{'ab'[number % 2]}/{number}.jpg": jpeg for number, jpeg in enumerate(jpegs)}
            ),
            **{f"folder/{number}.jpg": jpeg for number, jpeg in enumerate(jpegs)},
            **{f"train/{number}.jpg": jpeg for number, jpeg in enumerate(jpegs)},
            "meta.csv": b"file_name,label\nphotos/dog/0.jpg,a\nphotos/cat/1.jpg,b\n",
            "hf/train/metadata.csv": b"file_name,label\n1.jpg,a\n",
            "hf/test/metadata.csv": b"file_name,label\n2.jpg,a\n",
            "hf/train/1.jpg": image(1),
            "hf/test/2.jpg": image(2),
            "more.csv": b"file_name,label\nphotos/cat/3.jpg,a\n",
            "parts/1.jpg": image(1),
            "masked.csv": b"file_name,mask\nseg/images/1.jpg,seg/masks/1.png\n",
            "pairs.csv": b"left,right\nphotos/dog/0.jpg,photos/cat/1.jpg\n",
            "seg/images/1.jpg": image(1),
            "seg/masks/1.png": image(1, "PNG", mode="L"),
            "depth/1.png": depth_of(image(1)),
            "many.csv": b"file_name,label\nphotos/dog/0.jpg,dog;indoor\nphotos/cat/1.jpg,\n",
            "folder/metadata.jsonl": named.encode(),
            "train.csv": b"id,breed\n0,pug\n1,lab\n",
            "rows.csv": b"n,city\n1,Rome\n2,Oslo\n",
            "tags.csv": b"n,tags\n1,red;green\n2,\n",
            "tags.jsonl": b'{"n": 1, "tags": ["red", "green"]}\n{"n": 2, "tags": []}\n',
            "reviews.txt": b"good\nbad\n",
            "corpus/train.de": b"eins\nzwei\n",
            "corpus/train.en": b"one\ntwo\n",
            "corpus/more.de": b"drei\n",
            "corpus/more.en": b"three\n",
            "rows.jsonl": b'{"n": 1, "city": "w1 w2"}\n{"n": 2, "city": "w3"}\n',
            "tokenizer.json": tokenizer_json(),
            "shards/0.tar": tar([("1.jpg", jpegs[0]), ("1.cls", b"3"), ("1.json", b'{"n": 1}')]),
            "visits.csv": b"user,time,page\na,2024-01-02,x\nb,2024-01-01,y\na,2024-01-01,z\n",
            "sounds/dog/1.wav": wav(),
        },
    )
    (folder / "scans/cat").mkdir(parents=True)
    np.save(folder / "scans/cat/1.npy", np.zeros((2, 2), np.float32))
    pq.write_table(pa.table({"file_name": ["1.jpg"], "label": ["a"]}), folder / "parts/1.parquet")
    drawn = scenes(6)
    rows: list[dict[str, Any]] = [
        {
            "file_name": scene.name,
            "objects": {"bbox": [thing.box for thing in scene.things], "categories": [0] * len(scene.things)},
        }
        for scene in drawn
    ]
    for scene in drawn:
        draw(scene, folder / "boxes")
    (folder / "boxes/metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "points/car").mkdir(parents=True)
    for number in (1, 2):
        np.save(folder / f"points/car/{number}.npy", np.zeros((number, 3), np.float32))
    write_pets(folder / "pets.parquet", jpegs)
    things = [
        (f"{number}.{kind}", data)
        for number, row in enumerate(rows)
        for kind, data in (
            ("png", (folder / "boxes" / row["file_name"]).read_bytes()),
            ("json", json.dumps({"objects": row["objects"]}).encode()),
        )
    ]
    write_files(folder, {"things/0.tar": tar(things)})
    write_boxes(folder / "boxes.parquet", folder / "boxes", rows)
    write_coco(folder / "coco", drawn[:4], "annotations/instances_train2017.json", "train2017")
    write_coco(folder / "coco", drawn[4:], "annotations/instances_val2017.json", "val2017")
    write_coco(folder / "export", drawn, "_annotations.coco.json")
    write_voc(folder / "VOC2012", {"train": drawn[:4], "val": drawn[4:]})
    write_masks(folder / "segments", drawn[:4])
    write_masks(folder / "VOC2012/SegmentationClass", drawn)
    for split, some in (("train", drawn[:2]), ("val", drawn[4:])):
        names = "".join(f"{Path(scene.name).stem}\n" for scene in some)
        write_files(folder, {f"VOC2012/ImageSets/Segmentation/{split}.txt": names.encode()})
    write_yolo(folder / "yolo", {"train": drawn[:4], "val": drawn[4:]})
    return folder


def test_there_are_rows() -> None:
    assert len(ROWS) == 41


@pytest.mark.parametrize(("command", "wanted"), ROWS)
def test_the_command_takes_it(
    command: str, wanted: tuple[str, ...], data: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)

    done = run(*shlex.split(command)[1:], "--output", tmp_path, "--name", "n")

    assert done.status == 0, done.err
    described = json.loads((tmp_path / "n/1.0.0/features.json").read_text())
    entries = described.get("featuresDict", {}).get("features") or described["translation"]["languages"]
    assert set(wanted) <= set(entries)
    if "coco" in command and "validation=" in command:
        stats = json.loads((tmp_path / "n/1.0.0/stats.json").read_text())["splits"]
        assert {split: found["examples"] for split, found in stats.items()} == {"train": 4, "validation": 2}
