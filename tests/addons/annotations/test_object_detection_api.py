"""--feature_names object_detection: what TensorFlow's Object Detection API reads, by the keys and types that its
TfExampleDecoder declares (object_detection/data_decoders/tf_example_decoder.py), and its label maps."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from PIL import Image

from tests.support import detection
from tests.support.command import Run
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.reading import make

tf = Later("tensorflow")

SCENES = detection.scenes(20)
NAMES = {number: str(category["name"]) for number, category in enumerate(detection.CATEGORIES, 1)}
FLAG = ("--feature_names", "object_detection")


def decoder_spec() -> dict[str, Any]:
    """What TfExampleDecoder parses examples with, but for what it knows of masks, key points and further channels."""
    text, number = tf.io.FixedLenFeature((), tf.string, ""), tf.io.FixedLenFeature((), tf.int64, 1)
    texts, integers, floats = (tf.io.VarLenFeature(dtype) for dtype in (tf.string, tf.int64, tf.float32))
    return {
        "image/encoded": text,
        "image/format": tf.io.FixedLenFeature((), tf.string, "jpeg"),
        "image/filename": text,
        "image/key/sha256": text,
        "image/source_id": text,
        "image/height": number,
        "image/width": number,
        "image/class/text": texts,
        "image/class/label": integers,
        **{f"image/object/bbox/{edge}": floats for edge in ("xmin", "xmax", "ymin", "ymax")},
        "image/object/class/label": integers,
        "image/object/class/text": texts,
        "image/object/area": floats,
        "image/object/is_crowd": integers,
        "image/object/difficult": integers,
        "image/object/group_of": integers,
        "image/object/weight": floats,
    }


def decoded(directory: Path, split: str) -> dict[str, dict[str, Any]]:
    """The examples of a split as that decoder has them, by the name of the file."""
    shards = sorted(map(str, directory.glob(f"*-{split}.tfrecord-*")))
    found = {}
    for record in tf.data.TFRecordDataset(shards):
        parsed = tf.io.parse_single_example(record, decoder_spec())
        example = {
            name: (value.values if isinstance(value, tf.SparseTensor) else value).numpy()
            for name, value in parsed.items()
        }
        found[Path(example["image/filename"].decode()).name] = example
    return found


def label_map(directory: Path) -> dict[int, str]:
    """What label_map.pbtxt says, parsed as the message that the API declares."""
    file = descriptor_pb2.FileDescriptorProto(name="map.proto", package="object_detection.protos", syntax="proto2")
    item = file.message_type.add(name="StringIntLabelMapItem")
    item.field.add(name="name", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    item.field.add(name="id", number=2, type="TYPE_INT32", label="LABEL_OPTIONAL")
    item.field.add(name="display_name", number=3, type="TYPE_STRING", label="LABEL_OPTIONAL")
    whole = file.message_type.add(name="StringIntLabelMap")
    type_name = ".object_detection.protos.StringIntLabelMapItem"
    whole.field.add(name="item", number=1, type="TYPE_MESSAGE", label="LABEL_REPEATED", type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("object_detection.protos.StringIntLabelMap"))
    parsed: Any = text_format.Parse((directory / "label_map.pbtxt").read_text(), kind())
    return {item.id: item.name for item in parsed.item}


def check_objects(example: dict[str, Any], scene: detection.Scene, in_order: bool, ids: dict[str, int]) -> None:
    """An example's boxes and classes are those drawn."""
    width, height = scene.size
    edges = [example[f"image/object/bbox/{edge}"] for edge in ("xmin", "xmax", "ymin", "ymax")]
    texts = [text.decode() for text in example["image/object/class/text"]]
    found = [*zip(*edges, texts, example["image/object/class/label"].tolist(), strict=True)]
    wanted = [
        (x / width, (x + wide) / width, y / height, (y + high) / height, thing.colour, ids[thing.colour])
        for thing in scene.things
        for x, y, wide, high in [thing.box]
    ]
    found = found if in_order else sorted(found)
    wanted = wanted if in_order else sorted(wanted)
    assert [item[4:] for item in found] == [item[4:] for item in wanted]
    assert np.allclose([item[:4] for item in found], [item[:4] for item in wanted])


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coco")
    file = detection.write_coco(folder, SCENES, "annotations/instances_train2017.json", "train2017")
    return make("images", None, folder / "out", "--coco", file, *FLAG)


@pytest.mark.slow
def test_the_decoder_of_the_api_reads_cocos_objects(coco: Path) -> None:
    examples = decoded(coco, "train")
    ids = {name: number for number, name in NAMES.items()}

    assert label_map(coco) == NAMES
    assert examples.keys() == {scene.name for scene in SCENES}
    annotated = {image["id"]: image["file_name"] for image in detection.coco_of(SCENES)["images"]}
    for scene in SCENES:
        example = examples[scene.name]
        check_objects(example, scene, False, ids)
        assert (example["image/width"], example["image/height"]) == scene.size
        assert annotated[int(example["image/source_id"])] == scene.name
        data = (coco.parents[2] / "train2017" / scene.name).read_bytes()
        assert (example["image/encoded"], example["image/format"]) == (data, b"png")
        assert example["image/key/sha256"].decode() == hashlib.sha256(data).hexdigest()
        assert sorted(example["image/object/area"]) == sorted(t.box[2] * t.box[3] for t in scene.things)
        assert set(example["image/object/is_crowd"]) <= {0, 1}
    assert sum(example["image/object/is_crowd"].sum() for example in examples.values()) > 0


