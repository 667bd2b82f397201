"""A JSON document read as a stream has the items that json has, wherever it is cut."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.inputs import coco
from shardmill.transforms.inputs.coco import read_arrays

# What a cut between two items may be looked for in: braces and commas in texts, and lists of objects in items
_TEXTS = st.sampled_from(["", "}, {", '"},{"', "[]", "é", "\\", "x" * 40])
_INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)  # of others orjson makes floats
_ITEMS = st.dictionaries(_TEXTS, st.one_of(_TEXTS, _INTEGERS, st.lists(st.dictionaries(_TEXTS, _TEXTS), max_size=3)))
_DOCUMENTS = st.fixed_dictionaries({"a": st.lists(_ITEMS, max_size=12), "b": _ITEMS, "c": st.lists(_INTEGERS)})


def read(text: str, *wanted: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, items in read_arrays(io.StringIO(text), wanted):
        found.setdefault(name, []).extend(items)
    return found


@given(_DOCUMENTS, st.integers(1, 200), st.sampled_from([None, 1]), st.booleans())
def test_items_are_those_of_json(document: dict[str, Any], chunk: int, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coco, "_CHUNK", chunk)

        assert read(text, "a", "c") == {"a": document["a"], "c": document["c"]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is not a JSON object"),
        ("[1]", "it is not a JSON object"),
        ('{"a"', "ends early|not JSON"),
        ('{"a": [1', "ends early"),
        ('{"a": [1 2]}', "it is not JSON at character 9"),
        ('{"a": [{"b": }]}', "it is not JSON, or ends early, at character 7"),
        ('{"a": 1}', "its 'a' is not a list"),
        ('{"a": [], "a": []}', "it has 'a' twice"),
        ('{"a": [{}]} {"a": [{}]}', "there is more behind its object, at character 12"),
        ("{}\n1", "there is more behind its object, at character 3"),
        ('{"a": [' + "[" * 100_000, "nested too deep|ends early"),
    ],
)
def test_what_is_none_is_said(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read(text, "a")
