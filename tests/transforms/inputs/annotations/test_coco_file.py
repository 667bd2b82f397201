"""What is kept of COCO's annotations is the same whether C reads them or Python."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill import _native
from shardmill.transforms.inputs.coco import CocoFile
from tests.support.detection import coco_of, scenes

_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_NUMBERS = st.one_of(
    _FLOATS, st.integers(-(10**20), 10**20), st.sampled_from([0.0, -0.0, 702.1057499999998, 1e22, 3.5])
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
    """Some, their members in any order; `odd` ones lack some, or have any values."""
    made = []
    for _ in range(draw(st.integers(1, 5))):
        item = draw(st.fixed_dictionaries(_USUAL, optional=_MORE))
        if odd and draw(st.booleans()):
            item |= draw(st.fixed_dictionaries({}, optional=_ODD))
        made.append({name: item[name] for name in draw(st.permutations(list(item)))})
    return made


def text_of(items: list[dict[str, Any]], indent: int | None = None, ascii_only: bool = False) -> str:
    return json.dumps(items, indent=indent, ensure_ascii=ascii_only)[1:-1].strip()


def kept(items: Any) -> tuple[Any, ...]:
    """All that is kept of annotations; bytes, for -0.0 is no 0.0."""
    found = CocoFile("x")
    found.add_annotations(items)
    return (
        *(column.tobytes() for column in found._number_columns),
        found.ignored_keys,
        found.problems,
        found.faults_without_image,
    )


@given(annotations(odd=False), st.sampled_from([None, 1]), st.booleans())
@settings(max_examples=300)
def test_what_is_right_is_read_alike(items: list[dict[str, Any]], indent: int | None, ascii_only: bool) -> None:
    text = text_of(items, indent, ascii_only)
    plain = _native.plain_annotations(text)

    if plain is None:  # only what the ways of JSON have that are not taken
        assert "\\u" in text or "e" in text or any(len(number) > 17 for number in text.split())
    else:
        assert kept(plain) == kept(orjson.loads(f"[{text}]"))


@given(annotations(odd=True), st.data())
@settings(max_examples=500)
def test_what_is_odd_is_left_to_python_or_read_alike(items: list[dict[str, Any]], data: st.DataObject) -> None:
    text = text_of(items)
    for _ in range(data.draw(st.integers(0, 2))):
        at, stop = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        text = text[:at] + data.draw(st.text('{}[]",:0-.eE+ntu1\\ \0', max_size=2)) + text[min(stop, at + 2) :]
    plain = _native.plain_annotations(text)

    if plain is not None:
        assert kept(plain) == kept(orjson.loads(f"[{text}]"))


def test_the_usual_is_read_by_c() -> None:
    items = coco_of(scenes(20))["annotations"]
    crowd = {**items[0], "iscrowd": 1, "segmentation": {"counts": "Yi\\31N2/", "size": [1, 2]}, "score": 0.5}

    for text in (text_of([*items, crowd]), text_of(items, indent=2)):
        plain = _native.plain_annotations(text)
        assert plain is not None
        assert kept(plain) == kept(orjson.loads(f"[{text}]"))
    assert _native.plain_annotations(text_of([crowd]))[6] == {"segmentation": 1, "score": 1}  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"id": 1, "image_id": 1, "category_id": 1}',
        '{"id": 1, "id": 2, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}',
        '{"id": true, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}',
        '{"id": 1.0, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}',
        '{"id": 01, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}',
        '{"id": 1, "image_id": 1, "category_id": "1", "bbox": [1, 2, 3, 4]}',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3]}',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, NaN]}',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 1e999]}',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "iscrowd": 2}',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "x": [1,]}',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "x": "\t"}',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]},',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]} {}',
        '{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "x": ' + "[" * 10_000,
        "{" * 10_000,
    ],
)
def test_what_is_no_annotation_is_left_to_python(text: str) -> None:
    assert _native.plain_annotations(text) is None


@pytest.mark.parametrize("member", ["id", "image_id", "category_id", "area", "bbox"])
def test_true_is_no_number(member: str) -> None:
    item: dict[str, Any] = {"id": 1, "image_id": 2, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 5}
    item[member] = [True, 2, 3, 4] if member == "bbox" else True
    found = CocoFile("x")
    found.add_annotations([{"id": 7, "image_id": 2, "category_id": 3, "bbox": [1, 2, 3, 4]}, item])

    said = [*found.problems.values(), *found.faults_without_image]
    assert found.ids.tolist() == [7]
    assert len(said) == 1
    assert f"for {member}; expected" in said[0]
