"""Following the advice of a notice, an error or a reject works: the sentence is gone, and the values are right."""

import io
import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from gzip import compress
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from shardmill.pipelines.jobs.registry import KINDS
from tests.shardmill.test_log import NO_MESSAGES, texts
from tests.support.archives import tar
from tests.support.command import npy
from tests.support.encoded import encode_example
from tests.support.framed_records import framed
from tests.support.jobs import Built, Jobs
from tests.support.reading import plain
from tests.support.sounds import scipy_samples, wav
from tests.support.table_results import parquet
from tests.support.tokenizer_files import END, tokenizer_json
from tests.test_architecture import PATHS, parsed


def _csv(*values: str) -> str:
    return "n,x\n" + "".join(f'{n},"{value}"\n' for n, value in enumerate(values))


def _jsonl(*values: Any) -> str:
    return "".join(f"{json.dumps({'n': n, 'x': value})}\n" for n, value in enumerate(values))


def _table(*values: Any) -> bytes:
    return parquet(pa.table({"n": range(len(values)), "x": values}))


def _pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 255, (12, 16, 3), np.uint8)


def _encode(pixels: np.ndarray, image_format: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, image_format, **options)
    return stream.getvalue()


def _npz(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=array)
    return stream.getvalue()


def _wide(name: str) -> str:
    """Return two rows of 101 columns that are called `name` and a number."""
    rows = ([f"{name}{number}" for number in range(101)], range(101), range(1, 102))
    return "".join(f"n,{','.join(map(str, row))}\n" for row in rows)


def _numbered(most: int) -> dict[str, Any]:
    """Return images of the classes 0 and `most`, and the names of all classes."""
    members = [("0.png", ONE), ("0.cls", b"0"), ("1.png", TWO), ("1.cls", b"%d" % most)]
    return {"a.tar": tar(members), "../names.txt": "".join(f"c{number}\n" for number in range(most + 1))}


def _images(suffix: str, image_format: str, classes: Iterable[str] = "ab", **options: Any) -> dict[str, Any]:
    files = {}
    for number in range(8):
        files[f"{list(classes)[number % 2]}/{number}.{suffix}"] = _encode(_pixels(number), image_format, **options)
    return files


