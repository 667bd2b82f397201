"""Lists of classes as one text, and what is counted of them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.inputs.summary import count_label_lists, decode_label_list, encode_label_list, is_encoded_list


@given(st.lists(st.text()))
def test_a_text_holds_the_names(names: list[str]) -> None:
    assert decode_label_list(encode_label_list(names)) == names
    assert is_encoded_list(encode_label_list(names))


def test_a_label_that_is_one_class_is_no_list() -> None:
    assert decode_label_list('["a"]') is None
    assert not is_encoded_list('["a"]')


def test_counts() -> None:
    labels = [encode_label_list(["a", "b"]), encode_label_list([]), None, encode_label_list(["a", "a"]), "b"]

    classes, odd = count_label_lists(labels)

    assert classes == Counter({"a": 2, "b": 2, "": 2})
    assert +odd == Counter(lists=3, several=1, repeated=1, single=1)
    assert count_label_lists(["a", None]) == (Counter({"a": 1, "": 1}), Counter(single=1))