@pytest.mark.slow
def test_it_reads_vocs_and_yolos(tmp_path: Path) -> None:
    by_split: dict[str, Sequence[detection.Scene]] = {"train": SCENES[:12], "val": SCENES[12:]}
    voc = make("images", None, tmp_path / "a", "--voc", detection.write_voc(tmp_path / "voc", by_split), *FLAG)
    yolo = make("images", None, tmp_path / "b", "--yolo", detection.write_yolo(tmp_path / "yolo", by_split), *FLAG)

    # VOC names no classes: those found, sorted
    assert label_map(voc) == dict(enumerate(sorted(detection.COLOURS), 1))
    assert label_map(yolo) == dict(enumerate(detection.COLOURS, 1))
    for directory in (voc, yolo):
        ids = {name: number for number, name in label_map(directory).items()}
        examples = decoded(directory, "train")
        for scene in SCENES[:12]:
            check_objects(examples[scene.name], scene, True, ids)
            assert examples[scene.name]["image/source_id"] == examples[scene.name]["image/filename"]
            if directory == voc:
                difficult = [(index + 1) % 2 for index in range(len(scene.things))]
                assert examples[scene.name]["image/object/difficult"].tolist() == difficult


@pytest.mark.slow
def test_re_encoded_images_say_their_new_format_and_checksum(tmp_path: Path) -> None:
    file = detection.write_coco(tmp_path / "in", SCENES[:4])
    directory = make("images", None, tmp_path / "out", "--coco", file, *FLAG, "--resize=32x24", "--image_format=jpeg")

    for example in decoded(directory, "train").values():
        assert example["image/format"] == b"jpeg" == example["image/encoded"][6:10].replace(b"JFIF", b"jpeg")
        assert example["image/key/sha256"].decode() == hashlib.sha256(example["image/encoded"]).hexdigest()
        assert (example["image/width"], example["image/height"]) == (32, 24)


def test_statistics_the_page_and_the_contact_sheet_know_the_objects(coco: Path, tmp_path: Path, run: Run) -> None:
    split = json.loads((coco / "stats.json").read_text())["splits"]["train"]["features"]
    counts = {colour: sum(t.colour == colour for scene in SCENES for t in scene.things) for colour in detection.COLOURS}
    sheet, page = tmp_path / "sheet.png", tmp_path / "page.html"

    assert split["image/object/class/label"]["classes"] == {"background": 0, **counts}
    assert split["image/encoded"]["formats"] == {"png": len(SCENES)}
    assert run("inspect", coco, "--contact_sheet", sheet).status == 0
    assert run("report", coco, "--output", page).status == 0
    assert run("verify", coco).status == 0
    # Boxes are drawn in colours that no scene has
    with Image.open(sheet) as drawn:
        colours = {colour for _, colour in drawn.convert("RGB").getcolors(1 << 24) or ()}
    plain = make("images", coco.parents[2] / "train2017", tmp_path, "--folders", "any")
    assert run("inspect", plain, "--contact_sheet", tmp_path / "plain.png").status == 0
    with Image.open(tmp_path / "plain.png") as other:
        assert colours - {colour for _, colour in other.convert("RGB").getcolors(1 << 24) or ()}
    assert "background" in page.read_text()


def test_what_it_says(jobs: Jobs) -> None:
    said = jobs.build(f"images --coco {detection.write_coco(jobs.folder / 'in', SCENES[:6])}", *FLAG).said
    assert "image/object as a Sequence with four lists of numbers, and no BBoxFeature" in said
    assert "background' has no objects" not in said
    assert "names image files" not in said


def test_what_it_cannot_be(jobs: Jobs) -> None:
    file = detection.write_coco(jobs.folder / "in", SCENES[:6])
    said = "says what every feature is called; drop it or --rename"
    jobs.refuse(f"images --coco {file} --rename image=x", said, *FLAG)
    things = (detection.Thing("red", (1, 1, 9, 9)),)
    content = detection.coco_of([detection.Scene(SCENES[0].name, SCENES[0].size, things)])
    file.write_text(json.dumps(content).replace('"red"', '"background"'))
    jobs.refuse(f"images --coco {file}", "a class is called 'background'", *FLAG)


@pytest.mark.slow
def test_a_table_of_classes_that_begins_with_the_background_keeps_its_ids(tmp_path: Path) -> None:
    file = detection.write_coco(tmp_path / "in", SCENES[:6])
    labels = tmp_path / "labels.txt"
    labels.write_text("background\nblue\nred\ngreen\n")
    directory = make("images", None, tmp_path / "out", "--coco", file, *FLAG, "--labels_file", labels)

    assert label_map(directory) == {1: "blue", 2: "red", 3: "green"}
    for example in decoded(directory, "train").values():
        texts = [text.decode() for text in example["image/object/class/text"]]
        assert [label_map(directory)[number] for number in example["image/object/class/label"]] == texts
