"""COCO's annotations are the same whether compiled code parses them or Python."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill import _native
from shardmill.addons.annotations import coco
from shardmill.addons.annotations.coco import CocoFile, CocoSource
from shardmill.errors import UserError
from shardmill.transforms.inputs.annotations import AnnotatedImages
from tests.support.detection import coco_of, scenes

_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_NUMBERS = st.one_of(
    _FLOATS,
    st.integers(-(10**20), 10**20),
    st.decimals(-1000, 1000, places=2).map(float),
    st.sampled_from([0.0, -0.0, 702.1057499999998, 1e22, 3.5, 9007199254740993, 0.1 + 0.2]),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, st.sampled_from(["", "a", "é", "}, {", '"', "\\", "\n", "/"])),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)
_USUAL = {
    "id": st.integers(-(10**12), 10**12),
    "image_id": st.integers(0, 10**12),
    "category_id": st.integers(0, 90),
    "bbox": st.lists(_NUMBERS, min_size=4, max_size=4),
}
_MORE: dict[str, st.SearchStrategy[Any]] = {
    "area": st.one_of(st.none(), _NUMBERS),
    "iscrowd": st.sampled_from([0, 1]),
    "segmentation": st.lists(st.lists(_FLOATS, max_size=8), max_size=2),
    "attributes": _VALUES,
    "é": _VALUES,
}
_ODD = dict.fromkeys((*_USUAL, *_MORE), _VALUES)


@st.composite
def annotations(draw: st.DrawFn, odd: bool) -> list[dict[str, Any]]:
    """Draw annotations with their members in any order; `odd` ones lack some, or have any values."""
    made = []
    for _ in range(draw(st.integers(1, 5))):
        item = draw(st.fixed_dictionaries(_USUAL, optional=_MORE))
        if odd and draw(st.booleans()):
            item |= draw(st.fixed_dictionaries({}, optional=_ODD))
            for name in draw(st.sets(st.sampled_from(sorted(item)), max_size=1)):
                del item[name]
        made.append({name: item[name] for name in draw(st.permutations(list(item)))})
    return made


def text_of(items: list[dict[str, Any]], indent: int | None = None, ascii_only: bool = False) -> str:
    return json.dumps(items, indent=indent, ensure_ascii=ascii_only)[1:-1].strip()


def contents(found: CocoFile) -> tuple[Any, ...]:
    """Return everything that was read; columns as bytes, since -0.0 == 0.0."""
    columns = [column.tobytes() for column in found._columns]
    return *columns, found.ignored_keys, found.problems, found.faults_without_image, found.counts


def parse_in_python(text: str) -> tuple[Any, ...]:
    found = CocoFile("x")
    try:
        items = orjson.loads(f"[{text}]")
    except ValueError:  # of infinite numbers in what is ignored, which the other parser takes
        items = json.loads(f"[{text}]")
    found.add_annotations(items)
    return contents(found)


def parse_compiled(text: str) -> tuple[Any, ...] | None:
    found = CocoFile("x")
    return contents(found) if found.scan_annotations(text) else None


@given(annotations(odd=False), st.sampled_from([None, 1]), st.booleans())
def test_usual_annotations_are_parsed_alike(items: list[dict[str, Any]], indent: int | None, ascii_only: bool) -> None:
    text = text_of(items, indent, ascii_only)
    compiled = parse_compiled(text)

    if compiled is None:  # for what it leaves to Python
        assert "\\u" in text or "e" in text or any(len(number) > 17 for number in text.split())
    else:
        assert compiled == parse_in_python(text)


@given(annotations(odd=True), st.data())
@settings(max_examples=150)
def test_odd_annotations_are_left_to_python_or_parsed_alike(items: list[dict[str, Any]], data: st.DataObject) -> None:
    text = text_of(items)
    for _ in range(data.draw(st.integers(0, 2))):
        at, stop = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        text = text[:at] + data.draw(st.text('{}[]",:0-.eE+ntu1\\ \0', max_size=2)) + text[min(stop, at + 2) :]
    compiled = parse_compiled(text)

    if compiled is not None:
        assert compiled == parse_in_python(text)


def test_annotations_cut_anywhere_are_left_to_python() -> None:
    text = text_of(coco_of(scenes(2))["annotations"])
    ends = {text.rfind("}") + 1} | {at + 1 for at, byte in enumerate(text) if text[at : at + 3] == "}, "}

    assert all((parse_compiled(text[:end]) is not None) == (end in ends) for end in range(len(text) + 1))


def test_usual_annotations_are_parsed_by_compiled_code() -> None:
    items = coco_of(scenes(20))["annotations"]
    crowd = {**items[0], "iscrowd": 1, "segmentation": {"counts": "Yi\\31N2/", "size": [1, 2]}, "score": 0.5}

    for text in (text_of([*items, crowd]), text_of(items, indent=2)):
        assert parse_compiled(text) == parse_in_python(text)
    found = _native.parse_annotations(text_of([crowd]))
    assert found is not None
    assert found[6] == {"segmentation": 1, "score": 1}


_IMAGES = [{"id": number, "file_name": f"{number}.jpg", "width": 9, "height": 8} for number in range(4)]


@given(annotations(odd=True), st.integers(0, 3), st.integers(20, 300), st.booleans())
@settings(max_examples=60)
def test_images_rejects_and_notices_are_the_same(
    items: list[dict[str, Any]], image: int, chunk: int, drops_boxless: bool
) -> None:
    for item in items[1:]:
        item["image_id"] = image
    document = {"images": _IMAGES, "annotations": items * 2, "categories": [{"id": 1, "name": "a"}]}

    def read(compiled: bool) -> list[Any]:
        with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
            path = Path(folder) / "a.json"
            path.write_text(json.dumps(document))
            patch.setattr(coco, "CHUNK", chunk)
            patch.setattr(coco, "TAIL", 1 << 8)
            if not compiled:
                patch.setattr(coco, "parse_annotations", lambda text: None)
            source = CocoSource((("", str(path)),), folder, True, ".", drops_boxless)
            found: list[Any]
            try:
                found = [
                    (item.images, item.objects.to_pylist()) if isinstance(item, AnnotatedImages) else item
                    for item in source.list_images()
                ]
            except UserError as error:  # boxes that may be fractions
                found = [error]
            return [repr(item).replace(folder, "") for item in found]

    assert read(compiled=True) == read(compiled=False)


_START = '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"id": 1, "image_id": 1, "category_id": 1}',
        _START + ', "id": 2}',
        _START + ', "x": 1, "x": 2}',
        _START.replace('"id": 1', '"id": true') + "}",
        _START.replace('"id": 1', '"id": 1.0') + "}",
        _START.replace('"id": 1', '"id": 01') + "}",
        _START.replace('"category_id": 1', '"category_id": "1"') + "}",
        _START.replace(", 4]", "]") + "}",
        _START.replace(", 4]", ", NaN]") + "}",
        _START.replace(", 4]", ", 1e999]") + "}",
        _START.replace(", 4]", ", -0]") + "}",
        _START + ', "iscrowd": 2}',
        _START + ', "iscrowd": true}',
        _START + ', "x": [1,]}',
        _START + ', "x": [1.]}',
        _START + ', "x": 1e-999}',
        _START + ', "x": "\t"}',
        _START + "},",
        _START + "} {}",
        _START + "}\0",
        _START + ', "x": ' + "[" * 10_000,
        "{" * 10_000,
        ", ".join(_START + f', "x{number}": 1}}' for number in range(17)),
    ],
    ids=range(25),
)
def test_unusual_annotations_are_left_to_python(text: str) -> None:
    assert _native.parse_annotations(text) is None