def _frames(name: str) -> dict[str, Any]:
    return {name.format(n // 2, n % 2): _encode(_pixels(n)) for n in range(8)}


def _masked(mask: np.ndarray, suffix: str = "") -> dict[str, Any]:
    return {"1.png": _encode(_pixels(0)), f"../m/1{suffix}.png": _encode(mask)}


def _coco(*boxes: list[int], category: int = 1) -> dict[str, Any]:
    """Return an image of 16 x 12 pixels, and what COCO says of the objects in it."""
    shape = {"image_id": 1, "category_id": category, "segmentation": [[0, 0, 8, 0, 8, 6, 0, 6]]}
    content = {
        "images": [{"id": 1, "file_name": "1.png", "width": 16, "height": 12}],
        "annotations": [shape | {"id": number, "bbox": box} for number, box in enumerate(boxes, 1)],
        "categories": [{"id": category, "name": "a"}],
    }
    return {"1.png": ONE, "i.json": json.dumps(content)}


def _mapped(mode: str) -> dict[str, Any]:
    """Return a JPEG, and a function that gives its image another mode."""
    text = f"def f(row):\n    return {{**row, 'image': row['image'].convert({mode!r})}}\n"
    return {"1.jpg": _encode(EYE * 255, "JPEG"), "../f.py": text}


def _rows(text: str) -> dict[str, Any]:
    return {"1.png": _encode(_pixels(0)), "2.png": _encode(np.eye(12, 16, dtype=np.uint8)), "m.csv": text}


def _turned() -> dict[str, Any]:
    exif = Image.Exif()
    exif[0x0112] = 6  # the tag Orientation: the left side of what is stored is the top
    return _images("jpg", "JPEG", exif=exif)


def _have_pixels(built: Built) -> None:
    for example in built.examples(decode_images=True):
        number = int(example["filename"].decode().partition("/")[2].partition(".")[0])
        np.testing.assert_array_equal(example["image"], _pixels(number))


def _labels(*classes: str) -> Callable[[Built], bool]:
    """Return a check of the classes of all files, in the order of their names."""
    return lambda built: [built.contents.label_of(name) for name in sorted(built.contents.records)] == [*classes]


def _have(columns: str, *rows: Any) -> Callable[[Built], bool]:
    """Return a check of the value of a column, or the values of several, in all examples; they may be in any order."""
    return lambda built: sorted(map(itemgetter(*columns.split()), built.examples())) == sorted(rows)


def _masks(*values: int) -> Callable[[Built], bool]:
    return lambda built: {one for row in built.examples(decode_images=True) for one in row["mask"].flat} == {*values}


def _have_boxes(*edges: list[int]) -> Callable[[Built], None]:
    """Return a check that these are all boxes, in pixels: top, left, bottom, right."""
    return lambda built: np.testing.assert_allclose(
        np.concatenate([row["objects/bbox"] for row in built.examples()]) * [12, 16, 12, 16], edges, atol=1e-4
    )


def _name_the_value(value: int) -> Callable[[Built], bool]:
    return lambda built: _masks(0, value)(built) and built.manifest.features[-2].class_names[value] == "a"


def _have_an_eye(built: Built) -> bool:
    (row,) = built.examples(decode_images=True)
    return np.abs(row["image"] - np.stack([EYE * 255] * 3, -1).astype(int)).max() < 50  # a JPEG is not exact


def _name_the_ids(*names: str) -> Callable[[Built], bool]:
    """Return a check of the class names of all ids that are stored."""
    return lambda built: (
        {
            each.class_names[number]
            for each in built.manifest.features
            for row in built.examples()
            for number in (np.ravel(row[each.name]) if each.class_names else ())
        }
        == {*names}
    )


def _have_rows(built: Built) -> None:
    np.testing.assert_array_equal([row["image"] for row in built.examples()], [SQUARE])


def _along_a_row(built: Built) -> bool:
    return any(row["mask"][0, :4].all() for row in built.examples(decode_images=True))


def _splits(*sizes: int) -> Callable[[Built], bool]:
    return lambda built: sorted(built.splits.values()) == [*sizes]


def _have_samples(built: Built) -> None:
    np.testing.assert_array_equal(built.examples()[0]["audio"], scipy_samples(wav(bits=24)).ravel())


def _are_grouped(built: Built) -> bool:
    """Return True if each split holds both files of some names without the last six characters."""
    return all(len(names) == 2 * len({name[:-6] for name in names}) > 0 for names in built.contents.splits.values())


def _are_of(*shape: int) -> Callable[[Built], bool]:
    return lambda built: {row["image"].shape for row in built.examples(decode_images=True)} == {shape}


def _follow_the_file(built: Built) -> None:
    assert {row["filename"][:2].strip(b"/"): row["label"] for row in built.examples()} == {b"2": 0, b"10": 1}


LARGE, FLOATS = [16_777_217.5, 16_777_218.5], ["16777217.5", "16777218.5"]
FEBRUARY, JUNE = 1_706_745_600, 1_717_545_600
IDS = {
    "a.csv": "id,n\n" + "".join(f"u{n},{n}\n" for n in range(40)),
    "../given.txt": "".join(f"u{n}\n" for n in range(40)),
}
IRIS = "".join(f"{5 + n / 10:.1f},{3 + n % 7 / 10:.1f},setosa\n" for n in range(20))
ROWS = "".join(f"{n},{n / 2}\n" for n in range(20))
HALVES = [n / 2 for n in range(20)]
SPACED = [f"row{n} {n} {n / 2}" for n in range(20)]
COPIES = {f"{label}/{number}.wav": wav(number=1) for label in "ab" for number in range(4)}
DIGITS = "".join(f'{{"d": "{n}"}}\n' for n in range(12))
NUMBERED = {"a.jsonl": DIGITS, "../given.txt": "".join(f"{n}\n" for n in range(12))}
STORIES = {"a.txt": "w1\nw2\n\nw3\n", "b.txt": "w4 w5\n", "../t.json": tokenizer_json()}
PAIRS, STREAM = [[2, 3], [201, 4]], [[2, 3], [4, 201], [5, 6]]
NAMES = {"../given.txt": "2\n10\n"}
PNG = _images("png", "PNG")
ONE, TWO = PNG["a/0.png"], PNG["b/1.png"]
QUOTED = {"a.tsv": "t\ty\n" + "".join(f"w{n}\tz\n" for n in range(30)) + '"x0\n0\ty\n0\tz"\tq\n'}
WORDS = "".join(f"{chr(97 + n)}w,so\n" for n in range(20))
TEXTS = {mark: WORDS.replace(",", mark).split() for mark in (";", "||", "^", "~", "¦")}
EYE = np.eye(12, 16, dtype=np.uint8)
FOLDERS = {"images/1.png": ONE, "masks/1.png": _encode(EYE)}
COLORS = {"../given.txt": "background #000000\nobject #ffffff\n"}
RUNS = {"1.png": ONE, "2.png": TWO, "../rl.csv": "ImageId,EncodedPixels\n1.png,1 4\n"}
LOPSIDED = {f"{name}/{n}.png": TWO for name, count in (("a", 12), ("b", 3)) for n in range(count)}
DIFFERING = {"a.csv": "n,x\n1,2\n", "b.csv": "n,y\n1,2\n"}
NESTED = " makes columns of the fields…--json_columns x stores JSON text…--drop x leaves"
ROW_OF, TWICE = "images --manifest in/m.csv", _rows("file_name,label\n1.png,a\n1.png,b\n")
FILE_COLUMN = parquet(pa.table({"x": [{"bytes": ONE, "path": "a.png"}]}))
DEALT = {f"{split}/a.csv": f"u,t\n1,1\n{split},1\n" for split in ("train", "test")}
SHADES = "".join(f"c{n} #{n:06x}\n" for n in range(300))
MANY_COLORS = _masked(EYE * 255) | {"../given.txt": f"{SHADES}white #ffffff\n"}
SHAPES = [("rectangle", [[1, 1], [5, 5]]), ("point", [[1, 1]])]
CLIPPED = _have_boxes(*[[1, 1, 4, 4]] * 5, [8, 10, 11, 16])
NAMED = {"imagePath": "1.png", "shapes": [{"label": "a", "shape_type": kind, "points": at} for kind, at in SHAPES]}
COCO, ALPHA = "images --coco in/i.json", np.dstack([_pixels(0), _pixels(1)[..., 0]])
SQUARE = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
DETECTED = {"a.record": framed(encode_example({"image/object/class/label": [3]}))}
MAP = {"label_map.pbtxt": "item { id: 3 name: 'dog' }"}
HUGGING = {
    "0.png": ONE,
    "metadata.jsonl": '{"file_name": "0.png", "objects": {"bbox": [[1, 1, 3, 3]], "categories": [1]}}',
}
BOX = "file_name,label,x1,y1,x2,y2\n1.png,a,1,1,4,4\n"
MANIFEST = "images --manifest in/m.csv --max_reject_fraction 0.5"
SPECIAL = {"b.txt": f"w4 {END} w5"}
LATIN = {"a.txt": "é".encode("cp1252"), "b.txt": "y"}
METADATA = {"metadata.csv": "file_name,label\n" + "".join(f"{name},c\n" for name in PNG)}
OUTSIDE = {"../o.png": TWO, "2.png->../o.png": "", "1.png": ONE, "m.csv": "file_name,label\n1.png,a\n2.png,b\n"}
SPLITS = "--splits train=0.5,test=0.5"
KITTI = {"label_2/a.txt": "Car 0.0 0 -1.57 3 2 12 10 1.5 1.6 3.7 1.0 1.5 9.0 -1.56\n", "image_2/a.png": ONE}
UNBOXED = '{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [], "categories": [{"id": 1, "name": "c"}]}'
BOTH = {"annotations/x_train.json": UNBOXED, "train/a.png": ONE, "images/a.png": TWO}
FILES = _have("image mask", (ONE, _encode(EYE)))
IDS_LISTED = _frames("{}_{}.png") | {"m.csv": "\n".join(["file_name", *_frames("{}_{}.png")])}
BESIDE = {"train/a.csv": "n\n1\n", "b.csv": "n\n2\n", "c/d.csv": "n\n"}
SIDES = [(PNG[f"a/{2 * n}.png"], PNG[f"b/{2 * n + 1}.png"]) for n in range(3)]
PARTS = {f"{n}/{side}.png": image for n, both in enumerate(SIDES) for side, image in zip(("left", "right"), both)}
ROWS_OF_PARTS = "left,right\n" + "".join(f"in/{n}/left.png,in/{n}/right.png\n" for n in range(3))
PIXELS = [(PNG[f"a/{2 * n}.png"], _encode(EYE * n)) for n in range(3)]
NAMED_AFTER = {f"{n}{end}.png": image for n, both in enumerate(PIXELS) for end, image in zip(("", "_super"), both)}
PAIRED = "file_name,super\n" + "".join(f"in/{n}.png,in/{n}_super.png\n" for n in range(3))
# A command, its data, the sentence with `…` for any text, and what each remedy in it makes of the data: a check, or
# the values of the last column in order
CASES: list[tuple[Any, ...]] = [
    ("csv", _csv("1,000", "-2,500.5"), "numbers with commas…--thousands ,", [1000, -2500.5]),
    ("csv", _csv("1,000", "(1,500)"), "numbers with commas…--thousands ,", [1000, -1500]),
    ("csv", _csv("1\u2019000", "22'500"), 'with apostrophes…--thousands "\'"', [1000, 22500]),
    ("csv", _csv("1_000", "22_500"), "with underscores…--thousands _", [1000, 22500]),
    ("csv", _csv("(7)", "12", "5-"), "2 of them negative, as '(7)'", [-7, 12, -5]),
    ("csv --types x=int64", _csv("(7)", "5-"), "2 numbers with a plus, a minus behind", ["(7)", "5-"]),
    ("csv", _csv("+4915112", "7"), "1 number with a plus…'+4915112'; --types x=bytes", ["+4915112", "7"]),
    ("csv", _csv("1,5", "22,25"), "numbers with a decimal comma", [1.5, 22.25]),
    ("csv --thousands ,", _csv("1,5", "22,25"), "give --decimal , and leave out --thousands", [1.5, 22.25]),
    ("csv --decimal ,", _csv("1,000.5", "2"), "give --thousands , and leave out --decimal", [1000.5, 2]),
    ("csv", _csv("1.000,5-", "7"), "a decimal comma and points…--decimal , --thousands .", [-1000.5, 7]),
    ("csv", _csv("1\u202f000,5", "2\xa0000"), "comma and spaces…--decimal , --thousands ' '", [1000.5, 2000]),
    ("csv", _csv("1\u00a0000", "22\u202f500"), "numbers with spaces", [1000, 22500]),
    ("csv", _csv("1 000", "22 500"), "lists of numbers", [1000, 22500], [["1", "000"], ["22", "500"]]),
    ("csv", _csv("1 2", "3 4"), "lists of numbers", [[1, 2], [3, 4]]),
    ("csv", _csv("[1,2]", "[3,4]"), "lists of numbers", [[1, 2], [3, 4]]),
    (
        "csv --list_separator 'x= '",
        _csv("1 2", "3 4", "5 6", "7 ?"),
        "first other one is '?'",
        [[1, 2], [3, 4], [5, 6]],
    ),
    ("csv", _csv(*"12345-?-"), "5 of its 8 values are", *(([1, 2, 3, 4, 5],) * 2)),
    ("csv", _csv("NA", "7"), "taken as missing values…; --missing '' takes empty", ["NA", "7"]),
    ("csv", _csv(" 7", "8", "9 "), "spaces around them, the first…--strip removes the spaces", [7, 8, 9]),
    *(
        (
            command,
            data,
            "is stored as float32…keeps the digits as text, and --drop x leaves the column out",
            FLOATS,
            [0, 1],
        )
        for command, data in (("csv", _csv(*FLOATS)), ("jsonl", _jsonl(*LARGE)), ("parquet", _table(*LARGE)))
    ),
    *(
        (command, data, "its 2 values are numbers", [7, -12])
        for command, data in (
            ("jsonl", _jsonl("7", "12-")),
            ("parquet", _table("7", "12-")),
            ("parquet", _table(Decimal(7), Decimal(-12))),
        )
    ),
    *(
        (command, data, "a decimal comma…no flag converts them", ["1,5", "22,25"], [0, 1])
        for command, data in (("jsonl", _jsonl("1,5", "22,25")), ("parquet", _table("1,5", "22,25")))
    ),
    ("jsonl", _jsonl(["1"], ["2"]), "its 2 values are numbers", [[1], [2]]),
    ("jsonl", _jsonl("a", 1), "numbers and booleans become texts…--json_columns x stores the", ['"a"', "1"]),
    ("jsonl", _jsonl({"a": 1}, {"a": 2}), NESTED, [1, 2], ['{"a":1}', '{"a":2}'], [0, 1]),
    *(
        (command, data.encode(encoding), f"begins like …; give --encoding {encoding}", made)
        for command, encoding, data, made in (
            ("text", "utf-16-le", "über\nb\n", ["über", "b"]),
            ("text --record paragraph", "utf-32", "a\n\nb\n", ["a", "b"]),
            ("text --record file", "utf-16-be", "über\n", _have("text", "über\n".encode())),
            ("csv", "utf-16", "n,x\n1,2\n", [2]),
            ("csv --columns n,x", "utf-16-le", "1,2\n", [2]),
            ("csv --header none", "utf-32-be", "1,2\n", [2]),
            ("jsonl", "utf-16-be", '{"x": 1}\n', [1]),
        )
    ),
    ("jsonl --max_reject_fraction .5", _jsonl(1, 10**20) + "{}", "; --json_columns x stores such", ["1", str(10**20)]),
    ("jsonl --flatten", _jsonl({"a": [{"x": 1}, {}]}), "is for objects without this field", [[1, 7]]),
    ("csv --sequence_by u --order_by t", "u,t,x\n1,1,5\n1,2,\n", "for each of its rows; --fill", [[5, 7]], [[5]]),
    ("csv", "n,x\n1,2\n1,2,3\n", "the row has 3 fields…publishes the others", [2]),
    ("csv --key n", "n,x\n1,2\n1,3\n2,4\n", "all are kept; …keeps the first record of each", [2, 4]),
    ("csv --max_reject_fraction .5", DIFFERING, "headers differ…; --on_other_columns union takes the", [1, 1], [2]),
    ("csv --key id --on_duplicate_key fail", "id,x\nk,1\nk,1\nk,1\nl,2\n", "another value in each", [1, 2]),
    *(
        ("parquet", parquet(pa.table({"n": [1], "x": array})), NESTED, [last], [text], [1])
        for array, last, text in (
            (pa.array([{"a": 1, "b": "y"}]), "y", '{"a":1,"b":"y"}'),
            (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())), [1], '{"a":1}'),
            (pa.array([[{"a": 1}, {"a": 2}]]), [1, 2], '[{"a":1},{"a":2}]'),
        )
    ),
    ("csv --header first", "n,x\n" + ROWS.replace("\n", ",1\n"), "place of --header first", [1] * 20, [1] * 20),
    ("csv --header first", "n,x\n" + ROWS.replace(",", ";"), "place of --header first", HALVES),
    ("csv --max_reject_fraction .9", QUOTED, " within quotes that have the …; --quote '' makes", [*"z" * 30, "y"]),
    ("csv", {"x=7/a.csv": "n\n1\n"}, "which are no columns; --hive_partitioning reads", [7]),
    ("csv", "n::x\na::b\nc::d\n", "the header is one column…if that separates columns", ["b", "d"], ["a::b", "c::d"]),
    *(
        ("csv", f"n{mark}x\n" + WORDS.replace(",", mark), "the header is one column", ["so"] * 20, TEXTS[mark])
        for mark in TEXTS
    ),
    ("csv --stack x=y* --max_reject_fraction .5", "y1,y2\n1,2\n3,\n", "--stack x needs one", [[1, 2], [3, 0]]),
    *(
        ("csv", _wide(name), "and each is a feature; --stack", [[*range(101)], [*range(1, 102)]])
        for name in ("emb_", "a[b]", "c=")
    ),
    ("csv", "n x\n" + "\n".join(SPACED), " and names: ", HALVES, HALVES, SPACED),
    ("csv --columns n,x", ROWS.replace(",", "|"), "the rows have ", HALVES),
    ("csv", "n x\n1 2\n3 4\n", "between spaces; give --delimiter", [2, 4], ["1 2", "3 4"]),
    ("csv", '"n" "x"\n1 2\n3 4\n', "between spaces; give --delimiter", [2, 4], ["1 2", "3 4"]),
    ("csv", '"n";"x"\n1;2\n3;4\n', "the header is one column", [2, 4], ["1;2", "3;4"]),
    ("csv", IRIS, "for these names…if it holds the names", ["setosa"] * 20, ["setosa"] * 20, ["setosa"] * 19),
    ("csv", "# on 2024, 7\nn,x\n" + ROWS, "like a comment: ", HALVES, HALVES, ["x", *map(str, HALVES)]),
    ("csv", "Report\nn,x\n" + ROWS, "the names seem to be in line ", HALVES),
    ("csv", "n,x\n1;2\n3;4\n", "the header has 2 fields, and…; give --skip_lines ", [2, 4]),
    ("csv", "sep=;\nn;x\n1;2\n", " tells Excel the delimiter", [2]),
    ("csv --columns n,x", "n,x\n1,2\n3,4\n", "the names that --columns gives", *(([2, 4],) * 2)),
    ("csv", "n,é\n1,2\n".encode("cp1252"), "the header is not utf-8…: if that is right, give --encoding", [2]),
    ("csv --max_reject_fraction .5", "n,x\n1,é\n2,y\n".encode("cp1252"), "1 row is not UTF-8", ["é", "y"], ["y"]),
    ("parquet", parquet(pa.table({"n": [1], "__index_level_0__": [3]})), "the index of a pandas table; --drop", [1]),
    ("csv", "d\n01.02.2024\n13.02.2024\n", "are dates or times", [FEBRUARY, FEBRUARY + 12 * 86_400]),
    ("csv", "d\n01/02/2024\n05/06/2024\n", "are dates or times", [FEBRUARY, JUNE], [1_704_153_600, 1_714_953_600]),
    ("csv", "d\n2/1/2024 1:05 PM\n", "are dates or times", [1_704_200_700], [FEBRUARY + 13 * 3600 + 300]),
    ("csv --label d", "d\n1.2.24\n13.2.24\n", "dates or times… in place of --label", [FEBRUARY, 1_707_782_400]),
    ("jsonl --flatten", '{"o": {"d": "2024-02-01T00:00:00.250"}}\n', "dates or times", [FEBRUARY * 1000 + 250]),
    ("jsonl", '{"x": ["2024-02-01"], "y": 1}\n', "dates or times…--timestamp is for single values; --drop", [1]),
    ("csv", "d\n" + "2024-02-01\n" * 180 + "?\n" * 20, "dates or times…rejects other values", [FEBRUARY] * 180),
    ("jsonl --label d", NUMBERED, "for the numbers themselves", list(range(12)), list(range(12))),
    ("jsonl --label d", DIGITS.replace('"}', '.5"}'), "--types d=float32", [n + 0.5 for n in range(12)]),
    ("csv --label id", IDS, "40 classes in 40 examples…leave the label out if these are", list(range(40))),
    ("images", _turned(), "an EXIF orientation…--image_format jpeg turns them upright", _are_of(16, 12, 3)),
    ("images", _images("tif", "TIFF"), "a TIFF, which TensorFlow…--image_format jpeg or png makes", _are_of(12, 16, 3)),
    ("images", _images("webp", "WEBP", lossless=True), "TFDS cannot decode… of the images, ", _have_pixels),
    ("images", {"1.gif": _encode(EYE, "GIF", transparency=1)}, " with a transparent colour…; --", _have_an_eye),
    ("images --resize 16x12", {"a/0.tif": _encode(ALPHA, "TIFF")}, "; 1 is a TIFF whose…--image_bands", _have_pixels),
    ("images --resize 16x12", {"1.tif": _encode(ALPHA[..., :2], "TIFF")}, "1 image has transparent pixels"),  # none
    ("images --map f.py:f", _mapped("RGBA"), "mode RGBA as JPEG…; --image_format png stores it", _have_an_eye),
    ("images --map f.py:f", _mapped("F"), "cannot write mode F as JPEG"),  # none
    ("images", _images("png", "PNG", ("2", "10")) | NAMES, "ids follow the sorted names: class", _follow_the_file),
    ("images", {"a/1.png": ONE, "a/2.png": TWO}, "; --folders label makes it a class", _labels("a", "a")),
    ("images --max_reject_fraction 0", PNG | {"a/2.png": b"bad"}, "not an image…publishes the others", _have_pixels),
    (f"images {SPLITS} --split_seed 2", _frames("a/{}_{}.png"), "files of one id may be in several", _are_grouped),
    (f"{MANIFEST} {SPLITS} --split_seed 2", IDS_LISTED, "files of one id may be in several", _are_grouped),
    (f"images {SPLITS} --folders any", _frames("a/v{}/{}.png"), "several splits; --group_by folder", _are_grouped),
    (f"audio {SPLITS}", COPIES, "equal content in…keeps equals in one split", _splits(0, 8)),
    (f"images {SPLITS} --split_seed 15", LOPSIDED, "examples in one split only…spreads each class", _splits(7, 8)),
    ("images --splits train=.8,test=.2 --split_seed 1", LOPSIDED | {"b/2.png": "?"}, "in one split only"),  # none
    ("images --masks m", _masked(EYE * 255) | COLORS, "only the values 0 and 255; --mask_colors", _masks(0, 1)),
    ("images --masks m", _masked(EYE.astype("u2") * 300), "; --mask_dtype uint16 takes", _masks(0, 300)),
    ("images --masks m", _masked(EYE, "_m"), "none of the images has…; give --mask_pattern ", _masks(0, 1)),
    (
        "images --input in --masks in/masks",
        FOLDERS,
        "is in --input in…so its masks would be",
        _masks(0, 1),
        _masks(0, 1),
    ),
    (f"{COCO} --masks_of coco", _coco([1, 1, 3, 3], category=300), "give --mask_dtype uint16", _name_the_value(300)),
    (f"{COCO} --masks_of coco", _coco([1, 1, 3, 3], category=0), "give --mask_values", _name_the_value(1)),
    ("images --run_lengths rl.csv --max_reject_fraction .5", RUNS, "give --unlisted_masks empty", _masks(0, 1)),
    ("arrays", {"a.npz": _npz(np.arange(4))}, "no arrays in…several arrays, whose rows", _splits(4)),
    ("arrays --max_reject_fraction .5", {"1.npy": "?", "2.npy": npy(SQUARE)}, "does not say…--shape 64,64", _have_rows),
    ("arrays", {"1.npy": npy(SQUARE.astype("u4"))}, "1.npy', the first file by name, does not say"),  # none
    ("arrays", {"1.npy": _npz(SQUARE)}, "not .npy, but a zip archive"),  # none
    ("images", HUGGING | NAMES, "; --labels_file gives them", _name_the_ids("10")),
    ("webdataset", _numbered(1), "are called by…--labels_file names.txt", _name_the_ids("c0", "c1")),
    ("webdataset", _numbered(10**5), "so they stay numbers; --label", _name_the_ids("c0", "c100000")),
    ("reshard", DETECTED | MAP, "ids of classes; --label", _name_the_ids("dog")),
    ("audio", {"1.wav": wav(bits=24)}, "refuses 1 of the files…--decode_audio stores float32 samples", _have_samples),
    (MANIFEST, _rows("file_name;label\n1.png;a\n"), "has no column file_name…; --delimiter ", _labels("a")),
    (MANIFEST, _rows("id,label\n1.png,a\n"), "has no column file_name…… gives the one with the na", _labels("a")),
    (MANIFEST, _rows("file_name,d\n1.png,2024-02-01\n"), "are dates or times", [FEBRUARY]),
    (MANIFEST, _rows("1.png,a\n"), "has no column file_name…; if line 1 is a row, give --columns", _labels("a")),
    (MANIFEST, _rows("file_name,mask\n1.png,2.png\n"), "makes masks of them, --file_column ", _masks(0, 1), FILES),
    ("text --tokenizer t.json --pack_to 2", STORIES, "--record paragraph or", [*PAIRS, [201, 5], [6, 201]], STREAM),
    ("text --tokenizer t.json", STORIES | SPECIAL, "; --special_tokens text", [[2], [3], [4], [5, 0, 6]]),
    ("text --input in/a.csv", {"a.csv": "n\n1\n"}, "of tables are texts…--record line keeps texts", ["n", "1"]),
    ("text --record file --max_reject_fraction 1", LATIN, "if all files are cp1252", _have("text", b"y", b"\xc3\xa9")),
    ("images", PNG | METADATA, " goes by the folders instead", _labels(*"aaaabbbb")),
    (MANIFEST, OUTSIDE, "a symbolic link…give --allow_outside if that", _labels("a", "b")),
    (
        "images",
        PARTS | {"../given.csv": ROWS_OF_PARTS},
        "give --manifest a table…; if the folders are classes…, --folders any",
        _have("image right", *SIDES),
        _labels(*"001122"),
        _have("image", *PARTS.values()),
    ),
    (
        "images",
        NAMED_AFTER | {"../given.csv": PAIRED},
        "; or, if both are inputs, --manifest a table of both…, --input a glob",
        _have("image", *(image for image, _ in PIXELS)),
        _masks(0, 1, 2),
        _have("image super", *PIXELS),
        _have("image", *NAMED_AFTER.values()),
    ),
    ("csv", BESIDE, "but files and 'c' next…; give --splits…--input FOLDER, the folder of one", _splits(1, 1), [1]),
    ("images --annotations kitti=in", KITTI, "give --annotations", _have_boxes([2, 3, 10, 12])),
    ("images --coco in/annotations/x_train.json", BOTH, "give --file_root", _have("image", ONE), _have("image", TWO)),
    ("images --annotations imagenet=in", PNG, "these are images in folders; give --input", _labels(*"aaaabbbb")),
    (ROW_OF, TWICE, "is an example; …keeps the first row of each file", _splits(1)),
    (f"{ROW_OF} --on_duplicate_key fail", TWICE, "; expected one for each", _splits(1)),
    ("csv", {"a.csv": "n\n1\n2\n", "b.csv": "\0" + ROWS}, "; --on_damaged_file reject…leaves the file out", [1, 2]),
    ("csv", {"a.csv": "n\n1\n2\n", "b.csv.gz": compress(b"n\n3\n")[:-6]}, ", or give --on_damaged_file", [1, 2]),
    ("parquet", FILE_COLUMN, "; --image x says it is", lambda built: built.examples()[0]["x"] == ONE),
    ("images --run_lengths rl.csv --unlisted_masks empty", RUNS, "along the rows, give --run_order rows", _along_a_row),
    ("csv --sequence_by u --order_by t", DEALT, "; --splits deals whole sequences out", _splits(0, 3)),
    ("csv", {"train.csv": "n\n1\n", "test.csv": "n\n2\n"}, "are called as splits are", _splits(1, 1)),
    ("images --masks m --mask_colors given.txt", MANY_COLORS, "--mask_colors has …classes; give", _masks(0, 300)),
    (MANIFEST, _rows(BOX), "look like the edges of a box, and", _have_boxes([1, 1, 4, 4])),
    (COCO, _coco(*[[1, 1, 3, 3]] * 5, [10, 8, 9, 3]), " reaches out of…--on_bad_box clip clips", CLIPPED),
    (COCO, _coco(*[[10, 8, 9, 3]] * 4), "reach out of…--on_bad_box clip cuts", _have_boxes(*[[8, 10, 11, 16]] * 4)),
    (COCO, _coco([1, 1, 3, 3], [5, 5, 0, 3]), " is empty…--on_bad_box drop leaves the", _have_boxes([1, 1, 4, 4])),
    (
        "images --annotations in",
        {"1.png": ONE, "1.json": json.dumps(NAMED)},
        "of the kind point, which has no box; …--unread_objects drop leaves",
        _have_boxes([1, 1, 5, 5]),
    ),
    (ROW_OF, _rows(f"{BOX}1.png,a,2,2,5,5\n"), "with a box in 'x1'", _have_boxes([1, 1, 4, 4], [2, 2, 5, 5])),
    ("csv --max_reject_fraction .7", {"a.csv.gz": b"garbage", "b.csv": "n\n1\n"}, "or leave them out, or give", [1]),
]
FILLED = {"VALUE": "7", "FILE": "given.txt", "COLUMN": "id", "FOLDER": "in/train"}
PLACES = {  # what only the user knows
    "--labels_file": "given.txt",
    "--splits": "train=0.5,test=0.5",
    "--input": "in/images",
    "--mask_pattern": "images/{stem}={stem}",
}
_COMMANDS = ("csv", "jsonl", "parquet", "images", "audio", "arrays", "text")
SWITCHES = {
    f"--{one.name}" for kind in _COMMANDS for one in KINDS[kind].options if one.type is bool and not one.flag.parse
}


