"""Code blocks of README.md and docs/, how to run them, and small data of every kind under the names they use."""

import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tifffile
from PIL import Image, ImageDraw, ImageFont

from shardmill.pipelines import cli
from shardmill.pipelines.config.beam_flags import beam_parser
from shardmill.pipelines.jobs.registry import KINDS
from tests.support import exports, framed_records
from tests.support.archives import tar, zipped
from tests.support.command import REPOSITORY, Run, write_files
from tests.support.detection import draw, scenes, write_coco, write_masks, write_voc, write_yolo
from tests.support.masks import encoded
from tests.support.sounds import scipy_wav
from tests.support.tokenizer_files import tokenizer_json

README = REPOSITORY / "README.md"
PAGES = (README, *sorted((REPOSITORY / "docs").glob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Snippets that `make check NAME=torch` runs
_OF_OTHERS = re.compile("^import (torch|grain|shardmill.torch)$|^from torchdata|^(loader|sampler) = ", re.MULTILINE)
_STATUS = re.compile(r"exit status (\d+)")
_REMOTE = ("gs://", "s3://", "az://")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line of the page where it begins."""

    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        """The file that the block is, if its first line is a comment with a name."""
        found = re.match(r"# (\w+\.(?:yaml|py))\n", self.text)
        return found[1] if found else None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text()
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in _FENCE.finditer(text)]


def section_blocks(page: Path, anchor: str) -> list[Block]:
    """Return the fenced blocks of the section of a page whose heading has an anchor; of the page if it is ""."""
    found = blocks(page)
    if not anchor:
        return found
    lines = page.read_text().splitlines()
    fenced = {block.line + n for block in found for n in range(block.text.count("\n") + 1)}
    headings = [(n, line) for n, line in enumerate(lines, 1) if line.startswith("#") and n not in fenced]
    (start, heading), *rest = ((n, line) for n, line in headings if heading_anchor(line) == anchor)
    assert not rest, f"{page.name} has {anchor} twice"
    level = heading.split()[0]
    end = next((n for n, line in headings if n > start and len(line.split()[0]) <= len(level)), len(lines) + 1)
    return [block for block in found if start < block.line < end]


def headings(page: Path) -> list[str]:
    """Return the headings of a page, with their signs, outside of fenced blocks."""
    return re.findall(r"^#+ .+$", _FENCE.sub("", page.read_text()), re.MULTILINE)


def anchors(page: Path) -> list[str]:
    """Return the anchors of the headings of a page."""
    return [heading_anchor(heading) for heading in headings(page)]


def heading_anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def commands(block: Block) -> Iterator[tuple[list[str], str]]:
    """Yield the words and the comment of each command of a block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words, line.partition(" #")[2].strip()


def parse_command(words: list[str]) -> tuple[dict[str, Any], Any]:
    """Return a command's own flags, and the options of Beam; fail if a flag is unknown."""
    assert words[0] == "shardmill"
    own, rest = cli.parsers()[words[1]].parse_known_args(words[2:])
    known, unknown = beam_parser().parse_known_args(rest)
    assert unknown == []
    return vars(own), known


def check_command(words: list[str]) -> Any:
    """Check that the command accepts all of `words` and their values, and return the options of Beam."""
    values, known = parse_command(words)
    KINDS[words[1]].make_config(
        {name: value for name, value in values.items() if name not in ("dry_run", "write_recipe", "debug")}
    )
    return known


def is_remote(words: list[str]) -> bool:
    """Return True if a command needs a network or a cluster."""
    return any(word.startswith(_REMOTE) for word in words) or ("--runner" in words and "--dry_run" not in words)


def run_command(words: list[str], comment: str, run: Run) -> str:
    """Run a command in the current folder, and return what it prints; only parse it if it needs a network."""
    if words[0] == "shardmill" and is_remote(words):
        parse_command(words)  # without its values: a folder on a store would be listed
    elif words[0] == "shardmill":
        done = run(*words[1:])
        expected = int(found[1]) if (found := _STATUS.search(comment)) else 0
        assert done.status == expected, (words, done.err)
        return done.out + done.err
    elif words[0] in ("ls", "python"):
        program = ["ls"] if words[0] == "ls" else [sys.executable, str(REPOSITORY / words.pop(1))]
        environment = {**os.environ, "LC_ALL": "C"}  # for the order of `ls`
        return subprocess.run(
            [*program, *words[1:]], env=environment, check=True, capture_output=True, text=True
        ).stdout
    elif words[0] == "mv":
        Path(words[1]).rename(words[2])
    elif words[0] == "python3":
        assert words[1:3] == ["-m", "venv"], words
    elif words[0] == "pip":
        assert words[:2] == ["pip", "install"]
        extras = set(re.findall(r"\w+", words[2].partition("[")[2]))
        assert extras <= set(_project()["optional-dependencies"]), words
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE), words
    else:
        assert words[0] == "gcloud", words  # tests/pages/test_deploy.py checks these
    return ""


def check_output(block: Block, printed: str) -> None:
    """Check that the lines of a block of output were printed in this order; `…` is any text, alone any lines."""
    pattern = ".*".join(re.escape(part) for part in block.text.rstrip().split("…"))
    assert re.search(rf"^{pattern}$", printed, re.MULTILINE | re.DOTALL), (block.line, printed)


def run_blocks(chosen: list[Block], folder: Path, run: Run) -> dict[str, Any]:
    """Write the files that blocks name to `folder`, then run the commands and the snippets of Python in order; return
    what the snippets define.

    A `console` block holds what the commands of the block before it print.
    """
    namespace: dict[str, Any] = {}
    printed = ""
    before = Path.cwd()
    os.chdir(folder)
    try:
        for block in chosen:
            if block.file_name is not None:
                Path(block.file_name).write_text(block.text)
        for block in chosen:
            if block.language == "sh":
                printed = "".join(run_command(words, comment, run) for words, comment in commands(block))
            elif block.language == "console":
                check_output(block, printed)
            elif block.language == "python" and block.file_name is None:
                code = compile(block.text, f"block at line {block.line}", "exec")
                if not _OF_OTHERS.search(block.text):
                    exec(code, namespace)
    finally:
        os.chdir(before)
    return namespace


def _project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return loaded


PEOPLE = b"""id,age,country,joined
1,34,DE,2024-01-31
2,NA,NA,2024-02-01 09:30:00
3,,FR,
4,unknown,DE,2024-02-29T23:59:59+01:00
"""


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


def draw_pet(number: int) -> tuple[Image.Image, Image.Image]:
    """Draw the head of a cat, or of a dog for even numbers; return it with its mask: 1 on the head, 2 on the ears."""
    random = np.random.default_rng(number)
    size = (64, 48)
    picture, mask = Image.new("RGB", size, tuple(random.integers(150, 230, 3).tolist())), Image.new("L", size)
    (x, y), fur = random.integers((24, 22), (40, 28)).tolist(), tuple(random.integers(30, 140, 3).tolist())
    for image, head, ear in ((picture, fur, tuple(value // 2 for value in fur)), (mask, 1, 2)):
        draw = ImageDraw.Draw(image)
        draw.ellipse((x - 14, y - 12, x + 14, y + 16), head)
        for side in (-1, 1):
            if number % 2:
                draw.polygon([(x + side * 13, y - 18), (x + side * 3, y - 10), (x + side * 13, y - 2)], ear)
            else:
                draw.ellipse((x + side * 14 - 5, y - 8, x + side * 14 + 5, y + 14), ear)
    for side in (-6, 6):
        ImageDraw.Draw(picture).ellipse((x + side - 2, y - 2, x + side + 2, y + 2), "white", "black")
    return picture, mask


def pet(number: int) -> bytes:
    """Return the picture as a JPEG file."""
    out = io.BytesIO()
    draw_pet(number)[0].save(out, "JPEG")
    return out.getvalue()


def digit(number: int) -> bytes:
    """Return a PNG file of the last digit of a number."""
    picture, out = Image.new("L", (32, 32)), io.BytesIO()
    x, y, size = np.random.default_rng(number).integers((4, 0, 22), (12, 6, 30)).tolist()
    ImageDraw.Draw(picture).text((x, y), str(number % 10), 255, ImageFont.load_default(size))
    picture.save(out, "PNG")
    return out.getvalue()


def tone(number: int) -> bytes:
    """Return a WAV file: a tenth of a second of a tone, higher for higher numbers."""
    wave = np.sin(np.arange(800) * 2 * np.pi * (200 + 40 * number) / 8000)
    return scipy_wav((wave * 20_000).astype(np.int16))


def moving_image() -> bytes:
    """An animation of two frames."""
    frames = [Image.new("L", (8, 8), level) for level in (1, 200)]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    return out.getvalue()


def tiff(values: np.ndarray, **options: Any) -> bytes:
    """A TIFF of bands."""
    out = io.BytesIO()
    tifffile.imwrite(out, values, **options)
    return out.getvalue()


def depth_of(jpeg: bytes) -> bytes:
    """A mask of 16 bits of an image's size."""
    with Image.open(io.BytesIO(jpeg)) as opened:
        return encoded(np.full(opened.size[::-1], 1000, np.uint16))


def houses() -> bytes:
    """Return the table that docs/transform.md preprocesses."""
    lines = ["id,age,fare,city,review,income,rooms,sold"]
    for n in range(200):
        age, city = "" if n % 9 == 0 else str(n % 50), "Rome" if n % 3 else "Oslo"
        lines.append(f"{n},{age},{n / 4 + 0.25},{city},nice w{n % 7} house,{n * 100.5},{n % 8},{n % 2}")
    return "\n".join([*lines, ""]).encode()


_PETS, _DOINGS, _WHERE = (
    ("cat", "dog"),
    ("sleeps", "eats", "runs", "plays", "waits"),
    ("home", "outside", "here", "there"),
)
REVIEWS = [f"the {pet} {doing} {where}" for pet in _PETS for doing in _DOINGS for where in _WHERE]
VOCABULARY = ("the", *_PETS, *_DOINGS, *_WHERE)


def write_page_data(folder: Path) -> Path:
    """Write the files below `folder`, and return it."""
    jpegs = [pet(number) for number in range(4)]
    named = "".join(f"{json.dumps({'file_name': f'{number}.jpg', 'label': 'ab'[number % 2]})}\n" for number in range(4))
    targets = [
        {"file_name": "photos/dog/0.jpg", "label": "dog", "target": [0.1, 0.2], "caption": "a dog"},
        {"file_name": "photos/cat/1.jpg", "label": "cat", "target": [0.3, 0.4], "caption": "a cat"},
    ]
    write_files(
        folder,
        {
            **{f"photos/{'cat' if number % 2 else 'dog'}/{number}.jpg": pet(number) for number in range(40)},
            "photos.zip": zipped(
                {f"photos/{'ab'[number % 2]}/{number}.jpg": jpeg for number, jpeg in enumerate(jpegs)}
            ),
            **{f"folder/{number}.jpg": jpeg for number, jpeg in enumerate(jpegs)},
            **{f"train/{number}.jpg": jpeg for number, jpeg in enumerate(jpegs)},
            **{f"dogs/train/{number:03}.jpg": pet(number) for number in range(20)},
            "dogs/test/020.jpg": pet(20),
            "dogs/labels.csv": "".join(
                ["id,breed\n", *(f"{n:03},{('pug', 'lab')[n % 2]}\n" for n in range(20))]
            ).encode(),
            **{f"album/{('training', 'test')[n // 2]}_set/{('dog', 'cat')[n % 2]}/{n}.jpg": pet(n) for n in range(4)},
            "labels.txt": b"dog\ncat\n",
            "cats.txt": b"cat\n",
            "cities.txt": b"Rome\nOslo\n",
            "meta.csv": b"file_name,label\nphotos/dog/0.jpg,a\nphotos/cat/1.jpg,b\n",
            "hf/train/metadata.csv": b"file_name,label\n1.jpg,a\n",
            "hf/test/metadata.csv": b"file_name,label\n2.jpg,a\n",
            "hf/train/1.jpg": pet(1),
            "hf/test/2.jpg": pet(2),
            "recorder.csv": b"split,image_uri,label\nTRAIN,photos/dog/0.jpg,dog\nTEST,photos/cat/1.jpg,cat\n",
            "more.csv": b"file_name,label\nphotos/cat/3.jpg,a\n",
            "parts/1.jpg": pet(1),
            "masked.csv": b"file_name,mask\nseg/images/1.jpg,seg/masks/1.png\n",
            "pairs.csv": b"left,right\nphotos/dog/0.jpg,photos/cat/1.jpg\n",
            "targets.jsonl": "".join(f"{json.dumps(row)}\n" for row in targets).encode(),
            "attributes.csv": b"file_name,smiling,hat,age\nphotos/dog/0.jpg,1,0,31.5\nphotos/cat/1.jpg,0,1,24\n",
            "carvana/train/1.jpg": pet(1),
            "carvana/train_masks/1_mask.png": encoded(np.asarray(draw_pet(1)[1])),
            **{f"seg/images/{n}.jpg": pet(n) for n in range(1, 9)},
            **{f"seg/masks/{n}.png": encoded(np.asarray(draw_pet(n)[1])) for n in range(1, 9)},
            **{f"depth/{n}.png": depth_of(pet(n)) for n in range(1, 9)},
            "ships/train/1.jpg": pet(1),
            "ships/train.csv": b"ImageId,EncodedPixels\n1.jpg,1 3 9 2\n",
            "ships/polygons.json": b'{"images": [{"id": 1, "file_name": "train/1.jpg"}], "categories": [{"id": 3,'
            b'"name": "ship"}], "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 0, 4, 4],'
            b'"segmentation": [[0, 0, 4, 0, 4, 4]]}]}',
            "many.csv": b"file_name,label\nphotos/dog/0.jpg,dog;indoor\nphotos/cat/1.jpg,\n",
            "folder/metadata.jsonl": named.encode(),
            "train.csv": b"id,breed\n0,pug\n1,lab\n",
            "rows.csv": "".join(["n,city\n", *(f"{n},{('Oslo', 'Rome')[n % 2]}\n" for n in range(1, 41))]).encode(),
            "trips.csv": b"city,km,minutes\n Rome ,10,20\nOslo,,5\nBern,3,6\n",
            "tags.csv": b"n,tags\n1,red;green\n2,\n",
            "tags.jsonl": b'{"n": 1, "tags": ["red", "green"]}\n{"n": 2, "tags": []}\n',
            "reviews.txt": "".join(f"{line}\n" for line in REVIEWS).encode(),
            "corpus/train.de": b"eins\nzwei\n",
            "corpus/train.en": b"one\ntwo\n",
            "corpus/more.de": b"drei\n",
            "corpus/more.en": b"three\n",
            "rows.jsonl": b'{"n": 1, "city": "w1 w2"}\n{"n": 2, "city": "w3"}\n',
            "chats.jsonl": b'{"messages": [{"role": "user", "content": "hi"}], "meta": {"source": "web"}}\n',
            "tokenizer.json": tokenizer_json(vocabulary={word: n for n, word in enumerate(["[UNK]", *VOCABULARY])}),
            "shards/0.tar": tar([("1.jpg", jpegs[0]), ("1.cls", b"3"), ("1.json", b'{"n": 1}')]),
            "faces.csv": b"emotion,pixels\n0,70 80 82\n1,1 2 3\n",
            "pixels.csv": (
                ",".join(["label", *(f"pixel{n}" for n in range(784))]) + "\n" + "1" + ",7" * 784 + "\n"
            ).encode(),
            "people.csv": PEOPLE,
            "visits.csv": b"user,time,page\na,2024-01-02,x\nb,2024-01-01,y\na,2024-01-01,z\n",
            **{f"sounds/{('cat', 'dog')[n % 2]}/{n}.wav": tone(n) for n in range(1, 9)},
            "spoken/0_jackson_0.wav": tone(10),
            "commands/bed/1.wav": tone(10),
            "commands/cat/2.wav": tone(20),
            "commands/_background_noise_/pink.wav": tone(30),
            "commands/validation_list.txt": b"bed/1.wav\n",
            "commands/testing_list.txt": b"cat/2.wav\n",
            "named/cat_1.jpg": pet(1),
            "held_out.txt": b"cat/1.jpg\n",
            "moving/cat/1.gif": moving_image(),
            "tiles/1.tif": tiff(np.zeros((4, 4, 4), np.uint16), photometric="minisblack", planarconfig="contig"),
            "frames/0.tar": tar([(f"22.{number:02}.jpg", pet(number)) for number in range(3)]),
            "pets/pet_train.record": b"".join(framed_records.record(1000 + number) for number in range(20)),
            "pets/pet_val.record": b"".join(framed_records.record(2000 + number) for number in range(20)),
            "points.csv": b"file_name,x\nphotos/dog/0.jpg,0.5\nphotos/cat/1.jpg,0.25\n",
            "houses.csv": houses(),
            "ranking/a.tfrecord": b"".join(framed_records.framed(b"\n\x04\n\x02\n\x00" * n) for n in range(1, 20)),
            "old/a.tfrecord": b"".join(framed_records.record(1000 + number) for number in range(20)),
            **{f"demo/digits/{number % 10}/{number}.png": digit(number) for number in range(200)},
        },
    )
    with sqlite3.connect(folder / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, city TEXT, paid BOOLEAN)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(1, "Rome", 1), (2, "Oslo", 0)])
    connection.close()
    for label in ("scans/cat", "scans/dog", "points/car", "points/bus"):
        (folder / label).mkdir(parents=True)
    frames = [
        f"videos/{label}/video_{video}/{frame}.jpg" for label in ("run", "walk") for video in (1, 2) for frame in (1, 2)
    ]
    write_files(folder, {name: jpegs[number % len(jpegs)] for number, name in enumerate(frames)})
    boxes = "".join(f"photos/{name},{name.split('/')[0]},0,0,2,2\n" for name in ("cat/1.jpg", "dog/0.jpg"))
    write_files(folder, {"boxes.csv": f"file_name,label,xmin,ymin,xmax,ymax\n{boxes}".encode()})
    (folder / "stacked").mkdir()
    np.save(folder / "stacked/X_train.npy", np.zeros((4, 2, 2), np.uint8))
    np.save(folder / "stacked/y_train.npy", np.arange(4))
    for label in ("cat", "dog"):
        for n in range(1, 9):
            if (label == "cat") == n % 2:
                np.save(folder / f"scans/{label}/{n}.npy", np.asarray(draw_pet(n)[0].convert("L"), np.float32) / 255)
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
    for number, label in enumerate(("bus", "car"), 1):
        np.save(folder / f"points/{label}/{number}.npy", np.zeros((number, 3), np.float32))
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
    write_files(folder, {"lone/instances.json": (folder / "coco/annotations/instances_train2017.json").read_bytes()})
    write_coco(folder / "export", drawn, "_annotations.coco.json")
    write_voc(folder / "VOC2012", {"train": drawn[:4], "val": drawn[4:]})
    write_masks(folder / "segments", drawn[:4])
    write_masks(folder / "VOC2012/SegmentationClass", drawn)
    for split, some in (("train", drawn[:2]), ("val", drawn[4:])):
        names = "".join(f"{Path(scene.name).stem}\n" for scene in some)
        write_files(folder, {f"VOC2012/ImageSets/Segmentation/{split}.txt": names.encode()})
    write_yolo(folder / "yolo", {"train": drawn[:4], "val": drawn[4:]})
    exports.via(folder / "via", drawn)
    exports.cvat(folder / "project", drawn)
    return folder
