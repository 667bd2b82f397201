"""Lists of classes as one text, and what is counted of them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.inputs.label_lists import as_text, count_lists, is_reserved, names_in


@given(st.lists(st.text()))
def test_a_text_holds_the_names(names: list[str]) -> None:
    assert names_in(as_text(names)) == names
    assert is_reserved(as_text(names))


def test_a_label_that_is_one_class_is_no_list() -> None:
    assert names_in('["a"]') is None
    assert not is_reserved('["a"]')


def test_counts() -> None:
    labels = [as_text(["a", "b"]), as_text([]), None, as_text(["a", "a"]), "b"]

    classes, odd = count_lists(labels)

    assert classes == Counter({"a": 2, "b": 2, "": 2})
    assert +odd == Counter(lists=3, several=1, repeated=1, single=1)
    assert count_lists(["a", None]) == (Counter({"a": 1, "": 1}), Counter(single=1))