_WORDS = "does|reads|has|deals|for|gives|if|is|names|one|sets|splits|cuts|and|which|the"
_VALUE = re.compile(rf" (?!(?:{_WORDS})\b(?!\.)|--)('[^']*'|\"[^\"]*\"|[^\s']\S*)")


def find_remedies(sentence: str) -> list[list[tuple[str, str | None]]]:
    """Return the flags that a printed sentence advises, those in a row as one remedy; the value None leaves one out."""
    remedies: list[list[tuple[str, str | None]]] = []
    prefix: list[tuple[str, str | None]] = []
    end = -1
    sentence = re.sub("a table .+? and(?= --file_column)", "given.csv", sentence.replace(" a glob, such as ", " "))
    for word, filled in FILLED.items():
        sentence = re.sub(rf"\b{word}\b", filled, sentence)
    given: str | None
    while found := re.compile(r"--[a-z_]+").search(sentence, end + 1):
        before, flag, start, end = sentence[: found.start()], found[0], end, found.end()
        value = None if flag in SWITCHES else _VALUE.match(sentence, end)
        given = "" if value is None else value[1][0] + value[1][1:].rstrip(";:,).")
        end += len(given) + (value is not None)
        if before.endswith((" in place of ", "leave ", "leave out ")):
            given = None
        elif flag not in SWITCHES and not given:
            given = PLACES.get(flag, "")
        if (
            before.endswith(("more than ", "that ", "same "))
            or sentence.startswith(" needs", end)
            or (given == "" and flag not in SWITCHES)
        ):
            continue  # a mention
        between = sentence[start : found.start()]
        prefix = [*remedies[-1]] if between == " and names: " else [] if ", if " in between else prefix
        if between not in (" ", " and leave out ", " in place of ", " (and ", " and names: "):
            remedies.append([*prefix])
        remedies[-1].append((flag, given))
    return remedies


def follow(line: str, remedy: list[tuple[str, str | None]]) -> str:
    """Return a command line with the flags of a remedy in place of those that it has."""
    for flag, value in remedy:
        line = re.sub(rf" {flag}(?: (?!--)\S+)?", "", line)
        line += "" if value is None else f" {flag} {value}"
    return line


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[2]}")
def test_following_the_advice_works(jobs: Jobs, case: tuple[Any, ...]) -> None:
    line, data, sentence, *values = case
    files = data if isinstance(data, dict) else {f"a.{line.split()[0]}": data}
    line += "" if re.search("--(manifest|input|coco|annotations) ", line) else " --input in"
    result = jobs.run(line, files=files)
    words = sentence.split("…")
    said = next(line for line in (result.out + result.err).splitlines() if all(part in line for part in words))
    said, _, replaced = said.partition(", in place of ")
    line = follow(line, [(flag, None) for flag in replaced.split()[:1]])
    remedies = [each for each in find_remedies(said) if set(follow(line, each).split()) != set(line.split())]
    assert len(remedies) == len(values), said
    for remedy, made in zip(remedies, values, strict=True):
        built = jobs.build(
            f"{follow(line, remedy)} --overwrite {'--no_shuffle' * (isinstance(made, list) and 'sequence' not in line)}"
        )
        assert words[0] not in built.said or remedy[0][0] == "--max_reject_fraction", built.said
        if isinstance(made, list):
            column = built.manifest.features[-1].name
            assert [plain(row[column]) for row in built.examples() if column in row] == made
        else:
            assert made(built) in (None, True)


# Texts that name a flag and advise none that a job here can follow: what was given, helps of commands, other machines
TOLD = """
--shard_size is x
--version|has no value: give --set|no environment variable|--coco x: its images|; --mask_column says|--input x has x
holds numbers, which stay|--mask_pattern x is about|--module_file is traced|--reuse x takes nothing|give --setup_file
--run_lengths x is about|Every option of Apache Beam|--against names one|; --repair|no memory was left|--debug shows
--job_server_timeout|--all looks|--all reads|--json lists|--json shows|--direct_num_workers says|--worker_memory
--force builds|is about a --manifest; of|give --min_versions|give with --encoding|truncation of lists|not read again
makes further images
"""
ADVICE = re.compile(r"\bgive (?:\w+ )?--|[;:,] --\w|^['\"]?--\w+(?: [^ ;]+)? [a-z]+s\b|(?:or|if|and), --")


def test_each_advice_is_followed_or_listed() -> None:
    """A notice or reject that advises a flag is in CASES, or in a list, which has no others."""
    catalogue = {
        text
        for name in PATHS
        for text in texts(parsed(name), (*NO_MESSAGES, "Error", "_error"))
        if ADVICE.search(text) and "--output datasets" not in text and "\n" not in text
    }
    followed = [part for case in CASES for part in case[2].split("…") if len(part) > 9]
    left = {text for text in catalogue if not any(part in text for part in followed)}
    listed = [line for line in re.split(r"[|\n]", TOLD) if line]
    assert [text for text in sorted(left) if not any(line in text for line in listed)] == []
    assert [line for line in listed if not any(line in text for text in left)] == []
